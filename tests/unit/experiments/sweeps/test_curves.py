"""Where a curve rises, is best, and falls: worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from labs.drive.units import KIB
from labs.experiments.sweeps.curves import Curve, curves, series_of

LINK = {"rate_mbit": 1000.0, "rtt_ms": 8.0, "predicted_mib_s": None}
BDP_KIB = 1_000_000 / KIB


def row(
    condition: str, size_kib: float | None, steady: float | None, **changed: Any
) -> dict[str, Any]:
    sizes = {"requested_send_kib": size_kib, "requested_receive_kib": size_kib}
    return {"condition": condition, **sizes, **LINK, "steady_mib_s": steady, **changed}


def curve() -> Curve:
    rows = [
        row("both-1m", 1024.0, 96.0),
        row("both-64k", 64.0, 7.0),
        row("both-4m", 4096.0, 100.0),
        row("both-16m", 16384.0, 80.0),
    ]
    return curves(rows)["both"]


@pytest.mark.parametrize(
    ("condition", "series"),
    [
        ("both-16k", "both"),
        ("fixed-256k-4m", "fixed-256k"),
        ("fixed-8m-16k", "fixed-8m"),
        ("fixed-8m-default", None),
        ("default", None),
        ("surface-16k-1m", None),
        ("receiver-4m", "receiver"),
    ],
)
def test_series_of_a_condition(condition: str, series: str | None) -> None:
    assert series_of(condition) == series


def test_curve_is_in_the_order_of_its_sizes() -> None:
    assert [one.size_kib for one in curve().points] == [64, 1024, 4096, 16384]
    assert curve().bdp_kib == pytest.approx(BDP_KIB)


def test_full_is_the_smallest_size_with_95_percent_of_the_best() -> None:
    assert (curve().best.size_kib, curve().full.size_kib) == (4096, 1024)


def test_fall_is_counted_from_the_smallest_full_size_on() -> None:
    assert curve().fall_pct == pytest.approx(20)


def test_rise_up_to_a_size() -> None:
    assert curve().rise_pct(512) == pytest.approx(7)
    assert curve().rise_pct(1024) == pytest.approx(96)
    assert curve().rise_pct(1) == 0


def test_curves_take_the_size_that_varies_and_leave_out_runs_without_goodput() -> None:
    found = curves(
        [
            row("receiver-64k", None, 7.0, requested_receive_kib=64.0),
            row("sender-1m", None, 90.0, requested_send_kib=1024.0),
            row("sender-64k", 64.0, None),
            row("default", None, 113.0),
        ]
    )
    assert {name: [one.size_kib for one in one.points] for name, one in found.items()} == {
        "sender": [1024],
        "receiver": [64],
    }


def test_curves_of_no_runs_are_none() -> None:
    assert curves([]) == {}
