"""The article's series with both buffers on two machines, at a rate that they carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.guest.units import MIB
from tests.vm.test_buffers import answer

pytestmark = pytest.mark.timeout(1800)
SIZES = ("16k", "64k", "256k", "1m", "4m", "16m")
LINE_BYTES_S = 12.5e6 * 1448 / 1514
"""Payload of full frames at 100 Mbit/s."""


def test_goodput_rises_with_both_buffers_up_to_the_bdp(tmp_path: Path) -> None:
    """The BDP of 100 Mbit/s and 20 ms is 250 kB: 16 and 64 KiB limit a transfer, 256 KiB and more
    do not. Slow start takes a tenth of a second of the transfer's one second."""
    said = answer(
        *("run", "sweeps", "--testbed", "vagrant", "--size", "small", "--into", str(tmp_path)),
        *("--repetitions-min", "1", "--repetitions-max", "1"),
    )
    found = {row["condition"]: row["steady_mib_s"] * MIB for row in said["results"]}
    assert list(found) == ["default", *(f"both-{size}" for size in SIZES)]
    rising = [found[f"both-{size}"] for size in SIZES[:3]]
    assert rising == sorted(rising) and 3 * rising[0] < rising[2]
    for name in ("default", "both-1m", "both-4m", "both-16m"):
        assert 0.9 * LINE_BYTES_S < found[name] < 1.05 * LINE_BYTES_S
