"""The formulas against what the virtual kernels did, and against the figures of article 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.errors import BadInput
from labs.read.theory.bdp import (
    bdp_bytes,
    line_goodput_bytes_s,
    mean_goodput_bytes_s,
    payload_share,
)
from labs.read.theory.bounds import LINE, RECEIVE_WINDOW, SEND_BUFFER, Prediction, predict
from labs.read.theory.refills import refilled_bytes_s
from labs.read.theory.windows import (
    first_ratio,
    granted_bytes,
    receive_window_bytes,
    scaling_ratio,
    segment_overhead_bytes,
    send_bound_bytes,
    series,
)

MIB = 1 << 20
GIB = 1 << 30
RMEM, WMEM = (4096, 131072, 6291456), (4096, 16384, 4194304)
BIG = (50 * MIB,) * 3
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
def test_the_steady_goodput_is_within_the_tolerance_of_its_bound(run: dict[str, Any]) -> None:
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
def test_every_settled_point_of_a_sweep_is_within_five_percent(
    kernel: str, rate_mbit: float
) -> None:
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


def test_what_holds_a_small_buffer_is_the_window_on_6_1_and_the_writer_on_6_12() -> None:
    bounds = {
        kernel: of_sweep(
            next(run for run in SWEEP if run["kernel"] == kernel and run["buffer_bytes"] == 65536)
        ).bound
        for kernel in ("6.1.192", "6.12.117")
    }
    assert bounds == {"6.1.192": RECEIVE_WINDOW, "6.12.117": SEND_BUFFER}


def test_a_flow_that_is_played_comes_to_its_window_or_less() -> None:
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


def test_what_setsockopt_grants() -> None:
    """Doubled, not below the kernel's smallest, capped before it is doubled."""
    cap = 212992
    assert [granted_bytes(size, cap, "receive") for size in (1, 2304, 65536, cap, cap + 1)] == [
        2304,
        4608,
        131072,
        425984,
        425984,
    ]
    assert [granted_bytes(size, cap, "send") for size in (1, 2304, 4096)] == [4608, 4608, 8192]


@pytest.mark.parametrize(
    "run",
    [run for run in MEASURED if run["name"] != "wmem256k"],
    ids=lambda run: f"{run['kernel']}-{run['name']}",
)
def test_the_mean_counts_the_slow_start(run: dict[str, Any]) -> None:
    # 3 %: the bound's own 2 %, and a send buffer that grows while slow start goes on.
    mean = mean_goodput_bytes_s(
        recorded(run).goodput_bytes_s, run["rtt_ms"], duration_s=run["duration_s"]
    )
    assert apart_pct(mean, run["mean_bytes_s"]) < 3


def test_what_holds_each_flow_of_the_article_back() -> None:
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
def test_wget_of_a_gigabyte(
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
def test_curl_for_thirty_seconds(
    kernel: str, wmem: tuple[int, int, int], rmem: tuple[int, int, int], measured_mb_s: float
) -> None:
    steady = flow(kernel, wmem=wmem, rmem=rmem).goodput_bytes_s
    mean = mean_goodput_bytes_s(steady, 200, duration_s=29.8) * 29.8 / 30
    assert apart_pct(mean / 1e6, measured_mb_s) < 3


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_curl_of_a_gigabyte_with_large_buffers(kernel: str) -> None:
    steady = flow(kernel, wmem=BIG, rmem=BIG).goodput_bytes_s
    seconds = GIB / mean_goodput_bytes_s(steady, 200, transfer_bytes=GIB) + 0.2
    assert apart_pct(GIB / seconds / 1e6, 94.8) < 1


def test_steady_figures_that_the_article_and_the_lines_give() -> None:
    both = flow("6.1", wmem=BIG, rmem=BIG)
    assert both.goodput_mib_s == pytest.approx(114.0, abs=0.05)
    assert both.goodput_bytes_s == line_goodput_bytes_s(1000)
    assert both.bdp_bytes == 25e6
    assert both.window_bytes == pytest.approx(25 * MIB, rel=1e-3)
    # 20 mbit through netem, measured elsewhere: 19.13 Mbit/s of payload.
    assert line_goodput_bytes_s(20) * 8 / 1e6 == pytest.approx(19.13, abs=0.01)


def test_bdp_and_the_payload_s_share() -> None:
    assert bdp_bytes(1000, 200) == 25e6
    assert bdp_bytes(1000, 400) == 50e6
    assert payload_share() == 1448 / 1514
    assert payload_share(1460, 54) == 1460 / 1514


def test_windows_to_the_byte() -> None:
    # rcv_ssthresh as inet_diag showed it in those runs, and as it is given for other kernels.
    assert receive_window_bytes(1048576, "6.1") == 522840
    assert receive_window_bytes(131072, "6.1") == 64088
    assert receive_window_bytes(524288, "6.1") == 260696
    assert receive_window_bytes(6291456, "6.12") == 4716786
    assert receive_window_bytes(104857600, "6.12") == 78641394
    assert receive_window_bytes(1048576, "6.12", offloads=False) == 625248
    # 6.1 with a buffer that had grown there: one segment less 84 bytes.
    assert abs(receive_window_bytes(6291456, "6.1") - 3144364) < 1448


def test_the_share_that_becomes_window() -> None:
    assert scaling_ratio() == 192
    assert scaling_ratio(1448, 2408) == 153
    # Debian's own kernels over veth, with and without offloads; a TUN device; MSS 1024.
    assert (scaling_ratio(2896, 3792), scaling_ratio(1448, 2344)) == (195, 158)
    assert (scaling_ratio(1448, 2304), scaling_ratio(1024, 2304)) == (160, 113)
    assert scaling_ratio(1, 10**6) == 1
    assert (first_ratio("6.6"), first_ratio("6.12")) == (65, 128)


def test_the_setting_that_is_ignored_from_6_6_on() -> None:
    old = [receive_window_bytes(MIB, "6.1", adv_win_scale=scale) for scale in (-2, -1, 0, 1, 2)]
    assert old == [
        MIB // 4 - 1448,
        MIB // 2 - 1448,
        MIB - 1448,
        MIB // 2 - 1448,
        MIB * 3 // 4 - 1448,
    ]
    new = {receive_window_bytes(MIB, "6.6", adv_win_scale=scale) for scale in (-2, 0, 1, 2)}
    assert len(new) == 1


def test_a_locked_buffer_keeps_its_first_share_until_6_11() -> None:
    shares = [
        receive_window_bytes(MIB, kernel, locked=True) / MIB for kernel in ("6.8", "6.10", "6.11")
    ]
    assert shares == pytest.approx([0.254, 0.5, 0.75], abs=0.01)


def test_what_a_sent_segment_costs() -> None:
    assert (segment_overhead_bytes("6.1"), segment_overhead_bytes("6.12")) == (1280, 960)
    # A small buffer holds whole super-packets of 65,160 bytes, at least one.
    assert send_bound_bytes(32768, "6.12") == 65160
    assert send_bound_bytes(131072, "6.12") == 130320
    assert send_bound_bytes(4194304, "6.1") < send_bound_bytes(4194304, "6.12")


def test_a_send_buffer_must_be_half_as_large_again_as_the_bdp() -> None:
    enough, less = (
        flow("6.1", rmem=(100 * MIB,) * 3, wmem=(round(share * 25e6),) * 3) for share in (1.5, 1.2)
    )
    assert (enough.bound, less.bound) == (LINE, SEND_BUFFER)
    assert less.goodput_bytes_s / enough.goodput_bytes_s == pytest.approx(0.82, abs=0.01)


def test_without_rate_or_round_trip_nothing_here_bounds_a_flow() -> None:
    assert predict(rate_mbit=None, rtt_ms=0, tcp_rmem=RMEM, tcp_wmem=WMEM, kernel="6.1") is None
    assert flow("6.1", rtt_ms=0).bound == LINE
    unshaped = flow("6.1", rate_mbit=None)
    assert (unshaped.line_bytes_s, unshaped.bdp_bytes) == (None, None)
    assert unshaped.bound == SEND_BUFFER


def test_short_transfers_end_in_slow_start() -> None:
    # Ten segments come one round trip after the request; thirty after two.
    assert mean_goodput_bytes_s(1e9, 100, transfer_bytes=14480) == pytest.approx(144_800)
    assert mean_goodput_bytes_s(1e9, 100, transfer_bytes=43440) == pytest.approx(217_200)
    assert mean_goodput_bytes_s(1e9, 100, duration_s=0.15) == pytest.approx(14480 / 0.15)
    assert mean_goodput_bytes_s(1e6, 0, transfer_bytes=1e6) == pytest.approx(1e6)
    with pytest.raises(ValueError, match="not both"):
        mean_goodput_bytes_s(1e6, 100)


def test_kernels_by_their_series() -> None:
    assert series("6.1") == series("6.1.192-2") == (6, 1)
    assert series("5.10.0-30-amd64") == (5, 10)
    assert series("6.18.44-fc") > series("6.6.0")
    for wrong in ("", "six", "6", "3f9a2c41", "6.x"):
        with pytest.raises(BadInput, match="kernel version"):
            series(wrong)
