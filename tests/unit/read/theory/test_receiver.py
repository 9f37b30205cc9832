"""The rules of the receiver, against figures of kernels that were measured.

The figures of 6.18 and 7.2 were taken on the kernels of distributions; they do not depend on the
configuration, except where a test says so.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.read.theory.kernels import series
from labs.read.theory.receiver import CONNECTS, LARGEST_UNSCALED, LISTENS, Receiver, Setup
from labs.read.theory.receiver_memory import PacketReceiver
from labs.read.theory.windows import OVERHEAD_BYTES, granted_bytes, head_bytes

KIB, MIB = 1 << 10, 1 << 20
LOOPBACK_MSS = 65483
FIXTURE = Path(__file__).parents[3] / "fixtures" / "theory" / "handshakes.json"
HANDSHAKES: list[dict[str, Any]] = json.loads(FIXTURE.read_text())["handshakes"]
MS = 1_000_000
TICK_NS = 4 * MS
"""At HZ 250."""


def setup(kernel: str, **changed: Any) -> Setup:
    """The article's receiver: an automatic buffer while listening, MSS 1024, no timestamps."""
    given: dict[str, Any] = {
        "role": LISTENS,
        "rcvbuf_bytes": 131072,
        "mss_bytes": 1024,
        "rmem_max_bytes": 6291456,
        "core_max_bytes": 212992,
        **changed,
    }
    return Setup(kernel=kernel, **given)


def accepted(kernel: str, **changed: Any) -> PacketReceiver:
    return PacketReceiver(setup(kernel, **changed), now_ns=0)


def listening(kernel: str, kib: int, **changed: Any) -> PacketReceiver:
    """A receiver with SO_RCVBUF set before listen."""
    granted = granted_bytes(kib * KIB, 4 * MIB, "receive")
    return accepted(kernel, rcvbuf_bytes=granted, locked=True, **changed)


def measure(r: PacketReceiver, kernel: str, length: int, *, push: bool = False) -> None:
    truesize = head_bytes(kernel, 320) + 256 + length
    r.measure_mss(length, length, truesize, push)


def window(r: PacketReceiver) -> int:
    """The window of an ACK."""
    ack, edge = r.acknowledge()
    return edge - ack


def first_windows(setup: Setup) -> dict[str, int]:
    """What is seen of a handshake."""
    r = Receiver(setup, now_ns=0)
    seen = {"window": min(r.wnd, LARGEST_UNSCALED), "scale": r.shift}
    if setup.role == CONNECTS:
        return {**seen, "edge": r.acknowledge()[1]}
    return {**seen, "ssthresh": r.ssthresh, "space": r.space}


@pytest.mark.parametrize(
    "recorded", HANDSHAKES, ids=lambda each: f"{each['setup']['kernel']}-{each['condition']}"
)
def test_first_windows_of_recorded_handshakes(recorded: dict[str, Any]) -> None:
    assert recorded["measured"].items() <= first_windows(Setup(**recorded["setup"])).items()


@pytest.mark.parametrize("role", [CONNECTS, LISTENS])
@pytest.mark.parametrize("kernel", [(5, 10), (6, 1), (6, 12), (7, 2)])
def test_first_windows_of_the_other_role_differ(kernel: tuple[int, int], role: str) -> None:
    """The handshakes of each kernel tell the roles apart where there are timestamps."""
    other = {CONNECTS: LISTENS, LISTENS: CONNECTS}
    differing = 0
    for recorded in HANDSHAKES:
        setup, measured = Setup(**recorded["setup"]), recorded["measured"]
        if (series(setup.kernel), setup.role) == (kernel, role) and setup.timestamps:
            found = first_windows(replace(setup, role=other[role]))
            differing += found["window"] != measured["window"]
    assert differing


@pytest.mark.parametrize(
    ("kib", "scale"), [(16, 0), (32, 0), (64, 1), (128, 2), (256, 3), (1024, 5), (4096, 7)]
)
@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
def test_select_initial_window_scale(kernel: str, kib: int, scale: int) -> None:
    """Measured on 6.18 with SO_RCVBUF before listen; half of the buffer is window in each series
    before data arrives."""
    assert listening(kernel, kib).shift == scale


@pytest.mark.parametrize(("rmem_max_bytes", "scale"), [(6291456, 7), (21271776, 9), (33554432, 10)])
def test_select_initial_window_scale_of_automatic_buffer(rmem_max_bytes: int, scale: int) -> None:
    assert accepted("7.2", rmem_max_bytes=rmem_max_bytes).shift == scale


def test_select_initial_window_is_whole_segments_and_once_64_kib() -> None:
    # Measured: 65160 with MSS 1460 and timestamps, 65483 and 1047728 over loopback.
    assert accepted("7.2", mss_bytes=1460, timestamps=True).wnd == 65160
    assert accepted("7.2", mss_bytes=LOOPBACK_MSS).wnd == LOOPBACK_MSS
    assert listening("6.12", 1024, mss_bytes=LOOPBACK_MSS).wnd == 1047728
    # The limit of 64 KiB until 6.9: include/linux/limits.h U16_MAX.
    assert [listening(kernel, 1024).wnd for kernel in ("5.10", "6.1", "6.12")] == [
        65535,
        65535,
        MIB,
    ]


def test_select_initial_window_initrwnd() -> None:
    """`initrwnd` only lowers the window, which has the limit of 64 KiB until 6.9."""
    assert listening("6.1", 1024, initrwnd_segments=1000).wnd == 65535
    assert listening("6.1", 1024, initrwnd_segments=10).wnd == 10240
    assert listening("6.12", 1024, initrwnd_segments=1000).wnd == 1000 * 1024


def test_init_buffer_space_reserves_a_segment() -> None:
    """Measured on 6.18 over loopback: SO_RCVBUF 256 KiB loses a quarter of its window."""
    assert listening("7.2", 256, mss_bytes=LOOPBACK_MSS).ssthresh == 196661


def test_win_from_space() -> None:
    shares = {-2: 16384, -1: 32768, 0: 65536, 1: 32768, 2: 49152, 3: 57344}
    for scale, share in shares.items():
        old = accepted("6.1", adv_win_scale=scale)
        assert old.window_of(65536) == share
        new = accepted("6.12", adv_win_scale=scale)
        assert new.window_of(65536) == 32768  # the setting is ignored since 6.6


def test_sock_set_rcvbuf_moves_the_clamp_since_7_1() -> None:
    """A buffer that is set to 32 KiB after accept: measured by this laboratory on each kernel (the
    recorded runs of `article-scale0`)."""
    older, newer = (accepted(kernel, accept_rcvbuf_bytes=65536) for kernel in ("6.12", "7.2"))
    assert (older.clamp, older.ssthresh) == (64512, 64512)
    assert (newer.clamp, newer.ssthresh) == (32768, 32768)


@pytest.mark.parametrize(
    ("kernel", "length", "ratio"), [("6.12", 1024, 132), ("6.12", 1448, 153), ("7.2", 1448, 153)]
)
def test_measure_rcv_mss_sets_the_ratio(kernel: str, length: int, ratio: int) -> None:
    """153 was measured with this laboratory's kernels (tests/unit/read/theory/test_paths.py); 132
    is 1024 of 1984."""
    r = listening(kernel, 64, mss_bytes=1460)
    measure(r, kernel, length)
    assert (r.ratio, r.rcv_mss) == (ratio, length)
    assert r.clamp == r.window_of(r.rcvbuf) == 131072 * ratio >> 8


def test_measure_rcv_mss_of_small_segments() -> None:
    """A smaller segment counts when its like comes twice in a row, and has no PSH or 536 bytes."""
    r = listening("6.1", 64)
    found = []
    for length in (1024, 300, 300, 40, 40):
        measure(r, "6.1", length)
        found.append(r.rcv_mss)
    assert found == [1024, 1024, 300, 300, 300]
    measure(r, "6.1", 200, push=True)
    measure(r, "6.1", 200, push=True)
    assert r.rcv_mss == 300


def test_grow_window_by_two_segments() -> None:
    r = listening("6.1", 1024)
    before = r.ssthresh
    r.grow_window(1024)
    assert r.ssthresh == before + 2 * 1024
    assert r.quick == 1


def test_grow_window_not_beyond_the_clamp() -> None:
    r = listening("6.1", 32)
    for _ in range(40):
        r.grow_window(1024)
    assert r.ssthresh == r.clamp == 32768 - 1024


def test_select_window_never_moves_the_right_edge_back() -> None:
    r = listening("6.1", 32)
    edge = r.wup + window(r)
    r.rcv_mss, r.nxt, r.rmem = 1024, 20_001, 60_000
    assert r.select_window() == 2048
    assert r.nxt + window(r) == edge


def test_select_window_is_zero_without_memory_since_6_6() -> None:
    for kernel, offered in (("6.1", 32768), ("6.12", 0)):
        r = listening(kernel, 32)
        r.no_memory = True
        assert window(r) == offered


def test_select_window_wants_zero() -> None:
    """Below a sixteenth of the buffer the window closes as far as the right edge permits."""
    r = listening("6.1", 32)
    r.nxt, r.rmem = 30_721, 65_000
    assert r.select_window() == 0
    assert window(r) == 2048


def test_clamp_window_of_a_full_buffer() -> None:
    """A locked buffer lowers ssthresh to two segments; an automatic one grows."""
    locked, automatic = listening("6.1", 32), accepted("6.1")
    for r in (locked, automatic):
        r.rmem, r.quick = 140_000, 8
        r.clamp_window()
        assert r.quick == 0
    assert (locked.rcvbuf, locked.ssthresh) == (65536, 2048)
    assert (automatic.rcvbuf, automatic.ssthresh) == (140_000, 64512)


def test_head_bytes() -> None:
    """Heads of sent segments: kmalloc-1k until 6.2, then a cache of 704 bytes, as measured by
    skmem (SEGMENT_TRUESIZE_BYTES in labs/read/theory/windows.py); a collapsed skb fills a page."""
    heads = [head_bytes(kernel, 320) for kernel in ("5.10", "6.1", "6.12", "7.2")]
    assert heads == [1024, 1024, 704, 704]
    assert [head_bytes("6.1", length) for length in (1, 1024, 3776)] == [384 + 128, 2048, 4096]
    assert OVERHEAD_BYTES == 576  # A4.14


def interactive(rcvbuf_bytes: int = 131072, rtt_ms: float = 200.0) -> PacketReceiver:
    """A receiver that has seen full segments."""
    r = accepted("6.1", rcvbuf_bytes=rcvbuf_bytes, locked=True, rtt_ms=rtt_ms)
    r.rcv_mss = 1024
    return r


@pytest.mark.parametrize(("rcvbuf_bytes", "quick"), [(131072, 16), (32768, 8), (8192, 2)])
def test_incr_quickack_is_half_the_window(rcvbuf_bytes: int, quick: int) -> None:
    """At most 16; fewer with a small SO_RCVBUF (measured on 6.18)."""
    r = interactive(rcvbuf_bytes)
    r.quickly()
    assert r.quick == quick


@pytest.mark.parametrize(
    ("hz", "ticks", "expires"), [(250, 10, 11), (1000, 40, 41), (1000, 80, 88)]
)
def test_delays_until_the_tick_after(hz: int, ticks: int, expires: int) -> None:
    """40 ms are 10 ticks; a timer that is set within a tick fires at the eleventh boundary: 40 to
    44 ms, which is 44 in requests and responses (tests/unit/read/theory/test_nagle.py). From 63
    ticks on, the timer wheel counts in steps of 8."""
    r = accepted("6.1", hz=hz, rtt_ms=200)
    r.ato = ticks
    assert not r.delays(0)
    assert r.delayed_until_ns == expires * 1_000_000_000 // hz


def test_delays_keeps_the_earlier_time() -> None:
    r = interactive()
    r.ack_due, r.ato = True, 10
    assert not r.delays(0)
    first_ns = r.delayed_until_ns
    assert not r.delays(3)
    assert r.delayed_until_ns == first_ns == 11 * TICK_NS
    # Two ticks before it, a quarter of the interval, it is sent.
    assert r.delays(8)


def test_delays_is_bounded_by_the_rtt() -> None:
    for rtt_ms, ticks in ((1.2, 10), (100.0, 25), (200.0, 50)):
        r = interactive(rtt_ms=rtt_ms)
        r.ato = 50
        r.delays(0)
        assert r.delayed_until == ticks


def test_timer_doubles_the_interval() -> None:
    r = interactive()
    r.ato = 10
    r.timer()
    assert r.ato == 20


def test_acknowledge_leaves_quick_mode() -> None:
    r = interactive()
    r.quick, r.ato, r.ack_due = 1, 40, True
    r.acknowledge()
    assert (r.quick, r.ato) == (0, 10)


def test_cleanup_offers_a_window_twice_as_large() -> None:
    r = interactive(65536)
    r.nxt = r.wup = r.copied = 1 + 30 * 1024
    r.wnd = 4 * 1024
    assert r.cleanup(1000)
    assert window(r) >= 8 * 1024
    r.wnd = 20 * 1024
    assert not r.cleanup(1000)
