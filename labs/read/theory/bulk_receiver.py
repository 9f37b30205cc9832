"""The receiving end of a bulk flow whose program reads at once: what it keeps and reports.

Packets that wait to be read are coalesced, so only the first one's overhead counts. What arrives
beyond a gap waits, and is reported in selective acknowledgements.
Source: net/ipv4/tcp_input.c tcp_data_queue_ofo(), tcp_ofo_queue(), tcp_sack_new_ofo_skb(),
tcp_sack_maybe_coalesce(), tcp_sack_remove(), tcp_rcv_rtt_measure_ts(). Times are in nanoseconds,
sizes in bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from labs.read.theory.receiver import LEAST_GROWING_BYTES, MILLISECOND, Receiver, Setup
from labs.read.theory.windows import segment_overhead_bytes

MOST_BLOCKS, SENT_BLOCKS, EXPECTED_BLOCKS = 4, 3, 2
"""The blocks that a receiver keeps, those that fit beside timestamps, and those that a compressed
ACK may report."""


@dataclass(slots=True)
class Block:
    """The sequence numbers from the first to the one after the last."""

    begin: int
    end: int


class Acknowledging(Protocol):
    """What sends a receiver's ACKs."""

    def acknowledge(self, now_ns: int) -> None:
        """Send an ACK now."""


class BulkReceiver(Receiver):
    """A receiver that coalesces what arrives. `waiting` is what arrived beyond a gap, and
    `reported` are the blocks of the last ACK."""

    waiting: deque[Block]
    blocks: deque[Block]
    reported: deque[Block]

    def __init__(self, setup: Setup, network: Acknowledging, *, now_ns: int) -> None:
        super().__init__(setup, now_ns=now_ns)
        self.network = network
        self.overhead = segment_overhead_bytes(setup.kernel)
        self.echoed_ms = now_ns // MILLISECOND
        self.waiting, self.blocks, self.reported = deque(), deque(), deque()
        self.waiting_truesize = self.duplicate_begin = self.duplicate_end = 0

    def segment(
        self, now_ns: int, begin: int, length: int, segment: int, push: bool, echoed_ms: int
    ) -> bool:
        """Take a packet wherever it belongs, and return whether it is acknowledged at once."""
        if echoed_ms != self.echoed_ms:
            self._echoed(now_ns, length, echoed_ms)
        if begin == self.nxt and not self.waiting:
            self._queue(now_ns, length, segment, push)
            return self.acknowledges(now_ns, missing=False)
        self.ack_due = True
        if begin < self.nxt:
            self.duplicate_begin, self.duplicate_end = begin, begin + length
            return True
        if begin > self.nxt:
            self._beyond(now_ns, begin, length)
        else:
            self._queue(now_ns, length, segment, push)
            self._fill()
            self.ack_now = not self.waiting
        return self.acknowledges(now_ns, missing=True)

    def _echoed(self, now_ns: int, length: int, echoed_ms: int) -> None:
        """A packet repeats the timestamp of an ACK for the first time: a sample of the RTT."""
        self.echoed_ms = echoed_ms
        if length >= self.rcv_mss:
            self.rtt_sample((now_ns // MILLISECOND - echoed_ms) * 1000)

    def _queue(self, now_ns: int, length: int, segment: int, push: bool) -> None:
        self.rmem += length if self.nxt > self.copied else length + self.overhead
        self.nxt += length
        self.received(now_ns, min(segment, length), length, length + self.overhead, push)

    def reads(self, now_ns: int, read_bytes: int) -> bool:
        """Read up to `read_bytes`, and return whether that is acknowledged at once. A packet
        occupies its memory until its last byte is read."""
        before = self.copied
        self.copied = min(self.copied + read_bytes, self.nxt)
        if self.copied == self.nxt:
            self.rmem = self.waiting_truesize
        self.adjust_space(now_ns)
        return self.cleanup(self.copied - before)

    # Beyond a gap.

    def _beyond(self, now_ns: int, begin: int, length: int) -> None:
        """Queue a segment beyond a gap."""
        end, waiting = begin + length, self.waiting
        at = self._place(begin, end)
        joins = at > 0 and waiting[at - 1].end == begin
        repeats = at < len(waiting) and waiting[at].begin == begin and waiting[at].end == end
        if repeats or (at > 0 and waiting[at - 1].end >= end):
            self.duplicate_begin, self.duplicate_end = begin, end
            return
        truesize = length if joins else length + self.overhead
        self.waiting_truesize += truesize
        if length >= LEAST_GROWING_BYTES:
            self.grow_window(length)
        self.rmem += truesize
        meets = at < len(waiting) and waiting[at].begin == end
        if joins and meets:
            waiting[at - 1].end = waiting[at].end
            del waiting[at]
        elif joins:
            waiting[at - 1].end = end
        elif meets:
            waiting[at].begin = begin
        else:
            waiting.insert(at, Block(begin, end))
        self._report(now_ns, begin, end)

    def _place(self, begin: int, end: int) -> int:
        """How many of the blocks that wait are before this one."""
        waiting = self.waiting
        low, high = 0, len(waiting)
        while low < high:
            middle = (low + high) // 2
            if (waiting[middle].begin, waiting[middle].end) < (begin, end):
                low = middle + 1
            else:
                high = middle
        return low

    def _report(self, now_ns: int, begin: int, end: int) -> None:
        """Put the block of a new segment first. A third block is preceded by the ACK that waits."""
        blocks, place = self.blocks, 0
        while place < len(blocks) and not _touch(blocks[place], begin, end):
            place += 1
        if place >= EXPECTED_BLOCKS and self.compressed:
            self.network.acknowledge(now_ns)
        if place < len(blocks):
            begin, end = min(blocks[place].begin, begin), max(blocks[place].end, end)
            del blocks[place]
            first, last, place = begin, end, 0
            while place < len(blocks):
                if _touch(blocks[place], first, last):
                    begin, end = min(blocks[place].begin, begin), max(blocks[place].end, end)
                    del blocks[place]
                else:
                    place += 1
        if len(blocks) == MOST_BLOCKS:
            blocks.pop()
        blocks.appendleft(Block(begin, end))

    def _fill(self) -> None:
        """The gap before these segments is closed."""
        waiting, blocks = self.waiting, self.blocks
        while waiting and waiting[0].begin <= self.nxt:
            self.nxt = max(self.nxt, waiting[0].end)
            waiting.popleft()
        self.waiting_truesize = 0
        for segment in waiting:
            self.waiting_truesize += segment.end - segment.begin + self.overhead
        if not waiting:
            blocks.clear()
        place = 0
        while place < len(blocks):
            if blocks[place].begin > self.nxt:
                place += 1
            else:
                del blocks[place]

    def report(self) -> None:
        """The blocks of the next ACK, a duplicate first."""
        reported = self.reported
        reported.clear()
        if self.duplicate_end:
            reported.append(Block(self.duplicate_begin, self.duplicate_end))
            self.duplicate_end = 0
        for block in self.blocks:
            if len(reported) < SENT_BLOCKS:
                reported.append(Block(block.begin, block.end))


def _touch(block: Block, begin: int, end: int) -> bool:
    return block.begin <= end and begin <= block.end
