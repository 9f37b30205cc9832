"""Losses on the path, and packets that the capture lacks.

An episode of loss is what retransmissions repair it, what made the sender retransmit, and how it
ends. It begins with the first evidence of a loss and ends when everything is acknowledged that
had been sent by then. A retransmission that follows an ACK at once was made by that ACK; one that
follows nothing was made by a timer.
Source: RFC 5681 3.2, RFC 6298, RFC 8985 (RACK and the tail loss probe), RFC 2883 (DSACK).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import ACK, FIN, RST, SYN
from labs.read.flows import reasons as why
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.reasons import NAMES, Reason, Wait
from labs.read.flows.rtt import SOON_NS, Distance

LEAST_TIMER_NS: Final = 180_000_000
REPORTS: Final = 3
"""Duplicate ACKs that start fast retransmission (RFC 5681 3.2)."""
MISSING: Final = bits.LOST_SEGMENT | bits.ACK_LOST_SEGMENT
MOST_LOST: Final = 64
"""Packets between two that both were captured."""
PROBES: Final = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE
NEAR: Final = 400
"""How many segments back a reordered segment or a report of a loss is looked for."""
FAR: Final = 4000
SOON_AFTER: Final = 40
"""Segments after an episode in which its DSACKs come."""


@dataclass
class Episode:
    """A loss of `direction`'s data on the segments after place `first` up to place `last`.

    `places` are its retransmissions, `timers` those of them that a timer made.
    """

    direction: int
    first: int
    recover: int  # the highest sequence number sent when it began
    reason: Reason = why.FAST_RECOVERY
    last: int = -1
    places: list[int] = field(default_factory=list)
    timers: list[int] = field(default_factory=list)
    by_ack: set[int] = field(default_factory=set)  # sequence numbers retransmitted by an ACK
    ended: bool = False
    detail: str = ""
    is_sure: bool = True

    @property
    def wait(self) -> Wait:
        """The other end waits for the sender."""
        return Wait(self.reason, NAMES[1 - self.direction], NAMES[self.direction])

    @property
    def in_vain(self) -> list[int]:
        """The retransmissions of what had arrived."""
        return self.places if self.reason is why.SPURIOUS else []


def episodes(
    state: ConnectionState, far: Distance, sides: Sequence[Array], last: int
) -> tuple[list[Episode], list[int]]:
    """The episodes of a connection, in order, and the segments that were overtaken on their way.
    `sides` are the places of the segments of each end, `last` is the place after all."""
    both = [_Sender(state, far, sides, last, direction) for direction in (0, 1)]
    every = [episode for sender in both for episode in sender.episodes()]
    overtaken = sorted(place for sender in both for place in sender.overtaken)
    return sorted(every, key=lambda episode: episode.first), overtaken


class _Sender:
    """One end of a connection, its retransmissions, and what the other end reports about them."""

    def __init__(
        self,
        state: ConnectionState,
        far: Distance,
        sides: Sequence[Array],
        last: int,
        direction: int,
    ) -> None:
        sent, heard = sides[direction], sides[1 - direction]
        self.each, self.first, self.last = state.each, int(min(sent[0], heard[0])), last
        self.direction, self.rtt_ns, self.away_ns = direction, far.rtt_ns, far.far_ns[direction]
        flags = state.flags[sent]
        repeats = state.begin[sent] < state.sent[direction, sent]
        repeats &= (state.length[sent] > 0) | ((flags & FIN) != 0)
        repeats &= ((flags & (SYN | RST)) == 0) & ((state.marks[sent] & PROBES) == 0)
        self.again = sent[repeats].tolist()
        acks = heard[(state.flags[heard] & ACK) != 0]
        self.acks, self.acked = acks.data, state.ack[acks].data
        self.highest = numpy.maximum.accumulate(state.ack[acks]).data
        self.dsacks = heard[state.repeats[heard] >= 0].tolist()
        self.last_heard = int(heard[-1])
        self.overtaken: list[int] = []
        self.reneged = _reneged(state, acks)

    def episodes(self) -> list[Episode]:
        episodes: list[Episode] = []
        for at in self.again:
            if episodes and not episodes[-1].ended:
                self._end(episodes[-1], at)
            if not episodes or episodes[-1].ended:
                if self._is_reordered(at):
                    self.overtaken.append(at)
                    continue
                recover = self.each.sent[self.direction][at]
                episodes.append(Episode(self.direction, self._beginning(at), recover))
            self._add(episodes[-1], at)
        for episode in episodes:
            if not episode.ended:
                self._end(episode, self.last)
            self._judge(episode)
        return episodes

    def _before(self, at: int, most: int | None = None) -> Iterator[tuple[int, bool, int]]:
        """The segments before that one, at most so many, the latest first: the place, whether this
        end sent it, and how long before."""
        each, least = self.each, self.first if most is None else max(self.first, at - most)
        for place in range(at - 1, least - 1, -1):
            is_sent = each.direction[place] == self.direction
            yield place, is_sent, each.time_ns[at] - each.time_ns[place]

    def _is_reordered(self, at: int) -> bool:
        """Whether the segment was overtaken on its way: it fills a hole that is younger than the
        time in which an ACK could have made its sender retransmit it."""
        each = self.each
        if self.away_ns < SOON_NS // 5:
            return False
        for place, is_sent, _ in self._before(at):
            if each.end[place] <= each.begin[at]:
                break
            if is_sent and each.begin[place] == each.begin[at]:
                return False  # sent before
        overtook = [
            (place, age)
            for place, is_sent, age in self._before(at, NEAR)
            if is_sent and each.begin[place] >= each.end[at]
        ]
        if not overtook or overtook[-1][1] >= 0.8 * self.away_ns:
            return False
        return bisect_left(self.dsacks, overtook[-1][0]) == bisect_left(self.dsacks, at)

    def _shows_hole(self, place: int) -> bool:
        return bool(self.each.marks[place] & bits.DUPLICATE_ACK or self.each.sacks[place])

    def _beginning(self, at: int) -> int:
        """The segment after which an episode begins: before the first ACK that shows the hole, or
        the one before the retransmission."""
        each, start = self.each, at - 1
        acked, begin = each.acked[self.direction], each.begin[at]
        for place, is_sent, _ in self._before(at, FAR):
            if acked[place] < begin - 1 or (not is_sent and each.ack[place] > begin):
                break
            if not is_sent and self._shows_hole(place):
                start = place - 1
        return start

    def _add(self, episode: Episode, at: int) -> None:
        """Take a retransmission into its episode: was it made by an ACK, or by a timer?"""
        seq = self.each.begin[at]
        by_timer = self._is_by_timer(at)
        if not episode.timers:
            is_again = seq in episode.by_ack or (by_timer and self._was_reported(at))
            if is_again:
                episode.reason = why.DOUBLE_LOSS
            elif by_timer and episode.reason is not why.DOUBLE_LOSS:
                is_tail = self._is_tail(at) or self._is_probe(at)
                episode.reason = why.TAIL_LOSS if is_tail else why.TIMEOUT
        elif by_timer and episode.reason is why.TAIL_LOSS:
            episode.reason = why.TIMEOUT
        if by_timer:
            episode.timers.append(at)
        else:
            episode.by_ack.add(seq)
        episode.places.append(at)
        episode.recover = max(episode.recover, self.each.sent[self.direction][at])

    def _was_reported(self, at: int) -> bool:
        """Whether ACKs had made the sender retransmit the segment before, by what they say,
        although the capture lacks that retransmission: it was lost before it passed here."""
        each, seq, reports = self.each, self.each.begin[at], 0
        if self.away_ns < SOON_NS // 5:
            return False
        for place, is_sent, age in self._before(at, NEAR):
            if not is_sent:
                if not seq - 1 <= each.ack[place] <= seq:
                    break
                reports += bool(each.sacks[place]) and age > 2 * self.rtt_ns
        return reports >= REPORTS

    def _is_by_timer(self, at: int) -> bool:
        """Whether the retransmission follows nothing that its sender had just received.

        RACK waits for a quarter of the RTT, and after needless retransmissions for up to a whole
        one, before it takes a segment for lost (RFC 8985 6.2).
        """
        each = self.each
        slack = SOON_NS + self.rtt_ns // 4
        since = self._transmitted(at)
        is_soon = since >= 0 and each.time_ns[at] - each.time_ns[since] < LEAST_TIMER_NS
        patience = min(max(slack, 2 * SOON_NS + self.rtt_ns), LEAST_TIMER_NS)
        for place, is_sent, age in self._before(at):
            if age > self.away_ns + (LEAST_TIMER_NS if is_soon else patience):
                return True
            if is_sent:
                # One of a row of retransmissions, or sent together with new data.
                if age < SOON_NS // 5 and each.length[place]:
                    return False
            elif (
                is_soon and each.sacks[place] and each.end[at] < self.each.sent[self.direction][at]
            ):
                return False  # sooner than any timer of Linux: the SACK made its sender repeat it
            elif age > self.away_ns + slack:
                # Only RACK's timer can be that late after the ACK that reports the hole.
                return not each.sacks[place]
            elif age >= self.away_ns - SOON_NS // 5:
                advances = each.ack[place] > each.acked[self.direction][place]
                return not (advances or self._shows_hole(place))
        return True

    def _transmitted(self, at: int) -> int:
        """The transmission of that segment before; -1 if the capture lacks it."""
        each = self.each
        for place, is_sent, _ in self._before(at, NEAR):
            if is_sent and each.begin[place] <= each.begin[at] < each.end[place]:
                return place
        return -1

    def _is_probe(self, at: int) -> bool:
        """Whether it repeats the last that was sent sooner than a timer: a loss probe."""
        each, since = self.each, self._transmitted(at)
        is_last = each.end[at] >= each.sent[self.direction][at]
        return is_last and since >= 0 and each.time_ns[at] - each.time_ns[since] < LEAST_TIMER_NS

    def _is_tail(self, at: int) -> bool:
        """Whether the segment is the last one sent, all before it is acknowledged, and what came
        before it was sent together with it."""
        each, original = self.each, None
        if each.end[at] < each.sent[self.direction][at]:
            return False
        if each.acked[self.direction][at] < each.begin[at] - 1:
            return False
        for place, is_sent, _ in self._before(at):
            if not each.length[place]:
                continue
            if not is_sent:
                if original is None:
                    return False  # a request: what came before was another response
            elif original is not None:
                return each.time_ns[original] - each.time_ns[place] < SOON_NS
            elif each.begin[place] >= each.begin[at]:
                original = place
            else:  # the capture lacks it: was there data just before this?
                return each.end[place] == each.begin[at]
        return False

    def _end(self, episode: Episode, before: int) -> None:
        """End the episode at the first ACK before that place of everything sent when it began."""
        least = bisect_left(self.acks, max([*episode.places[-1:], episode.first]) + 1)
        number = bisect_left(self.highest, episode.recover, least)
        until = bisect_left(self.acks, before)
        while number < until and self.acked[number] < episode.recover:
            number += 1
        episode.ended = number < until
        episode.last = self.acks[number] if episode.ended else before - 1

    def _judge(self, episode: Episode) -> None:
        """Is it spurious, or did the sender give up?"""
        each, at = self.each, episode.places[0]
        sent = Counter(each.begin[place] for place in episode.places)
        twice = self._came_twice(episode)
        # A hole that ACKs report is a loss, which the first retransmission repairs: only further
        # ones may be in vain. After a timer all may be, and ACKs that report it may be lost.
        needed = max(count - twice.get(seq, 0) for seq, count in sent.items())
        in_vain = twice.keys() >= sent.keys() if episode.timers else needed <= 0
        if in_vain or each.marks[at] & bits.SPURIOUS_RETRANSMISSION:
            episode.reason = why.DELAY_SPIKE if self._was_delayed(episode) else why.SPURIOUS
        elif any(episode.first < place <= episode.last for place in self.reneged):
            episode.reason = why.RENEGED
        elif episode.reason is why.DOUBLE_LOSS and not episode.timers and needed == 1:
            episode.reason = why.FAST_RECOVERY
        is_loss = episode.reason in (why.TIMEOUT, why.TAIL_LOSS, why.DOUBLE_LOSS)
        if is_loss and not episode.ended and len(episode.timers) > 2 and self.last_heard < at:
            episode.reason = why.GAVE_UP
            episode.last = self.last - 1

    def _was_delayed(self, episode: Episode) -> bool:
        """Whether ACKs of the originals came after a timer had expired: they cover a part of what
        was in flight, which no retransmission of all that had arrived leads to (RFC 5682)."""
        if not episode.timers:
            return False
        number = bisect_left(self.acks, episode.timers[0])
        before = self.each.acked[self.direction][episode.timers[0]]
        while number < len(self.acks) and self.acked[number] <= before:
            number += 1
        return number < len(self.acks) and self.acked[number] < episode.recover

    def _came_twice(self, episode: Episode) -> dict[int, int]:
        """How often DSACKs say of each segment of an episode that it came twice. Each DSACK is
        assigned to the latest retransmission before it."""
        twice: dict[int, int] = {}
        first = bisect_left(self.dsacks, episode.places[0] + 1)
        last = bisect_left(self.dsacks, min(self.last, episode.last + SOON_AFTER))
        if first == last:
            return twice
        places = set(episode.places)
        for place in self.dsacks[first:last]:
            seq = self.each.repeats[place]
            copies = self._copies.get(seq, [])
            latest = bisect_left(copies, place) - 1
            if latest >= 0 and copies[latest] in places:
                twice[seq] = twice.get(seq, 0) + 1
        return twice

    @cached_property
    def _copies(self) -> dict[int, list[int]]:
        """The places of all retransmissions by sequence number."""
        copies: dict[int, list[int]] = {}
        for place in self.again:
            copies.setdefault(self.each.begin[place], []).append(place)
        return copies


def holes(
    state: ConnectionState, first: int, last: int, sides: tuple[Array, ...], lost_of: int
) -> tuple[Array, int]:
    """For each segment whether packets that the capture lacks may have ended the gap before it, and
    how often packets are missing. `sides` are the places of the segments of each end.

    A hole in a side's sequence numbers that a later segment fills is a loss upstream of the capture
    point, not a hole in the capture.
    """
    beside_hole, count, each = numpy.zeros(last - first, dtype=bool), 0, state.each
    marked = (numpy.flatnonzero(state.marks[first:last] & MISSING) + first).tolist()
    fillers = [_fillers(state, side, places) for side, places in enumerate(sides) if marked]
    longest = int((state.end[first:last] - state.begin[first:last]).max())
    reached = [int(state.ack[sides[1 - side]].max(initial=-1)) for side in (0, 1)]
    # What `lost_of` sent never came, as SACK shows until the end: no hole of the capture.
    for at in marked:
        side = each.direction[at]
        if each.marks[at] & bits.ACK_LOST_SEGMENT:
            side = 1 - side
        else:
            number = each.sent[side][at]
            if side == lost_of and reached[side] <= number:
                continue
            low, high = (
                bisect_left(fillers[side], (edge,)) for edge in (number - longest, number + 1)
            )
            if any(place >= at and end > number for _, end, place in fillers[side][low:high]):
                continue
        before = bisect_left(sides[side].data, at) - 1
        since = int(sides[side][before]) if before >= 0 else first
        beside_hole[since + 1 - first : at + 1 - first] = True
        count += 1
    return beside_hole, count


def _reneged(state: ConnectionState, acks: Array) -> list[int]:
    """The ACKs that no longer cover what an earlier one acknowledged selectively (RFC 2018 8)."""
    left, right, ack = state.sack_left[acks], state.sack_right[acks], state.ack[acks]
    places, low, high = [], 0, 0
    for place, begin, end, reach in zip(
        acks.tolist(), left.tolist(), right.tolist(), ack.tolist(), strict=True
    ):
        if low <= reach < high and begin < 0:
            places.append(place)
        if begin >= 0:
            low, high = begin, end
        elif reach >= high:
            low = high = 0
    return places


def _fillers(state: ConnectionState, side: int, places: Array) -> list[tuple[int, int, int]]:
    """The segments of one side that can fill a hole, as begin, end and place, in order: data, or a
    FIN, that begins below the highest number sent."""
    begin, end = state.begin[places], state.end[places]
    chosen = (begin < state.sent[side, places]) & (end > begin)
    columns = (begin[chosen].tolist(), end[chosen].tolist(), places[chosen].tolist())
    return sorted(zip(*columns, strict=True))


def counts_ids(state: ConnectionState, places: Array) -> bool:
    """Whether a side counts its packets in their identification, as Linux does per connection: at
    least half of the numbers follow the previous one directly, and at least 90 % skip fewer than
    MOST_LOST packets."""
    plain = places[(state.flags[places] & SYN) == 0]
    if len(plain) < 3 or state.ip_id[plain[0]] < 0:
        return False
    packets = numpy.maximum(1, -(-state.length[plain] // state.mss_bytes[plain]))[:-1]
    steps = (numpy.diff(state.ip_id[plain]) - packets) & 0xFFFF
    return bool((steps == 0).mean() >= 0.5 and (steps < MOST_LOST).mean() >= 0.9)
