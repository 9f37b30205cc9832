"""When a receiver sends an ACK: a window is visible only then.

One function per kernel function, as in receive_window. Times are nanoseconds of the clock of the
arrivals; the kernel counts them in ticks of 1/HZ. In virtual time ticks begin at whole multiples of
1/HZ since 1970. On a machine they begin up to one tick later, and delayed ACKs do as well.
Source: net/ipv4/tcp_input.c, net/ipv4/tcp_output.c, net/ipv4/tcp_timer.c.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.units import SECOND_NS
from labs.read.theory.receive_window import (
    Receiver,
    Skb,
    __tcp_select_window,
    tcp_grow_window,
    tcp_measure_rcv_mss,
    tcp_receive_window,
    tcp_select_window,
)
from labs.read.theory.receive_window_kernels import MAX_QUICKACKS, SMALLEST_GROWING_BYTES

DELACK_MIN_MS = 40
DELACK_MAX_MS = 200
"""TCP_DELACK_MIN (and TCP_ATO_MIN) and TCP_DELACK_MAX."""
SECOND_LEVEL_TICKS, SECOND_LEVEL_STEP_TICKS = 63, 8
RCVLOWAT_BYTES = 1
"""SO_RCVLOWAT, which no program here sets."""
FAST_RETRANSMIT_ACKS = 3
COMPRESSED_ACK_NS, COMPRESSED_ACKS = 1_000_000, 44
"""net.ipv4.tcp_comp_sack_delay_ns and tcp_comp_sack_nr."""


@dataclass(frozen=True)
class Ack:
    """An ACK that the receiver sent: when, what it acknowledges, and the window it offers."""

    time_ns: int
    ack: int
    window: int

    @property
    def right_edge(self) -> int:
        return self.ack + self.window


def ticks(r: Receiver, ms: int) -> int:
    return ms * r.setup.hz // 1000


def jiffies(r: Receiver, now_ns: int) -> int:
    return now_ns * r.setup.hz // SECOND_NS


def expiry_ns(r: Receiver, due: int, now_ns: int) -> int:
    """When a timer that is due at tick `due` expires: at the next tick, or with the coarser steps
    of the timer wheel's second level (kernel/time/timer.c calc_index())."""
    step = 1 if due - jiffies(r, now_ns) < SECOND_LEVEL_TICKS else SECOND_LEVEL_STEP_TICKS
    return (due // step + 1) * step * SECOND_NS // r.setup.hz


def tcp_incr_quickack(r: Receiver) -> None:
    """Acknowledge the next segments at once: as many as fit into half of the window, at most 16."""
    wanted = r.rcv_wnd // (2 * r.rcv_mss) or 2
    r.quick = max(r.quick, min(wanted, MAX_QUICKACKS))


def tcp_enter_quickack_mode(r: Receiver) -> None:
    tcp_incr_quickack(r)
    r.ato = ticks(r, DELACK_MIN_MS)


def tcp_in_quickack_mode(r: Receiver) -> bool:
    """The socket is never in pingpong mode here: it sends no data."""
    return r.setup.quickack or r.quick > 0


def tcp_event_data_recv(r: Receiver, skb: Skb, now_ns: int, *, push: bool) -> None:
    """Updates after a segment was queued: the MSS, the interval of delayed ACKs, and the window."""
    r.ack_due = True
    tcp_measure_rcv_mss(r, skb, push=push)
    now, smallest = jiffies(r, now_ns), ticks(r, DELACK_MIN_MS)
    if not r.ato:
        tcp_incr_quickack(r)
        r.ato = smallest
    else:
        since = now - r.last_arrival
        if since <= smallest // 2:
            r.ato = (r.ato >> 1) + smallest // 2
        elif since < r.ato:
            r.ato = min((r.ato >> 1) + since, r.setup.rto_ticks)
        elif since > r.setup.rto_ticks:
            tcp_incr_quickack(r)
    r.last_arrival = now
    if skb.length >= SMALLEST_GROWING_BYTES:
        tcp_grow_window(r, skb)


def tcp_send_ack(r: Receiver, now_ns: int) -> Ack:
    """Send an ACK with the current window (includes tcp_event_ack_sent())."""
    window = tcp_select_window(r)
    if r.quick:
        used = 1 if r.ack_due else 0
        if used >= r.quick:
            r.quick, r.ato = 0, ticks(r, DELACK_MIN_MS)
        else:
            r.quick -= used
    r.ack_due = r.ack_now = r.pushed = r.no_memory = False
    r.timer_at = r.compressed_ns = None
    r.held_acks = 0
    return Ack(now_ns, r.rcv_nxt, window)


def tcp_ack_snd_check(r: Receiver, now_ns: int, *, out_of_order_too: bool) -> Ack | None:
    """After a segment: send an ACK at once, or start the timer of a delayed one."""
    if not r.ack_due:
        return None
    full = r.rcv_nxt - r.rcv_wup > r.rcv_mss and (
        r.rcv_nxt - r.copied_seq < RCVLOWAT_BYTES or __tcp_select_window(r) >= r.rcv_wnd
    )
    if full or tcp_in_quickack_mode(r) or r.ack_now:
        return tcp_send_ack(r, now_ns)
    if not out_of_order_too or not r.out_of_order:
        return tcp_send_delayed_ack(r, now_ns)
    return compressed_ack(r, now_ns)


def compressed_ack(r: Receiver, now_ns: int) -> Ack | None:
    """While segments are missing, the first three ACKs for the same number are sent at once, and
    the others are combined into one after at most a millisecond: the last part of
    __tcp_ack_snd_check()."""
    if r.repeated_number != r.rcv_nxt:
        r.repeated_number, r.repeated_acks = r.rcv_nxt, 0
    if r.repeated_acks < FAST_RETRANSMIT_ACKS or r.held_acks >= COMPRESSED_ACKS:
        r.repeated_acks += 1
        return tcp_send_ack(r, now_ns)
    r.held_acks += 1
    if r.compressed_ns is None:
        share_pct = r.rules.compressed_ack_rtt_pct
        delay_ns = min(COMPRESSED_ACK_NS, round(r.setup.rtt_ms * share_pct * 1e4))
        r.compressed_ns = now_ns + delay_ns
    return None


def tcp_send_delayed_ack(r: Receiver, now_ns: int) -> Ack | None:
    """Start the timer of a delayed ACK, or send it if the timer is about to expire anyway."""
    now, ato = jiffies(r, now_ns), r.ato
    smallest = ticks(r, DELACK_MIN_MS)
    if ato > smallest:
        longest = ticks(r, DELACK_MAX_MS) if r.pushed else r.setup.hz // 2
        if r.setup.rtt_ticks:
            longest = min(longest, max(r.setup.rtt_ticks, smallest))
        ato = min(ato, longest)
    ato = min(ato, ticks(r, DELACK_MAX_MS))
    due = now + ato
    if r.timer_at is not None:
        if r.timer_at <= now + (ato >> 2):
            return tcp_send_ack(r, now_ns)
        due = min(due, r.timer_at)
    r.timer_at, r.timer_ns = due, expiry_ns(r, due, now_ns)
    return None


def tcp_delack_timer(r: Receiver, now_ns: int) -> Ack | None:
    """The timer of a delayed ACK expired before enough data for an ACK had arrived."""
    r.timer_at = None
    if not r.ack_due:
        return None
    r.ato = min(r.ato << 1, r.setup.rto_ticks)
    return tcp_send_ack(r, now_ns)


def tcp_cleanup_rbuf(r: Receiver, copied: int, now_ns: int) -> Ack | None:
    """After a read: send a delayed ACK, or a window that is at least twice as large."""
    if r.ack_due:
        emptied = copied > 0 and r.pushed and not r.rmem_alloc
        if r.rcv_nxt - r.rcv_wup > r.rcv_mss or emptied:
            return tcp_send_ack(r, now_ns)
    left = tcp_receive_window(r)
    if copied and 2 * left <= r.window_clamp:
        window = __tcp_select_window(r)
        if window and window >= 2 * left:
            return tcp_send_ack(r, now_ns)
    return None
