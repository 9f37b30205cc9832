"""Every gap of a connection: how much of it is the path's delay, how much a wait, and for what.

A gap ends with a segment. Its sender had heard something from the other end a while before: the
time from the place of the capture to that end and back. What exceeds that time is a wait, and the
segment and its neighbours show for what. If the distances are not measured, the reason must be the
same for every possible distance; else it cannot be told.

The place of the capture matters: at the sender, a gap that a timer ended is followed by a
retransmission; at the receiver, the retransmission of a last segment looks like new data, unless
the identification of its IP packet shows that another one was lost before.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import (
    ACK,
    FIN,
    HTTP_REQUEST,
    HTTP_RESPONSE,
    RST,
    SYN,
    TLS_HANDSHAKE,
)
from labs.read.flows.connection_state import ConnectionState
from labs.read.flows.limits import rounds
from labs.read.flows.losses import LEAST_TIMER_NS, Episode, episodes
from labs.read.flows.missing_packets import MOST_LOST, counts_ids, holes, skipped_packets
from labs.read.flows.reasons import (
    APPLICATION,
    CLOSED_LATE,
    DELAYED_ACK,
    FAST_RECOVERY,
    FULL_WINDOW,
    GAVE_UP,
    HANDSHAKE,
    HTTP_TURN,
    KEEP_ALIVE,
    NAGLE,
    NAGLE_AND_DELAYED_ACK,
    NAMES,
    NOBODY,
    PATH,
    REFUSED,
    RESET,
    ROUND_TRIP,
    SILLY_WINDOW,
    SPURIOUS,
    SYN_REPEATED,
    TAIL_LOSS,
    TIMEOUT,
    TLS_TURN,
    TURN,
    UNANSWERED,
    UNTOLD,
    ZERO_WINDOW,
    Wait,
)
from labs.read.flows.rtt import NEXT_DOOR, SOON_NS, Distance, Distances

AT_END_NS: Final = 50_000
SYN_TIMER_NS: Final = 500_000_000
"""Half of the first timer of a SYN (TCP_TIMEOUT_INIT)."""
JITTER: Final = 0.1
"""An answer is late if it exceeds the distance by SOON_NS and this share of it."""
SHORTEST_DELAY_NS: Final = 30_000_000
LONGEST_DELAY_NS: Final = 260_000_000
"""An ACK is delayed by 40 to 200 ms (TCP_ATO_MIN, TCP_DELACK_MAX), and one or two ticks more."""
PROBED: Final = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE
ANSWERED: Final = bits.KEEP_ALIVE_ACK | bits.ZERO_WINDOW_PROBE_ACK
WINDOWS: Final = (SILLY_WINDOW, FULL_WINDOW, ZERO_WINDOW)
NOTHING_YET: Final = (DELAYED_ACK, KEEP_ALIVE, SPURIOUS, UNTOLD)
"""These end nothing: the time before them belongs to what comes next."""


@dataclass(frozen=True)
class Gap:
    """The gap before the segment at `place`: `wait_ns` of it is a wait for `wait.reason`, the rest
    is `rest`: a round trip of some kind.

    A delayed ACK for which nobody waits, or a keep-alive, ends nothing: `instead` is what was
    waited for in that time, as the next segment with data or the end shows it.
    """

    place: int
    length_ns: int
    wait: Wait
    wait_ns: int
    rest: str
    instead: Wait | None = None
    is_sure: bool = True  # False if a loss that the capture cannot show would look the same

    @property
    def cause(self) -> Wait:
        """What the waiting time belongs to."""
        return self.instead or self.wait


class ConnectionGaps:
    """One connection: what its gaps depend on."""

    def __init__(
        self, state: ConnectionState, far: Distances, first: int, last: int, error: str
    ) -> None:
        self.state, self.each = state, state.each
        self.first, self.last = first, last
        self.is_measured = bool(far.measured[first])
        self.far = far.most(first)
        self.error = error
        here = slice(first, last)
        flags, direction = state.flags[here], state.direction[here]
        self.sides = tuple(numpy.flatnonzero(direction == side) + first for side in (0, 1))
        self.places = tuple(places.data for places in self.sides)
        self.times = tuple(state.time_ns[places].data for places in self.sides)
        self.has_both = all(len(places) for places in self.sides)
        self.is_answered = bool((((flags & SYN) != 0) & ((flags & ACK) != 0)).any()) or not bool(
            ((flags & SYN) != 0).any()
        )
        self.answers_syn = self.is_answered or self.has_both
        self.refusals = [] if self.is_answered else refusals(state, first, last)
        near = self.far if self.is_measured or self.far.rtt_ns < 1 << 59 else NEXT_DOOR
        losses = bool(
            (
                state.marks[here]
                & (
                    bits.RETRANSMISSION
                    | bits.FAST_RETRANSMISSION
                    | bits.SPURIOUS_RETRANSMISSION
                    | bits.OUT_OF_ORDER
                )
            ).any()
        )
        self.episodes = episodes(state, near, first, last) if losses and self.has_both else []
        if self.far.rtt_ns >= 1 << 59:
            for episode in self.episodes:
                if not self._waited_for_timer(episode):
                    episode.reason = UNTOLD
        in_episode = numpy.full(last - first, -1)
        # Of two at once the loss matters: what an end repeats in vain meanwhile follows from it.
        order = sorted(
            enumerate(self.episodes), key=lambda numbered: numbered[1].reason != SPURIOUS
        )
        for number, episode in order:
            in_episode[episode.first + 1 - first : episode.last + 1 - first] = number
        self.in_episode = in_episode.data
        times = self.each.time_ns
        lost = [
            (times[episode.first], times[max(episode.first, episode.last)])
            for episode in self.episodes
        ]
        self.bulk = tuple(
            rounds(state, near, first, last, side, lost) if self.has_both else None
            for side in (0, 1)
        )
        missing, self.hole_count = holes(state, first, last, self.sides)
        self.holes = missing.data

    @cached_property
    def counts_ids(self) -> tuple[bool, ...]:
        """Which side counts its packets in their identification."""
        return tuple(counts_ids(self.state, places) for places in self.sides)

    def _waited_for_timer(self, episode: Episode) -> bool:
        """Whether the episode is what it seems even if the distance is unknown: a timer that took
        as long as a timer must, or what needs no distance."""
        if episode.reason in (SPURIOUS, GAVE_UP):
            return True
        times = self.each.time_ns
        return any(times[at] - times[at - 1] > LEAST_TIMER_NS for at in episode.timers)

    def gap(self, at: int) -> Gap | None:
        """The gap before the segment at that place; None if it may be no more than a round trip."""
        each = self.each
        length = each.time_ns[at] - each.time_ns[at - 1]
        if not self.has_both:
            return self._one_sided(at, length)
        if self.holes[at - self.first]:
            return Gap(at, length, Wait(UNTOLD), length, ROUND_TRIP)
        if self.is_measured:
            return self._gap(at, length, self.far)
        most = self._gap(at, length, self.far)
        least = self._gap(at, length, NEXT_DOOR)
        if most.wait.reason == least.wait.reason and most.wait == least.wait:
            return most if most.wait_ns else least if least.wait_ns < SOON_NS else None
        if not most.wait_ns and self.far.rtt_ns + SOON_NS >= length:
            return None
        return Gap(at, length, Wait(UNTOLD), most.wait_ns or length, ROUND_TRIP)

    def _one_sided(self, at: int, length: int) -> Gap:
        each = self.each
        repeated = each.flags[at] & SYN and each.flags[at - 1] & SYN
        if repeated and not (self.state.flags[self.first : self.last] & ACK).any():
            reason = self.error or UNANSWERED
            return Gap(at, length, Wait(reason, NAMES[0], NAMES[1]), length, ROUND_TRIP)
        return Gap(at, length, Wait(UNTOLD), length, ROUND_TRIP)

    def _gap(self, at: int, length: int, far: Distance) -> Gap:
        """The same, if the distances are these."""
        each = self.each
        by = each.direction[at]
        flags, marked = each.flags[at], each.marks[at]
        number = self.in_episode[at - self.first]
        if flags & RST:
            return self._reset(at, length, far, by)
        if flags & SYN:
            return self._syn(at, length, far, by)
        if each.flags[at - 1] & SYN and by == 0 and not each.length[at]:
            return Gap(at, length, Wait(HANDSHAKE), 0, HANDSHAKE)
        episode = self.episodes[number] if number >= 0 else None
        if episode is not None and episode.reason == SPURIOUS:
            if at in episode.places:
                return Gap(at, length, Wait(SPURIOUS), length, ROUND_TRIP)
            episode = None
        if episode is not None and (marked & PROBED) == 0:
            wait = Wait(episode.reason, NAMES[1 - episode.direction], NAMES[episode.direction])
            if episode.reason == FAST_RECOVERY:  # a round trip of it is the price of any repair
                beyond = max(0, length - far.far_ns[by])
                return Gap(at, length, wait, beyond, FAST_RECOVERY)
            return Gap(at, length, wait, length, ROUND_TRIP)
        shut = self._shut(at, by)
        if shut is not None:
            wait = Wait(ZERO_WINDOW, NAMES[shut], NAMES[1 - shut])
            return Gap(at, length, wait, length, ROUND_TRIP)
        if marked & (bits.KEEP_ALIVE | bits.KEEP_ALIVE_ACK):
            return Gap(at, length, Wait(KEEP_ALIVE), length, ROUND_TRIP)
        if marked & ANSWERED:
            return Gap(at, length, Wait(ROUND_TRIP), 0, ROUND_TRIP)
        late, heard = self._late(at, far, by)
        if each.length[at]:
            return self._data(at, length, far, by, late, heard)
        if flags & FIN:
            if late < self._slack(far, by):
                return Gap(at, length, Wait(ROUND_TRIP), 0, ROUND_TRIP)
            return Gap(at, length, self._closed_late(at, by), min(late, length), ROUND_TRIP)
        return self._acknowledged(at, length, far, by, late)

    def _closed_late(self, at: int, by: int) -> Wait:
        """The other end visibly waits for that end if it has closed before."""
        theirs = self.sides[1 - by]
        closed = bool(((self.state.flags[theirs[theirs < at]] & FIN) != 0).any())
        return Wait(CLOSED_LATE, NAMES[1 - by] if closed else NOBODY, NAMES[by])

    def ends_nothing(self, at: int, gap: Gap) -> bool:
        """Whether the segment is an ACK or a probe that nobody waits for."""
        return (
            gap.wait.reason in NOTHING_YET
            and (gap.wait.reason == SPURIOUS or not self.each.length[at] > 1)
            and not self.each.flags[at] & (SYN | FIN | RST)
            and self.has_both
            and not self.holes[at - self.first]
        )

    def instead_of(self, at: int) -> Gap | None:
        """The wait during which a segment was sent that ended nothing; None if nothing came."""
        each = self.each
        for place in range(at + 1, min(self.last, at + 200)):
            ends = each.length[place] or each.flags[place] & (FIN | RST)
            if not ends or each.marks[place] & PROBED:
                continue
            by = each.direction[place]
            number = self.in_episode[place - self.first]
            if number >= 0:
                if self.episodes[number].reason != SPURIOUS:
                    return None
                if place in self.episodes[number].places:
                    continue
            late, heard = self._late(place, self.far, by)
            length = each.time_ns[place] - each.time_ns[at - 1]
            if heard >= 0 and each.marks[heard] & (bits.KEEP_ALIVE | bits.KEEP_ALIVE_ACK):
                late = length  # what it heard last did not make it send
            if each.flags[place] & RST:
                return self._reset(place, length, self.far, by)
            if late < self._slack(self.far, by):
                return None
            if each.length[place]:
                return self._data(place, length, self.far, by, late, heard)
            return Gap(place, length, self._closed_late(place, by), length, ROUND_TRIP)
        return None

    @staticmethod
    def _slack(far: Distance, by: int) -> int:
        return SOON_NS + int(JITTER * min(far.far_ns[by], 1 << 40))

    def _heard(self, at: int, far: Distance, by: int) -> int:
        """The last segment of the other end that had reached `by` before it sent; -1 if none."""
        until = self.each.time_ns[at] - far.far_ns[by] + min(SOON_NS // 5, self._slack(far, by))
        places = self.places[1 - by]
        place = bisect_right(self.times[1 - by], until) - 1
        while place >= 0 and places[place] >= at:
            place -= 1
        return places[place] if place >= 0 else -1

    def _previous(self, at: int, side: int) -> int:
        """The segment of that side before the place; -1 if none."""
        place = bisect_left(self.places[side], at) - 1
        return self.places[side][place] if place >= 0 else -1

    def _late(self, at: int, far: Distance, by: int) -> tuple[int, int]:
        """How long after the last thing that could have made its sender send, and the segment of
        the other end that it had heard last."""
        each = self.each
        now = each.time_ns[at]
        heard = self._heard(at, far, by)
        since = each.time_ns[self.first]
        if heard >= 0:
            since = each.time_ns[heard] + far.far_ns[by]
        previous = self._previous(at, by)
        if previous >= 0 and (each.length[previous] or each.flags[previous] & SYN):
            since = max(since, each.time_ns[previous])
        return max(0, now - since), heard

    def _reset(self, at: int, length: int, far: Distance, by: int) -> Gap:
        each = self.each
        if at in self.refusals:
            wait = Wait(REFUSED, NAMES[1 - by], NAMES[by])
            return Gap(at, length, wait, length, HANDSHAKE)
        late, _ = self._late(at, far, by)
        if late < self._slack(far, by):
            return Gap(at, length, Wait(ROUND_TRIP), 0, ROUND_TRIP)
        number = self.in_episode[at - self.first]
        if number >= 0 and self.episodes[number].direction == by:
            wait = Wait(GAVE_UP, NAMES[by], NAMES[1 - by])
        elif each.sent[by][at] > each.acked[by][at] or self._outstanding(at, 1 - by):
            wait = Wait(RESET, NAMES[1 - by], NAMES[by])
        else:
            wait = Wait(UNTOLD, NAMES[1 - by], NAMES[by])
        return Gap(at, length, wait, min(late, length), ROUND_TRIP)

    def _outstanding(self, at: int, side: int) -> bool:
        return self.each.sent[side][at] > max(0, self.each.acked[side][at])

    def _syn(self, at: int, length: int, far: Distance, by: int) -> Gap:
        state = self.state
        places = self.sides[by]
        earlier = places[places < at]
        repeated = ((state.flags[earlier] & SYN) != 0).any()
        if not repeated:
            theirs = self.sides[1 - by]
            asked = int(((state.flags[theirs[theirs < at]] & SYN) != 0).sum())
            late = length - far.far_ns[by]
            if asked > 1 and late >= SYN_TIMER_NS:  # an earlier answer was lost before the capture
                wait = Wait(SYN_REPEATED, NAMES[1 - by], NAMES[by])
                return Gap(at, length, wait, late, HANDSHAKE)
            return Gap(at, length, Wait(HANDSHAKE), 0, HANDSHAKE)
        if not self.answers_syn:
            return Gap(at, length, Wait(UNANSWERED, NAMES[0], NAMES[1]), length, HANDSHAKE)
        wait = Wait(SYN_REPEATED, NAMES[1 - by], NAMES[by])
        if not self.is_answered:
            wait = Wait(REFUSED if self.refusals else UNTOLD, NAMES[by], NAMES[1 - by])
        return Gap(at, length, wait, length, HANDSHAKE)

    def _shut(self, at: int, by: int) -> int | None:
        """The side that could not send because the other's window was zero, if any."""
        each = self.each
        for sender in (1 - by, by):
            receiver = 1 - sender
            if each.shut[receiver][at] != 1 or each.flags[at] & (FIN | RST):
                continue
            if by == receiver and each.length[at]:
                continue
            if each.marks[at] & (PROBED | ANSWERED):
                return sender
            following = self._next_data(at, sender)
            if following is not None or (each.marks[at - 1] & PROBED):
                return sender
        return None

    def _next_data(self, at: int, sender: int) -> int | None:
        """The first new data of the sender at or after the place, before any of the other."""
        each = self.each
        place = at if each.length[at] else self._next_carrying(at)
        return place if place is not None and each.direction[place] == sender else None

    def _next_carrying(self, at: int) -> int | None:
        """The next segment with payload."""
        carrying = self.each.carrying
        after = bisect_right(carrying, at)
        if after == len(carrying) or carrying[after] >= self.last:
            return None
        return carrying[after]

    def _released(self, at: int, far: Distance, sender: int) -> int | None:
        """The new data that the sender sent because of the ACK at that place, if any."""
        each = self.each
        place = self._next_carrying(at)
        if place is None or each.direction[place] != sender:
            return None
        after = each.time_ns[place] - each.time_ns[at]
        away = far.far_ns[sender]
        if away - SOON_NS // 5 <= after <= away + self._slack(far, sender):
            return place if each.end[place] > each.sent[sender][at] else None
        return None

    def _data(self, at: int, length: int, far: Distance, by: int, late: int, heard: int) -> Gap:
        """New data ends the gap."""
        each = self.each
        other = 1 - by
        rest = self._rest(at, by, heard)
        if late < self._slack(far, by):
            return Gap(at, length, Wait(rest, NAMES[other], NAMES[by]), 0, rest)
        wait = Wait(APPLICATION, NAMES[other], NAMES[by])
        is_away = far.far_ns[by] > AT_END_NS
        lost = self._lost_before(at, by) if is_away else 0
        is_sure = True
        if lost:
            wait = Wait(TAIL_LOSS if lost == 1 else TIMEOUT, NAMES[other], NAMES[by])
        elif heard < 0 and each.flags[self.first] & SYN == 0:
            wait = Wait(UNTOLD)
        elif rest in WINDOWS or 0 <= each.edge[by][at] <= each.sent[by][at] + each.mss_bytes[at]:
            wait = Wait(UNTOLD, NAMES[other], NAMES[by])  # the window left less than was to send
        elif is_away and not self.counts_ids[by]:
            if self._continues(at, by) and late >= min(LEAST_TIMER_NS, 2 * far.rtt_ns):
                wait = Wait(UNTOLD, NAMES[other], NAMES[by])
            is_sure = late < LEAST_TIMER_NS
        return Gap(at, length, wait, min(late, length), rest, is_sure=is_sure)

    def _continues(self, at: int, by: int) -> bool:
        """Whether the data at that place goes on with what its sender sent before: the last segment
        of it may then have been lost before the capture, and this be its retransmission by a loss
        probe, after two round trips or more, or by a timer (RFC 8985 7.2, RFC 6298)."""
        each = self.each
        number = bisect_left(each.carrying, at) - 1
        before = each.carrying[number] if number >= 0 else -1
        return before >= self.first and each.direction[before] == by

    def _lost_before(self, at: int, by: int) -> int:
        """How many packets of this side are missing between the segment and the one before it, by
        the identification of their IP packets; 0 if that cannot be told."""
        each = self.each
        before = self._previous(at, by)
        if before < 0 or each.flags[before] & SYN or not self.counts_ids[by]:
            return 0
        skipped = skipped_packets(each, before, at)
        return skipped if skipped < MOST_LOST else 0

    def _rest(self, at: int, by: int, heard: int) -> str:
        """What the part of a gap is that the distance explains."""
        each = self.each
        if heard >= 0 and each.length[heard]:
            first_own = self._previous(at, by)
            if first_own < heard or not each.length[first_own]:
                contents = (each.content[at], each.content[heard])
                if TLS_HANDSHAKE in contents:
                    return TLS_TURN
                if HTTP_REQUEST in contents or HTTP_RESPONSE in contents:
                    return HTTP_TURN
                return TURN
        if heard >= 0 and each.flags[heard] & SYN:
            return HANDSHAKE
        limit = self._limit(at, by)
        if heard >= 0 and limit not in WINDOWS and self._held_by_nagle(at, heard, by):
            return NAGLE
        return limit

    def _held_by_nagle(self, at: int, ack: int, sender: int) -> bool:
        """Whether the small segment at that place had to wait for the ACK of an earlier small one
        (tcp_minshall_check)."""
        each = self.each
        small = each.length[at] % each.mss_bytes[at] != 0
        return bool(small and each.acked[sender][ack] < each.small[sender][ack] <= each.ack[ack])

    def _limit(self, at: int, sender: int) -> str:
        """What limits that sender of bulk at that time; a round trip if it sends none."""
        bulk_rounds = self.bulk[sender]
        if bulk_rounds is None:
            return ROUND_TRIP
        return bulk_rounds.limit_at(self.each.time_ns[at - 1])

    def _acknowledged(self, at: int, length: int, far: Distance, by: int, late: int) -> Gap:
        """An ACK without data ends the gap."""
        each = self.each
        sender = 1 - by
        ack, before = each.ack[at], each.acked[sender][at]
        full = each.mss_bytes[at]
        released = self._released(at, far, sender)
        room = each.edge[sender][at] - each.sent[sender][at]
        window = each.window[by][at]
        known_scale = each.edge[sender][at] >= 0
        limited = known_scale and room < full and window >= 0
        waiting = Wait(ROUND_TRIP, NAMES[sender], NAMES[by])
        slack = self._slack(far, by)
        newest = self._newest_heard(at, far, by)
        if newest >= 0:
            late = each.time_ns[at] - each.time_ns[newest] - far.far_ns[by]
        if ack <= before:
            if limited and released is not None and each.offered[at] != window:
                reason = SILLY_WINDOW if window < full else FULL_WINDOW
                return Gap(at, length, Wait(reason, NAMES[sender], NAMES[by]), length, ROUND_TRIP)
            if late < slack or self._limit(at, sender) != ROUND_TRIP:
                return Gap(at, length, waiting, 0, self._limit(at, sender))
            return Gap(at, length, Wait(UNTOLD), length, ROUND_TRIP)
        if late < slack:
            rest = ROUND_TRIP
            if limited:
                rest = SILLY_WINDOW if window < full else FULL_WINDOW
            elif released is not None and self._held_by_nagle(released, at, sender):
                rest = NAGLE
            elif released is not None or self.bulk[sender] is not None:
                rest = self._limit(at, sender)
            return Gap(at, length, waiting, 0, rest)
        wait_ns = min(late, length)
        small = ack - before < 2 * full
        if limited and (not small or window < full):
            reason = SILLY_WINDOW if window < full else FULL_WINDOW
            return Gap(at, length, Wait(reason, NAMES[sender], NAMES[by]), wait_ns, ROUND_TRIP)
        if self._limit(at, sender) == PATH:  # the ACK is late because its data was queued
            return Gap(at, length, waiting, 0, PATH)
        if small and SHORTEST_DELAY_NS <= late <= LONGEST_DELAY_NS:
            nagle = released is not None and self._held_by_nagle(released, at, sender)
            # With more in flight than it covers, the sender waits for the ACKs of that as well.
            in_flight = self._limit(at, sender) != ROUND_TRIP and each.sent[sender][at] > ack
            if released is None or (in_flight and not nagle):
                return Gap(at, length, Wait(DELAYED_ACK), wait_ns, self._limit(at, sender))
            reason = UNTOLD  # nothing that this ACK frees held the data back
            if nagle:
                reason = NAGLE_AND_DELAYED_ACK
            elif (known_scale and room < each.length[released]) or self._limit(
                at, sender
            ) != ROUND_TRIP:
                reason = DELAYED_ACK
            return Gap(
                at, length, Wait(reason, NAMES[sender], NAMES[by]), wait_ns, self._limit(at, sender)
            )
        if not small and self._limit(at, sender) != ROUND_TRIP:
            return Gap(at, length, waiting, 0, self._limit(at, sender))
        untold = Wait(UNTOLD) if released is None else Wait(UNTOLD, NAMES[sender], NAMES[by])
        return Gap(at, length, untold, wait_ns, ROUND_TRIP)

    def _newest_heard(self, at: int, far: Distance, by: int) -> int:
        """The newest data that had reached `by` before its ACK at that place and that the ACK
        covers; -1 if none."""
        each = self.each
        place = self._heard(at, far, by)
        while place >= self.first:
            carries = each.length[place] or each.flags[place] & (SYN | FIN)
            if each.direction[place] != by and carries:
                return place
            place -= 1
            if each.time_ns[at] - each.time_ns[place] > 10 * 10**9:
                break
        return -1


def refusals(state: ConnectionState, first: int, last: int) -> list[int]:
    """The resets by which the server refuses the connection between two places: each acknowledges
    a SYN (RFC 9293 3.5.2), and the client had acknowledged nothing before."""
    here = slice(first, last)
    flags, by = state.flags[here], state.direction[here]
    agrees = (by == 0) & ((flags & (SYN | RST)) == 0) & ((flags & ACK) != 0)
    until = int(agrees.argmax()) if agrees.any() else last - first
    refuses = (by == 1) & ((flags & (RST | ACK)) == RST | ACK) & (state.ack[here] == 1)
    asked = numpy.cumsum((by == 0) & ((flags & SYN) != 0)) > 0
    resets: list[int] = (numpy.flatnonzero((refuses & asked)[:until]) + first).tolist()
    return resets
