"""The receiving end of a flow with losses: segments beyond a gap, and selective acknowledgements.

Source: net/ipv4/tcp_input.c tcp_data_queue_ofo(), tcp_ofo_queue(), tcp_sack_new_ofo_skb(),
tcp_sack_maybe_coalesce(), tcp_sack_remove(), __tcp_ack_snd_check(); net/ipv4/tcp_timer.c
tcp_compressed_ack_kick(). Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from labs.read.theory.bulk_receiver import LEAST_GROWING_BYTES, Receiver

MOST_BLOCKS, SENT_BLOCKS, EXPECTED_BLOCKS = 4, 3, 2
"""The blocks that a receiver keeps, those that fit beside timestamps, and those that a compressed
ACK may report."""
DUPLICATES_AT_ONCE, MOST_COMPRESSED = 3, 44
"""So many duplicate ACKs are sent at once; then up to net.ipv4.tcp_comp_sack_nr are one."""
MOST_COMPRESSED_NS, SLACK_NS = 1_000_000, 100_000
"""net.ipv4.tcp_comp_sack_delay_ns and tcp_comp_sack_slack_ns."""
COMPRESSED_RTT_PCT = 5
WIDER_SINCE, WIDER_RTT_PCT = (6, 19), 33
"""net.ipv4.tcp_comp_sack_rtt_percent: commit 416dd649f3aa."""
LATER_SLACK_NS = 10_000


@dataclass(slots=True)
class Block:
    """The sequence numbers from the first to the one after the last."""

    begin: int
    end: int


class Acknowledging(Protocol):
    """What sends a receiver's ACKs."""

    def acknowledge(self, now_ns: int) -> None:
        """Send an ACK now."""


class GapReceiver(Receiver):
    """A receiver that keeps what arrives beyond a gap, and reports it in its ACKs. `reported` are
    the blocks of the last ACK."""

    waiting: deque[Block]
    blocks: deque[Block]
    reported: deque[Block]

    def __init__(self, kernel: str, network: Acknowledging, **of_receiver: Any) -> None:
        """The other arguments are those of a `Receiver`."""
        super().__init__(kernel, **of_receiver)
        self.network = network
        self.waiting, self.blocks, self.reported = deque(), deque(), deque()
        self.duplicate_begin = self.duplicate_end = 0
        self.counted_nxt = self.counted = self.compressed = 0
        self.compresses_until_ns = 0
        widens = self.series >= WIDER_SINCE
        self.rtt_pct = WIDER_RTT_PCT if widens else COMPRESSED_RTT_PCT
        self.slack_ns = LATER_SLACK_NS if widens else SLACK_NS

    def segment(
        self, now_ns: int, begin: int, length: int, segment: int, push: bool, echoed_ms: int
    ) -> bool:
        """Take a segment wherever it belongs, and return whether it is acknowledged at once."""
        if begin == self.nxt and not self.waiting:
            return self.arrives(now_ns, length, segment, push, echoed_ms)
        if echoed_ms != self.echoed_ms:
            self._echoed(now_ns, length, echoed_ms)
        if begin < self.nxt:
            self.duplicate_begin, self.duplicate_end = begin, begin + length
            return True
        if begin > self.nxt:
            self._beyond(now_ns, begin, length)
            forced = False
        else:
            self._queue(now_ns, length, segment, push)
            self._fill()
            forced = not self.waiting
        enough = self.nxt - self.wup > self.rcv_mss and self._select_window() >= self.wnd
        if forced or enough or self.quick:
            return True
        return self._compresses(now_ns)

    def _beyond(self, now_ns: int, begin: int, length: int) -> None:
        """Queue a segment beyond a gap."""
        end, waiting = begin + length, self.waiting
        at = self._place(begin, end)
        joins = at > 0 and waiting[at - 1].end == begin
        repeats = at < len(waiting) and waiting[at].begin == begin and waiting[at].end == end
        if repeats or (at > 0 and waiting[at - 1].end >= end):
            self.duplicate_begin, self.duplicate_end = begin, end
            return
        self.waiting_truesize += length if joins else length + self.overhead
        if self.clamp > self.ssthresh and length >= LEAST_GROWING_BYTES:
            self._grow_window(length)
        self.queued_truesize += length if joins else length + self.overhead
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

    def _compresses(self, now_ns: int) -> bool:
        """Whether a duplicate ACK leaves at once; otherwise it waits for those after it."""
        if self.compressed >= MOST_COMPRESSED:
            return True
        if self.counted_nxt != self.nxt:
            self.counted_nxt, self.counted = self.nxt, 0
        if self.counted < DUPLICATES_AT_ONCE:
            self.counted += 1
            return True
        self.compressed += 1
        if not self.compresses_until_ns:
            rtt_ns = (self.rtt_us8 >> 3) * 1000
            delay_ns = min(MOST_COMPRESSED_NS, rtt_ns * self.rtt_pct // 100)
            self.compresses_until_ns = now_ns + delay_ns
            self.delayed_until_ns = self.compresses_until_ns + self.slack_ns
        return False

    def compressed_is_due(self, now_ns: int) -> bool:
        """Whether the compressed ACK may leave: its timer may fire with another one."""
        return bool(self.compresses_until_ns) and now_ns >= self.compresses_until_ns

    def timer(self) -> None:
        """The timer of the delayed or of the compressed ACK fires."""
        if not self.compresses_until_ns:
            super().timer()

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

    def acknowledge(self) -> tuple[int, int]:
        """Send an ACK, which includes what was compressed."""
        self.compressed = self.compresses_until_ns = 0
        return super().acknowledge()


def _touch(block: Block, begin: int, end: int) -> bool:
    return block.begin <= end and begin <= block.end
