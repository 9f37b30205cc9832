"""The model and the kernel agree about queues shorter than the BDP, on every kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.model import compare, flow_of, measure
from benchmarks.points import Point, read
from labs.read.theory.bulk import transfer
from labs.read.theory.bulk_interval import interval
from tests.conftest import DEFAULT_KERNEL

KERNELS = [
    DEFAULT_KERNEL,
    *(pytest.param(name, marks=pytest.mark.kernel(name)) for name in ("5.10", "6.12", "7.2")),
]


def shortest(kernel: str) -> list[Point]:
    """The points of a kernel with a prediction through a queue that overflows, which take the
    least time: one at the sender and one at a router."""
    found = [
        one
        for one in read("queues")
        if one.kernel == kernel and transfer(flow_of(one), one.transfer_bytes).overflows
    ]
    ordered = sorted(found, key=lambda one: one.transfer_bytes)
    return list({one.shaped_at: one for one in reversed(ordered)}.values())


@pytest.mark.parametrize("kernel", KERNELS)
def test_short_queues(kernel: str, tmp_path: Path) -> None:
    points = shortest(kernel)
    measured = measure(points, str(tmp_path), None)
    for point in points:
        found = compare(point, measured[point.name])
        between = interval(flow_of(point), point.transfer_bytes)
        assert found.measured_steady_bytes_s is not None and found.error_pct is not None
        assert between is not None
        low, high = between.steady_bytes_s
        assert abs(found.error_pct) <= 5 or low <= found.measured_steady_bytes_s <= high
