"""Formulas and sentences of a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isnan
from typing import Any

import pytest

from labs.errors import BadInput
from labs.read.claims.formulas import check, describe, parse

CELLS: Mapping[str, Any] = {
    "a-1.x": 3,
    "a-1.0.x": 4,
    "a.none": None,
    "s-*.x": [1.0, 9.5, None, 10.0],
    "s-*.kib": [16, 64, 256, 1024],
    "t-*.x": [2.0, 1.0, 5.0, 4.0],
    "few-*.x": [1.0],
    "{with -k}": 90.0,
    "word": "reset by peer",
    "zero": 0,
    "flag": True,
}


def value(text: str) -> Any:
    return parse(text).value(CELLS.__getitem__)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a-1.x + 2 * a-1.0.x", 11),
        ("(a-1.x + 2) * 2", 10),
        ("a-1.x > 2.5", True),
        ("{with -k} >= 90", True),
        ("a-1.x + a.none", None),
        ("max(s-*.x, 20)", 20),
        ("count(s-*.x)", 3),
        ("s-*.x > 5", [False, True, None, True]),
        ("highest(s-*.x, t-*.x)", [2.0, 9.5, None, 10.0]),
        ("s-*.x / few-*.x", None),
        ("reaches(0.95, s-*.x, s-*.kib)", 64),
        ("after(0.95, s-*.x, s-*.kib)", 9.5),
        ("farthest(2, 1.9, 2.5, 2)", 2.5),
        ("where(s-*.x, s-*.x > 5)", [None, 9.5, None, 10.0]),
        ("median(abs(t-*.x - 3))", 1.5),
        ("ceil(13 / 4)", 4),
        ("1 / zero", inf),
        ("125e-6 * 2", 0.00025),
        ("max(a.none)", None),
    ],
)
def test_formulas_compute(text: str, result: Any) -> None:
    assert value(text) == result


def test_nothing_divided_by_nothing_is_no_number() -> None:
    assert isnan(value("zero / zero"))


@pytest.mark.parametrize(
    "text", ["", "a.x +", "log(a.x)", "max()", "a.x > 1 > 0", "f'{a}'", "(" * 90, "a.x; b.x", "max"]
)
def test_formulas_refuse_anything_else(text: str) -> None:
    with pytest.raises(BadInput, match="is not a formula"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{a-1.x:3} MiB/s", "3.00 MiB/s"),
        ("{1024 * a-1.x:size}", "3 KiB"),
        ("{with -k:.1f} %", "90.0 %"),
        ("{a-1.x:packets}", "3 packets"),
        ("{t-*.x:range}", "3 (1 to 5)"),
        ("{few-*.x:range}", "1"),
        ("{t-*.x}", "2, 1, 5, 4"),
        ("{a.none} and {word}", "unknown and reset by peer"),
        ("x[? and {a.none}][? or {a-1.x}][?, {zero} drops]", "x or 3"),
        ("tcp_rmem[1] is {flag}", "tcp_rmem[1] is yes"),
    ],
)
def test_sentences_are_filled_in_by_name(text: str, result: str) -> None:
    assert describe(text, CELLS.__getitem__) == result


def test_sentences_refuse_unknown_formats_and_single_braces() -> None:
    for text in ("{a.x:lots}", "{a.x:5}", "{a.x", "a.x}"):
        with pytest.raises(BadInput):
            list(check(text))
