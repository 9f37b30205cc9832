"""What a sender knows of its packets: acknowledged, reported by a selective ACK, lost, sent again.

Source: net/ipv4/tcp_input.c tcp_sacktag_write_queue(), tcp_clean_rtx_queue(), tcp_shift_skb_data();
net/ipv4/tcp_output.c tcp_fragment(); net/ipv4/tcp_recovery.c. Times are in nanoseconds, sizes in
bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from labs.read.theory.bulk_link import NEVER_NS, Sent
from labs.read.theory.bulk_receiver import Block
from labs.read.theory.bulk_sender import TICK_NS, Sender, ticks

SACKED, RESENT, LOST, EVER_RESENT = 1, 2, 4, 8
"""States of a packet, as in include/net/tcp.h: a lost packet that was sent again is RESENT too."""
OPEN, DISORDER, REDUCED, RECOVERY, LOSS = range(5)
"""States of the sender: TCP_CA_Open, _Disorder, _CWR, _Recovery, _Loss."""
REORDERING = 3
"""net.ipv4.tcp_reordering."""


@dataclass(slots=True)
class Ack:
    """What one ACK changed: tcp_ack() keeps most of this in its flags."""

    una: int
    advanced: bool
    delivered: int
    lost: int
    in_flight: int
    sacked: bool = False
    originals: bool = False
    resent: bool = False
    lost_again: bool = False
    acked: int = 0
    first_sacked_ns: int = -1
    last_sacked_ns: int = -1
    first_acked_ns: int = -1
    last_acked_ns: int = -1
    newest_ns: int = 0
    sets_timer: bool = False
    sends_new: bool = False
    resends: bool = False


class Scoreboard(Sender):
    """A sender that finds its losses by selective ACKs and by time (RACK). `repeats` are the
    packets that were sent again, in that order, `seen` the blocks of the last ACK that had any."""

    repeats: deque[Sent]
    seen: deque[Block]

    def __init__(self, kernel: str, **of_sender: Any) -> None:
        self.state, self.high_seq, self.lost_ever = OPEN, 0, 0
        self.sacked_out = self.lost_out = self.resent_out = self.delivered = 0
        self.repeats, self.seen = deque(), deque()
        self.scan_from = self.resend_from = 0
        self.rack_ns = self.rack_end = self.rack_rtt_ns = 0
        self.rack_advanced = self.reordered = False
        self.highest_sacked = 0
        super().__init__(kernel, **of_sender)
        self.rto_ns = self._rto_ns()

    def _rto_ns(self) -> int:
        return ticks((self.srtt_us8 >> 3) + self.rttvar_us) * TICK_NS

    def _tag(self, now_ns: int, blocks: deque[Block], change: Ack) -> None:
        """Mark what the blocks of an ACK report for the first time, the lowest block first."""
        after_begin = after_end = -1
        while True:
            begin = end = NEVER_NS
            for block in blocks:
                follows = (block.begin, block.end) > (after_begin, after_end)
                if follows and block.end > self.una and (block.begin, block.end) < (begin, end):
                    begin, end = block.begin, block.end
            if begin == NEVER_NS:
                break
            seen_end, is_new = begin, True
            for earlier in self.seen:
                if earlier.begin == begin and earlier.end < end:
                    seen_end = max(seen_end, earlier.end)
                is_new &= not (earlier.begin == begin and earlier.end == end)
            if is_new:
                self._tag_block(now_ns, seen_end, end, change)
            after_begin, after_end = begin, end
        if blocks:
            self.seen.clear()
            for block in blocks:
                self.seen.append(Block(block.begin, block.end))

    def _place(self, sequence: int) -> int:
        """How many packets in flight end at or before a sequence number."""
        flight = self.flight
        low, high = 0, len(flight)
        while low < high:
            middle = (low + high) // 2
            if flight[middle].end <= sequence:
                low = middle + 1
            else:
                high = middle
        return low

    def _tag_block(self, now_ns: int, begin: int, end: int, change: Ack) -> None:
        flight = self.flight
        at = self._place(begin)
        while at < len(flight):
            packet = flight[at]
            first = packet.end - packet.length
            if first >= end:
                break
            if not packet.state & SACKED:
                if first < begin:
                    self._split(at, begin - first)
                    at += 1
                    packet = flight[at]
                if packet.end > end:
                    self._split(at, end - packet.end + packet.length)
                self._sacked(now_ns, packet, change)
                if at and flight[at - 1].state & SACKED:
                    # tcp_shift_skb_data() joins them.
                    before = flight[at - 1]
                    before.end, before.segments = packet.end, before.segments + packet.segments
                    before.length += packet.length
                    self.queued -= self.overhead
                    del flight[at]
                    continue
            at += 1

    def _split(self, at: int, length: int) -> None:
        """tcp_fragment(): the packet at this place keeps the first bytes."""
        packet = self.flight[at]
        segments = -(-length // self.mss)
        rest = Sent(packet.end, packet.length - length, packet.segments - segments, packet.sent_ns)
        rest.state = packet.state
        packet.end -= rest.length
        packet.length, packet.segments = length, segments
        self.flight.insert(at + 1, rest)
        self.queued += self.overhead
        if rest.state & EVER_RESENT and packet in self.repeats:
            self.repeats.insert(self.repeats.index(packet) + 1, rest)

    def _sacked(self, now_ns: int, packet: Sent, change: Ack) -> None:
        segments, state = packet.segments, packet.state
        self._advance(now_ns, packet)
        if state & RESENT:
            if state & LOST:
                self.lost_out -= segments
                self.resent_out -= segments
                packet.state &= ~(LOST | RESENT)
        else:
            if not state & EVER_RESENT:
                if packet.end <= self.highest_sacked:
                    self.reordered = True
                change.originals |= packet.end <= self.high_seq
                if change.first_sacked_ns < 0:
                    change.first_sacked_ns = packet.sent_ns
                change.last_sacked_ns = packet.sent_ns
            if state & LOST:
                self.lost_out -= segments
                packet.state &= ~LOST
        packet.state |= SACKED
        self.sacked_out += segments
        self.delivered += segments
        self.highest_sacked = max(self.highest_sacked, packet.end)
        change.sacked = True
        self._count()

    def _advance(self, now_ns: int, packet: Sent) -> None:
        """tcp_rack_advance()."""
        rtt_ns = now_ns - packet.sent_ns
        if packet.state & EVER_RESENT and rtt_ns < self.min_rtt_us * 1000:
            return
        self.rack_advanced, self.rack_rtt_ns = True, rtt_ns
        if (packet.sent_ns, packet.end) > (self.rack_ns, self.rack_end):
            self.rack_ns, self.rack_end = packet.sent_ns, packet.end

    def _count(self) -> None:
        """Packets that have left the network are not in flight, those sent again are."""
        self.left = self.sacked_out + self.lost_out - self.resent_out

    def _clean(self, now_ns: int, ack: int, change: Ack) -> None:
        """Drop what is acknowledged, and take samples of the RTT."""
        flight = self.flight
        while flight:
            packet = flight[0]
            whole = packet.end <= ack
            segments = packet.segments
            if not whole:
                segments = (ack - packet.end + packet.length) // self.mss
                if segments <= 0:
                    break
            self._drop(now_ns, packet, segments, change)
            if not whole:
                packet.length -= segments * self.mss
                packet.segments -= segments
                self.queued -= segments * self.mss
                break
            flight.popleft()
            packet.state |= SACKED
            self.queued -= packet.length + self.overhead
        self._count()
        self._sample(now_ns, ack, change)
        change.sets_timer = change.acked > 0

    def _drop(self, now_ns: int, packet: Sent, segments: int, change: Ack) -> None:
        state = packet.state
        if state & EVER_RESENT:
            if state & RESENT:
                self.resent_out -= segments
            change.resent = True
        elif not state & SACKED:
            change.last_acked_ns = packet.sent_ns
            if change.first_acked_ns < 0:
                change.first_acked_ns = packet.sent_ns
            change.originals |= packet.end <= self.high_seq
        if state & SACKED:
            self.sacked_out -= segments
        else:
            self.delivered += segments
            self._advance(now_ns, packet)
        if state & LOST:
            self.lost_out -= segments
        change.newest_ns = max(change.newest_ns, packet.sent_ns)
        self.packets -= segments
        change.acked += segments

    def _sample(self, now_ns: int, ack: int, change: Ack) -> None:
        first_ns, last_ns = change.first_acked_ns, change.last_acked_ns
        if change.resent:
            first_ns = last_ns = -1
        if change.first_sacked_ns >= 0:
            last_ns = change.last_sacked_ns
            first_ns = first_ns if first_ns >= 0 else change.first_sacked_ns
        if first_ns < 0 and change.acked:
            # By timestamps, in milliseconds.
            first_ns = last_ns = (
                now_ns - max(1, (now_ns - change.newest_ns) // 1_000_000) * 1_000_000
            )
        if first_ns < 0:
            return
        self._rtt(now_ns, first_ns)
        self.rto_ns = self._rto_ns()
        now_us = now_ns // 1000
        self.control.sample(now_us, now_us - last_ns // 1000, ack, self.nxt, self.pacing_bytes_s)

    def _detect(self, now_ns: int) -> int:
        """RACK: a packet is lost if one that was sent later has arrived, and it is overdue. Returns
        how long to wait for others. What was sent once and what was sent again are each in the
        order of sending."""
        window_ns = 0
        if self.reordered or (self.state < RECOVERY and self.sacked_out < REORDERING):
            window_ns = min(self.min_rtt_us >> 2, self.srtt_us8 >> 3) * 1000
        overdue_ns = now_ns - self.rack_rtt_ns - window_ns
        wait_ns = 0
        flight, repeats, scans = self.flight, self.repeats, True
        for at in range(self._place(self.scan_from), len(flight)):
            packet = flight[at]
            if not packet.state & EVER_RESENT and packet.sent_ns > self.rack_ns:
                break
            if not packet.state:
                scans = False
                wait_ns = max(wait_ns, self._judge(packet, overdue_ns))
            elif scans:
                self.scan_from = packet.end
        self._drop_repeats()
        at = 0
        while at < len(repeats):
            packet, count = repeats[at], len(repeats)
            if packet.state & (LOST | RESENT) != LOST:
                wait_ns = max(wait_ns, self._judge(packet, overdue_ns))
            at += len(repeats) == count
        return wait_ns

    def _judge(self, packet: Sent, overdue_ns: int) -> int:
        """How much longer to wait for a packet, which is lost if that is over."""
        if (packet.sent_ns, packet.end) >= (self.rack_ns, self.rack_end):
            return 0
        left_ns = packet.sent_ns - overdue_ns
        if left_ns <= 0:
            self._mark_lost(packet)
            return 0
        return left_ns

    def _drop_repeats(self) -> None:
        """Forget what has arrived of the packets that were sent again."""
        repeats, kept = self.repeats, 0
        for at in range(len(repeats)):
            packet = repeats[at]
            if not packet.state & SACKED:
                repeats[kept] = packet
                kept += 1
        while len(repeats) > kept:
            repeats.pop()

    def _mark_lost(self, packet: Sent) -> None:
        segments = packet.segments
        if packet.state & RESENT:
            # Lost again.
            packet.state &= ~RESENT
            self.resent_out -= segments
            self.lost_ever += segments
            self.repeats.remove(packet)
        elif not packet.state & LOST:
            packet.state |= LOST
            self.lost_out += segments
            self.lost_ever += segments
        self.resend_from = min(self.resend_from, packet.end - packet.length)
        self._count()
