"""The advised buffers: what must hold of them, and what nothing can be advised for."""

from __future__ import annotations

import pytest

from labs.errors import BadInput
from labs.read.theory.advice import advise, checked_path, reached
from labs.read.theory.bounds import LINE, RECEIVE_WINDOW, SEND_BUFFER
from labs.read.theory.windows import granted_bytes

MIB = 1 << 20


@pytest.mark.parametrize("kernel", ["5.10", "6.1", "6.12", "7.2"])
@pytest.mark.parametrize(("rate_mbit", "rtt_ms"), [(1000, 200), (10_000, 5), (100, 300)])
def test_reached_with_the_advised_buffers_is_the_line(
    kernel: str, rate_mbit: float, rtt_ms: float
) -> None:
    advice = advise(rate_mbit, rtt_ms, kernel)
    full = reached(advice, sndbuf_bytes=advice.send_bytes, rcvbuf_bytes=advice.receive_bytes)
    assert full.bound == LINE and full.goodput_bytes_s == advice.line_bytes_s
    fifth_less = [
        reached(advice, sndbuf_bytes=8 * advice.send_bytes // 10),
        reached(advice, rcvbuf_bytes=8 * advice.receive_bytes // 10),
    ]
    assert all(one.goodput_bytes_s < 0.95 * advice.line_bytes_s for one in fifth_less)


def test_reached_with_the_defaults_of_the_articles_link() -> None:
    """Measured: 13.4 and 13.6 MiB/s (article 1, A1.6; two thirds of a send buffer of 4 MiB)."""
    for kernel, window_mib_s in (("6.1", 15.0), ("6.12", 22.5)):
        found = reached(advise(1000, 200, kernel))
        assert found.bound == SEND_BUFFER
        assert found.goodput_bytes_s / MIB == pytest.approx(13.5, rel=0.02)
        speeds = {one.name: one.bytes_s / MIB for one in found.limits}
        assert list(speeds) == [SEND_BUFFER, RECEIVE_WINDOW, LINE]
        # Half of 6 MiB per 0.2 s up to 6.5, three quarters since.
        assert speeds[RECEIVE_WINDOW] == pytest.approx(window_mib_s, rel=0.01)
        assert all(one.function for one in found.limits)


def test_advise_requests_are_granted_in_full() -> None:
    advice = advise(1000, 200, "6.1")
    for socket, request, size in (
        ("receive", advice.receive_request_bytes, advice.receive_locked_bytes),
        ("send", advice.send_request_bytes, advice.send_bytes),
    ):
        assert granted_bytes(request, request, socket) == size
        assert granted_bytes(request, advice.core_max_bytes, socket) == 2 * advice.core_max_bytes


def test_advise_default_core_maximum_changed_in_6_18() -> None:
    """Measured on 6.1.192, 6.12.107, 6.17.13 and 6.18.5 to 7.2.13."""
    known = {"6.1": 212_992, "6.12": 212_992, "6.17": 212_992, "6.18": 4 * MIB, "7.2": 4 * MIB}
    assert {kernel: advise(100, 40, kernel).core_max_bytes for kernel in known} == known


def test_advise_smaller_segments_need_larger_buffers_for_the_same_payload() -> None:
    """On 6.12 the share of window is that of payload in memory; up to 6.5 it is a half."""
    new, small = (advise(1000, 200, "6.12", mss_bytes=mss) for mss in (1448, 536))
    per_payload = [one.receive_alone_bytes / one.line_bytes_s for one in (new, small)]
    assert per_payload[1] > 1.5 * per_payload[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rtt_ms": 0}, "nothing can be advised for an RTT of 0"),
        ({"rtt_ms": -1}, "an RTT of -1 ms is out of range"),
        ({"rtt_ms": float("nan")}, "an RTT of nan ms is out of range"),
        ({"rate_mbit": 0}, "a rate of 0 Mbit/s is out of range"),
        ({"rate_mbit": float("inf")}, "a rate of inf Mbit/s is out of range"),
        ({"mss_bytes": 100}, "an MSS of 100 is out of range; allowed: 536 to 1448"),
        ({"mss_bytes": 9000}, "an MSS of 9000 is out of range"),
        ({"loss_pct": 0.1}, "nothing can be advised for a path that loses 0.1 % of its packets"),
        ({"loss_pct": 101}, "a loss of 101 % is out of range"),
        ({"kernel": "six"}, "'six' is not a kernel version"),
        ({"kernel": "3.10"}, "nothing can be advised for Linux 3.10"),
    ],
)
def test_checked_path_refuses_in_one_line(given: dict[str, object], said: str) -> None:
    path = {"rate_mbit": 100, "rtt_ms": 40, "kernel": "6.1", "mss_bytes": 1448, **given}
    with pytest.raises(BadInput) as caught:
        checked_path(**path)  # type: ignore[arg-type]
    assert said in str(caught.value) and "\n" not in str(caught.value)
