"""The verdicts on an article's claims, as a table for a notebook."""

from __future__ import annotations

from labs.errors import BadInput
from labs.read.claims.composition import noted_once, telling_first
from labs.read.claims.ledger import read
from labs.read.claims.sources import Source, verdicts_from
from labs.read.claims.verdict import Verdict
from labs.read.display.format import figures_in_words
from labs.read.display.rich_output import Folded, Table
from labs.studies.study import Study


def verdicts(study: Study, *others: Study) -> Table:
    """One row per claim of the article that the study's lab is about, those that contradict it
    first; where kernels or testbeds differ, one row for those that agree.

    BadInput for a lab without an article. Every verdict is computed from the studies' runs. A claim
    that they cannot judge is `not judged`, with what is missing. The evidence is folded behind the
    reason, as its attribute `more`.

    `others` are studies of the same lab, in any order: on another kernel or testbed, or with
    further conditions. A verdict of several testbeds and kernels names all, and one on which two
    testbeds disagree on one kernel series is `disputed`.
    """
    if study.lab.ledger is None:
        raise BadInput(f"the lab {study.lab.name} has no claims to judge")
    sources = [
        Source(str(one.file or one.folder), one.runs, one.every)
        for one in sorted((study, *others), key=_in_order)
        if one.runs
    ] or [Source("", ())]
    found = telling_first(read(study.lab.ledger), verdicts_from(study.lab, sources))
    rows = [_row(part) for one in noted_once(found, set()) for part in one.rows]
    return Table(rows, dtype=object)


def _in_order(one: Study) -> tuple[int, list[str]]:
    """The study with most runs first, whatever the order in which studies are given."""
    return -len(one.runs), sorted(run.key for run in one.runs)


def _row(one: Verdict) -> dict[str, str]:
    return {
        "claim": one.id,
        "what it says": one.statement,
        "article": figures_in_words(one.expected),
        "predicted": figures_in_words(one.predicted),
        "measured": figures_in_words(one.measured),
        "unit": one.unit,
        "verdict": one.words,
        "because": Folded(one.because, one.evidence),
        "judged on": one.basis,
        "tolerance": one.tolerance,
        "testbed": "" if one.witness is None else str(one.witness),
    }
