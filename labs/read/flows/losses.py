"""Episodes of loss: which retransmissions repair it, what made the sender retransmit, how it ends.

An episode begins with the first evidence of a loss and ends when everything is acknowledged that
had been sent by then. A retransmission that follows an ACK at once was made by that ACK; one that
follows nothing was made by a timer.
Source: RFC 5681 3.2, RFC 6298, RFC 8985 (RACK and the tail loss probe), RFC 2883 (DSACK).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import ACK, FIN, RST, SYN
from labs.read.flows.connection_state import Column, Columns, ConnectionState
from labs.read.flows.reasons import (
    DOUBLE_LOSS,
    FAST_RECOVERY,
    GAVE_UP,
    NAMES,
    SPURIOUS,
    TAIL_LOSS,
    TIMEOUT,
    Reason,
    Wait,
)
from labs.read.flows.rtt import SOON_NS, Distance

LEAST_TIMER_NS: Final = 180_000_000
REPORTS: Final = 3
"""Duplicate ACKs that start fast retransmission (RFC 5681 3.2)."""
PROBES: Final = bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE


@dataclass
class Episode:
    """A loss of `direction`'s data on the segments after place `first` up to place `last`.

    `places` are its retransmissions, `timers` those of them that a timer made.
    """

    direction: int
    first: int
    recover: int  # the highest sequence number sent when it began
    reason: Reason
    last: int = -1
    places: list[int] = field(default_factory=list)
    timers: list[int] = field(default_factory=list)
    by_ack: set[int] = field(default_factory=set)  # sequence numbers retransmitted by an ACK
    ended: bool = False

    @property
    def wait(self) -> Wait:
        """The other end waits for the sender."""
        return Wait(self.reason, NAMES[1 - self.direction], NAMES[self.direction])

    @property
    def in_vain(self) -> list[int]:
        """The retransmissions of what had arrived."""
        return self.places if self.reason is SPURIOUS else []


@dataclass(frozen=True, eq=False)
class _Heard:
    """What the other end reports about one end's data: the places of its ACKs, the numbers that
    these acknowledge and the highest so far, and the places of DSACKs; and of each segment the
    places of its retransmissions."""

    acks: Column
    numbers: Column
    highest: Column
    dsacks: Column
    copies: dict[int, list[int]]

    def first_of(self, number: int, begin: int, before: int) -> int | None:
        """The first ACK of that number between two places; None if there is none."""
        acks = self.acks
        least = bisect_left(acks, begin)
        for at in range(bisect_left(self.highest, number, least), len(acks)):
            if acks[at] >= before:
                return None
            if self.numbers[at] >= number:
                return acks[at]
        return None


def episodes(state: ConnectionState, far: Distance, first: int, last: int) -> list[Episode]:
    """The episodes of the connection on the places `first` to `last` - 1, in order."""
    losses: list[Episode] = []
    for direction in (0, 1):
        losses += _of_direction(state, far, first, last, direction)
    return sorted(losses, key=lambda episode: episode.first)


def _of_direction(
    state: ConnectionState, far: Distance, first: int, last: int, direction: int
) -> list[Episode]:
    here = slice(first, last)
    sent = state.direction[here] == direction
    carries = (state.length[here] > 0) | ((state.flags[here] & FIN) != 0)
    old = state.begin[here] < state.sent[direction][here]
    plain = (state.flags[here] & (SYN | RST)) == 0
    probe = (state.marks[here] & PROBES) != 0
    again = numpy.flatnonzero(sent & carries & old & plain & ~probe) + first
    if not len(again):
        return []
    acks = numpy.flatnonzero(~sent & ((state.flags[here] & ACK) != 0)) + first
    dsacks = numpy.flatnonzero(~sent & (state.repeats[here] >= 0)) + first
    numbers = state.ack[acks]
    copies: dict[int, list[int]] = {}
    if len(dsacks):
        for place, seq in zip(again.tolist(), state.begin[again].tolist(), strict=True):
            copies.setdefault(seq, []).append(place)
    highest = numpy.maximum.accumulate(numbers)
    heard = _Heard(acks.data, numbers.data, highest.data, dsacks.data, copies)
    each = state.each
    episodes: list[Episode] = []
    for at in again.tolist():
        if episodes and not episodes[-1].ended:
            _end(heard, episodes[-1], at)
        if not episodes or episodes[-1].ended:
            if _is_reordered(each, far, first, at):
                continue
            episodes.append(_begun(each, first, at))
        _add(each, far, first, episodes[-1], at)
    for episode in episodes:
        if not episode.ended:
            _end(heard, episode, last)
        _judge(state, heard, last, episode)
    return episodes


def _is_reordered(each: Columns[Column], far: Distance, first: int, at: int) -> bool:
    """Whether the segment was overtaken on its way: it fills a hole that is younger than the time
    in which an ACK could have made its sender retransmit it."""
    direction = each.direction[at]
    if far.far_ns[direction] < SOON_NS // 5:
        return False
    place = at - 1
    while place >= first and each.end[place] > each.begin[at]:
        if each.direction[place] == direction and each.begin[place] == each.begin[at]:
            return False  # sent before
        place -= 1
    opened = at
    for later in range(at - 1, max(first, at - 400) - 1, -1):
        if each.direction[later] == direction and each.begin[later] >= each.end[at]:
            opened = later
    return (
        opened < at
        and each.time_ns[at] - each.time_ns[opened] < 0.8 * far.far_ns[direction]
        and not any(
            each.direction[later] != direction and each.repeats[later] >= 0
            for later in range(opened, at)
        )
    )


def _begun(each: Columns[Column], first: int, at: int) -> Episode:
    """The episode that the retransmission at that place begins: from the first ACK that shows the
    hole, or from the segment before the retransmission."""
    direction = each.direction[at]
    start, place = at - 1, at - 1
    while place > first and each.acked[direction][place] >= each.begin[at] - 1:
        shows = each.marks[place] & bits.DUPLICATE_ACK or each.sacks[place]
        if each.direction[place] != direction and shows:
            if each.ack[place] > each.begin[at]:
                break
            start = place - 1
        elif each.direction[place] != direction and each.ack[place] > each.begin[at]:
            break
        place -= 1
        if at - place > 4000:
            break
    return Episode(direction, start, each.sent[direction][at], FAST_RECOVERY)


def _add(each: Columns[Column], far: Distance, first: int, episode: Episode, at: int) -> None:
    """Take a retransmission into its episode: was it made by an ACK, or by a timer?"""
    direction = episode.direction
    seq = each.begin[at]
    if is_by_timer(each, far, first, at):
        if not episode.timers and (
            seq in episode.by_ack or _was_reported(each, far, first, at, seq)
        ):
            episode.reason = DOUBLE_LOSS
        elif not episode.timers and episode.reason != DOUBLE_LOSS:
            episode.reason = TAIL_LOSS if _is_tail(each, first, at) else TIMEOUT
        elif episode.reason == TAIL_LOSS:
            episode.reason = TIMEOUT
        episode.timers.append(at)
    else:
        if seq in episode.by_ack and not episode.timers:
            episode.reason = DOUBLE_LOSS
        episode.by_ack.add(seq)
    episode.places.append(at)
    episode.recover = max(episode.recover, each.sent[direction][at])


def _was_reported(each: Columns[Column], far: Distance, first: int, at: int, seq: int) -> bool:
    """Whether ACKs had made the sender retransmit the segment before, by what they say, although
    the capture lacks that retransmission: it was lost before it passed here."""
    direction = each.direction[at]
    if far.far_ns[direction] < SOON_NS // 5:
        return False
    reports = 0
    for place in range(at - 1, max(first, at - 400) - 1, -1):
        if each.direction[place] == direction:
            continue
        if each.ack[place] > seq or each.ack[place] < seq - 1:
            break
        if each.sacks[place]:
            age = each.time_ns[at] - each.time_ns[place]
            reports += age > 2 * far.rtt_ns
    return reports >= REPORTS


def is_by_timer(each: Columns[Column], far: Distance, first: int, at: int) -> bool:
    """Whether the retransmission at that place follows nothing that its sender had just received.

    RACK waits for a quarter of the RTT, and after needless retransmissions for up to a whole one,
    before it takes a segment for lost (RFC 8985 6.2).
    """
    direction = each.direction[at]
    slack = SOON_NS + far.rtt_ns // 4
    patience = min(max(slack, 2 * SOON_NS + far.rtt_ns), LEAST_TIMER_NS)
    time = each.time_ns[at]
    for place in range(at - 1, first - 1, -1):
        age = time - each.time_ns[place]
        if age > far.far_ns[direction] + patience:
            return True
        if each.direction[place] == direction:
            # One of a row of retransmissions, or sent together with new data.
            if age < SOON_NS // 5 and each.length[place]:
                return False
            continue
        if age < far.far_ns[direction] - SOON_NS // 5:
            continue
        if age <= far.far_ns[direction] + slack:
            shows = each.marks[place] & bits.DUPLICATE_ACK or each.sacks[place]
            return not (shows or each.ack[place] > each.acked[direction][place])
        # Only RACK's timer can be that late after the ACK that reports the hole.
        return not each.sacks[place]
    return True


def _is_tail(each: Columns[Column], first: int, at: int) -> bool:
    """Whether the segment is the last one sent, all before it is acknowledged, and what came
    before it was sent together with it."""
    direction = each.direction[at]
    if each.end[at] < each.sent[direction][at]:
        return False
    if each.acked[direction][at] < each.begin[at] - 1:
        return False
    original = None
    for place in range(at - 1, first - 1, -1):
        if not each.length[place]:
            continue
        if each.direction[place] != direction:
            if original is None:
                return False  # a request: what came before was another response
            continue
        if original is None and each.begin[place] >= each.begin[at]:
            original = place
            continue
        if original is None:  # the capture lacks it: was there data just before this?
            return each.end[place] == each.begin[at]
        return each.time_ns[original] - each.time_ns[place] < SOON_NS
    return False


def _end(heard: _Heard, episode: Episode, before: int) -> None:
    """End the episode at the first ACK before that place of everything sent when it began."""
    start = episode.places[-1] if episode.places else episode.first
    place = heard.first_of(episode.recover, max(start, episode.first) + 1, before)
    episode.last, episode.ended = before - 1 if place is None else place, place is not None


def _judge(state: ConnectionState, heard: _Heard, last: int, episode: Episode) -> None:
    """Is it spurious, or did the sender give up?"""
    at = episode.places[0]
    direction = episode.direction
    each = state.each
    sent = Counter([each.begin[place] for place in episode.places])
    twice = _came_twice(each, heard, min(last, episode.last + 40), episode)
    # A hole that ACKs report is a loss, which the first retransmission repairs: only further ones
    # may be in vain. After a timer all may be, and ACKs that report it may be lost.
    needed = max([count - twice.get(seq, 0) for seq, count in sent.items()])
    in_vain = twice.keys() >= sent.keys() if episode.timers else needed <= 0
    if in_vain or each.marks[at] & bits.SPURIOUS_RETRANSMISSION:
        episode.reason = SPURIOUS
    elif episode.reason == DOUBLE_LOSS and not episode.timers and needed == 1:
        episode.reason = FAST_RECOVERY
    if not episode.ended and episode.timers and episode.reason in (TIMEOUT, TAIL_LOSS, DOUBLE_LOSS):
        is_answer = state.direction[at:last] != direction
        if len(episode.timers) > 2 and not is_answer.any():
            episode.reason = GAVE_UP
            episode.last = last - 1


def _came_twice(
    each: Columns[Column], heard: _Heard, before: int, episode: Episode
) -> dict[int, int]:
    """How often DSACKs before that place say of each segment of an episode that it came twice. Each
    DSACK is assigned to the latest retransmission before it."""
    twice: dict[int, int] = {}
    first = bisect_left(heard.dsacks, episode.places[0] + 1)
    last = bisect_left(heard.dsacks, before)
    places = set(episode.places) if last > first else set()
    for place in heard.dsacks[first:last]:
        seq = each.repeats[place]
        copies = heard.copies.get(seq, [])
        latest = bisect_left(copies, place) - 1
        if latest >= 0 and copies[latest] in places:
            twice[seq] = twice.get(seq, 0) + 1
    return twice
