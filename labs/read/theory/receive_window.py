"""The rules for the window that a Linux receiver offers, each named after its kernel function.

A `Receiver` is the part of a kernel's socket that determines the window. Each function below is one
rule, and changes the receiver as the kernel function of the same name does. receive_window_memory
has the rules of the receive buffer, receive_window_acks those that determine when an ACK, and with
it a window, is sent, and receive_window_steps feeds all of them with the segments that arrived.

Sequence numbers are relative: the first byte of data has number 1. Sizes are bytes.
Source: net/ipv4/tcp_input.c, net/ipv4/tcp_output.c and include/net/tcp.h of the series 5.10, 6.1,
6.12 and 7.2; `Rules` has the differences.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from math import ceil

from labs.read.theory.receive_window_kernels import (
    FIRST_RCV_MSS_BYTES,
    LARGEST_SCALE,
    LARGEST_UNSCALED_BYTES,
    OVERHEAD_BYTES,
    SMALLEST_MSS_BYTES,
    Rules,
)
from labs.read.theory.windows import SMALLEST_BYTES

TIMESTAMP_BYTES = 12
"""TCPOLEN_TSTAMP_ALIGNED: the option in each segment, subtracted from the MSS."""
RTO_MIN_MS = 200


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A connection's receiver before data arrives.

    `listen_rcvbuf_bytes` is sk_rcvbuf of the listening socket, as granted, `listen_locked` whether
    SO_RCVBUF was set on it. `accept_rcvbuf_bytes` is what SO_RCVBUF after accept granted; None
    where it was not set. `mss_bytes` is the MSS that the receiver announced. `rmem_max_bytes` is
    the third value of tcp_rmem, `core_rmem_max_bytes` net.core.rmem_max. `initrwnd_segments` and
    `quickack` are options of the route back to the sender. `window_clamp_bytes` is TCP_WINDOW_CLAMP
    of the listening socket; 0 where it was not set.
    """

    rules: Rules
    listen_rcvbuf_bytes: int
    listen_locked: bool = False
    accept_rcvbuf_bytes: int | None = None
    mss_bytes: int
    timestamps: bool = False
    adv_win_scale: int = 1
    rmem_max_bytes: int = 6291456
    core_rmem_max_bytes: int = 212992
    initrwnd_segments: int = 0
    quickack: bool = False
    window_clamp_bytes: int = 0
    head_bytes: int | None = None
    rtt_ms: float = 0.0
    hz: int = 250

    @property
    def rtt_ticks(self) -> int:
        """The RTT of the handshake, as the delayed ACK counts it."""
        return ceil(self.rtt_ms * self.hz / 1000)

    @property
    def rto_ticks(self) -> int:
        """The retransmission timeout after one measurement: tcp_rtt_estimator(), tcp_set_rto()."""
        return int((self.rtt_ms + max(2 * self.rtt_ms, RTO_MIN_MS)) * self.hz / 1000)


@dataclass
class Skb:
    """A segment, or several, in the receive queue.

    `end_offset` is the size of its linear part (skb_end_offset), `head_bytes` the payload in it,
    and `tail_bytes` the free space in it; `fragments` is the number of pages that hold the rest of
    the payload. Both ends may share the memory of a segment (skb_cloned): `shared_until` is the
    number that the sender must see acknowledged before it frees its copy; 0 if nothing is shared.
    """

    seq: int
    end_seq: int
    truesize: int
    end_offset: int
    fragments: int = 1
    head_bytes: int = 0
    tail_bytes: int = 0
    shared_until: int = 0

    @property
    def length(self) -> int:
        return self.end_seq - self.seq


@dataclass
class Receiver:
    """The fields of struct tcp_sock, sock and inet_connection_sock that affect the window."""

    setup: Setup
    rcvbuf: int
    scaling_ratio: int
    rcv_nxt: int = 1
    rcv_wup: int = 1
    copied_seq: int = 1
    rcv_wnd: int = 0
    largest_edge: int = 0
    rcv_wscale: int = 0
    rcv_ssthresh: int = 0
    window_clamp: int = 0
    advmss: int = 0
    rcv_mss: int = FIRST_RCV_MSS_BYTES
    last_seg_size: int = 0
    locked: bool = False
    # The receive buffer.
    queue: deque[Skb] = field(default_factory=deque)
    out_of_order: list[Skb] = field(default_factory=list)
    rmem_alloc: int = 0
    forward_alloc: int = 0
    fast_path: bool = True
    # ACKs.
    quick: int = 0
    ato: int = 0
    ack_due: bool = False
    ack_now: bool = False
    pushed: bool = False
    no_memory: bool = False
    timer_at: int | None = None
    timer_ns: int = 0
    last_arrival: int = 0
    repeated_number: int = 0
    repeated_acks: int = 0
    held_acks: int = 0
    compressed_ns: int | None = None
    sender_una: int = 0
    counters: Counter[str] = field(default_factory=Counter)

    @property
    def rules(self) -> Rules:
        return self.setup.rules


def aligned(value: int, scale: int) -> int:
    """Round up to a multiple of 2**scale, as ALIGN() does."""
    return -(-value >> scale) << scale if scale else value


def tcp_win_from_space(r: Receiver, space: int) -> int:
    """The share of memory that is offered as window: up to 6.5 by tcp_adv_win_scale, since 6.6 by
    the measured ratio."""
    if r.rules.has_ratio:
        return space * r.scaling_ratio >> 8
    scale = r.setup.adv_win_scale
    return space >> -scale if scale <= 0 else space - (space >> scale)


def tcp_space(r: Receiver) -> int:
    """The window that the free memory permits. The backlog is empty: on one processor without
    preemption no segment arrives while a reader holds the socket."""
    return tcp_win_from_space(r, r.rcvbuf - r.rmem_alloc)


def tcp_full_space(r: Receiver) -> int:
    return tcp_win_from_space(r, r.rcvbuf)


def tcp_receive_window(r: Receiver) -> int:
    """The window left, of the one last offered."""
    return max(0, r.rcv_wup + r.rcv_wnd - r.rcv_nxt)


def tcp_select_initial_window(r: Receiver) -> None:
    """The scale and the first window, when the SYN arrives (includes tcp_openreq_init_rwin())."""
    setup = r.setup
    mss = setup.mss_bytes - (TIMESTAMP_BYTES if setup.timestamps else 0)
    full = space = tcp_full_space(r)
    clamp = setup.window_clamp_bytes or LARGEST_UNSCALED_BYTES << LARGEST_SCALE
    if setup.listen_locked:
        clamp = min(clamp, full)
    wanted = setup.initrwnd_segments * setup.mss_bytes
    space = min(clamp, max(space, wanted))
    if space > mss:
        space -= space % mss
    r.rcv_wnd = min(space, r.rules.initial_limit_bytes)
    if setup.initrwnd_segments:
        r.rcv_wnd = min(r.rcv_wnd, setup.initrwnd_segments * mss)
    largest = min(max(space, setup.rmem_max_bytes, setup.core_rmem_max_bytes), clamp)
    r.rcv_wscale = min(max(largest.bit_length() - 1 - 15, 0), LARGEST_SCALE)
    r.window_clamp = min(LARGEST_UNSCALED_BYTES << r.rcv_wscale, clamp)
    r.rcv_ssthresh = r.rcv_wnd
    r.largest_edge = r.rcv_wup + r.rcv_wnd


def tcp_init_buffer_space(r: Receiver) -> None:
    """When the connection is established: one segment of the buffer is reserved."""
    largest = tcp_full_space(r)
    r.window_clamp = min(r.window_clamp, largest)
    if r.window_clamp > 2 * r.advmss and r.window_clamp + r.advmss > largest:
        r.window_clamp = max(2 * r.advmss, largest - r.advmss)
    r.rcv_ssthresh = min(r.rcv_ssthresh, r.window_clamp)


def tcp_initialize_rcv_mss(r: Receiver) -> None:
    """The first estimate of a full-sized segment, too small rather than too large."""
    hint = min(r.advmss, r.rcv_wnd // 2, FIRST_RCV_MSS_BYTES)
    r.rcv_mss = max(hint, SMALLEST_MSS_BYTES)


def sock_set_rcvbuf(r: Receiver, granted_bytes: int) -> None:
    """SO_RCVBUF on the accepted socket: the buffer changes and automatic sizing ends; the window's
    clamp and scale do not change, except for the clamp since 7.1 (tcp_set_rcvbuf())."""
    r.rcvbuf = granted_bytes
    r.locked = True
    if r.rules.set_rcvbuf_follows:
        tcp_set_window_clamp(r, tcp_full_space(r))


def tcp_set_window_clamp(r: Receiver, clamp: int) -> None:
    clamp = max(SMALLEST_BYTES["receive"] // 2, clamp)
    if clamp == r.window_clamp:
        return
    before, r.window_clamp = r.window_clamp, clamp
    if clamp < before:
        r.rcv_ssthresh = min(r.rcv_ssthresh, clamp)
    else:
        r.rcv_ssthresh = max(min(r.rcv_wnd, clamp), r.rcv_ssthresh)


def tcp_measure_rcv_mss(r: Receiver, skb: Skb, *, push: bool) -> None:
    """The estimate of a full-sized segment; since 6.6 it also sets the ratio."""
    before, r.last_seg_size = r.last_seg_size, 0
    length = skb.length
    if length >= r.rcv_mss:
        if length != r.rcv_mss and r.rules.has_ratio:
            _measure_ratio(r, skb)
        r.rcv_mss = min(length, r.advmss)
        r.pushed = r.pushed or push
        return
    # A smaller segment counts as full-sized if its size came twice in a row and is not too small.
    if length >= FIRST_RCV_MSS_BYTES or (length >= SMALLEST_MSS_BYTES and not push):
        r.last_seg_size = length
        if length == before:
            r.rcv_mss = length
            return
    r.pushed = True


def _measure_ratio(r: Receiver, skb: Skb) -> None:
    ratio = max(1, (skb.length << 8) // skb.truesize)
    changed, r.scaling_ratio = ratio != r.scaling_ratio, ratio
    if changed and r.rules.clamp_follows_ratio:
        r.window_clamp = tcp_full_space(r)


def tcp_grow_window(r: Receiver, skb: Skb) -> None:
    """rcv_ssthresh, the limit of the window, grows with each segment if the buffer has room."""
    room = min(r.window_clamp, tcp_space(r)) - r.rcv_ssthresh
    if room <= 0:
        return
    truesize = skb.truesize
    if not skb.head_bytes:
        truesize -= skb.end_offset + OVERHEAD_BYTES
        if truesize < skb.length:
            truesize = skb.truesize
    if tcp_win_from_space(r, truesize) <= skb.length:
        growth = 2 * r.advmss
    else:
        growth = __tcp_grow_window(r, skb, truesize)
    if growth:
        r.rcv_ssthresh += min(room, max(growth, 2 * skb.length))
        r.quick |= 1


def __tcp_grow_window(r: Receiver, skb: Skb, truesize: int) -> int:
    """The slow part: a segment with more overhead opens the window only while it is small."""
    truesize = tcp_win_from_space(r, truesize) >> 1
    window = tcp_win_from_space(r, r.setup.rmem_max_bytes) >> 1
    while r.rcv_ssthresh <= window:
        if truesize <= skb.length:
            return 2 * r.rcv_mss
        truesize >>= 1
        window >>= 1
    return 0


def __tcp_select_window(r: Receiver) -> int:
    """The window that the buffer permits now."""
    mss = r.rcv_mss
    free, allowed = tcp_space(r), tcp_full_space(r)
    full = min(r.window_clamp, allowed)
    if mss > full:
        mss = full
        if mss <= 0:
            return 0
    if free < full >> 1:
        r.quick = 0
        free = free >> r.rcv_wscale << r.rcv_wscale
        if free < allowed >> 4 or free < mss:
            return 0
    free = min(free, r.rcv_ssthresh)
    if r.rcv_wscale:
        return aligned(free, r.rcv_wscale)
    window = r.rcv_wnd
    if window <= free - mss or window > free:
        return free - free % mss
    if mss == full and free > window + (full >> 1):
        return free
    return window


def tcp_select_window(r: Receiver) -> int:
    """The window of an ACK that is sent now; it never moves the right edge back."""
    before = r.rcv_wnd
    if r.no_memory and r.rules.zero_window_at_once:
        r.fast_path = False
        r.rcv_wnd, r.rcv_wup = 0, r.rcv_nxt
        return 0
    current, window = tcp_receive_window(r), __tcp_select_window(r)
    if window < current:
        if window == 0:
            r.counters["TCPWantZeroWindowAdv"] += 1
        window = aligned(current, r.rcv_wscale)
    r.rcv_wnd, r.rcv_wup = window, r.rcv_nxt
    r.largest_edge = max(r.largest_edge, r.rcv_wup + r.rcv_wnd)
    sent = min(window, LARGEST_UNSCALED_BYTES << r.rcv_wscale) >> r.rcv_wscale << r.rcv_wscale
    if sent == 0:
        r.fast_path = False
        if before:
            r.counters["TCPToZeroWindowAdv"] += 1
    elif before == 0:
        r.counters["TCPFromZeroWindowAdv"] += 1
    return sent


def tcp_clamp_window(r: Receiver) -> None:
    """When the buffer is full: an automatic one grows, otherwise the window shrinks."""
    r.quick = 0
    if r.rcvbuf < r.setup.rmem_max_bytes and not r.locked:
        r.rcvbuf = min(r.rmem_alloc, r.setup.rmem_max_bytes)
    if r.rmem_alloc > r.rcvbuf:
        r.rcv_ssthresh = min(r.window_clamp, 2 * r.advmss)


def accepted(setup: Setup) -> Receiver:
    """The receiver right after accept, and after SO_RCVBUF where it is set then."""
    ratio = setup.rules.scaling_ratio
    r = Receiver(
        setup,
        rcvbuf=setup.listen_rcvbuf_bytes,
        scaling_ratio=0 if ratio is None else ratio,
        locked=setup.listen_locked,
        advmss=setup.mss_bytes,
    )
    tcp_select_initial_window(r)
    tcp_init_buffer_space(r)
    if setup.timestamps:
        r.advmss -= TIMESTAMP_BYTES
    tcp_initialize_rcv_mss(r)
    if setup.accept_rcvbuf_bytes is not None:
        sock_set_rcvbuf(r, setup.accept_rcvbuf_bytes)
    return r
