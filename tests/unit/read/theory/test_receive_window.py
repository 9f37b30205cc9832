"""The rules of the receive window, against figures of kernels that were measured.

The figures of 6.18 and 7.2 were taken on the kernels of distributions; they do not depend on the
configuration, except where a test says so.
"""

from __future__ import annotations

import pytest

from labs.read.theory.receive_window import (
    Receiver,
    Setup,
    Skb,
    __tcp_select_window,
    accepted,
    tcp_clamp_window,
    tcp_full_space,
    tcp_grow_window,
    tcp_measure_rcv_mss,
    tcp_select_window,
    tcp_win_from_space,
)
from labs.read.theory.receive_window_kernels import OVERHEAD_BYTES, rules
from labs.read.theory.windows import granted_bytes

KIB, MIB = 1 << 10, 1 << 20
LOOPBACK_MSS = 65483


def setup(kernel: str, **changed: int | bool | None) -> Setup:
    """The article's receiver: an automatic buffer while listening, MSS 1024, no timestamps."""
    given: dict[str, int | bool | None] = {
        "listen_rcvbuf_bytes": 131072,
        "mss_bytes": 1024,
        **changed,
    }
    return Setup(rules=rules(kernel), **given)  # type: ignore[arg-type]


def listening(kernel: str, kib: int, **changed: int | bool) -> Receiver:
    """A receiver with SO_RCVBUF set before listen."""
    granted = granted_bytes(kib * KIB, 4 * MIB, "receive")
    return accepted(setup(kernel, listen_rcvbuf_bytes=granted, listen_locked=True, **changed))


def segment(kernel: str, length: int, seq: int = 1) -> Skb:
    head = rules(kernel).head_bytes(320)
    return Skb(seq, seq + length, head + 256 + length, head - 320)


@pytest.mark.parametrize(
    ("kib", "scale"), [(16, 0), (32, 0), (64, 1), (128, 2), (256, 3), (1024, 5), (4096, 7)]
)
@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
def test_tcp_select_initial_window_scale(kernel: str, kib: int, scale: int) -> None:
    """Measured on 6.18 with SO_RCVBUF before listen; half of the buffer is window in each series
    before data arrives."""
    assert listening(kernel, kib).rcv_wscale == scale


@pytest.mark.parametrize(("rmem_max_bytes", "scale"), [(6291456, 7), (21271776, 9), (33554432, 10)])
def test_tcp_select_initial_window_scale_of_automatic_buffer(
    rmem_max_bytes: int, scale: int
) -> None:
    assert accepted(setup("7.2", rmem_max_bytes=rmem_max_bytes)).rcv_wscale == scale


def test_tcp_select_initial_window_is_whole_segments_and_once_64_kib() -> None:
    # Measured: 65160 with MSS 1460 and timestamps, 65483 and 1047728 over loopback.
    assert accepted(setup("7.2", mss_bytes=1460, timestamps=True)).rcv_wnd == 65160
    assert accepted(setup("7.2", mss_bytes=LOOPBACK_MSS)).rcv_wnd == LOOPBACK_MSS
    assert listening("6.12", 1024, mss_bytes=LOOPBACK_MSS).rcv_wnd == 1047728
    # The limit of 64 KiB until 6.9: include/linux/limits.h U16_MAX.
    assert [listening(kernel, 1024).rcv_wnd for kernel in ("5.10", "6.1", "6.12")] == [
        65535,
        65535,
        MIB,
    ]


def test_tcp_select_initial_window_initrwnd() -> None:
    """`initrwnd` only lowers the limit of 64 KiB; since 6.10 it raises the window."""
    assert listening("6.1", 1024, initrwnd_segments=1000).rcv_wnd == 65535
    assert listening("6.1", 1024, initrwnd_segments=10).rcv_wnd == 10240
    assert accepted(setup("6.12", initrwnd_segments=1000)).rcv_wnd == 1000 * 1024


def test_tcp_init_buffer_space_reserves_a_segment() -> None:
    """Measured on 6.18 over loopback: SO_RCVBUF 256 KiB loses a quarter of its window."""
    assert listening("7.2", 256, mss_bytes=LOOPBACK_MSS).rcv_ssthresh == 196661


def test_tcp_win_from_space() -> None:
    shares = {-2: 16384, -1: 32768, 0: 65536, 1: 32768, 2: 49152, 3: 57344}
    for scale, share in shares.items():
        old = accepted(setup("6.1", adv_win_scale=scale))
        assert tcp_win_from_space(old, 65536) == share
        new = accepted(setup("6.12", adv_win_scale=scale))
        assert tcp_win_from_space(new, 65536) == 32768  # the setting is ignored since 6.6


def test_sock_set_rcvbuf_moves_the_clamp_since_7_1() -> None:
    """A buffer that is set to 32 KiB after accept: measured by this laboratory on each kernel (the
    recorded runs of `article-scale0`)."""
    older, newer = (
        accepted(setup(kernel, accept_rcvbuf_bytes=65536)) for kernel in ("6.12", "7.2")
    )
    assert (older.window_clamp, older.rcv_ssthresh) == (64512, 64512)
    assert (newer.window_clamp, newer.rcv_ssthresh) == (32768, 32768)
    assert not rules("7.0").set_rcvbuf_follows
    assert rules("7.1").set_rcvbuf_follows


@pytest.mark.parametrize(
    ("kernel", "length", "ratio"), [("6.12", 1024, 132), ("6.12", 1448, 153), ("7.2", 1448, 153)]
)
def test_tcp_measure_rcv_mss_sets_the_ratio(kernel: str, length: int, ratio: int) -> None:
    """153 was measured with this laboratory's kernels (tests/unit/read/theory/test_windows.py); 132
    is 1024 of 1984."""
    r = listening(kernel, 64, mss_bytes=1460)
    tcp_measure_rcv_mss(r, segment(kernel, length), push=False)
    assert (r.scaling_ratio, r.rcv_mss) == (ratio, length)
    assert r.window_clamp == tcp_full_space(r) == 131072 * ratio >> 8


def test_tcp_measure_rcv_mss_of_small_segments() -> None:
    """A smaller segment counts when its like comes twice in a row, and has no PSH or 536 bytes."""
    r = listening("6.1", 64)
    found = []
    for length in (1024, 300, 300, 40, 40):
        tcp_measure_rcv_mss(r, segment("6.1", length), push=False)
        found.append(r.rcv_mss)
    assert found == [1024, 1024, 300, 300, 300]
    tcp_measure_rcv_mss(r, segment("6.1", 200), push=True)
    tcp_measure_rcv_mss(r, segment("6.1", 200), push=True)
    assert r.rcv_mss == 300


def test_tcp_grow_window_by_two_segments() -> None:
    r = listening("6.1", 1024)
    before = r.rcv_ssthresh
    tcp_grow_window(r, segment("6.1", 1024))
    assert r.rcv_ssthresh == before + 2 * 1024
    assert r.quick == 1


def test_tcp_grow_window_not_beyond_the_clamp() -> None:
    r = listening("6.1", 32)
    for _ in range(40):
        tcp_grow_window(r, segment("6.1", 1024))
    assert r.rcv_ssthresh == r.window_clamp == 32768 - 1024


def test_tcp_select_window_never_moves_the_right_edge_back() -> None:
    r = listening("6.1", 32)
    edge = r.rcv_wup + tcp_select_window(r)
    r.rcv_mss, r.rcv_nxt, r.rmem_alloc = 1024, 20_001, 60_000
    assert __tcp_select_window(r) == 2048
    assert r.rcv_nxt + tcp_select_window(r) == edge


def test_tcp_select_window_is_zero_without_memory_since_6_6() -> None:
    for kernel, window in (("6.1", 32768), ("6.12", 0)):
        r = listening(kernel, 32)
        r.no_memory = True
        assert tcp_select_window(r) == window


def test_tcp_select_window_wants_zero() -> None:
    """Below a sixteenth of the buffer the window closes as far as the right edge permits."""
    r = listening("6.1", 32)
    r.rcv_nxt, r.rmem_alloc = 30_721, 65_000
    assert tcp_select_window(r) == 2048
    assert r.counters["TCPWantZeroWindowAdv"] == 1


def test_tcp_clamp_window_of_a_full_buffer() -> None:
    """A locked buffer lowers rcv_ssthresh to two segments; an automatic one grows."""
    locked, automatic = listening("6.1", 32), accepted(setup("6.1"))
    for r in (locked, automatic):
        r.rmem_alloc, r.quick = 140_000, 8
        tcp_clamp_window(r)
        assert r.quick == 0
    assert (locked.rcvbuf, locked.rcv_ssthresh) == (65536, 2048)
    assert (automatic.rcvbuf, automatic.rcv_ssthresh) == (140_000, 64512)


def test_head_bytes() -> None:
    """Heads of sent segments: kmalloc-1k until 6.2, then a cache of 704 bytes, as measured by
    skmem (SEGMENT_TRUESIZE_BYTES in labs/read/theory/windows.py); a collapsed skb fills a page."""
    heads = [rules(kernel).head_bytes(320) for kernel in ("5.10", "6.1", "6.12", "7.2")]
    assert heads == [1024, 1024, 704, 704]
    assert [rules("6.1").head_bytes(length) for length in (1, 1024, 3776)] == [
        384 + 128,
        2048,
        4096,
    ]
    assert OVERHEAD_BYTES == 576  # A4.14
