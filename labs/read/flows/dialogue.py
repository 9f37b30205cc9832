"""What each end of a connection had heard and sent before a segment, and the segment that ends a
gap as it looks from there.

The place of the capture matters: an end hears a segment after the time from that place to the end,
and its answer comes back after the same time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from labs.read.flows import path
from labs.read.flows import reasons as why
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.limits import LARGE_WINDOW, Rounds, rounds
from labs.read.flows.losses import (
    LEAST_TIMER_NS,
    MOST_LOST,
    REPORTS,
    Episode,
    counts_ids,
    episodes,
    holes,
)
from labs.read.flows.reasons import NAMES, WINDOWS, Doubt, Reason, Wait
from labs.read.flows.rtt import NEXT_DOOR, SOON_NS, Distance

JITTER: Final = 0.1
"""An answer is late if it exceeds the distance by SOON_NS and this share of it."""
LONGEST_NS: Final = 10 * 10**9
AT_END_NS: Final = 50_000
OUTER: Final = (*WINDOWS, why.PROGRAM_WINDOW)
"""Limits that hold a small segment back whatever Nagle's algorithm does."""
LOSS_MARKS: Final = (
    bits.RETRANSMISSION
    | bits.FAST_RETRANSMISSION
    | bits.SPURIOUS_RETRANSMISSION
    | bits.OUT_OF_ORDER
)


@dataclass(frozen=True, eq=False)
class Gap:
    """The gap before the segment at `place`: `wait_ns` of it is a wait, the rest is `rest`: a round
    trip of some kind.

    A delayed ACK for which nobody waits, or a keep-alive, ends nothing: `instead` is what was
    waited for in that time, as the next segment with data or the end shows it.
    """

    place: int
    length_ns: int
    wait: Wait
    wait_ns: int
    rest: Reason
    instead: Wait | None = None
    is_sure: bool = True  # False if a loss that the capture cannot show would look the same
    doubt: Doubt | None = None  # why it cannot be told

    @property
    def cause(self) -> Wait:
        """What the waiting time belongs to."""
        return self.instead or self.wait


class Dialogue:
    """One connection, on the places `first` to `last` - 1: what its gaps depend on, and those that
    were looked at.

    `undecided` are gaps of unknown distance that may be no longer than a round trip. `facts` are
    those of headers that are no segments, `refusals` are resets that refuse the connection.
    """

    def __init__(
        self, state: ConnectionState, far: Distance, first: int, last: int, facts: path.Facts
    ) -> None:
        self.state, self.each = state, state.each
        self.first, self.last, self.number = first, last, int(state.connection[first])
        self.far, self.facts = far, facts
        self.gaps: list[Gap] = []
        self.undecided: list[int] = []
        flags, direction = state.flags[first:last], state.direction[first:last]
        self.sides = tuple(numpy.flatnonzero(direction == side) + first for side in (0, 1))
        self.places = tuple(places.data for places in self.sides)
        self.times = tuple(state.time_ns[places].data for places in self.sides)
        self.has_both = all(len(places) for places in self.sides)
        syn = flags[(flags & SYN) != 0]
        self.is_answered = bool(((syn & ACK) != 0).any()) or not len(syn)
        self.refusals = [] if self.is_answered else refusals(state, self.sides)
        near = far if far.is_bounded else NEXT_DOOR
        has_loss = self.has_both and bool((state.marks[first:last] & LOSS_MARKS).any())
        found = episodes(state, near, self.sides, last) if has_loss else ([], [])
        self.episodes, self.overtaken = found
        for episode in self.episodes:
            self._refine(episode)
        self.missing = path.missing_data(self) if self.has_both else None
        self.probes = path.unanswered_probes(self)
        self.forgotten_at = path.forgotten_at(self)
        self.overflowed_until = path.overflowed_until(self) if self.has_both else -1
        # What is repeated meanwhile follows from these.
        self.episodes = [each for each in self.episodes if not self._follows(each.places[0])]
        lost = [
            (self.each.time_ns[episode.first], self.each.time_ns[max(episode.first, episode.last)])
            for episode in self.episodes
        ]
        self.bulk = tuple(
            rounds(state, near, self.sides, side, lost, lacks_scaling=facts.lacks_scaling)
            for side in (0, 1)
        )
        lost_of = -1 if self.missing is None else self.missing[0]
        beside, self.hole_count = holes(state, first, last, self.sides, lost_of)
        self._holes = beside.data

    def _follows(self, at: int) -> bool:
        return 0 <= self.forgotten_at <= at or at <= self.overflowed_until

    @cached_property
    def is_ecn_blocked(self) -> bool:
        return path.only_ecn_unanswered(self)

    @property
    def rounds(self) -> list[Rounds]:
        """Those of each sender of bulk."""
        return [rounds for rounds in self.bulk if rounds is not None]

    @property
    def is_established(self) -> bool:
        """Whether the handshake was answered, or began before the capture."""
        return self.is_answered or bool(self.state.length[self.first : self.last].any())

    @cached_property
    def counts_ids(self) -> tuple[bool, ...]:
        return tuple(counts_ids(self.state, places) for places in self.sides)

    @cached_property
    def _repaired(self) -> list[Episode | None]:
        """For each segment the episode that it is in. Of two at once the loss matters: what an end
        repeats in vain meanwhile follows from it."""
        repaired: list[Episode | None] = [None] * (self.last - self.first)
        for episode in sorted(self.episodes, key=lambda each: each.reason is not why.SPURIOUS):
            begin, end = episode.first + 1 - self.first, episode.last + 1 - self.first
            repaired[begin:end] = [episode] * (end - begin)
        return repaired

    def episode_at(self, at: int) -> Episode | None:
        """The episode of loss that the segment is in."""
        return self._repaired[at - self.first] if self.episodes else None

    def is_beside_hole(self, at: int) -> bool:
        """Whether packets that the capture lacks may have ended the gap before the segment."""
        return bool(self._holes[at - self.first])

    def _refine(self, episode: Episode) -> None:
        """See in an episode what the path and the options of the connection make of it."""
        path.judge_mtu(self, episode)
        if not self.far.is_bounded and not self._is_shown(episode):
            episode.reason = why.UNTOLD
        lost = {self.each.begin[place] for place in episode.places}
        if episode.reason is why.FAST_RECOVERY and self.facts.lacks_sack and len(lost) > 1:
            episode.reason = why.NO_SACK

    def _is_shown(self, episode: Episode) -> bool:
        """Whether the episode is what it seems even if the distance is unknown: a timer that took
        as long as a timer must, reports of a hole, or what needs no distance."""
        if episode.reason in (why.SPURIOUS, why.GAVE_UP, why.PATH_MTU):
            return True
        each, at = self.each, episode.places[0]
        heard = [place for place in self.places[1 - episode.direction] if place < at]
        if not episode.timers and sum(bool(each.sacks[place]) for place in heard) >= REPORTS:
            return True
        times = each.time_ns
        return any(times[at] - times[at - 1] > LEAST_TIMER_NS for at in episode.timers)

    def previous(self, at: int, side: int) -> int:
        """The segment of that side before the place; -1 if none."""
        number = bisect_left(self.places[side], at) - 1
        return self.places[side][number] if number >= 0 else -1

    def next_carrying(self, at: int) -> int | None:
        """The next segment with payload."""
        carrying = self.each.carrying
        after = bisect_right(carrying, at)
        if after == len(carrying) or carrying[after] >= self.last:
            return None
        return carrying[after]

    def count_before(self, at: int, side: int, flag: int) -> int:
        """How many segments with that flag a side had sent before the place."""
        places = self.sides[side]
        return int(((self.state.flags[places[places < at]] & flag) != 0).sum())

    def limit(self, at: int, sender: int) -> Reason:
        """What limits that sender of bulk before the place; a round trip if it sends none."""
        bulk = self.bulk[sender]
        return why.ROUND_TRIP if bulk is None else bulk.limit_at(self.each.time_ns[at - 1])

    def lost_before(self, at: int, by: int) -> int:
        """How many packets of this side are missing between the segment and the one before it, by
        the identification of their IP packets; 0 if that cannot be told."""
        each, before = self.each, self.previous(at, by)
        if before < 0 or each.flags[before] & SYN or not self.counts_ids[by]:
            return 0
        packets = max(1, -(-each.length[before] // each.mss_bytes[before]))
        skipped = (each.ip_id[at] - each.ip_id[before] - packets) & 0xFFFF
        return skipped if skipped < MOST_LOST else 0


class Ending:
    """The segment that ends a gap, if both ends are at these distances.

    `by` is its sender, and `heard` the last segment of the `other` end that had reached it. It was
    sent `late_ns` after the last thing that could have made its sender send. `since` is the end of
    the gap if other segments, which ended nothing, are between.
    """

    def __init__(
        self, dialogue: Dialogue, at: int, far: Distance, since: int | None = None
    ) -> None:
        each = dialogue.each
        self.dialogue, self.each, self.at, self.far = dialogue, each, at, far
        self.by = each.direction[at]
        self.other = 1 - self.by
        self.sides = (self.by, self.other)
        self.flags, self.marks, self.length = each.flags[at], each.marks[at], each.length[at]
        self.length_ns = each.time_ns[at] - each.time_ns[(since or at) - 1]
        self.away_ns = far.far_ns[self.by]
        self.beyond_ns = self.length_ns - self.away_ns
        self.is_away = self.away_ns > AT_END_NS
        self.slack_ns = slack_ns(far, self.by)

    @cached_property
    def heard(self) -> int:
        """The last segment of the other end that had reached its sender before; -1 if none."""
        until = self.each.time_ns[self.at] - self.away_ns + SOON_NS // 5
        places = self.dialogue.places[self.other]
        number = bisect_right(self.dialogue.times[self.other], until) - 1
        while number >= 0 and places[number] >= self.at:
            number -= 1
        return places[number] if number >= 0 else -1

    @cached_property
    def late_ns(self) -> int:
        return max(0, self.each.time_ns[self.at] - self._begun_ns())

    def _begun_ns(self) -> int:
        """When the last thing happened that could have made its sender send: for an ACK, that data
        arrived which it covers."""
        each, dialogue = self.each, self.dialogue
        newest = -1 if self.length or self.flags & (SYN | FIN | RST) else self._newest()
        if newest >= 0:
            return each.time_ns[newest] + self.away_ns
        begun = each.time_ns[dialogue.first]
        if self.heard >= 0:
            begun = each.time_ns[self.heard] + self.away_ns
        previous = dialogue.previous(self.at, self.by)
        if previous >= 0 and (each.length[previous] or each.flags[previous] & SYN):
            begun = max(begun, each.time_ns[previous])
        return begun

    def _newest(self) -> int:
        """The newest data that had reached its sender; -1 if none in the last seconds."""
        each, place = self.each, self.heard
        earliest_ns = each.time_ns[self.at] - LONGEST_NS
        while place >= self.dialogue.first:
            carries = each.length[place] or each.flags[place] & (SYN | FIN)
            if carries and each.direction[place] != self.by:
                return place
            place -= 1
            if each.time_ns[place] < earliest_ns:
                break
        return -1

    @property
    def is_at_once(self) -> bool:
        """Whether the distance explains the gap."""
        return self.late_ns < self.slack_ns

    @property
    def hides_losses(self) -> bool:
        """Whether the capture cannot show what its sender lost before it passed here."""
        return self.is_away and not self.dialogue.counts_ids[self.by]

    @property
    def episode(self) -> Episode | None:
        return self.dialogue.episode_at(self.at)

    @cached_property
    def rest(self) -> Reason:
        """What the part of a gap before data is that the distance explains."""
        each, at, heard = self.each, self.at, self.heard
        limit = self.dialogue.limit(at, self.by)
        if limit is why.PROGRAM_WINDOW:
            return limit
        if heard >= 0 and each.length[heard]:
            before = self.dialogue.previous(at, self.by)
            if before < heard or not each.length[before]:
                return turn(each.content[heard], each.content[at])
        if heard >= 0 and each.flags[heard] & SYN:
            return why.HANDSHAKE
        if limit in OUTER or heard < 0 or not self._held_by_nagle(at, heard, self.by):
            return limit
        return why.NAGLE

    def _held_by_nagle(self, at: int, ack: int, sender: int) -> bool:
        """Whether the small segment at that place had to wait for the ACK of an earlier small one
        (tcp_minshall_check)."""
        each = self.each
        small = each.length[at] % each.mss_bytes[at] != 0
        return bool(small and each.acked[sender][ack] < each.small[sender][ack] <= each.ack[ack])

    def next_data_of(self, sender: int) -> bool:
        """Whether the first data at or after it is of that side."""
        place = self.at if self.length else self.dialogue.next_carrying(self.at)
        return place is not None and self.each.direction[place] == sender

    # An ACK without data, which the other end waits for.

    @property
    def acked_bytes(self) -> int:
        return self.each.ack[self.at] - self.each.acked[self.other][self.at]

    @property
    def is_small(self) -> bool:
        """Whether it acknowledges less than two full segments."""
        return self.acked_bytes < 2 * self.each.mss_bytes[self.at]

    @property
    def room(self) -> int | None:
        """What the window left before it; None if its scale is unknown."""
        edge = self.each.edge[self.other][self.at]
        return edge - self.each.sent[self.other][self.at] if edge >= 0 else None

    @property
    def is_window_full(self) -> bool:
        full = self.each.mss_bytes[self.at]
        has_window = self.each.window[self.by][self.at] >= 0
        return has_window and self.room is not None and self.room < full

    @property
    def window_limit(self) -> Reason:
        window = self.each.window[self.by][self.at]
        if window < self.each.mss_bytes[self.at]:
            return why.SILLY_WINDOW
        lacks_scaling = self.dialogue.facts.lacks_scaling and window > LARGE_WINDOW
        return why.NO_SCALING if lacks_scaling else why.FULL_WINDOW

    @cached_property
    def limit(self) -> Reason:
        """What limits the other end, which sends the data."""
        return self.dialogue.limit(self.at, self.other)

    @cached_property
    def released(self) -> int | None:
        """The new data that the other end sent because of this ACK, if any."""
        each, at, sender = self.each, self.at, self.other
        place = self.dialogue.next_carrying(at)
        if place is None or each.direction[place] != sender:
            return None
        after_ns, away_ns = each.time_ns[place] - each.time_ns[at], self.far.far_ns[sender]
        if away_ns - SOON_NS // 5 <= after_ns <= away_ns + slack_ns(self.far, sender):
            return place if each.end[place] > each.sent[sender][at] else None
        return None

    @property
    def frees_small(self) -> bool:
        """Whether Nagle's algorithm held back the data that it released."""
        released = self.released
        return released is not None and self._held_by_nagle(released, self.at, self.other)

    # What the gap was.

    def awaited(self, reason: Reason) -> Wait:
        """The other end waited for the sender of this segment."""
        return Wait(reason, NAMES[self.other], NAMES[self.by])

    def waiting(self, reason: Reason) -> Wait:
        """The sender of this segment waited for the other end."""
        return Wait(reason, NAMES[self.by], NAMES[self.other])

    def waited(
        self, wait_ns: int, cause: Reason | Wait, rest: Reason, *, is_sure: bool = True
    ) -> Gap:
        """So much of the gap is a wait: that one, or one of the other end for that reason."""
        wait = self.awaited(cause) if isinstance(cause, Reason) else cause
        wait_ns = min(max(0, wait_ns), self.length_ns)
        return Gap(self.at, self.length_ns, wait, wait_ns, rest, is_sure=is_sure)

    def whole(self, cause: Reason | Wait, rest: Reason = why.ROUND_TRIP) -> Gap:
        """The same of all of the gap."""
        return self.waited(self.length_ns, cause, rest)

    def late(self, cause: Reason | Wait, rest: Reason = why.ROUND_TRIP) -> Gap:
        """The same of what exceeds the distance."""
        return self.waited(self.late_ns, cause, rest)

    def untold(self, doubt: Doubt, rest: Reason = why.ROUND_TRIP, *, is_whole: bool = False) -> Gap:
        """What exceeds the distance, or all of the gap, cannot be told."""
        wait = self.awaited(why.UNTOLD)
        gap = self.whole(Wait(why.UNTOLD), rest) if is_whole else self.late(wait, rest)
        return replace(gap, doubt=doubt)

    def passed(self, rest: Reason, wait: Wait | None = None) -> Gap:
        """The distance explains all of the gap; `wait` has its ends."""
        return Gap(self.at, self.length_ns, wait or Wait(rest), 0, rest)


def turn(asked: int, answer: int) -> Reason:
    """What kind of turn a message and the one before it are, by what they begin with."""
    contents = (asked, answer)
    if TLS_HANDSHAKE in contents:
        return why.TLS_TURN
    if HTTP_REQUEST in contents or HTTP_RESPONSE in contents:
        return why.HTTP_TURN
    return why.TURN


def slack_ns(far: Distance, by: int) -> int:
    return SOON_NS + int(JITTER * min(far.far_ns[by], 1 << 40))


def refusals(state: ConnectionState, sides: Sequence[Array]) -> list[int]:
    """The resets by which the server refuses the connection: each acknowledges a SYN (RFC 9293
    3.5.2), and the client had acknowledged nothing before."""
    client, server = sides
    flags, refuses = state.flags[client], (state.flags[server] & (RST | ACK)) == RST | ACK
    asked = client[(flags & SYN) != 0].min(initial=len(state))
    agreed = client[(flags & (SYN | RST | ACK)) == ACK].min(initial=len(state))
    refuses &= (state.ack[server] == 1) & (server > asked) & (server < agreed)
    resets: list[int] = server[refuses].tolist()
    return resets
