"""What moved between two sets of verdicts; files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labs.errors import BadInput, Damaged
from labs.read.claims.moved import compare_verdicts, read_verdicts


def witness(**changed: Any) -> dict[str, Any]:
    runs = {"conditions": {"wmem": "aa"}, "kernels": ["k"], "code": ["c"], "tools": ["t"]}
    said = {"testbed": "virtual", "kernel": "6.1.192", "verdict": "holds", "measured": 10.0}
    return {**said, "runs": {**runs, **changed.pop("runs", {})}, **changed}


def claim(*witnesses: dict[str, Any], **changed: Any) -> dict[str, Any]:
    said = {"id": "A1.7", "verdict": "holds", "unit": "MiB/s", "expected": 10, "measured": 10.0}
    return {**said, "tolerance_pct": 5.0, "witnesses": list(witnesses), **changed}


def test_compare_verdicts_of_equal_sides() -> None:
    found = compare_verdicts([claim(witness())], [claim(witness())])
    assert (found.moved, found.other_figures, found.compared) == ((), (), 1)


def test_compare_verdicts_names_runs_and_inputs_that_differ() -> None:
    other = {"conditions": {"wmem": "bb"}, "kernels": ["l"]}
    new = claim(
        witness(kernel="6.1.200", verdict="differs", measured=15.0, runs=other), verdict="differs"
    )
    (moved,) = compare_verdicts([claim(witness())], [new]).moved
    (one,) = moved.witnesses
    assert moved.verdicts == ("holds", "differs")
    assert (one.runs, one.inputs) == (("wmem",), ("kernel builds",))
    assert one.kernels == ("6.1.192", "6.1.200")
    assert one.percent == pytest.approx(50)
    assert "measured 10 -> 15 (MiB/s, +50 %)" in " ".join(moved.lines())


def test_compare_verdicts_finds_one_kernel_that_moved_under_an_equal_verdict() -> None:
    new = claim(witness(), witness(kernel="6.12.1", verdict="differs"))
    old = claim(witness(), witness(kernel="6.12.1", verdict="wrong"))
    (moved,) = compare_verdicts([old], [new]).moved
    assert [one.kernels for one in moved.witnesses] == [("6.12.1", "6.12.1")]


def test_compare_verdicts_of_the_same_runs_names_the_claim_or_the_code() -> None:
    new = claim(witness(verdict="differs"), verdict="differs")
    (by_code,) = compare_verdicts([claim(witness())], [new]).moved
    assert by_code.claim == {} and "code" in by_code.reason
    (by_claim,) = compare_verdicts([claim(witness(), tolerance_pct=9.0)], [new]).moved
    assert by_claim.claim == {"tolerance_pct": (9.0, 5.0)}


def test_compare_verdicts_counts_claims_of_one_side_and_other_figures() -> None:
    old = [claim(witness()), claim(witness(), id="A1.8")]
    new = [claim(witness(measured=11.0)), claim(witness(), id="A1.9")]
    found = compare_verdicts(old, new)
    assert [(one.id, one.verdicts) for one in found.moved] == [
        ("A1.9", (None, "holds")),
        ("A1.8", ("holds", None)),
    ]
    assert found.other_figures == ("A1.7",)


def test_compare_verdicts_without_witnesses() -> None:
    """As an earlier version printed them."""
    old = {"id": "A1.7", "verdict": "wrong"}
    (moved,) = compare_verdicts([old], [claim(witness())]).moved
    assert moved.verdicts == ("wrong", "holds")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[1]", '[{"id": "A1.7"}]', '[{"id": "<b>", "verdict": "holds"}]', "[NaN]"),
        '[{"id": "A1.7", "verdict": "holds", "witnesses": [{"testbed": "virtual"}]}]',
        json.dumps([claim(witness(kernel="x"))]),
        json.dumps([claim(witness(runs={"conditions": []}))]),
        "[" * 100_000,
    ],
)
def test_read_verdicts_refuses_what_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(Damaged):
        read_verdicts(path)


def test_read_verdicts_of_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        read_verdicts(tmp_path / "old.json")
