"""From a claim and the evidence to a verdict.

A lab's `claims` may have, beside JUDGES, what only it can say:

    parameter(run, name)            a parameter that is neither of the link nor a setting, or None
    changed_since(claim, run)       (the last kernel series, what came) where the theory has the
                                    article's figure on an earlier kernel and not on the run's
    explain(run, measured)          why the measured figure is another than the article's
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from statistics import mean, median
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.ledger import WILD, Claim, Figure, read
from labs.read.claims.verdict import (
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    Finding,
    Verdict,
    held_until,
)
from labs.read.display.format import input_value, printable
from labs.read.lab import Lab
from labs.read.runs.run import Run

Judge = Callable[[Claim, Evidence], Finding]

NOT_SETTLED = "not_settled"
"""The code of the note that a run had not reached a steady state."""

REDUCE: Mapping[str, Callable[[list[float]], float]] = {
    "only": lambda values: values[0],
    "median": median,
    "mean": mean,
    "min": min,
    "max": max,
}


def verdicts(lab: Lab, runs: Iterable[Run]) -> tuple[Verdict, ...]:
    """A verdict on each claim of the article that a lab is about, from the runs of one study.

    Of two runs of a condition the last counts. What the runs cannot say is "not judged", and why.
    BadInput for a lab without a ledger.
    """
    if lab.ledger is None:
        raise BadInput(f"the lab {lab.name} has no claims to judge")
    article = read(lab.ledger)
    judges = getattr(lab.part("claims"), "JUDGES", {})
    seen = Evidence(lab, {run.condition: run for run in runs})
    return tuple(judge(claim, seen, judges, article.parameters) for claim in article.claims)


def judge(
    claim: Claim, seen: Evidence, judges: Mapping[str, Judge], parameters: Mapping[str, float | str]
) -> Verdict:
    """The verdict on one claim.

    `parameters` are the article's own. BadInput for a claim whose judging function is not there.
    """
    finding = _unfit(claim, seen, parameters)
    if finding is None and claim.judge is not None:
        if claim.judge not in judges:
            raise BadInput(f"{claim.id}: {unknown(claim.judge, judges, 'judging function')}")
        finding = judges[claim.judge](claim, seen)
    elif finding is None:
        finding = by_column(claim, seen)
    witness = finding.witness or seen.witness(seen.matching(*claim.conditions))
    return Verdict(
        id=claim.id,
        statement=claim.statement,
        expected=claim.expected,
        unit=claim.unit,
        tolerance_pct=claim.tolerance_pct,
        tolerance_reason=claim.tolerance_reason,
        predicted=finding.predicted,
        measured=finding.measured,
        verdict=finding.verdict,
        factor=finding.factor,
        reason=printable(finding.reason),
        witness=witness,
    )


def not_judged(reason: str) -> Finding:
    """The finding for what these runs cannot say."""
    return Finding(verdict=NOT_JUDGED, reason=reason)


def _unfit(claim: Claim, seen: Evidence, parameters: Mapping[str, float | str]) -> Finding | None:
    """Why the runs there are cannot judge the claim; None if they can."""
    lacking = seen.lacking(claim.conditions)
    if lacking and not claim.hardware:
        return not_judged(_needs(claim, lacking, seen))
    others = _other_parameters(claim, seen, parameters)
    if others and not claim.hardware:
        return not_judged(f"other parameters: {', '.join(others)}")
    for name in seen.matching(*claim.conditions):
        link = seen.run(name).link
        if not link.ok and not claim.hardware:
            return not_judged(f"the link of {name} is {link.verdict}")
    return None


def _needs(claim: Claim, lacking: tuple[str, ...], seen: Evidence) -> str:
    noun = "condition" if len(lacking) == 1 else "conditions"
    several = any(sign in pattern for pattern in claim.conditions for sign in WILD)
    how = "--size full" if several else f"--only {','.join(claim.conditions)}"
    return f"needs the {noun} {', '.join(lacking)}: labs run {seen.lab.name} {how}"


def _other_parameters(
    claim: Claim, seen: Evidence, articles_own: Mapping[str, float | str]
) -> list[str]:
    """What the runs were asked for otherwise than the article's were, in words."""
    found: dict[str, None] = {}
    for name in claim.parameters:
        for condition in seen.matching(*claim.conditions):
            asked = seen.parameter(condition, name)
            if asked is not None and asked != articles_own[name]:
                found[f"{name} {input_value(asked)}, not {input_value(articles_own[name])}"] = None
    return list(found)


def by_column(claim: Claim, seen: Evidence) -> Finding:
    """A claim whose figures are columns of the results, reduced over the runs."""
    names = seen.matching(*claim.conditions)
    columns = claim.columns
    rows = [seen.row(name) for name in names]
    measured = {name: _reduced(claim.reduction, column, rows) for name, column in columns.items()}
    declared = {
        name: seen.lab.columns[column]
        for name, column in columns.items()
        if column in seen.lab.columns
    }
    predicted = {
        name: _reduced(claim.reduction, one.predicted_by, rows)
        for name, one in declared.items()
        if one.predicted_by is not None
    }
    if claim.hardware:
        return _hardware(measured, names, seen)
    for name, column in columns.items():
        if measured[name] is None:
            return not_judged(f"the run of {', '.join(names)} gives no {column}")
        unsettled = [one for one in names if seen.found(one).has_note(NOT_SETTLED)]
        if unsettled and name in declared and declared[name].steady:
            return not_judged(f"{', '.join(unsettled)} had not settled when it ended")
    known = {name: value for name, value in measured.items() if value is not None}
    return compared(claim, known, _complete(predicted), seen, names[0])


def _reduced(reduction: str, column: str, rows: list[Mapping[str, Any]]) -> float | None:
    values = [row.get(column) for row in rows]
    known = [float(value) for value in values if isinstance(value, Real)]
    if not known or len(known) != len(values):
        return None
    return REDUCE[reduction](known)


def _complete(figures: Mapping[str, float | None]) -> dict[str, float] | None:
    """The figures, or None if one of them is not known."""
    known = {name: value for name, value in figures.items() if value is not None}
    return known if known and len(known) == len(figures) else None


def _hardware(
    measured: Mapping[str, float | None], names: tuple[str, ...], seen: Evidence
) -> Finding:
    """A figure of the author's own machine: shown beside ours, with no pass or fail."""
    no_rate = [name for name in names if any(note.excludes for note in seen.found(name).notes)]
    if not names or no_rate:
        reason = "it is the speed of the author's machines; " + (
            "on virtual time nothing limits a link that is not shaped"
            if no_rate
            else "nothing was run here to stand beside it"
        )
        return Finding(verdict=HARDWARE, reason=reason)
    figures = _complete(measured)
    return Finding(
        verdict=HARDWARE,
        measured=None if figures is None else _one(figures),
        reason="it is the speed of the author's machines; measured is that of this one",
    )


def compared(
    claim: Claim,
    measured: Mapping[str, float],
    predicted: Mapping[str, float] | None,
    seen: Evidence,
    name: str,
) -> Finding:
    """The measured figures beside the article's: within its tolerance, or by what factor not, and
    what the theory says to that."""
    wanted = claim.figures
    factors = {name: measured[name] / value for name, value in wanted.items()}
    factor = max(factors.values(), key=lambda value: abs(value - 1))
    figures: dict[str, Any] = {
        "measured": _one(measured),
        "predicted": None if predicted is None else _one(predicted),
    }
    if abs(factor - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=_apart(factor, claim), **figures)
    run, until = seen.run(name), None
    if (changed_since := seen.hook("changed_since")) is not None:
        until = changed_since(claim, run)
    if until is not None:
        last, what = until
        return Finding(verdict=held_until(last), reason=what, **figures)
    explain = seen.hook("explain")
    reason = f"{100 * (factor - 1):+.1f} %" if explain is None else explain(run, measured)
    return Finding(verdict=DIFFERS, factor=factor, reason=reason, **figures)


def _one(figures: Mapping[str, float]) -> Figure:
    return figures[""] if list(figures) == [""] else dict(figures)


def _apart(factor: float, claim: Claim) -> str:
    return (
        f"within {claim.tolerance_pct:g} %: {100 * (factor - 1):+.1f} %"
        if abs(factor - 1) >= 0.0005
        else f"within {claim.tolerance_pct:g} %: the same"
    )
