"""The formulas against what the virtual kernels did, and against the figures of article 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.read.theory.bdp import line_goodput_bytes_s, mean_goodput_bytes_s
from labs.read.theory.bounds import LINE, RECEIVE_WINDOW, SEND_BUFFER, Prediction, predict
from labs.read.theory.refills import refilled_bytes_s
from labs.read.theory.windows import receive_window_bytes

MIB = 1 << 20
GIB = 1 << 30
RMEM, WMEM = (4096, 131072, 6291456), (4096, 16384, 4194304)
BIG = (50 * MIB,) * 3
HUGE = (4096, 131072, 100 << 20)
FIXTURES = Path(__file__).parents[3] / "fixtures" / "theory"
MEASURED: list[dict[str, Any]] = json.loads((FIXTURES / "measured.json").read_text())["runs"]
SWEEP: list[dict[str, Any]] = json.loads((FIXTURES / "sweep.json").read_text())["runs"]


def flow(
    kernel: str,
    *,
    rmem: tuple[int, int, int] = RMEM,
    wmem: tuple[int, int, int] = WMEM,
    rate_mbit: float | None = 1000,
    rtt_ms: float = 200,
    offloads: bool = True,
) -> Prediction:
    found = predict(
        rate_mbit=rate_mbit,
        rtt_ms=rtt_ms,
        tcp_rmem=rmem,
        tcp_wmem=wmem,
        kernel=kernel,
        offloads=offloads,
    )
    assert found is not None
    return found


def recorded(run: dict[str, Any]) -> Prediction:
    return flow(
        run["kernel"],
        rmem=tuple(run["tcp_rmem"]),
        wmem=tuple(run["tcp_wmem"]),
        rate_mbit=run["rate_mbit"],
        rtt_ms=run["rtt_ms"],
        offloads=run["offloads"],
    )


def apart_pct(predicted: float, measured: float) -> float:
    return 100 * abs(predicted / measured - 1)


@pytest.mark.parametrize("run", MEASURED, ids=lambda run: f"{run['kernel']}-{run['name']}")
def test_predict_is_within_the_tolerance_of_its_bound(run: dict[str, Any]) -> None:
    found = recorded(run)
    if found.tolerance_pct is None:
        # A send buffer of 256 KiB: known to fall short, see send_bound_bytes().
        assert run["name"] == "wmem256k"
        assert run["steady_bytes_s"] > 1.5 * found.goodput_bytes_s
        return
    assert apart_pct(found.goodput_bytes_s, run["steady_bytes_s"]) < found.tolerance_pct


def of_sweep(run: dict[str, Any]) -> Prediction:
    size = run["buffer_bytes"]
    by_hand = size if run["series"] == "setsockopt" else None
    both = RMEM if by_hand else (4096, size, size)
    found = predict(
        rate_mbit=run["rate_mbit"],
        rtt_ms=run["rtt_ms"],
        kernel=run["kernel"],
        tcp_rmem=both,
        tcp_wmem=both,
        rcvbuf_bytes=by_hand,
        sndbuf_bytes=by_hand,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("kernel", ["6.1.192", "6.12.117"])
@pytest.mark.parametrize("rate_mbit", [1000, 100])
def test_predict_is_within_five_percent_over_a_sweep(kernel: str, rate_mbit: float) -> None:
    """64 KiB to 128 MiB, by sysctl and by setsockopt, on two links: 1000 Mbit/s and 200 ms, and
    100 Mbit/s and 50 ms."""
    runs = [
        run
        for run in SWEEP
        if (run["kernel"], run["rate_mbit"]) == (kernel, rate_mbit) and run["settled"]
    ]
    apart = {
        (run["series"], run["buffer_bytes"]): apart_pct(
            of_sweep(run).goodput_bytes_s, run["steady_bytes_s"]
        )
        for run in runs
    }
    assert len(apart) == (38 if rate_mbit == 1000 else 15)
    assert max(apart.values()) < 4  # 5 % are asked for; more than 3.2 % was never seen


def test_predict_bound_of_a_small_buffer_differs_by_kernel() -> None:
    bounds = {
        kernel: of_sweep(
            next(run for run in SWEEP if run["kernel"] == kernel and run["buffer_bytes"] == 65536)
        ).bound
        for kernel in ("6.1.192", "6.12.117")
    }
    assert bounds == {"6.1.192": RECEIVE_WINDOW, "6.12.117": SEND_BUFFER}


def test_refilled_bytes_s_reaches_its_window_or_less() -> None:
    """A send buffer with room to spare leaves the window; a rate that is lower leaves the rate."""
    window = 100 * 1448
    roomy = refilled_bytes_s(1 << 20, window, rtt_ms=100, overhead_bytes=960)
    assert roomy == pytest.approx(window / 0.1, rel=0.02)
    tight = refilled_bytes_s(window, window, rtt_ms=100, overhead_bytes=960)
    assert 0.5 * roomy < tight < 0.95 * roomy
    slow = refilled_bytes_s(1 << 20, window, rtt_ms=100, overhead_bytes=960, rate_mbit=4)
    assert slow == pytest.approx(line_goodput_bytes_s(4), rel=0.02)
    for sndbuf, allowed in ((4608, 856), (1, 0)):
        assert refilled_bytes_s(sndbuf, allowed, rtt_ms=0.01, overhead_bytes=1280) > 0


@pytest.mark.parametrize(
    "run",
    [run for run in MEASURED if run["name"] != "wmem256k"],
    ids=lambda run: f"{run['kernel']}-{run['name']}",
)
def test_mean_goodput_counts_slow_start(run: dict[str, Any]) -> None:
    # 3 %: the bound's own 2 %, and a send buffer that grows while slow start goes on.
    mean = mean_goodput_bytes_s(
        recorded(run).goodput_bytes_s, run["rtt_ms"], duration_s=run["duration_s"]
    )
    assert apart_pct(mean, run["mean_bytes_s"]) < 3


def test_predict_bounds_of_the_article() -> None:
    for kernel in ("6.1.192", "6.12.117"):
        assert flow(kernel).bound == SEND_BUFFER
        assert flow(kernel, wmem=BIG).bound == RECEIVE_WINDOW
        assert flow(kernel, wmem=BIG, rmem=BIG).bound == LINE
        # The receiver's buffer alone does not help either: the sender's held it back already.
        assert flow(kernel, rmem=BIG).goodput_bytes_s == flow(kernel).goodput_bytes_s


# wget's own figures for 1 GiB; its clock starts with the first byte, a round trip late.
@pytest.mark.parametrize(
    ("kernel", "wmem", "rmem", "measured_mib_s"),
    [
        ("6.1", WMEM, RMEM, 13.4),
        ("6.1", BIG, RMEM, 14.6),
        ("6.1", BIG, BIG, 93.7),
        ("6.12", WMEM, RMEM, 13.6),
        ("6.12", BIG, RMEM, 21.6),
        ("6.12", BIG, BIG, 93.7),
    ],
)
def test_mean_goodput_of_wget_of_a_gigabyte(
    kernel: str, wmem: tuple[int, int, int], rmem: tuple[int, int, int], measured_mib_s: float
) -> None:
    found = flow(kernel, wmem=wmem, rmem=rmem)
    seconds = GIB / mean_goodput_bytes_s(found.goodput_bytes_s, 200, transfer_bytes=GIB) - 0.2
    assert found.tolerance_pct is not None
    assert apart_pct(GIB / MIB / seconds, measured_mib_s) < found.tolerance_pct


# Figures of other builds of these kernels (HZ 100, another configuration) for 30 seconds; curl's
# clock starts before the handshake, a round trip early. 3 %: the bound's 2 %, and the other build.
@pytest.mark.parametrize(
    ("kernel", "wmem", "rmem", "measured_mb_s"),
    [
        ("6.1", WMEM, RMEM, 13.1),
        ("6.1", BIG, RMEM, 14.8),
        ("6.12", WMEM, RMEM, 13.6),
        ("6.12", BIG, RMEM, 22.1),
    ],
)
def test_mean_goodput_of_curl_for_thirty_seconds(
    kernel: str, wmem: tuple[int, int, int], rmem: tuple[int, int, int], measured_mb_s: float
) -> None:
    steady = flow(kernel, wmem=wmem, rmem=rmem).goodput_bytes_s
    mean = mean_goodput_bytes_s(steady, 200, duration_s=29.8) * 29.8 / 30
    assert apart_pct(mean / 1e6, measured_mb_s) < 3


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_mean_goodput_of_curl_of_a_gigabyte(kernel: str) -> None:
    steady = flow(kernel, wmem=BIG, rmem=BIG).goodput_bytes_s
    seconds = GIB / mean_goodput_bytes_s(steady, 200, transfer_bytes=GIB) + 0.2
    assert apart_pct(GIB / seconds / 1e6, 94.8) < 1


def test_predict_steady_figures_of_the_article() -> None:
    both = flow("6.1", wmem=BIG, rmem=BIG)
    assert both.goodput_mib_s == pytest.approx(114.0, abs=0.05)
    assert both.goodput_bytes_s == line_goodput_bytes_s(1000)
    assert both.bdp_bytes == 25e6
    assert both.window_bytes == pytest.approx(25 * MIB, rel=1e-3)
    # 20 mbit through netem, measured elsewhere: 19.13 Mbit/s of payload.
    assert line_goodput_bytes_s(20) * 8 / 1e6 == pytest.approx(19.13, abs=0.01)


def test_predict_send_buffer_of_one_and_a_half_bdp_fills_the_line() -> None:
    enough, less = (
        flow("6.1", rmem=(100 * MIB,) * 3, wmem=(round(share * 25e6),) * 3) for share in (1.5, 1.2)
    )
    assert (enough.bound, less.bound) == (LINE, SEND_BUFFER)
    assert less.goodput_bytes_s / enough.goodput_bytes_s == pytest.approx(0.82, abs=0.01)


def test_predict_without_rate_or_round_trip() -> None:
    assert predict(rate_mbit=None, rtt_ms=0, tcp_rmem=RMEM, tcp_wmem=WMEM, kernel="6.1") is None
    assert flow("6.1", rtt_ms=0).bound == LINE
    unshaped = flow("6.1", rate_mbit=None)
    assert (unshaped.line_bytes_s, unshaped.bdp_bytes) == (None, None)
    assert unshaped.bound == SEND_BUFFER


@pytest.mark.parametrize("kernel", ["6.1.192", "6.12.117"])
def test_predict_buffer_set_by_hand_stays_as_granted(kernel: str) -> None:
    """131072 asked for, 262144 granted; 129,624 of it are window on 6.1 (measured there)."""
    found = predict(
        rate_mbit=1000, rtt_ms=200, tcp_rmem=HUGE, tcp_wmem=HUGE, kernel=kernel, rcvbuf_bytes=262144
    )
    assert found is not None and found.bound == RECEIVE_WINDOW
    assert found.window_bytes == receive_window_bytes(262144, kernel)
    if kernel.startswith("6.1."):
        assert found.window_bytes == 129624
    sent = predict(
        rate_mbit=1000,
        rtt_ms=200,
        tcp_rmem=HUGE,
        tcp_wmem=HUGE,
        kernel=kernel,
        sndbuf_bytes=4 << 20,
    )
    own = predict(
        rate_mbit=1000, rtt_ms=200, tcp_rmem=HUGE, kernel=kernel, tcp_wmem=(4096, 16384, 4 << 20)
    )
    assert sent is not None and sent.bound == SEND_BUFFER
    assert sent == own
