"""The figures of a transfer from its arrivals, worked out by hand."""

from __future__ import annotations

import numpy
import pytest

from labs.drive.units import SECOND_NS
from labs.read.stats.arrivals import of_arrivals

TIMES_NS = numpy.arange(10) * SECOND_NS
HAD_BYTES = numpy.cumsum([100] * 6 + [400] * 4)
"""Ten arrivals, one per second, of 100 bytes at first and of 400 bytes in the last four."""


def test_goodput_is_all_payload_from_the_first_arrival_to_the_last() -> None:
    found = of_arrivals(TIMES_NS, HAD_BYTES)
    assert (found.took_s, found.payload_bytes) == (9, 2200)
    assert found.goodput_bytes_s == pytest.approx(2200 / 9)


def test_steady_is_the_payload_of_the_last_third() -> None:
    """From 6 s on, when 1,000 bytes had arrived, to 9 s."""
    assert of_arrivals(TIMES_NS, HAD_BYTES).steady_bytes_s == pytest.approx(1200 / 3)


def test_payload_between_two_arrivals_is_interpolated() -> None:
    """The last third begins at 2/3 s, between arrivals at 0 and 1 s."""
    found = of_arrivals(numpy.array([0, SECOND_NS]), numpy.array([100, 400]))
    assert found.steady_bytes_s == pytest.approx((400 - (100 + 300 * 2 / 3)) / (1 / 3))


def test_transfer_ends_with_the_bytes_that_were_wanted() -> None:
    found = of_arrivals(TIMES_NS, HAD_BYTES, 600)
    assert (found.took_s, found.payload_bytes) == (5, 600)
    assert found.goodput_bytes_s == pytest.approx(120)


def test_one_arrival_has_no_goodput() -> None:
    found = of_arrivals([5], [1448])
    assert (found.goodput_bytes_s, found.steady_bytes_s) == (None, None)
