"""What limits a bulk sender, per round trip: a window, a buffer, the path, or slow start.

All is seen as the sender saw it: an ACK that passes the place of the capture reaches the sender and
shows its effect there after the time from that place to the sender and back.
Source: the rounds follow Zhang et al., On the Characteristics and Origins of Internet Flow Rates
(SIGCOMM 2002); RFC 5681, RFC 9293 3.8.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy

from labs.read.capture.segment_table import ACK, SYN
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.reasons import (
    CONGESTION_WINDOW,
    FULL_WINDOW,
    PATH,
    ROUND_TRIP,
    SEND_BUFFER,
    SILLY_WINDOW,
    SLOW_START,
    UNTOLD,
)
from labs.read.flows.rtt import Distance

BULK_SEGMENTS: Final = 10
"""A sender of less fits into its first congestion window (RFC 6928)."""
FIRST_SEGMENTS: Final = 10.5
IDLE_NS: Final = 200_000_000
IDLE_ROUNDS: Final = 3
"""After an idle RTO the congestion window begins anew (tcp_cwnd_restart, RFC 5681 4.1)."""
LEAST_ROUND_NS: Final = 1_000_000
GROWTH: Final = 1.25
"""Slow start doubles, or grows by half if every second segment is acknowledged."""
UNKNOWN_BYTES: Final = 1 << 40
QUEUED: Final = 1.2
ALIKE: Final = 0.15
LEADS: Final = 0.5
PLATEAU: Final = 3
"""Rounds of equal flights that show a limit other than the congestion window, if nothing was lost.
After a loss, cubic keeps its window for tens of rounds (RFC 9438 4.4)."""
EVEN: Final = 0.3
"""The longest pause of a round as a share of it, below which segments come evenly."""
BURST_SEGMENTS: Final = 8
PATH_SHARE: Final = 0.8
"""An even round fills the path from this share of the rate on that the path showed before."""


class Round(NamedTuple):
    """One round trip of a sender: its time, its limit, and the most bytes in flight."""

    begin_ns: int
    end_ns: int
    reason: str
    flight_bytes: int
    window_bytes: int
    is_even: bool
    direction: int  # of the data: 0 if the client sends


def rounds(
    known: ConnectionState,
    far: Distance,
    first: int,
    last: int,
    direction: int,
    lost: list[tuple[int, int]],
) -> list[Round]:
    """The rounds of one sender of a connection; none if it sends no bulk. `lost` are the times at
    which an episode of loss begins and ends."""
    here = slice(first, last)
    sends = (known.direction[here] == direction) & (known.length[here] > 0)
    sends &= (known.flags[here] & SYN) == 0
    data = numpy.flatnonzero(sends) + first
    full = int(known.mss_bytes[first])
    if not len(data) or known.length[data].sum() < BULK_SEGMENTS * full:
        return []
    acks = numpy.flatnonzero(
        (known.direction[here] != direction) & ((known.flags[here] & ACK) != 0)
    )
    acks += first
    if not len(acks):
        return []
    heard_ns = numpy.maximum.accumulate(known.time_ns[acks] + far.far_ns[direction])
    reach = numpy.maximum.accumulate(known.ack[acks])
    window = known.ack[acks] + _window(known, acks)
    times = known.time_ns[data]
    sent = numpy.maximum.accumulate(known.end[data])
    # The ACKs that had reached the sender before each of its segments; a tie counts as heard.
    before = numpy.searchsorted(heard_ns, times + _early_ns(far.rtt_ns), side="right") - 1
    heard = numpy.maximum(before, 0)
    from_other = (known.direction[here] != direction) & (known.length[here] > 0)
    sender = _Sender(
        times_ns=times,
        lengths=known.length[data],
        asked_ns=known.time_ns[here][from_other] + far.far_ns[direction],
        flight=sent - numpy.where(before >= 0, reach[heard], 0),
        room=numpy.where(before >= 0, window[heard], 1 << 40) - sent,
        offered=_window(known, acks)[heard],
        heard_ns=heard_ns,
        answered=numpy.searchsorted(reach, sent, side="left"),
        full=full,
        rtt_ns=far.rtt_ns,
        direction=direction,
    )
    return _limited(sender, _seen(sender, lost))


def _early_ns(rtt_ns: int) -> int:
    return max(LEAST_ROUND_NS // 10, rtt_ns // 50)


@dataclass(frozen=True, eq=False)
class _Sender:
    """The data segments of one sender as it saw them: per segment its time, length, the bytes in
    flight with it, the room left in the window, the window offered, and the first ACK that covers
    it (a place in `heard_ns`, the times at which ACKs reached the sender). `asked_ns` are the times
    at which the other end's data reached it, `full` the bytes of a full segment."""

    times_ns: Array
    lengths: Array
    asked_ns: Array
    flight: Array
    room: Array
    offered: Array
    heard_ns: Array
    answered: Array
    full: int
    rtt_ns: int
    direction: int


class _Seen(NamedTuple):
    """What a round shows by itself."""

    begin_ns: int
    end_ns: int
    burst: float  # bytes per ns, of the segments without the longest pause; 0 if too few
    most: int  # bytes in flight
    rate: float  # bytes per ns: what is in flight arrives in a round (Little's law)
    is_full: bool
    window: int
    is_whole: bool  # it ends with a full segment
    is_even: bool
    is_queued: bool  # its RTT is longer than the shortest
    is_asked: bool  # the other end's data reached the sender in it
    is_idle: bool  # an idle time was before it
    is_lossy: bool
    losses: int  # that began before it


def _window(known: ConnectionState, places: Array) -> Array:
    """The window of these segments in bytes, -1 (unknown) as very large."""
    told = known.offered[places]
    found: Array = numpy.where(told >= 0, told, UNKNOWN_BYTES)
    return found


def _seen(sender: _Sender, lost: list[tuple[int, int]]) -> list[_Seen]:
    """The rounds: each ends when the ACK of its first segment reaches the sender."""
    times, answered, heard_ns = sender.times_ns, sender.answered, sender.heard_ns
    count, rtt_ns = len(times), sender.rtt_ns
    has_ack = answered < len(heard_ns)
    end_ns = numpy.where(
        has_ack,
        heard_ns[numpy.minimum(answered, len(heard_ns) - 1)],
        times + max(rtt_ns, LEAST_ROUND_NS),
    )
    end_ns = numpy.maximum(end_ns, times + LEAST_ROUND_NS)
    after = numpy.searchsorted(times, end_ns - _early_ns(rtt_ns))
    firsts = _chain(numpy.maximum(numpy.arange(1, count + 1), after))
    lasts = numpy.append(firsts[1:], count) - 1
    begins, ends = times[firsts], end_ns[firsts]
    nexts = numpy.where(lasts + 1 < count, times[numpy.minimum(lasts + 1, count - 1)], ends)
    pauses = numpy.diff(times, append=0)
    pauses[lasts] = numpy.minimum(nexts, ends) - times[lasts]
    pauses[-1] = -1  # of the last round the end shows nothing
    longest = numpy.maximum.reduceat(pauses, firsts)
    asked = numpy.searchsorted(sender.asked_ns, nexts + 1000) > numpy.searchsorted(
        sender.asked_ns, begins + LEAST_ROUND_NS
    )
    idle = numpy.zeros(len(firsts), dtype=bool)
    idle[1:] = times[firsts[1:]] - times[firsts[1:] - 1] > max(IDLE_NS, IDLE_ROUNDS * rtt_ns)
    in_loss, lost_before = _losses(lost, begins)
    columns: tuple[Array, ...] = (  # in the order of the fields of _Seen
        begins,
        ends,
        _burst_rates(times, sender.lengths, firsts, lasts),
        numpy.maximum.reduceat(sender.flight, firsts),
        sender.flight[firsts] / (ends - begins),
        numpy.minimum.reduceat(sender.room, firsts) < sender.full,
        numpy.minimum.reduceat(sender.offered, firsts),
        sender.lengths[lasts] % sender.full == 0,
        (lasts - firsts >= 2) & (longest < EVEN * (ends - begins)),
        has_ack[firsts] & (ends - begins > QUEUED * rtt_ns + LEAST_ROUND_NS),
        asked,
        idle,
        in_loss,
        lost_before,
    )
    return list(map(_Seen, *(one.tolist() for one in columns)))


def _losses(lost: list[tuple[int, int]], begins: Array) -> tuple[Array, Array]:
    """For each round whether it begins within an episode of loss, and how many began before it."""
    since, until = numpy.array(sorted(lost), dtype=numpy.int64).reshape(-1, 2).T
    until = numpy.maximum.accumulate(until)
    earlier = numpy.searchsorted(since, begins, side="right")
    within: Array = numpy.zeros(len(begins), dtype=bool)
    if len(since):
        within = (earlier > 0) & (until[numpy.maximum(earlier, 1) - 1] > begins)
    return within, numpy.searchsorted(since, begins)


def _limited(sender: _Sender, seen: list[_Seen]) -> list[Round]:
    """The rounds with what limited each, as the earlier ones show it."""
    found: list[Round] = []
    full, answered, heard_ns = sender.full, sender.answered, sender.heard_ns
    path_rate = last_burst = last_rate = 0.0
    top, flat, slow, known_losses = 0, 0, True, 0
    for number, one in enumerate(seen):
        is_last = number + 1 == len(seen)
        if one.is_idle:
            top, flat, slow, last_rate, known_losses = 0, 0, True, 0.0, one.losses
        slow = slow and not one.is_lossy and one.losses <= known_losses
        grows = one.most >= GROWTH * top and top > 0
        saturated = one.is_even and one.is_queued and one.rate < GROWTH * last_rate
        last_rate = one.rate
        if saturated:
            path_rate = max(path_rate, one.rate)
        elif not one.is_even and slow and one.burst:
            if abs(one.burst - last_burst) <= ALIKE * one.burst:
                path_rate = max(path_rate, one.burst)
            last_burst = one.burst
        flat = flat + 1 if abs(one.most - top) < 0.5 * full else 0
        if one.is_full:
            reason = SILLY_WINDOW if one.window < full else FULL_WINDOW
        elif saturated or (one.is_even and not grows):
            reason = PATH
        elif slow and (grows or one.most <= FIRST_SEGMENTS * full):
            reason = SLOW_START
        elif slow and flat >= PLATEAU:
            reason = SEND_BUFFER
        else:
            reason = CONGESTION_WINDOW
        goes_on = not is_last and (one.is_whole or one.is_full)
        if (not goes_on or one.is_asked) and not saturated:
            reason = reason if one.is_full and goes_on else ROUND_TRIP
        if one.window >= UNKNOWN_BYTES and reason in (SEND_BUFFER, CONGESTION_WINDOW):
            reason = UNTOLD  # it may be the window, whose scale is unknown
        end_ns = one.end_ns
        if is_last and answered[-1] < len(heard_ns):
            end_ns = max(end_ns, int(heard_ns[answered[-1]]))  # all of it is acknowledged
        is_even = one.is_even and not saturated
        found.append(
            Round(one.begin_ns, end_ns, reason, one.most, one.window, is_even, sender.direction)
        )
        top = max(top, one.most) if slow else one.most
    return _settled(_not_paced(found, [one.rate for one in seen], path_rate))


def _burst_rates(times: Array, lengths: Array, firsts: Array, lasts: Array) -> Array:
    """For each round the rate in bytes per ns at which its segments followed each other, without
    the longest pause; 0 if they are too few."""
    found = numpy.zeros(len(firsts))
    total = numpy.cumsum(lengths)
    for number in range(len(firsts)):
        first, last = int(firsts[number]), int(lasts[number])
        if last - first < BURST_SEGMENTS:
            continue
        steps = numpy.diff(times[first : last + 1])
        spent = int(steps.sum() - steps.max())
        carried = int(total[last] - total[first] - lengths[first + 1 + int(steps.argmax())])
        found[number] = carried / spent if spent > 0 else 0.0
    return found


def _not_paced(found: list[Round], rates: list[float], path_rate: float) -> list[Round]:
    """The same; even rounds fill the path only if it showed that rate: where the RTT grew, or by
    stretching two bursts of slow start alike. Pacing and a program that writes evenly look the same
    as a full path, but pace no two such bursts alike, and no queue grows."""
    return [
        one._replace(reason=UNTOLD)
        if one.reason == PATH and one.is_even and not 0 < PATH_SHARE * path_rate <= rate
        else one
        for one, rate in zip(found, rates, strict=True)
    ]


def _chain(following: Array) -> Array:
    """The places 0, following[0], following[following[0]] and so on."""
    places, at, count = [], 0, len(following)
    after = following.tolist()
    while at < count:
        places.append(at)
        at = after[at]
    return numpy.array(places)


def _settled(found: list[Round]) -> list[Round]:
    """The same; the rounds that lead to a plateau are as limited as those that follow: slow start
    would have doubled them."""
    made = list(found)
    plateau = 0
    for place in range(len(made) - 1, -1, -1):
        one = made[place]
        leads = LEADS * plateau <= one.flight_bytes <= (1 + ALIKE) * plateau
        if one.reason == SEND_BUFFER:
            plateau = one.flight_bytes
        elif plateau and one.reason == CONGESTION_WINDOW and leads:
            made[place] = one._replace(reason=SEND_BUFFER)
        else:
            plateau = 0
    return made
