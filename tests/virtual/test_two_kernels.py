"""One study on two kernels: the second stands beside the first, which stays the newest."""

from __future__ import annotations

from pathlib import Path

import pytest

import labs
from labs.experiments.buffers.parameters import Buffers
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
    assert missing.runs == () and "labs kernel" in missing.lacks
