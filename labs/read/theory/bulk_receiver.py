"""The receiving end of one bulk flow whose program reads at once: its window and its ACKs.

Source: net/ipv4/tcp_input.c tcp_event_data_recv(), tcp_grow_window(), tcp_measure_rcv_mss(),
tcp_rcv_space_adjust(), __tcp_ack_snd_check(); net/ipv4/tcp_output.c __tcp_select_window(),
tcp_select_initial_window(); net/ipv4/tcp.c __tcp_cleanup_rbuf(). Times are in nanoseconds.
"""

from __future__ import annotations

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.windows import (
    CLAMP_FOLLOWS_SINCE,
    RATIO_SINCE,
    first_ratio,
    segment_overhead_bytes,
    series,
)

MILLISECOND, MICROSECOND = 1_000_000, 1_000
LARGEST_UNSCALED, LARGEST_SHIFT = 65_535, 14
"""A window has 16 bits; RFC 7323 permits a shift of up to 14."""
DEFAULT_MSS, LEAST_MSS = 536, 88
"""TCP_MSS_DEFAULT and TCP_MIN_MSS: bounds of the first estimate rcv_mss."""
HEADER_BYTES, OPTIONS_BYTES = 20, 12
"""Of TCP, and of its timestamps, which an announced MSS does not count."""
MAX_QUICK_ACKS = 16
TICK_NS, LEAST_ATO, MOST_ATO = 4 * MILLISECOND, 10, 50
"""A tick of HZ = 250, and the bounds of a delayed ACK in ticks: TCP_ATO_MIN and TCP_DELACK_MAX. The
timer never fires early, but up to a tick late (kernel/time/timer.c calc_index())."""
LEAST_RTO_TICKS = 50
LEAST_GROWING_BYTES = 128
"""Shorter packets do not let the window grow."""
SEGMENT_BUFFER_BYTES = 320 + 576
"""What older kernels add to a segment when they size a buffer: MAX_TCP_HEADER, sk_buff and
skb_shared_info (include/linux/skbuff.h SKB_TRUESIZE)."""
SEGMENT_BUFFER_STEP_BYTES = 128

WHOLE_FIRST_WINDOW_SINCE = (6, 10)
"""The first window is no longer limited to 64 KiB: commit 378979e94e95."""
QUEUE_NOT_COPIED_SINCE = (6, 12)
"""Data that is still queued does not count as read, and a round trip of less than a millisecond
gives no sample by timestamps."""
GROWS_BY_NEW_RULE_SINCE = (6, 18)
"""tcp_rcvbuf_grow(): commit aa251c84636c."""
SLOWER_NEARBY_SINCE, NEARBY_US = (6, 19), 1000
"""net.ipv4.tcp_rcvbuf_low_rtt: commit ecfea98b7d0d."""


class Receiver:
    """The receive buffer, its window, and what it acknowledges. All sizes in bytes."""

    def __init__(
        self,
        kernel: str,
        *,
        mss_bytes: int,
        tcp_rmem: tuple[int, int, int],
        rcvbuf_bytes: int,
        locked: bool,
        core_max_bytes: int,
        adv_win_scale: int,
        rtt_ns: int,
        now_ns: int,
    ) -> None:
        self.series = series(kernel)
        self.by_ratio = self.series >= RATIO_SINCE
        self.clamp_follows = self.series >= CLAMP_FOLLOWS_SINCE
        self.queue_not_copied = self.series >= QUEUE_NOT_COPIED_SINCE
        self.grows_by_new_rule = self.series >= GROWS_BY_NEW_RULE_SINCE
        self.slower_nearby = self.series >= SLOWER_NEARBY_SINCE
        self.ratio = first_ratio(kernel) if self.by_ratio else 0
        self.adv_win_scale = adv_win_scale
        self.overhead = segment_overhead_bytes(kernel)
        self.advmss = mss_bytes
        self.locked = locked
        self.rcvbuf, self.largest = rcvbuf_bytes, tcp_rmem[2]
        self._open(core_max_bytes)
        self.nxt = self.wup = self.copied = 0
        self.queued_truesize = self.waiting_truesize = 0
        self.rcv_mss = max(LEAST_MSS, min(self.advmss, self.wnd // 2, DEFAULT_MSS))
        self.last_length = 0
        self.quick = 0
        self.pushed = False
        self.rtt_us8 = 0
        self.echoed_ms = now_ns // MILLISECOND
        self.rtt_end = self.rtt_began_ns = 0
        self.space = min(self.ssthresh, self.wnd, INITIAL_WINDOW_SEGMENTS * self.advmss)
        self.space_seq, self.space_ns = 0, now_ns
        self.delayed_until_ns = 0
        self.ato = self.last_tick = self.delayed_until = 0
        rtt_ticks = -(-rtt_ns // TICK_NS)
        self.most_ato = min(max(rtt_ticks, LEAST_ATO), MOST_ATO)
        self.rto = rtt_ticks + max(2 * rtt_ticks, LEAST_RTO_TICKS)

    def _open(self, core_max_bytes: int) -> None:
        """The first window, its scale and its clamp."""
        announced = self.advmss + OPTIONS_BYTES
        full = self.window_of(self.rcvbuf)
        clamp = LARGEST_UNSCALED << LARGEST_SHIFT
        if self.locked:
            clamp = full
        space = min(clamp, full)
        if space > announced:
            space = space // announced * announced
        self.wnd = min(space, LARGEST_UNSCALED) if self.series < WHOLE_FIRST_WINDOW_SINCE else space
        scalable = min(max(space, self.largest, core_max_bytes), clamp)
        self.shift = min(max(scalable.bit_length() - 1 - 15, 0), LARGEST_SHIFT)
        self.clamp = min(LARGEST_UNSCALED << self.shift, clamp)
        if self.clamp >= full:
            self.clamp = max(full, 4 * self.advmss) if full > 4 * self.advmss else full
        if self.clamp > 2 * self.advmss and self.clamp + self.advmss > full:
            self.clamp = max(2 * self.advmss, full - self.advmss)
        self.ssthresh = min(self.wnd, self.clamp)

    def window_of(self, space: int) -> int:
        """tcp_win_from_space()."""
        if self.by_ratio:
            return space * self.ratio >> 8
        scale = self.adv_win_scale
        return space >> -scale if scale <= 0 else space - (space >> scale)

    def edge(self) -> int:
        """The highest sequence number that the sender may use."""
        units = self.wnd >> self.shift
        return self.wup + ((units if units < LARGEST_UNSCALED else LARGEST_UNSCALED) << self.shift)

    # An arrival, first in the kernel and then in the program that reads.

    def arrives(self, now_ns: int, length: int, segment: int, push: bool, echoed_ms: int) -> bool:
        """Queue a packet, and return whether it is acknowledged at once."""
        if echoed_ms != self.echoed_ms:
            self._echoed(now_ns, length, echoed_ms)
        self._queue(now_ns, length, segment, push)
        if (self.nxt - self.wup > self.rcv_mss and self._select_window() >= self.wnd) or self.quick:
            return True
        return self._delays(now_ns // TICK_NS)

    def _echoed(self, now_ns: int, length: int, echoed_ms: int) -> None:
        """A packet repeats the timestamp of an ACK for the first time: a sample of the RTT."""
        self.echoed_ms = echoed_ms
        if length >= self.rcv_mss:
            self._rtt_sample((now_ns // MILLISECOND - echoed_ms) * 1000)

    def _queue(self, now_ns: int, length: int, segment: int, push: bool) -> None:
        """Queue the next packet in sequence."""
        # Packets that wait to be read are coalesced: the first one's overhead remains.
        self.queued_truesize += length if self.nxt > self.copied else length + self.overhead
        self.nxt += length
        if (segment if segment < length else length) == self.rcv_mss:
            self.last_length = 0
            self.pushed |= push
        else:
            self._measure_mss(length, segment, push)
        if not self.rtt_began_ns or self.nxt >= self.rtt_end:
            self._rtt_by_window(now_ns)
        tick = now_ns // TICK_NS
        if self.ato != LEAST_ATO or tick - self.last_tick > LEAST_ATO // 2:
            self._pace_acks(tick)
        self.last_tick = tick
        if self.clamp > self.ssthresh and length >= LEAST_GROWING_BYTES:
            self._grow_window(length)

    def _pace_acks(self, tick: int) -> None:
        """The delay of ACKs (ato) follows the intervals between arrivals. The first arrival and one
        after a retransmission timeout are followed by quick ACKs."""
        passed = tick - self.last_tick
        if self.ato and passed <= LEAST_ATO // 2:
            self.ato = (self.ato >> 1) + LEAST_ATO // 2
        elif self.ato and passed < self.ato:
            self.ato = min((self.ato >> 1) + passed, self.rto, MOST_ATO)
        elif not self.ato or passed > self.rto:
            self.ato = self.ato or LEAST_ATO
            self.quick = max(self.quick, min(self.wnd // (2 * self.rcv_mss) or 2, MAX_QUICK_ACKS))

    def _delays(self, tick: int) -> bool:
        """tcp_send_delayed_ack(): whether to send the ACK now, because its timer is due soon."""
        ato = min(self.ato, self.most_ato) if self.ato > LEAST_ATO else self.ato
        until = tick + ato
        if self.delayed_until_ns:
            if self.delayed_until <= tick + (ato >> 2):
                return True
            until = min(until, self.delayed_until)
        self.delayed_until, self.delayed_until_ns = until, (until + 1) * TICK_NS
        return False

    def timer(self) -> None:
        """The timer of the delayed ACK fires: the next delay is twice as long."""
        self.ato = min(self.ato << 1, self.rto, MOST_ATO)

    def reads(self, now_ns: int, read_bytes: int) -> bool:
        """Read up to `read_bytes`, and return whether that is acknowledged at once. A packet
        occupies its memory until its last byte is read."""
        self.copied = min(self.copied + read_bytes, self.nxt)
        if self.copied == self.nxt:
            self.queued_truesize = self.waiting_truesize
        self._adjust_space(now_ns)
        if self.wup < self.nxt and (
            self.nxt - self.wup > self.rcv_mss or (self.pushed and not self.queued_truesize)
        ):
            return True
        left = max(0, self.wup + self.wnd - self.nxt)
        if 2 * left <= self.clamp:
            new = self._select_window()
            return bool(new and new >= 2 * left)
        return False

    def acknowledge(self) -> tuple[int, int]:
        """Send an ACK: what it acknowledges, and the edge that it permits."""
        current = self.wup + self.wnd - self.nxt
        new = self._select_window()
        if new < current:
            new = -(-current >> self.shift << self.shift)
        self.wnd, self.wup = new, self.nxt
        self.delayed_until_ns, self.pushed = 0, False
        if self.quick:
            self.quick -= 1
            if not self.quick:
                self.ato = LEAST_ATO
        return self.nxt, self.edge()

    def _select_window(self) -> int:
        rcvbuf = self.rcvbuf
        left = rcvbuf - self.queued_truesize
        if self.by_ratio:
            allowed, free = rcvbuf * self.ratio >> 8, left * self.ratio >> 8
        else:
            allowed, free = self.window_of(rcvbuf), self.window_of(left)
        full = self.clamp if self.clamp < allowed else allowed
        mss = self.rcv_mss if self.rcv_mss < full else full
        if mss <= 0:
            return 0
        if free < full >> 1:
            self.quick = 0
            free = free >> self.shift << self.shift
            if free < allowed >> 4 or free < mss:
                return 0
        if free > self.ssthresh:
            free = self.ssthresh
        if self.shift:
            return -(-free >> self.shift << self.shift)
        window = self.wnd
        if window <= free - mss or window > free:
            return free // mss * mss
        if mss == full and free > window + (full >> 1):
            return free
        return window

    # How buffer and window follow what arrives.

    def _measure_mss(self, length: int, segment: int, push: bool) -> None:
        size = min(segment, length)
        before, self.last_length = self.last_length, 0
        if size >= self.rcv_mss:
            if self.by_ratio and size != self.rcv_mss:
                old, self.ratio = self.ratio, max(1, (length << 8) // (length + self.overhead))
                if old != self.ratio and self.clamp_follows:
                    self.clamp = self.window_of(self.rcvbuf)
                    self.space = min(self.space, self.clamp)
            self.rcv_mss = min(size, self.advmss)
            self.pushed |= push
        else:
            header = HEADER_BYTES + OPTIONS_BYTES
            if size + header >= DEFAULT_MSS + HEADER_BYTES or (
                size + header >= LEAST_MSS + HEADER_BYTES and not push
            ):
                self.last_length = size
                if size == before:
                    self.rcv_mss = size
                    return
            self.pushed = True

    def _grow_window(self, length: int) -> None:
        room = min(self.clamp, self.window_of(self.rcvbuf - self.queued_truesize)) - self.ssthresh
        if room <= 0:
            return
        # The head holds no payload and is not counted (truesize_adjust()), so every packet has
        # enough room for its payload.
        self.ssthresh += min(room, 2 * max(self.advmss, length))
        self.quick |= 1

    def _rtt_sample(self, sample_us: int, by_window: bool = False) -> None:
        """The receiver's estimate of the round trip, by timestamps or by a window's worth."""
        if sample_us <= 0:
            if self.queue_not_copied and not by_window:
                return
            sample_us = 1 if by_window else 1000
        if not self.rtt_us8 or sample_us << 3 < self.rtt_us8:
            self.rtt_us8 = sample_us << 3
        elif not by_window:
            if self.grows_by_new_rule and self.nxt != self.copied:
                return
            self.rtt_us8 += sample_us - (self.rtt_us8 >> 3)

    def _rtt_by_window(self, now_ns: int) -> None:
        if self.rtt_began_ns:
            self._rtt_sample((now_ns - self.rtt_began_ns) // MICROSECOND, by_window=True)
        self.rtt_end, self.rtt_began_ns = self.nxt + self.wnd, now_ns

    def _adjust_space(self, now_ns: int) -> None:
        """Dynamic right-sizing, once per round trip."""
        if not self.rtt_us8 or (now_ns - self.space_ns) // MICROSECOND < self.rtt_us8 >> 3:
            return
        copied = self.copied - self.space_seq
        if self.queue_not_copied:
            copied -= self.nxt - self.copied
        if copied > self.space:
            if not self.locked:
                self._size_buffer(copied)
            self.space = copied
        self.space_seq, self.space_ns = self.copied, now_ns

    def _size_buffer(self, copied: int) -> None:
        """Size the buffer for twice the data read in the last round trip, and for slow start."""
        if self.grows_by_new_rule:
            window, rtt_us = 2 * copied, self.rtt_us8 >> 3
            if self.slower_nearby and rtt_us < NEARBY_US:
                window += window * rtt_us // NEARBY_US
            else:
                window += 2 * window * (copied - self.space) // self.space
        else:
            window = 2 * copied + 16 * self.advmss
            window += window * (copied - self.space) // self.space << 1
        if self.by_ratio:
            rcvbuf = (window << 8) // self.ratio
        else:
            each = self.advmss + SEGMENT_BUFFER_BYTES
            while self.window_of(each) < self.advmss:
                each += SEGMENT_BUFFER_STEP_BYTES
            rcvbuf = window // self.advmss * each
        rcvbuf = min(rcvbuf, self.largest)
        if rcvbuf > self.rcvbuf:
            self.rcvbuf = rcvbuf
            self.clamp = self.window_of(rcvbuf)
