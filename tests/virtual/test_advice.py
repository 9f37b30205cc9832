"""The advised buffers on virtual kernels: they fill the link, and a fifth less does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.guest.units import MIB
from labs.read.runs.run import open_run
from labs.read.theory.advice import advise, at_least, reached
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
    advised, less = measure(wanted, into=str(tmp_path))
    assert (advised["buffers"], less["buffers"]) == ("advised", "smaller")
    assert advised["of_the_link_pct"] >= 95 > less["of_the_link_pct"]
    for row in (advised, less):
        assert open_run(tmp_path / row["run"]).link.ok
        # The goal of the model: at most 5 % at any point.
        assert row["predicted_mib_s"] == pytest.approx(row["measured_mib_s"], rel=0.05)


@pytest.mark.parametrize("control", ["cubic", "bbr"])
def test_measure_repeats_a_lossy_path_with_other_seeds(control: str, tmp_path: Path) -> None:
    """10 Mbit/s, 100 ms and 1 %: by the formula of Mathis 16 % of the link for CUBIC. BBR fills
    nearly all of it."""
    advice = advise(10, 100, DEFAULT_KERNEL, loss_pct=1, control=control)
    least = at_least(advice)
    (row,) = measure({"least": least}, into=str(tmp_path))
    runs = [open_run(tmp_path / name) for name in row["run"].split(", ")]
    assert len({run.digest for run in runs}) == 5
    assert row["lowest_mib_s"] < row["measured_mib_s"] < row["highest_mib_s"]
    for run in runs:
        assert run.link.asked.loss_pct == 1
        assert run.sysctl("server", "net.ipv4.tcp_congestion_control") == control
    if control == "bbr":
        assert least.cannot_say and row["predicted_mib_s"] is None
        assert row["of_the_link_pct"] > 85
    else:
        low, high = least.between_bytes_s or (0, 0)
        assert low < row["measured_mib_s"] * MIB < high < 0.3 * advice.line_bytes_s
