"""From a claim and runs to a verdict, where the claim or the runs are odd."""

from __future__ import annotations

from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import follow, judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import NOT_JUDGED
from tests.real_runs import real_study

STUDY = real_study("6.1")
SEEN = Evidence(STUDY.lab, {run.condition: run for run in STUDY.runs})


def claim(column: str | None = None, judged_by: str | None = None) -> Claim:
    return Claim(
        id="A1.1",
        statement="It is fast.",
        expected=1.0,
        unit="x",
        conditions=("default",),
        columns={"": column} if column else {},
        judge=judged_by,
    )


def test_follow_of_a_text_is_not_judged() -> None:
    assert follow(claim(column="kernel"), SEEN).verdict == NOT_JUDGED
    assert follow(claim(column="goodput_mib_s"), SEEN).verdict != NOT_JUDGED


def test_judge_reason_is_printable() -> None:
    """A reason may quote what a run says, such as its kernel's release name."""
    found = judge(
        claim(judged_by="odd"), SEEN, {"odd": lambda *_: not_judged("Linux 6.1\n\x1b[2J")}, {}
    )
    assert found.reason == r"Linux 6.1\n\x1b[2J"
