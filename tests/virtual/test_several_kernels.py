"""One study on several kernels: the first stays the newest of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import labs
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.runs.schemas import open_study


@pytest.mark.kernel("6.12")
def test_study_on_another_kernel_leaves_the_first_the_newest(tmp_path: Path) -> None:
    p = Buffers(only="both,default", rate_mbit=10, delay_ms=40, transfer_mib=1, runs=str(tmp_path))
    study = labs.study(p)
    other = study.on("6.12", "both")
    assert other.lacks == ""
    assert other.conditions == ("both",)
    assert other.runs[0].kernel.release.startswith("6.12.")
    newest = open_study(tmp_path / "studies" / "buffers.json")
    assert newest.parameters["kernel"] == "6.1"
    assert [one.key for one in newest.plan] == [run.key for run in study.runs]
    missing = study.on("5.4")
    assert missing.runs == () and "5.10, 6.1, 6.12, 7.2" in missing.lacks


@pytest.mark.kernel("5.10", "6.12", "7.2")
def test_study_of_four_kernels_shows_the_default_sizes_of_each(tmp_path: Path) -> None:
    """net/ipv4/tcp.c tcp_init() (6.16) and net/core/sock.c (6.18)."""
    p = Buffers(kernel="6.1,5.10,6.12,7.2,5.4", only="setsockopt", runs=str(tmp_path))
    study = labs.study(p)
    largest = {
        one.parameters.kernel: [
            int(one.runs[0].sysctls["client"]["before"][name].split()[-1])
            for name in ("net.ipv4.tcp_rmem", "net.core.rmem_max")
        ]
        for one in study.kernels
        if one.runs
    }
    assert largest == {
        "6.1": [6_291_456, 212_992],
        "5.10": [6_291_456, 212_992],
        "6.12": [6_291_456, 212_992],
        "7.2": [33_554_432, 4_194_304],
    }
    (lacking,) = [one.lacks for one in study.kernels if not one.runs]
    assert "no kernel 5.4 is built" in lacking and "5.10, 6.1, 6.12, 7.2" in lacking
    newest = open_study(tmp_path / "studies" / "buffers.json")
    assert newest.parameters["kernel"] == "6.1"
