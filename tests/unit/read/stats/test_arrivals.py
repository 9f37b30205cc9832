"""The figures of a bulk transfer from the arrivals of its payload."""

from __future__ import annotations

import pytest

from labs.read.stats.arrivals import of_arrivals

SECOND_NS = 10**9


def test_of_arrivals_counts_from_the_first_to_the_last() -> None:
    found = of_arrivals([5 * SECOND_NS, 6 * SECOND_NS, 8 * SECOND_NS], [100, 200, 900])
    assert (found.first_ns, found.last_ns) == (5 * SECOND_NS, 8 * SECOND_NS)
    assert (found.payload_bytes, found.took_s) == (900, 3.0)
    assert found.goodput_bytes_s == 300.0


def test_of_arrivals_takes_the_last_third_as_steady() -> None:
    """Twice as fast from the second third on: 2 s at 100 bytes/s, then 4 s at 200."""
    times = [second * SECOND_NS for second in range(7)]
    found = of_arrivals(times, [0, 100, 200, 400, 600, 800, 1000])
    assert found.steady_bytes_s == pytest.approx(200)
    assert found.goodput_bytes_s == pytest.approx(1000 / 6)


def test_of_arrivals_interpolates_where_the_last_third_begins() -> None:
    """The third begins at 2 s, halfway between arrivals at 1 s and 3 s."""
    found = of_arrivals([0, SECOND_NS, 3 * SECOND_NS], [100, 200, 400])
    assert found.steady_bytes_s == pytest.approx(100)


@pytest.mark.parametrize(("transfer_bytes", "ends_s"), [(200, 1), (201, 2), (300, 2), (999, 3)])
def test_of_arrivals_ends_with_the_arrival_that_completes_the_transfer(
    transfer_bytes: int, ends_s: int
) -> None:
    times = [second * SECOND_NS for second in range(4)]
    found = of_arrivals(times, [100, 200, 300, 400], transfer_bytes)
    assert found.last_ns == ends_s * SECOND_NS


def test_of_arrivals_has_no_rate_for_one_arrival() -> None:
    found = of_arrivals([SECOND_NS], [1448])
    assert (found.goodput_bytes_s, found.steady_bytes_s) == (None, None)
    assert (found.payload_bytes, found.took_s) == (1448, 0.0)
