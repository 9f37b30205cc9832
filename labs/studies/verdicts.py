"""The verdicts on an article's claims, as a table for a notebook."""

from __future__ import annotations

from labs.read.claims.judge import verdicts as judged
from labs.read.claims.ledger import read
from labs.read.claims.verdict import Verdict, disputed
from labs.read.display.format import figures_in_words
from labs.read.display.rich_output import Table
from labs.read.stats.testbed_comparison import compare_testbeds
from labs.studies.study import Study

COLUMNS = (
    "claim",
    "what it says",
    "article",
    "predicted",
    "measured",
    "unit",
    "verdict",
    "because",
    "testbed",
)


def verdicts(study: Study, other: Study | None = None) -> Table:
    """One row per claim of the article that the study's lab is about.

    BadInput for a lab without an article. Every verdict is computed from the study's runs. A claim
    that they cannot judge is `not judged`, with what is missing. If another study, on a second
    testbed, is given, a verdict on which the two disagree is `disputed`, with the reason.
    """
    found = judged(study.lab, study.runs)
    if other is not None and other.runs:
        assert study.lab.ledger is not None
        found = disputed(
            read(study.lab.ledger),
            found,
            judged(study.lab, other.runs),
            compare_testbeds(study.lab, study.every, other.every),
        )
    return Table([_row(one) for one in found], columns=list(COLUMNS))


def _row(one: Verdict) -> dict[str, str]:
    return dict(
        zip(
            COLUMNS,
            (
                one.id,
                one.statement,
                figures_in_words(one.expected),
                figures_in_words(one.predicted),
                figures_in_words(one.measured),
                one.unit,
                one.words,
                one.reason,
                "" if one.witness is None else str(one.witness),
            ),
            strict=True,
        )
    )
