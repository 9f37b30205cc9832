"""The verdicts on an article's claims, as a table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from labs.read.claims.judge import verdicts as judged
from labs.read.claims.ledger import read
from labs.read.claims.verdict import Verdict, by_both, by_kernel
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
    "judged on",
    "tolerance",
    "testbed",
)


def verdicts(study: Study, *others: Study) -> Table:
    """One row per claim of the article that the study's lab is about.

    BadInput for a lab without an article. Every verdict is computed from the study's runs. A claim
    that they cannot judge is `not judged`, with what is missing.

    `others` are studies of the same lab. With one on another kernel, a verdict says on which
    kernels it holds; one with further conditions, or on a second testbed, judges what the study
    cannot. A verdict that two testbeds give names both, and one on which they disagree on the same
    kernel series is `disputed`.
    """
    found = judged(study.lab, study.runs, study.every)
    assert study.lab.ledger is not None
    article = read(study.lab.ledger)
    testbeds = {run.testbed for run in study.runs}
    present = [other for other in others if other.runs]
    on_kernels = [one for one in present if {run.testbed for run in one.runs} <= testbeds]
    for second in (one for one in present if one not in on_kernels):
        found = by_both(
            article,
            found,
            judged(study.lab, second.runs, second.every),
            compare_testbeds(study.lab, study.every, second.every),
        )
    found = by_kernel(
        article, found, *(judged(study.lab, one.runs, one.every) for one in on_kernels)
    )
    return Table([_row(one) for one in found], columns=list(COLUMNS))


def _row(one: Verdict) -> dict[str, str]:
    cells: Sequence[str] = (
        one.id,
        one.statement,
        figures_in_words(one.expected),
        figures_in_words(one.predicted),
        figures_in_words(one.measured),
        one.unit,
        one.words,
        one.reason,
        one.basis,
        one.tolerance,
        "" if one.witness is None else str(one.witness),
    )
    return dict(zip(COLUMNS, cells, strict=True))
