"""What limits a bulk sender, per round trip: a window, a buffer, the path, or slow start.

All is seen as the sender saw it: an ACK that passes the place of the capture reaches the sender and
shows its effect there after the time from that place to the sender and back.
Source: the rounds follow Zhang et al., On the Characteristics and Origins of Internet Flow Rates
(SIGCOMM 2002); RFC 5681, RFC 9293 3.8.6.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy

from labs.read.capture.segment_table import ACK, CWR, SYN
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
    Reason,
)
from labs.read.flows.rtt import SOON_NS, Distance
from labs.read.native.compiled import Int64s, native

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
MOST_WORD: Final = 1 << 62
QUEUED: Final = 1.2
ALIKE: Final = 0.15
LEADS: Final = 0.5
PLATEAU: Final = 3
"""Rounds in which the flight neither grows nor is reduced that show a limit other than the
congestion window, if nothing was lost. After a loss, cubic keeps its window for tens of rounds
(RFC 9438 4.4)."""
REDUCED: Final = 0.85
"""A reduced window is smaller: 0.7 with cubic, 0.5 with reno (RFC 9438 4.6, RFC 5681 3.1)."""
EVEN: Final = 0.3
"""The longest pause of a round as a share of it, below which segments come evenly."""
DEFERRED_SEGMENTS: Final = 3
"""After a round with a full window a sender may leave so much of it unused: it waits for room for a
larger packet (tcp_tso_should_defer)."""
BURST_SEGMENTS: Final = 8
PATH_SHARE: Final = 0.8
"""An even round fills the path from this share of the rate on that the path showed before."""


LIMITS: Final = tuple(
    sorted(
        (
            CONGESTION_WINDOW,
            FULL_WINDOW,
            PATH,
            ROUND_TRIP,
            SEND_BUFFER,
            SILLY_WINDOW,
            SLOW_START,
            UNTOLD,
        ),
        key=str,
    )
)


@dataclass(frozen=True, eq=False)
class Rounds:
    """The round trips of one sender in order, as arrays: times, limits (places in LIMITS), the most
    bytes in flight."""

    direction: int  # of the data: 0 if the client sends
    begin_ns: Array
    end_ns: Array
    reason: Array
    flight_bytes: Array
    window_bytes: Array
    is_even: Array

    def at(self, times_ns: Array) -> tuple[Array, Array]:
        """For each time the round that it is in, and whether it is in one."""
        which = numpy.searchsorted(self.begin_ns, times_ns, side="right") - 1
        inside: Array = (which >= 0) & (times_ns <= self.end_ns[which] + SOON_NS)
        return which, inside

    def limit_at(self, time_ns: int) -> Reason:
        """What limited the sender at that time; a round trip outside the rounds. As `at`, for one
        time, for which numpy is slow."""
        which = bisect_right(self.begin_ns.data, time_ns) - 1
        if which < 0 or time_ns > self.end_ns[which] + SOON_NS:
            return ROUND_TRIP
        return LIMITS[int(self.reason[which])]


def rounds(
    state: ConnectionState,
    far: Distance,
    first: int,
    last: int,
    direction: int,
    lost: list[tuple[int, int]],
) -> Rounds | None:
    """The rounds of one sender of a connection; None if it sends no bulk. `lost` are the times at
    which an episode of loss begins and ends."""
    here = slice(first, last)
    sends = (state.direction[here] == direction) & (state.length[here] > 0)
    sends &= (state.flags[here] & SYN) == 0
    data = numpy.flatnonzero(sends) + first
    full = int(state.mss_bytes[first])
    if not len(data) or state.length[data].sum() < BULK_SEGMENTS * full:
        return None
    acks = numpy.flatnonzero(
        (state.direction[here] != direction) & ((state.flags[here] & ACK) != 0)
    )
    acks += first
    if not len(acks):
        return None
    heard_ns = numpy.maximum.accumulate(state.time_ns[acks] + far.far_ns[direction])
    reach = numpy.maximum.accumulate(state.ack[acks])
    window = state.ack[acks] + _window(state, acks)
    times = state.time_ns[data]
    sent = numpy.maximum.accumulate(state.end[data])
    # The ACKs that had reached the sender before each of its segments; a tie counts as heard.
    before = numpy.searchsorted(heard_ns, times + _early_ns(far.rtt_ns), side="right") - 1
    heard = numpy.maximum(before, 0)
    from_other = (state.direction[here] != direction) & (state.length[here] > 0)
    sender = _Sender(
        times_ns=times,
        lengths=state.length[data],
        asked_ns=state.time_ns[here][from_other] + far.far_ns[direction],
        flight=sent - numpy.where(before >= 0, reach[heard], 0),
        room=numpy.where(before >= 0, window[heard], 1 << 40) - sent,
        offered=_window(state, acks)[heard],
        heard_ns=heard_ns,
        answered=numpy.searchsorted(reach, sent, side="left"),
        unheard_ns=_unheard_ns(state, data, acks) - far.far_ns[direction],
        full=full,
        rtt_ns=far.rtt_ns,
        direction=direction,
    )
    # With CWR a sender says that marks (ECN) or its own queue reduced its congestion window.
    reduced = state.time_ns[data[(state.flags[data] & CWR) != 0]].tolist()
    return _limited(sender, _seen(sender, [*lost, *((at, at) for at in reduced)]))


def _unheard_ns(state: ConnectionState, data: Array, acks: Array) -> Array:
    """For each data segment how long before it the first ACK passed whose timestamp is newer than
    the one that it echoes; 0 if none. It was sent before that ACK arrived at its sender: what
    exceeds the time to the sender and back it spent in a queue (RFC 7323 4.3)."""
    stamps = numpy.maximum.accumulate(state.tsval[acks])
    echoed = state.tsecr[data]
    newer = numpy.searchsorted(stamps, echoed, side="right")
    has_newer = (newer < len(acks)) & (echoed >= numpy.maximum(stamps[0], 0))
    since = state.time_ns[acks[numpy.minimum(newer, len(acks) - 1)]]
    unheard_ns: Array = numpy.where(has_newer, numpy.maximum(state.time_ns[data] - since, 0), 0)
    return unheard_ns


def _early_ns(rtt_ns: int) -> int:
    return max(LEAST_ROUND_NS // 10, rtt_ns // 50)


@dataclass(frozen=True, eq=False)
class _Sender:
    """The data segments of one sender as it saw them: per segment its time, length, the bytes in
    flight with it, the room left in the window, the window offered, and the first ACK that covers
    it (a place in `heard_ns`, the times at which ACKs reached the sender). `asked_ns` are the times
    at which the other end's data reached it, `full` the bytes of a full segment, `unheard_ns` how
    long each segment was in a queue before it was captured, at least, by its timestamp."""

    times_ns: Array
    lengths: Array
    asked_ns: Array
    flight: Array
    room: Array
    offered: Array
    heard_ns: Array
    answered: Array
    unheard_ns: Array
    full: int
    rtt_ns: int
    direction: int


class _Seen(NamedTuple):
    """What each round shows by itself, as arrays."""

    begin_ns: Array
    end_ns: Array
    burst: Array  # bytes per ns, of the segments without the longest pause; 0 if too few
    most: Array  # bytes in flight
    rate: Array  # bytes per ns: what is in flight arrives in a round (Little's law)
    is_full: Array
    window: Array
    is_whole: Array  # it ends with a full segment
    is_even: Array
    is_queued: Array  # its RTT is longer than the shortest
    is_asked: Array  # the other end's data reached the sender in it
    is_idle: Array  # an idle time was before it
    is_lossy: Array
    losses: Array  # that began before it


def _window(state: ConnectionState, places: Array) -> Array:
    """The window of these segments in bytes, -1 (unknown) as very large."""
    offered = state.offered[places]
    window: Array = numpy.where(offered >= 0, offered, UNKNOWN_BYTES)
    return window


def _seen(sender: _Sender, lost: list[tuple[int, int]]) -> _Seen:
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
    queued = (
        numpy.minimum.reduceat(sender.unheard_ns, firsts) > (QUEUED - 1) * rtt_ns + LEAST_ROUND_NS
    )
    in_loss, lost_before = _losses(lost, begins)
    room = numpy.minimum.reduceat(sender.room, firsts)
    is_full = room < sender.full
    is_whole = sender.lengths[lasts] % sender.full == 0
    deferred = (room < DEFERRED_SEGMENTS * sender.full) & is_whole
    is_full[1:] |= deferred[1:] & is_full[:-1]
    return _Seen(
        begins,
        ends,
        _burst_rates(times, sender.lengths, firsts, lasts),
        numpy.maximum.reduceat(sender.flight, firsts),
        sender.flight[firsts] / (ends - begins),
        is_full,
        numpy.minimum.reduceat(sender.offered, firsts),
        is_whole,
        (lasts - firsts >= 2) & (longest < EVEN * (ends - begins)),
        (has_ack[firsts] & (ends - begins > QUEUED * rtt_ns + LEAST_ROUND_NS)) | queued,
        asked,
        idle,
        in_loss,
        lost_before,
    )


def _losses(lost: list[tuple[int, int]], begins: Array) -> tuple[Array, Array]:
    """For each round whether it begins within an episode of loss, and how many began before it."""
    since, until = numpy.array(sorted(lost), dtype=numpy.int64).reshape(-1, 2).T
    until = numpy.maximum.accumulate(until)
    earlier = numpy.searchsorted(since, begins, side="right")
    within: Array = numpy.zeros(len(begins), dtype=bool)
    if len(since):
        within = (earlier > 0) & (until[numpy.maximum(earlier, 1) - 1] > begins)
    return within, numpy.searchsorted(since, begins)


def _limited(sender: _Sender, seen: _Seen) -> Rounds:
    """The rounds with what limited each, as the earlier ones show it."""
    since = _since_idle(seen)
    saturated, path_rate = _filled(seen, since.slow)
    flat = (seen.most < since.top + 0.5 * sender.full) & (seen.most > REDUCED * since.top)
    flat &= (since.top > 0) & ~seen.is_full
    place = numpy.arange(len(flat))
    # Rounds without a larger flight in a row, counted anew after an idle time.
    broken = numpy.where(flat, numpy.where(seen.is_idle, place - 1, -1), place)
    flat_rounds = place - numpy.maximum.accumulate(broken)
    grows = (seen.most >= GROWTH * since.top) & (since.top > 0)
    next_grows = numpy.append(seen.most[1:] >= GROWTH * seen.most[:-1], False)
    next_grows[:-1] &= ~seen.is_idle[1:]
    begins = grows | (seen.most <= FIRST_SEGMENTS * sender.full)
    begins |= (since.top == 0) & next_grows
    reason = numpy.select(
        (
            seen.is_full & (seen.window < sender.full),
            seen.is_full,
            saturated | (seen.is_even & ~grows),
            since.slow & begins,
            since.slow & (flat_rounds >= PLATEAU),
        ),
        [
            LIMITS.index(limit)
            for limit in (SILLY_WINDOW, FULL_WINDOW, PATH, SLOW_START, SEND_BUFFER)
        ],
        LIMITS.index(CONGESTION_WINDOW),
    )
    goes_on = seen.is_whole | seen.is_full
    goes_on[-1] = False
    held = saturated | (goes_on & (seen.is_full | ~seen.is_asked))
    reason[~held] = LIMITS.index(ROUND_TRIP)
    by_sender = numpy.isin(reason, (LIMITS.index(SEND_BUFFER), LIMITS.index(CONGESTION_WINDOW)))
    # It may be the window, whose scale is unknown.
    reason[by_sender & (seen.window >= UNKNOWN_BYTES)] = LIMITS.index(UNTOLD)
    is_even = seen.is_even & ~saturated
    # Even rounds fill the path only if it showed that rate: where the RTT grew, or by stretching
    # two bursts of slow start alike. Pacing and a program that writes evenly look the same as a
    # full path, but pace no two such bursts alike, and no queue grows.
    shown = (PATH_SHARE * path_rate <= seen.rate) & (path_rate > 0)
    reason[(reason == LIMITS.index(PATH)) & is_even & ~shown] = LIMITS.index(UNTOLD)
    reason[_leads(reason, seen.most)] = LIMITS.index(SEND_BUFFER)
    end_ns = seen.end_ns.copy()
    if sender.answered[-1] < len(sender.heard_ns):
        end_ns[-1] = max(end_ns[-1], sender.heard_ns[sender.answered[-1]])  # all is acknowledged
    order = numpy.argsort(seen.begin_ns, kind="stable")  # a clock may step back
    columns = (seen.begin_ns, end_ns, reason, seen.most, seen.window, is_even)
    return Rounds(sender.direction, *(column[order] for column in columns))


class _SinceIdle(NamedTuple):
    """What the earlier rounds show since the beginning or the last idle time: whether the sender is
    still in slow start, and the most bytes in flight then, or in the previous round after that."""

    slow: Array
    top: Array


def _since_idle(seen: _Seen) -> _SinceIdle:
    count = len(seen.begin_ns)
    fresh = seen.is_idle.copy()
    fresh[0] = True
    starts = numpy.append(numpy.flatnonzero(fresh), count)
    lengths = numpy.diff(starts)
    # Losses before the first round of all count; before an idle time they do not.
    earlier = numpy.where(seen.is_idle[starts[:-1]], seen.losses[starts[:-1]], 0)
    ends = seen.is_lossy | (seen.losses > numpy.repeat(earlier, lengths))
    slow = _highest_so_far(ends.astype(numpy.int64), starts) == 0
    most = numpy.where(slow, _highest_so_far(numpy.maximum(seen.most, 0), starts), seen.most)
    top = numpy.append(0, most[:-1])
    top[fresh] = 0
    return _SinceIdle(slow, top)


def _highest_so_far(values: Array, starts: Array) -> Array:
    """The highest value so far in each part; parts begin at `starts`, whose last is the end."""
    least, count = int(values.min()), len(starts) - 1
    span = int(values.max()) - least + 1
    highest: Array
    if span * count < MOST_WORD:  # one pass, with the connections above each other
        floor = numpy.repeat(numpy.arange(count) * span, numpy.diff(starts)) - least
        highest = numpy.maximum.accumulate(values + floor) - floor
        return highest
    parts = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    highest = numpy.concatenate(
        [numpy.maximum.accumulate(values[begin:end]) for begin, end in parts]
    )
    return highest


def _filled(seen: _Seen, slow: Array) -> tuple[Array, float]:
    """The rounds in which the path is full, because its queue grows and its rate does not, and the
    highest rate that the path showed; 0 if none."""
    before = numpy.append(0.0, seen.rate[:-1])
    before[seen.is_idle] = 0.0
    saturated = seen.is_even & seen.is_queued & (seen.rate < GROWTH * before)
    bursts = seen.burst[~saturated & ~seen.is_even & slow & (seen.burst > 0)]
    alike = numpy.abs(numpy.diff(bursts, prepend=0.0)) <= ALIKE * bursts
    shown = numpy.concatenate([seen.rate[saturated], bursts[alike]])
    return saturated, float(shown.max(initial=0.0))


def _leads(reason: Array, flight: Array) -> Array:
    """Which rounds of a congestion window lead to a plateau, and are as limited as those that
    follow: slow start would have doubled them."""
    count, place = len(reason), numpy.arange(len(reason))

    def following(which: Array) -> Array:
        next_places: Array = numpy.minimum.accumulate(numpy.where(which, place, count)[::-1])[::-1]
        return next_places

    plateaus = reason == LIMITS.index(SEND_BUFFER)
    after = following(plateaus)
    plateau = numpy.append(flight, 0)[after]
    near = (LEADS * plateau <= flight) & (flight <= (1 + ALIKE) * plateau) & (plateau != 0)
    leads: Array = (reason == LIMITS.index(CONGESTION_WINDOW)) & near
    return leads & (following(~leads & ~plateaus) > after)


def _burst_rates(times: Array, lengths: Array, firsts: Array, lasts: Array) -> Array:
    """For each round the rate in bytes per ns at which its segments followed each other, without
    the longest pause; 0 if they are too few."""
    rates = numpy.zeros(len(firsts))
    total = numpy.cumsum(lengths)
    for number in numpy.flatnonzero(lasts - firsts >= BURST_SEGMENTS).tolist():
        first, last = int(firsts[number]), int(lasts[number])
        steps = numpy.diff(times[first : last + 1])
        spent = int(steps.sum() - steps.max())
        carried = int(total[last] - total[first] - lengths[first + 1 + int(steps.argmax())])
        rates[number] = carried / spent if spent > 0 else 0.0
    return rates


def _chain(following: Array) -> Array:
    """The places 0, following[0], following[following[0]] and so on."""
    chain = numpy.empty(len(following), dtype=numpy.int64)
    return chain[: _follow_chain(following, chain)]


@native
def _follow_chain(following: Int64s, chain: Int64s) -> int:
    """Write the places that `_chain` returns into `chain`; return how many there are. Each entry of
    `following` must be greater than its own place."""
    at, count = 0, 0
    while at < len(following) and count < len(chain):
        chain[count] = at
        count += 1
        at = following[at]
    return count
