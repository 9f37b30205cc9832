"""Limits and ratios of conditions, judged on a lab of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from labs.read.claims.bounds import at_least, at_most, ratio, ratio_at_least
from labs.read.claims.evidence import Evidence
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED


class Rows:
    """The results of two conditions, as evidence has them."""

    def __init__(self, **rows: float | None) -> None:
        self._rows = rows

    def row(self, name: str) -> Mapping[str, Any]:
        return {"queue_ms": self._rows[name]}


def claim(expected: float, tolerance_pct: float, *conditions: str) -> Claim:
    return Claim(
        id="A6.1",
        statement="A figure.",
        expected=expected,
        unit="ms",
        tolerance_pct=tolerance_pct,
        tolerance_reason="chosen",
        conditions=conditions,
        arguments={"column": "queue_ms"},
    )


def seen(**rows: float | None) -> Evidence:
    return cast(Evidence, Rows(**rows))


@pytest.mark.parametrize(
    ("judge", "figure", "verdict"),
    [
        (at_most, 5.0, HOLDS),
        (at_most, 5.9, HOLDS),
        (at_most, 6.1, DIFFERS),
        (at_least, 4.1, HOLDS),
        (at_least, 3.9, DIFFERS),
        (at_least, None, NOT_JUDGED),
    ],
)
def test_limits_hold_within_the_tolerance(judge: Any, figure: float | None, verdict: str) -> None:
    found = judge(claim(5, 20, "one"), seen(one=figure))
    assert found.verdict == verdict
    if verdict == DIFFERS:
        assert found.factor == pytest.approx((figure or 0) / 5)


def test_ratios_compare_the_first_condition_with_the_second() -> None:
    rows = seen(long=100.0, short=8.0)
    assert ratio_at_least(claim(10, 0, "long", "short"), rows).verdict == HOLDS
    few = ratio_at_least(claim(20, 0, "long", "short"), rows)
    assert (few.verdict, few.measured) == (DIFFERS, 12.5)
    assert ratio(claim(12, 5, "long", "short"), rows).verdict == HOLDS
    assert ratio(claim(10, 5, "long", "short"), rows).verdict == DIFFERS


def test_ratios_without_a_figure_are_not_judged_and_an_empty_queue_is_short() -> None:
    wanted = claim(10, 0, "long", "short")
    assert ratio(wanted, seen(long=100.0, short=None)).verdict == NOT_JUDGED
    assert ratio_at_least(wanted, seen(long=None, short=1.0)).verdict == NOT_JUDGED
    endless = ratio_at_least(wanted, seen(long=100.0, short=0.0))
    assert (endless.verdict, endless.measured) == (HOLDS, None)
    endless = ratio(wanted, seen(long=100.0, short=0.0))
    assert (endless.verdict, endless.measured, endless.factor) == (DIFFERS, None, None)
    assert ratio(wanted, seen(long=0.0, short=0.0)).verdict == NOT_JUDGED
    assert ratio_at_least(wanted, seen(long=0.0, short=0.0)).verdict == NOT_JUDGED


def test_a_tolerance_above_100_percent_is_a_factor_either_way() -> None:
    wanted = claim(10, 200, "long", "short")
    assert ratio(wanted, seen(long=29.0, short=1.0)).verdict == HOLDS
    assert ratio(wanted, seen(long=31.0, short=1.0)).verdict == DIFFERS
    assert ratio(wanted, seen(long=3.4, short=1.0)).verdict == HOLDS
    assert ratio(wanted, seen(long=3.3, short=1.0)).verdict == DIFFERS
    assert at_least(claim(10, 200, "one"), seen(one=3.3)).verdict == DIFFERS
