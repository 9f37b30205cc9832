"""The verdicts on an article's claims, as a table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from labs.errors import BadInput
from labs.read.claims.composition import noted_once, telling_first
from labs.read.claims.ledger import read
from labs.read.claims.sources import Source, verdicts_from, with_recorded_draws
from labs.read.claims.verdict import Verdict, but_how_much
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
    further conditions, which are judged together with those of the study that they belong to. A
    verdict of several testbeds and kernels names all, and one on which two
    testbeds disagree on one kernel series is `disputed`.
    """
    if study.lab.ledger is None:
        raise BadInput(f"the lab {study.lab.name} has no claims to judge")
    alike: dict[frozenset[object], list[Study]] = {}
    # Most runs first, whatever the order in which studies are given.
    for given in sorted(
        (study, *others), key=lambda of: (-len(of.runs), sorted(run.key for run in of.runs))
    ):
        if given.runs:
            where = {(run.testbed, run.kernel.release) for run in given.runs}
            how = but_how_much(asdict(given.parameters)).items()
            alike.setdefault(frozenset({*where, *how}), []).append(given)
    sources = list(map(_together, alike.values())) or [Source("", ())]
    with_draws = with_recorded_draws(study.lab, sources)
    judged = telling_first(read(study.lab.ledger), verdicts_from(study.lab, with_draws))
    rows = [_row(part) for verdict in noted_once(judged, set()) for part in verdict.rows]
    return Table(rows, dtype=object)


def _together(studies: Sequence[Study]) -> Source:
    """The runs of studies with the same parameters; of each condition, those of the first study
    that has it."""
    first = studies[0]
    of = {run.condition: study for study in reversed(studies) for run in study.runs}
    runs = [run for study in studies for run in study.runs if of[run.condition] is study]
    every = [
        run for study in studies for run in study.every if of.get(run.condition, study) is study
    ]
    return Source(
        str(first.file or first.folder), tuple(runs), tuple(every), asdict(first.parameters)
    )


def _row(verdict: Verdict) -> dict[str, str]:
    return {
        "claim": verdict.id,
        "what it says": verdict.statement,
        "article": figures_in_words(verdict.expected),
        "predicted": figures_in_words(verdict.predicted),
        "measured": verdict.measured_in_words,
        "unit": verdict.unit,
        "verdict": verdict.words,
        "because": Folded(verdict.because, verdict.evidence),
        "judged on": verdict.basis,
        "tolerance": verdict.tolerance,
        "testbed": "" if verdict.witness is None else str(verdict.witness),
    }
