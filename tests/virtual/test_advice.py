"""The advised buffers on virtual kernels: they fill the link, and a fifth less does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.read.theory.advice import advise, at_least, between_bytes_s, reached
from labs.studies.advice import measure
from tests.conftest import DEFAULT_KERNEL


@pytest.mark.parametrize(
    "kernel",
    [
        DEFAULT_KERNEL,
        *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("6.12", "7.2")),
    ],
)
def test_advised_buffers_fill_a_link_and_smaller_ones_do_not(kernel: str, tmp_path: Path) -> None:
    """100 Mbit/s and 40 ms, where sizes computed for each end alone reach 78 % together."""
    advice = advise(100, 40, kernel)
    smaller = reached(
        advice,
        sndbuf_bytes=8 * advice.send_bytes // 10,
        rcvbuf_bytes=8 * advice.receive_bytes // 10,
    )
    wanted = {"advised": at_least(advice), "smaller": smaller}
    measured = {result.name: result for result in measure(advice, wanted, into=str(tmp_path))}
    share = {
        name: result.goodput_bytes_s / advice.line_bytes_s for name, result in measured.items()
    }
    assert share["advised"] >= 0.95
    assert share["smaller"] < 0.95
    for result in measured.values():
        assert all(run.link.ok for run in result.runs)
        # The goal of the model: at most 5 % at any point.
        assert result.predicted.goodput_bytes_s == pytest.approx(result.goodput_bytes_s, rel=0.05)


@pytest.mark.parametrize("control", ["cubic", "bbr"])
def test_measure_repeats_a_lossy_path_with_other_seeds(control: str, tmp_path: Path) -> None:
    """10 Mbit/s, 100 ms and 1 %: by the formula of Mathis 16 % of the link for CUBIC. BBR fills
    nearly all of it."""
    advice = advise(10, 100, DEFAULT_KERNEL, loss_pct=1, control=control)
    (result,) = measure(advice, {"least": at_least(advice)}, into=str(tmp_path))
    assert len({run.name for run in result.runs}) == len(result.goodputs_bytes_s) == 5
    for run in result.runs:
        assert run.link.asked.loss_pct == 1
        assert run.sysctl("server", "net.ipv4.tcp_congestion_control") == control
    assert len(set(result.goodputs_bytes_s)) == 5
    if control == "bbr":
        assert result.predicted.cannot_say
        assert result.goodput_bytes_s > 0.85 * advice.line_bytes_s
    else:
        low, high = between_bytes_s(advice, result.predicted) or (0, 0)
        assert low < result.goodput_bytes_s < high < 0.3 * advice.line_bytes_s
