"""The receiving end of a connection: the window that it offers, and when it sends an ACK.

A `Receiver` has the kernel's rules, each method is named after its function. What fills its memory
is left to the two that inherit from it: `bulk_receiver`, whose program reads at once and whose
packets are coalesced, and `receiver_memory`, which keeps each packet.

Times are nanoseconds. The kernel counts them in ticks of 1/HZ, which begin at whole multiples of
1/HZ since 1970 in virtual time; on a machine they begin up to one tick later.
Source: net/ipv4/tcp_input.c, tcp_output.c, tcp_timer.c, tcp_minisocks.c, tcp.c, and
include/net/tcp.h of the series 5.10, 6.1, 6.12 and 7.2; `kernels` has the differences.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.guest.units import SECOND_NS
from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.kernels import (
    CLAMP_FOLLOWS,
    GROWS_BY_NEW_RULE,
    QUEUE_NOT_COPIED,
    RATIO,
    SET_RCVBUF_MOVES_CLAMP,
    SLOWER_NEARBY,
    WHOLE_FIRST_WINDOW,
    WIDER_COMPRESSION,
    first_ratio,
)
from labs.read.theory.windows import OVERHEAD_BYTES, SENT_HEADER_BYTES, SMALLEST_BYTES

CONNECTS, LISTENS = "connects", "listens"
"""The ends of a handshake."""
TIMESTAMP_BYTES, HEADER_BYTES = 12, 20
"""TCPOLEN_TSTAMP_ALIGNED, which an announced MSS does not count, and the header of TCP."""
MILLISECOND, MICROSECOND = 1_000_000, 1_000
LARGEST_UNSCALED, LARGEST_SHIFT = 65_535, 14
"""A window has 16 bits; RFC 7323 permits a shift of up to 14."""
DEFAULT_MSS, LEAST_MSS = 536, 88
"""TCP_MSS_DEFAULT and TCP_MIN_MSS: bounds of the first estimate rcv_mss."""
MAX_QUICK_ACKS = 16
LEAST_ATO_HZ, MOST_ATO_HZ = 25, 5
"""A delayed ACK waits for HZ/25 to HZ/5 ticks: TCP_ATO_MIN (TCP_DELACK_MIN), TCP_DELACK_MAX."""
SECOND_LEVEL_TICKS, SECOND_LEVEL_STEP_TICKS = 63, 8
"""From so many ticks on the timer wheel has steps of eight: kernel/time/timer.c calc_index()."""
LEAST_RTO_US = 200_000
LEAST_GROWING_BYTES = 128
"""Shorter packets do not let the window grow."""
SMALLEST_CLAMP_BYTES = SMALLEST_BYTES["receive"] // 2
SEGMENT_BUFFER_BYTES = SENT_HEADER_BYTES + OVERHEAD_BYTES
"""What older kernels add to a segment when they size a buffer: MAX_TCP_HEADER, sk_buff and
skb_shared_info (include/linux/skbuff.h SKB_TRUESIZE)."""
SEGMENT_BUFFER_STEP_BYTES = 128
NEARBY_US = 1000
"""net.ipv4.tcp_rcvbuf_low_rtt."""
DUPLICATES_AT_ONCE, MOST_COMPRESSED = 3, 44
"""So many duplicate ACKs are sent at once; then up to net.ipv4.tcp_comp_sack_nr are one."""
MOST_COMPRESSED_NS = 1_000_000
"""net.ipv4.tcp_comp_sack_delay_ns."""
COMPRESSED_RTT_PCT, SLACK_NS = 5, 100_000
WIDER_RTT_PCT, LATER_SLACK_NS = 33, 10_000
"""net.ipv4.tcp_comp_sack_rtt_percent and tcp_comp_sack_slack_ns before and since
`WIDER_COMPRESSION`."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A receiver at its handshake.

    `role` is its end. One that CONNECTS, such as a client that downloads, offers its first window
    before it knows whether the other end has timestamps, so the window is a multiple of the
    announced MSS (tcp_connect_init()); one that LISTENS knows it (tcp_openreq_init_rwin()). When
    the connection is established, one segment of the buffer is reserved: at the end that CONNECTS
    without timestamps (tcp_rcv_synsent_state_process()), at the other one including them
    (tcp_rcv_state_process()). After it was accepted, the latter may get another buffer.

    `mss_bytes` is the MSS that the receiver announces. `rcvbuf_bytes` is sk_rcvbuf, as granted, and
    `locked` whether SO_RCVBUF was set, before connect or before listen. `accept_rcvbuf_bytes` is
    what SO_RCVBUF after accept granted; None where it was not set. `rmem_max_bytes` is the third
    value of tcp_rmem, `core_max_bytes` net.core.rmem_max. `initrwnd_segments` and `quickack` are
    options of the route back to the sender. `window_clamp_bytes` is TCP_WINDOW_CLAMP; 0 where it
    was not set.
    """

    kernel: str
    role: str
    mss_bytes: int
    rcvbuf_bytes: int
    locked: bool = False
    accept_rcvbuf_bytes: int | None = None
    timestamps: bool = False
    adv_win_scale: int = 1
    rmem_max_bytes: int
    core_max_bytes: int
    initrwnd_segments: int = 0
    quickack: bool = False
    window_clamp_bytes: int = 0
    rtt_ms: float = 0.0
    hz: int = 250


class Receiver:
    """The receive buffer, its window, and what it acknowledges. `rmem` is the memory in use
    (sk_rmem_alloc). All sizes in bytes."""

    def __init__(self, setup: Setup, *, now_ns: int) -> None:
        kernel = setup.kernel
        self.by_ratio = RATIO.holds(kernel)
        self.clamp_follows = CLAMP_FOLLOWS.holds(kernel)
        self.queue_not_copied = QUEUE_NOT_COPIED.holds(kernel)
        self.grows_by_new_rule = GROWS_BY_NEW_RULE.holds(kernel)
        self.slower_nearby = SLOWER_NEARBY.holds(kernel)
        self.ratio = first_ratio(kernel) if self.by_ratio else 0
        self.adv_win_scale = setup.adv_win_scale
        self.rcvbuf, self.locked = setup.rcvbuf_bytes, setup.locked
        self.largest, self.rmem = setup.rmem_max_bytes, 0
        self.nxt = self.wup = self.copied = 0
        self.header = HEADER_BYTES + TIMESTAMP_BYTES * setup.timestamps
        self._handshake(setup)
        self.last_length = 0
        self.ack_due = self.ack_now = self.pushed = False
        self.quick, self.quickack = 0, setup.quickack
        self.rtt_us8 = self.rtt_end = self.rtt_began_ns = 0
        self.space_seq, self.space_ns = 0, now_ns
        self.delayed_until_ns = 0
        self.ato = self.last_tick = self.delayed_until = 0
        self._clock(round(setup.rtt_ms * MILLISECOND), setup.hz)
        self.counted_nxt = self.counted = self.compressed = 0
        self.compresses_until_ns = 0
        wider = WIDER_COMPRESSION.holds(kernel)
        self.rtt_pct = WIDER_RTT_PCT if wider else COMPRESSED_RTT_PCT
        self.slack_ns = LATER_SLACK_NS if wider else SLACK_NS

    def _clock(self, rtt_ns: int, hz: int) -> None:
        """The bounds of a delayed ACK, and the retransmission timeout after one measurement
        (tcp_rtt_estimator(), tcp_set_rto()), in ticks."""
        self.tick_ns = SECOND_NS // hz
        self.least_ato, self.most_ato = hz // LEAST_ATO_HZ, hz // MOST_ATO_HZ
        if rtt_ns:
            rtt_ticks = -(-rtt_ns // self.tick_ns)
            self.most_ato = min(max(rtt_ticks, self.least_ato), self.most_ato)
        rtt_us = rtt_ns // MICROSECOND
        rto_us = rtt_us + max(2 * rtt_us, LEAST_RTO_US)
        self.rto = -(-rto_us * MICROSECOND // self.tick_ns)

    # The handshake.

    def _handshake(self, setup: Setup) -> None:
        """The first window, its scale and its clamp, as of the established connection."""
        announced = setup.mss_bytes
        payload = announced - TIMESTAMP_BYTES * setup.timestamps
        connects = setup.role == CONNECTS
        self._select_initial_window(setup, announced if connects else payload)
        self._init_buffer_space(payload if connects else announced)
        self.advmss = payload
        self.rcv_mss = max(LEAST_MSS, min(self.advmss, self.wnd // 2, DEFAULT_MSS))
        if setup.accept_rcvbuf_bytes is not None:
            self._set_rcvbuf(setup.accept_rcvbuf_bytes, SET_RCVBUF_MOVES_CLAMP.holds(setup.kernel))

    def _select_initial_window(self, setup: Setup, mss: int) -> None:
        full = self.window_of(self.rcvbuf)
        clamp = setup.window_clamp_bytes or LARGEST_UNSCALED << LARGEST_SHIFT
        if self.locked:
            clamp = min(clamp, full)
        space = min(clamp, full)
        if space > mss:
            space -= space % mss
        self.wnd = space
        if not WHOLE_FIRST_WINDOW.holds(setup.kernel):
            self.wnd = min(space, LARGEST_UNSCALED)
        if setup.initrwnd_segments:
            self.wnd = min(self.wnd, setup.initrwnd_segments * mss)
        scalable = min(max(space, self.largest, setup.core_max_bytes), clamp)
        self.shift = min(max(scalable.bit_length() - 1 - 15, 0), LARGEST_SHIFT)
        self.clamp = min(LARGEST_UNSCALED << self.shift, clamp)

    def _init_buffer_space(self, advmss: int) -> None:
        """One segment of the buffer is reserved."""
        full = self.window_of(self.rcvbuf)
        self.clamp = min(self.clamp, full)
        if self.clamp > 2 * advmss and self.clamp + advmss > full:
            self.clamp = max(2 * advmss, full - advmss)
        self.ssthresh = min(self.wnd, self.clamp)
        self.space = min(self.ssthresh, self.wnd, INITIAL_WINDOW_SEGMENTS * advmss)

    def _set_rcvbuf(self, granted_bytes: int, moves_clamp: bool) -> None:
        """SO_RCVBUF on the accepted socket: automatic sizing ends, and the scale stays."""
        self.rcvbuf, self.locked = granted_bytes, True
        clamp = max(SMALLEST_CLAMP_BYTES, self.window_of(granted_bytes))
        if moves_clamp and clamp != self.clamp:
            self.ssthresh = (
                min(self.ssthresh, clamp)
                if clamp < self.clamp
                else max(min(self.wnd, clamp), self.ssthresh)
            )
            self.clamp = clamp

    # The window.

    def window_of(self, space: int) -> int:
        """tcp_win_from_space(): the share of memory that is offered as window."""
        if self.by_ratio:
            return space * self.ratio >> 8
        scale = self.adv_win_scale
        return space >> -scale if scale <= 0 else space - (space >> scale)

    def left(self) -> int:
        """tcp_receive_window(): what is left of the window last offered."""
        return max(0, self.wup + self.wnd - self.nxt)

    def edge(self) -> int:
        """The highest sequence number that the sender may use."""
        units = self.wnd >> self.shift
        return self.wup + ((units if units < LARGEST_UNSCALED else LARGEST_UNSCALED) << self.shift)

    def select_window(self) -> int:
        """__tcp_select_window(): what the buffer permits now. The backlog is empty: on one
        processor without preemption no packet arrives while a reader holds the socket."""
        allowed, free = self.window_of(self.rcvbuf), self.window_of(self.rcvbuf - self.rmem)
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

    def offer(self) -> None:
        """tcp_select_window(): the window of an ACK, whose right edge never moves back."""
        current, new = self.left(), self.select_window()
        if new < current:
            new = -(-current >> self.shift << self.shift)
        self.wnd, self.wup = new, self.nxt

    def acknowledge(self) -> tuple[int, int]:
        """Send an ACK, which includes all that waits: what it acknowledges, and the edge that it
        permits (tcp_event_ack_sent())."""
        self.offer()
        if self.quick and self.ack_due:
            self.quick -= 1
            if not self.quick:
                self.ato = self.least_ato
        self.ack_due = self.ack_now = self.pushed = False
        self.delayed_until_ns = self.compressed = self.compresses_until_ns = 0
        return self.nxt, self.edge()

    # How the window follows what arrives.

    def received(self, now_ns: int, size: int, length: int, truesize: int, push: bool) -> None:
        """tcp_event_data_recv(): a packet of segments of this size was queued."""
        self.ack_due = True
        self.measure_mss(size, length, truesize, push)
        if not self.rtt_began_ns or self.nxt >= self.rtt_end:
            self._rtt_by_window(now_ns)
        self._pace_acks(now_ns // self.tick_ns)
        if length >= LEAST_GROWING_BYTES:
            self.grow_window(length)

    def measure_mss(self, size: int, length: int, truesize: int, push: bool) -> None:
        """tcp_measure_rcv_mss(): the estimate of a full-sized segment, and with it the ratio. A
        smaller one counts if its size came twice in a row and is not too small."""
        before, self.last_length = self.last_length, 0
        if size >= self.rcv_mss:
            if self.by_ratio and size != self.rcv_mss:
                old, self.ratio = self.ratio, max(1, (length << 8) // truesize)
                if old != self.ratio and self.clamp_follows:
                    self.clamp = self.window_of(self.rcvbuf)
                    self.space = min(self.space, self.clamp)
            self.rcv_mss = min(size, self.advmss)
            self.pushed |= push
            return
        whole = size + self.header
        if whole >= DEFAULT_MSS + HEADER_BYTES or (whole >= LEAST_MSS + HEADER_BYTES and not push):
            self.last_length = size
            if size == before:
                self.rcv_mss = size
                return
        self.pushed = True

    def grow_window(self, length: int) -> None:
        """tcp_grow_window(): rcv_ssthresh, the limit of the window, grows with each packet if the
        buffer has room. The head of a packet holds no payload and does not count
        (truesize_adjust()), so the slow way of packets with more overhead is never taken."""
        room = min(self.clamp, self.window_of(self.rcvbuf - self.rmem)) - self.ssthresh
        if room > 0:
            self.ssthresh += min(room, 2 * max(self.advmss, length))
            self.quick |= 1

    # When an ACK is sent.

    def acknowledges(self, now_ns: int, missing: bool) -> bool:
        """__tcp_ack_snd_check(): whether an ACK is sent at once; else a timer is set."""
        full = self.nxt - self.wup > self.rcv_mss and self.select_window() >= self.wnd
        if full or self.quick or self.quickack or self.ack_now:
            return True
        if missing:
            return self._compresses(now_ns)
        return self.delays(now_ns // self.tick_ns)

    def quickly(self) -> None:
        """tcp_incr_quickack(): the next segments are acknowledged at once, as many as fit into half
        of the window."""
        self.quick = max(self.quick, min(self.wnd // (2 * self.rcv_mss) or 2, MAX_QUICK_ACKS))

    def quick_mode(self) -> None:
        """tcp_enter_quickack_mode()."""
        self.quickly()
        self.ato = self.least_ato

    def _pace_acks(self, tick: int) -> None:
        """The delay of ACKs (ato) follows the intervals between arrivals. The first arrival and one
        after a retransmission timeout are followed by quick ACKs."""
        passed, half = tick - self.last_tick, self.least_ato // 2
        self.last_tick = tick
        if not self.ato:
            self.quick_mode()
        elif passed <= half:
            self.ato = (self.ato >> 1) + half
        elif passed < self.ato:
            self.ato = min((self.ato >> 1) + passed, self.rto)
        elif passed > self.rto:
            self.quickly()

    def delays(self, tick: int) -> bool:
        """tcp_send_delayed_ack(): whether to send the ACK now, because its timer is due soon."""
        ato = min(self.ato, self.most_ato) if self.ato > self.least_ato else self.ato
        until = tick + ato
        if self.delayed_until_ns:
            if self.delayed_until <= tick + (ato >> 2):
                return True
            until = min(until, self.delayed_until)
        # It never fires early, but up to a step late.
        step = 1 if until - tick < SECOND_LEVEL_TICKS else SECOND_LEVEL_STEP_TICKS
        self.delayed_until = until
        self.delayed_until_ns = (until // step + 1) * step * self.tick_ns
        return False

    def timer(self) -> None:
        """The timer of a delayed or of a compressed ACK fires: the next delay of the former is
        twice as long."""
        if not self.compresses_until_ns:
            self.ato = min(self.ato << 1, self.rto)

    def _compresses(self, now_ns: int) -> bool:
        """While packets are missing, the first ACKs for the same number are sent at once, and the
        others are combined into one: whether this one leaves now."""
        if self.counted_nxt != self.nxt:
            self.counted_nxt, self.counted = self.nxt, 0
        if self.counted < DUPLICATES_AT_ONCE or self.compressed >= MOST_COMPRESSED:
            self.counted += 1
            return True
        self.compressed += 1
        if not self.compresses_until_ns:
            rtt_ns = (self.rtt_us8 >> 3) * MICROSECOND
            delay_ns = min(MOST_COMPRESSED_NS, rtt_ns * self.rtt_pct // 100)
            self.compresses_until_ns = now_ns + delay_ns
            self.delayed_until_ns = self.compresses_until_ns + self.slack_ns
        return False

    def compressed_is_due(self, now_ns: int) -> bool:
        """Whether the compressed ACK may leave: its timer may fire with another one."""
        return bool(self.compresses_until_ns) and now_ns >= self.compresses_until_ns

    def cleanup(self, copied: int) -> bool:
        """__tcp_cleanup_rbuf(): whether an ACK is sent after a read, because it waited or because
        the window is at least twice as large."""
        if self.ack_due:
            emptied = copied > 0 and self.pushed and not self.rmem
            if self.nxt - self.wup > self.rcv_mss or emptied:
                return True
        left = self.left()
        if copied and 2 * left <= self.clamp:
            new = self.select_window()
            return bool(new and new >= 2 * left)
        return False

    # How the buffer follows what is read.

    def rtt_sample(self, sample_us: int, by_window: bool = False) -> None:
        """tcp_rcv_rtt_update(): the estimate of the RTT, by timestamps or by a window's worth."""
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
            self.rtt_sample((now_ns - self.rtt_began_ns) // MICROSECOND, by_window=True)
        self.rtt_end, self.rtt_began_ns = self.nxt + self.wnd, now_ns

    def adjust_space(self, now_ns: int) -> None:
        """tcp_rcv_space_adjust(): dynamic right-sizing, once per round trip."""
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
