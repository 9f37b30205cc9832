"""The points at which the model of a bulk transfer is tested."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import points
from benchmarks.points import Point, generated, read, sobol

KIB, MIB, MB = 1 << 10, 1 << 20, 10**6
UNSHIFTED = (0,) * 8


@pytest.mark.parametrize("name", points.SETS)
def test_read_gives_the_points_that_the_seed_generates(name: str) -> None:
    assert read(name) == generated(name)


def test_sobol_is_the_sequence_of_joe_and_kuo() -> None:
    """Some of the points of scipy.stats.qmc.Sobol(8, scramble=False, bits=32), version 1.17. The
    first 208 were compared once, and are equal."""
    values_drawn = list(sobol(208, UNSHIFTED))
    assert values_drawn[0] == (0.0,) * 8
    assert values_drawn[1] == (0.5,) * 8
    assert values_drawn[2] == (0.75, 0.25, 0.25, 0.25, 0.75, 0.75, 0.25, 0.75)
    last = (0.08203125, 0.76171875, 0.03515625, 0.71484375)
    assert values_drawn[207] == (*last, 0.94140625, 0.93359375, 0.65234375, 0.34765625)
    assert values_drawn[4] == (0.375, 0.375, 0.625, 0.875, 0.375, 0.125, 0.375, 0.875)


def test_sobol_covers_each_half_of_each_dimension_equally() -> None:
    values_drawn = list(sobol(64, (0x9E3779B9,) * 8))
    for values in zip(*values_drawn, strict=True):
        assert sum(value < 0.5 for value in values) == 32


@pytest.mark.parametrize(("name", "count"), [("a", 208), ("b", 104)])
def test_points_are_as_many_as_announced_and_in_their_ranges(name: str, count: int) -> None:
    points_of_set = read(name)
    assert len(points_of_set) == len({point.name for point in points_of_set}) == count
    for point in points_of_set:
        assert 1 <= point.rate_mbit <= 10_000 and 0.5 <= point.rtt_ms <= 500
        for kib in (point.sndbuf_kib, point.rcvbuf_kib):
            assert kib == 0 or 16 <= 2 * kib <= 64 * KIB
        assert 2 * MB <= point.transfer_bytes <= 128 * MB


@pytest.mark.parametrize("name", points.CLIENTS)
def test_downloads_are_spread_over_kernels(name: str) -> None:
    """A quarter each, exactly, as the sequence is even in each dimension."""
    points_of_set = read(name)
    assert set(Counter(point.kernel for point in points_of_set).values()) == {
        len(points_of_set) // 4
    }
    assert {point.client for point in points_of_set} == {points.CLIENTS[name]}


@pytest.mark.parametrize("name", [name for name in points.SETS if name not in points.CLIENTS])
def test_points_are_spread_over_kernels_segments_buffers_and_writes(name: str) -> None:
    """A third each of kernels, segment sizes and write patterns, to within 2 points, as the
    sequence is even in each dimension."""
    points_of_set = read(name)
    third = len(points_of_set) / 3
    for counted in (
        Counter(point.kernel for point in points_of_set),
        Counter(point.mss_bytes for point in points_of_set),
        Counter(pattern(point) for point in points_of_set),
    ):
        assert len(counted) == 3
        assert all(abs(count - third) <= 2 for count in counted.values())
    for kib in (
        [point.sndbuf_kib for point in points_of_set],
        [point.rcvbuf_kib for point in points_of_set],
    ):
        assert kib.count(0) == points.AUTOMATIC_SHARE * len(points_of_set)


def test_sets_have_no_point_in_common() -> None:
    def place(point: Point) -> tuple[float, float]:
        return point.rate_mbit, point.rtt_ms

    assert not {place(point) for point in read("a")} & {place(point) for point in read("b")}


def pattern(point: Point) -> str:
    if point.write_bytes == 128 * KIB:
        return "large"
    return "whole" if point.write_bytes == 16 * point.mss_bytes else "odd"


def test_written_is_no_multiple_of_the_mss_if_it_shall_be_odd() -> None:
    smallest = points.written(0.9, 0.0, 1000)
    assert smallest == points.ODD_WRITE_BYTES[0] + 1 == 3001
