"""The sweep on the kernels that are built here: the theory, and what fills a link."""

from __future__ import annotations

from pathlib import Path

import pytest

import labs
from labs.drive.kernel import store
from labs.errors import LabError
from labs.experiments.buffers.parameters import Buffers
from labs.experiments.buffers.sweep import smallest
from labs.read.theory.bounds import advise

# Around a BDP of 610 KiB, where a send buffer's refills count; and one that is far too small.
POINTS = "sweep-64k,sweep-305k,sweep-610k,sweep-916k,sweep-1221k,sweep-set-610k,sweep-set-1221k"
MIB = 1 << 20


def built(version: str) -> str:
    """The version, if that kernel is built here; else the test is skipped."""
    try:
        store.find(version)
    except LabError as error:
        pytest.skip(str(error))
    return version


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_every_point_is_predicted_and_twice_the_bdp_is_enough(kernel: str, tmp_path: Path) -> None:
    """6.1 needs twice the BDP, 6.12 one and a half times: then it is the writer that waits."""
    study = labs.study(
        Buffers(
            kernel=built(kernel),
            rate_mbit=100,
            delay_ms=50,
            limit_s=20,
            size="full",
            only=POINTS,
            runs=str(tmp_path),
        )
    )
    table = study.results()
    assert table["settled"].all()
    apart = 100 * (table["predicted_mib_s"] / table["steady_mib_s"] - 1)
    assert apart.abs().max() < 5
    found = smallest(table)[0]
    assert found.of_the_bdp == pytest.approx(2.0 if kernel == "6.1" else 1.5, rel=0.01)


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_the_advised_buffers_fill_the_link(kernel: str, tmp_path: Path) -> None:
    wished = advise(1000, 100, built(kernel))
    needed_mib = max(wished.receive_bytes, wished.send_bytes) / MIB
    study = labs.study(
        Buffers(
            kernel=kernel,
            delay_ms=100,
            buffer_mib=needed_mib,
            only="both",
            transfer_mib=512,
            runs=str(tmp_path),
        )
    )
    assert study.results()["steady_mib_s"].iloc[0] == pytest.approx(114, rel=0.01)
