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
    found = list(sobol(208, UNSHIFTED))
    assert found[0] == (0.0,) * 8
    assert found[1] == (0.5,) * 8
    assert found[2] == (0.75, 0.25, 0.25, 0.25, 0.75, 0.75, 0.25, 0.75)
    last = (0.08203125, 0.76171875, 0.03515625, 0.71484375)
    assert found[207] == (*last, 0.94140625, 0.93359375, 0.65234375, 0.34765625)
    assert found[4] == (0.375, 0.375, 0.625, 0.875, 0.375, 0.125, 0.375, 0.875)


def test_sobol_covers_each_half_of_each_dimension_equally() -> None:
    found = list(sobol(64, (0x9E3779B9,) * 8))
    for values in zip(*found, strict=True):
        assert sum(value < 0.5 for value in values) == 32


@pytest.mark.parametrize(("name", "count"), [("a", 208), ("b", 104)])
def test_points_are_as_many_as_announced_and_in_their_ranges(name: str, count: int) -> None:
    found = read(name)
    assert len(found) == len({one.name for one in found}) == count
    for one in found:
        assert 1 <= one.rate_mbit <= 10_000 and 0.5 <= one.rtt_ms <= 500
        for kib in (one.sndbuf_kib, one.rcvbuf_kib):
            assert kib == 0 or 16 <= 2 * kib <= 64 * KIB
        assert 2 * MB <= one.transfer_bytes <= 128 * MB


@pytest.mark.parametrize("name", points.CLIENTS)
def test_downloads_are_spread_over_kernels(name: str) -> None:
    """A quarter each, exactly, as the sequence is even in each dimension."""
    found = read(name)
    assert set(Counter(one.kernel for one in found).values()) == {len(found) // 4}
    assert {one.client for one in found} == {points.CLIENTS[name]}


@pytest.mark.parametrize("name", [one for one in points.SETS if one not in points.CLIENTS])
def test_points_are_spread_over_kernels_segments_buffers_and_writes(name: str) -> None:
    """A third each of kernels, segment sizes and write patterns, to within 2 points, as the
    sequence is even in each dimension."""
    found = read(name)
    third = len(found) / 3
    for counted in (
        Counter(one.kernel for one in found),
        Counter(one.mss_bytes for one in found),
        Counter(pattern(one) for one in found),
    ):
        assert len(counted) == 3
        assert all(abs(count - third) <= 2 for count in counted.values())
    for kib in ([one.sndbuf_kib for one in found], [one.rcvbuf_kib for one in found]):
        assert kib.count(0) == points.AUTOMATIC_SHARE * len(found)


def test_sets_have_no_point_in_common() -> None:
    def place(one: Point) -> tuple[float, float]:
        return one.rate_mbit, one.rtt_ms

    assert not {place(one) for one in read("a")} & {place(one) for one in read("b")}


def pattern(one: Point) -> str:
    if one.write_bytes == 128 * KIB:
        return "large"
    return "whole" if one.write_bytes == 16 * one.mss_bytes else "odd"


def test_written_is_no_multiple_of_the_mss_if_it_shall_be_odd() -> None:
    smallest = points.written(0.9, 0.0, 1000)
    assert smallest == points.ODD_WRITE_BYTES[0] + 1 == 3001
