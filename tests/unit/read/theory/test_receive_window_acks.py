"""When the simulated receiver sends an ACK."""

from __future__ import annotations

import pytest

from labs.read.theory.receive_window import Receiver, Setup, accepted
from labs.read.theory.receive_window_acks import (
    expiry_ns,
    tcp_cleanup_rbuf,
    tcp_delack_timer,
    tcp_incr_quickack,
    tcp_send_ack,
    tcp_send_delayed_ack,
)
from labs.read.theory.receive_window_kernels import rules
from labs.read.theory.receive_window_memory import Fate
from labs.read.theory.receive_window_steps import Segment, steps

MSS = 1024
MS = 1_000_000
TICK_NS = 4 * MS
"""At HZ 250."""


def receiver(rcvbuf_bytes: int = 131072, rtt_ms: float = 200.0) -> Receiver:
    r = accepted(
        Setup(
            rules=rules("6.1"),
            listen_rcvbuf_bytes=rcvbuf_bytes,
            listen_locked=True,
            mss_bytes=MSS,
            rtt_ms=rtt_ms,
        )
    )
    r.rcv_mss = MSS
    return r


@pytest.mark.parametrize(("rcvbuf_bytes", "quick"), [(131072, 16), (32768, 8), (8192, 2)])
def test_tcp_incr_quickack_is_half_the_window(rcvbuf_bytes: int, quick: int) -> None:
    """At most 16; fewer with a small SO_RCVBUF (measured on 6.18)."""
    r = receiver(rcvbuf_bytes)
    tcp_incr_quickack(r)
    assert r.quick == quick


def test_expiry_ns_is_the_tick_after() -> None:
    """40 ms are 10 ticks; a timer that is set within a tick fires at the eleventh boundary: 40 to
    44 ms, which is 44 in requests and responses (tests/unit/read/theory/test_nagle.py)."""
    r = receiver()
    assert expiry_ns(r, 10, 0) == 11 * TICK_NS
    assert expiry_ns(r, 10, TICK_NS - 1) == 11 * TICK_NS
    # From 63 ticks on, the timer wheel counts in steps of 8.
    assert expiry_ns(r, 64, 0) == 72 * TICK_NS


def test_tcp_send_delayed_ack_keeps_the_earlier_time() -> None:
    r = receiver()
    r.ack_due, r.ato = True, 10
    assert tcp_send_delayed_ack(r, 0) is None
    first_ns = r.timer_ns
    assert tcp_send_delayed_ack(r, 3 * TICK_NS) is None
    assert r.timer_ns == first_ns == 11 * TICK_NS
    # Two ticks before it, a quarter of the interval, it is sent.
    assert tcp_send_delayed_ack(r, 8 * TICK_NS) is not None
    assert r.timer_at is None


def test_tcp_send_delayed_ack_is_bounded_by_the_rtt() -> None:
    for rtt_ms, ticks in ((1.2, 10), (100.0, 25), (200.0, 50)):
        r = receiver(rtt_ms=rtt_ms)
        r.ato = 50
        tcp_send_delayed_ack(r, 0)
        assert r.timer_at == ticks


def test_tcp_delack_timer_doubles_the_interval() -> None:
    r = receiver()
    r.ack_due, r.ato, r.timer_at = True, 10, 10
    ack = tcp_delack_timer(r, 44 * MS)
    assert ack is not None
    assert (ack.time_ns, r.ato) == (44 * MS, 20)


def test_tcp_send_ack_leaves_quick_mode() -> None:
    r = receiver()
    r.quick, r.ato, r.ack_due = 1, 40, True
    tcp_send_ack(r, 0)
    assert (r.quick, r.ato) == (0, 10)


def test_tcp_cleanup_rbuf_offers_a_window_twice_as_large() -> None:
    r = receiver(65536)
    r.rcv_nxt = r.rcv_wup = r.copied_seq = 1 + 30 * MSS
    r.rcv_wnd = 4 * MSS
    ack = tcp_cleanup_rbuf(r, 1000, 0)
    assert ack is not None
    assert ack.window >= 8 * MSS
    r.rcv_wnd = 20 * MSS
    assert tcp_cleanup_rbuf(r, 1000, 0) is None


def test_compressed_ack_after_three() -> None:
    """While a segment is missing, three ACKs at once, then one per millisecond."""
    setup = Setup(rules=rules("6.12"), listen_rcvbuf_bytes=131072, mss_bytes=MSS, rtt_ms=200)
    missing = 1 + 20 * MSS
    segments = [Segment(place * 32_000, 1 + place * MSS, MSS) for place in range(20)]
    later = [
        Segment(10 * MS + place * 32_000, missing + (place + 1) * MSS, MSS) for place in range(40)
    ]
    found = list(steps(setup, [*segments, *later], until_ns=20 * MS))[20:]
    assert all(one.fate is Fate.OUT_OF_ORDER for one in found)
    sent = [ack.time_ns - later[0].time_ns for one in found for ack in one.acks]
    assert sent[:3] == [0, 32_000, 64_000]
    assert sent[3] == 3 * 32_000 + MS
    assert len(sent) == 5
    assert {ack.ack for one in found for ack in one.acks} == {missing}
