"""The receiving end of a flow with losses: segments beyond a gap, and selective acknowledgements.

Source: net/ipv4/tcp_input.c tcp_data_queue_ofo(), tcp_ofo_queue(), tcp_sack_new_ofo_skb(),
tcp_sack_maybe_coalesce(), tcp_sack_remove(), __tcp_ack_snd_check(); net/ipv4/tcp_timer.c
tcp_compressed_ack_kick(). Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

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

Block = tuple[int, int]
"""The sequence numbers from the first to the one after the last."""


class GapReceiver(Receiver):
    """A receiver that keeps what arrives beyond a gap, and reports it in its ACKs."""

    def __init__(self, kernel: str, send: Callable[[int], None], **of_receiver: Any) -> None:
        """`send(now_ns)` sends an ACK; the other arguments are those of a `Receiver`."""
        super().__init__(kernel, **of_receiver)
        self.send = send
        self.waiting: list[Block] = []
        self.blocks: list[Block] = []
        self.duplicate: tuple[Block, ...] = ()
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
            self.duplicate = ((begin, begin + length),)
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
        end = begin + length
        at = bisect_left(self.waiting, (begin, end))
        before = self.waiting[at - 1] if at else (0, 0)
        after = self.waiting[at] if at < len(self.waiting) else (0, 0)
        if before[1] >= end or after == (begin, end):
            self.duplicate = ((begin, end),)
            return
        joins = before[1] == begin
        self.waiting_truesize += length if joins else length + self.overhead
        if self.clamp > self.ssthresh and length >= LEAST_GROWING_BYTES:
            self._grow_window(length)
        self.queued_truesize += length if joins else length + self.overhead
        first, last = (before[0] if joins else begin), (after[1] if after[0] == end else end)
        self.waiting[at - joins : at + (after[0] == end)] = [(first, last)]
        self._report(now_ns, (begin, end))

    def _report(self, now_ns: int, new: Block) -> None:
        """Put the block of a new segment first. A third block is preceded by the ACK that waits."""
        place = next((n for n, one in enumerate(self.blocks) if _touch(one, new)), None)
        if (len(self.blocks) if place is None else place) >= EXPECTED_BLOCKS and self.compressed:
            self.send(now_ns)
        if place is not None:
            old = self.blocks.pop(place)
            new = (min(old[0], new[0]), max(old[1], new[1]))
            for other in [one for one in self.blocks if _touch(one, new)]:
                self.blocks.remove(other)
                new = (min(other[0], new[0]), max(other[1], new[1]))
        self.blocks = [new, *self.blocks[: MOST_BLOCKS - 1]]

    def _fill(self) -> None:
        """The gap before these segments is closed."""
        while self.waiting and self.waiting[0][0] <= self.nxt:
            self.nxt = max(self.nxt, self.waiting.pop(0)[1])
        if not self.waiting:
            self.waiting_truesize = 0
            self.blocks = []
        else:
            held = sum(end - begin for begin, end in self.waiting)
            self.waiting_truesize = held + len(self.waiting) * self.overhead
            self.blocks = [one for one in self.blocks if one[0] > self.nxt]

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

    def acknowledged_blocks(self) -> tuple[Block, ...]:
        """The blocks of the next ACK, a duplicate first."""
        found = (*self.duplicate, *self.blocks)[:SENT_BLOCKS]
        self.duplicate = ()
        return found

    def acknowledge(self) -> tuple[int, int]:
        """Send an ACK, which includes what was compressed."""
        self.compressed = self.compresses_until_ns = 0
        return super().acknowledge()


def _touch(one: Block, other: Block) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
