"""From a claim and the evidence to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean, median
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.experiments.buffers.prediction import expected as theory_of
from labs.read.claims.article_figures import parameter
from labs.read.claims.evidence import Evidence, as_on, bad_link
from labs.read.claims.ledger import WILD, Claim, Figure
from labs.read.claims.verdict import (
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    Finding,
    Verdict,
    held_until,
    in_digits,
)
from labs.read.runs.run import Run
from labs.read.theory.bounds import LINE, Prediction
from labs.read.theory.kernel_version import before, series
from labs.read.theory.windows import RATIO_SINCE, SMALL_HEADS_SINCE

Judge = Callable[[Claim, Evidence], Finding]

MIB = 1 << 20
REDUCE: Mapping[str, Callable[[list[float]], float]] = {
    "only": lambda values: values[0], "median": median, "mean": mean, "min": min, "max": max,
}
PREDICTED = {"goodput_mib_s": "predicted_mean_mib_s", "steady_mib_s": "predicted_mib_s"}
# What of the theory changed, and when: it may say why an article's figure is no longer measured.
CHANGES = {
    RATIO_SINCE: "from 6.6 on the share of a receive buffer that becomes window follows from the "
                 "packets, and is larger",
    SMALL_HEADS_SINCE: "from 6.3 on a packet takes less of the send buffer",
}


def judge(claim: Claim, seen: Evidence, judges: Mapping[str, Judge],
          parameters: Mapping[str, float | str]) -> Verdict:
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
        id=claim.id, statement=claim.statement, expected=claim.expected, unit=claim.unit,
        tolerance_pct=claim.tolerance_pct, tolerance_reason=claim.tolerance_reason,
        predicted=finding.predicted, measured=finding.measured, verdict=finding.verdict,
        factor=finding.factor, reason=finding.reason, witness=witness)


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
        wrong = bad_link(seen.run(name))
        if wrong is not None and not claim.hardware:
            return not_judged(f"the link of {name} is not as asked: {wrong}")
    return None


def _needs(claim: Claim, lacking: tuple[str, ...], seen: Evidence) -> str:
    noun = "condition" if len(lacking) == 1 else "conditions"
    several = any(sign in pattern for pattern in claim.conditions for sign in WILD)
    how = "--size full" if several else f"--only {','.join(claim.conditions)}"
    return f"needs the {noun} {', '.join(lacking)}: labs run {seen.lab.name} {how}"


def _other_parameters(claim: Claim, seen: Evidence,
                      articles_own: Mapping[str, float | str]) -> list[str]:
    """What the runs were asked for otherwise than the article's were, in words."""
    found: dict[str, None] = {}
    for name in claim.parameters:
        for condition in seen.matching(*claim.conditions):
            asked = parameter(seen.run(condition), name)
            if asked is not None and asked != articles_own[name]:
                found[f"{name} {_said(asked)}, not {_said(articles_own[name])}"] = None
    return list(found)


def _said(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def by_column(claim: Claim, seen: Evidence) -> Finding:
    """A claim whose figures are columns of the results, reduced over the runs."""
    names = seen.matching(*claim.conditions)
    columns = claim.column if isinstance(claim.column, Mapping) else {"": str(claim.column)}
    rows = [seen.row(name) for name in names]
    measured = {name: _reduced(claim.reduction, column, rows) for name, column in columns.items()}
    predicted = {name: _reduced(claim.reduction, PREDICTED[column], rows)
                 for name, column in columns.items() if column in PREDICTED}
    if claim.hardware:
        return _hardware(measured, names, seen)
    for name, column in columns.items():
        if measured[name] is None:
            return not_judged(f"the run of {', '.join(names)} gives no {column}")
        unsettled = [one for one, row in zip(names, rows, strict=True) if row["settled"] is False]
        if unsettled and column.startswith("steady"):
            return not_judged(f"{', '.join(unsettled)} had not settled when it ended")
    known = {name: value for name, value in measured.items() if value is not None}
    return compared(claim, known, _complete(predicted), seen.run(names[0]))


def _reduced(reduction: str, column: str, rows: list[Mapping[str, Any]]) -> float | None:
    values = [row.get(column) for row in rows]
    known = [float(value) for value in values if value is not None]
    if not known or len(known) != len(values):
        return None
    return REDUCE[reduction](known)


def _complete(figures: Mapping[str, float | None]) -> dict[str, float] | None:
    """The figures, or None if one of them is not known."""
    known = {name: value for name, value in figures.items() if value is not None}
    return known if known and len(known) == len(figures) else None


def _hardware(measured: Mapping[str, float | None], names: tuple[str, ...],
              seen: Evidence) -> Finding:
    """A figure of the author's own machine: shown beside ours, with no pass or fail."""
    no_rate = [name for name in names if "no rate" in " ".join(seen.row(name)["marks"])]
    if not names or no_rate:
        reason = ("it is the speed of the author's machines; " + (
            "on virtual time nothing limits a link that is not shaped" if no_rate else
            "nothing was run here to stand beside it"))
        return Finding(verdict=HARDWARE, reason=reason)
    figures = _complete(measured)
    return Finding(verdict=HARDWARE, measured=None if figures is None else _one(figures),
                   reason="it is the speed of the author's machines; measured is that of this one")


def compared(claim: Claim, measured: Mapping[str, float],
             predicted: Mapping[str, float] | None, run: Run) -> Finding:
    """The measured figures beside the article's: within its tolerance, or by what factor not, and
    what the theory says to that."""
    wanted = _by_name(claim.expected)
    factors = {name: measured[name] / value for name, value in wanted.items()}
    factor = max(factors.values(), key=lambda value: abs(value - 1))
    figures: dict[str, Any] = {
        "measured": _one(measured), "predicted": None if predicted is None else _one(predicted)}
    if abs(factor - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=_apart(factor, claim), **figures)
    until = _changed_since(claim, run)
    if until is not None:
        verdict, what = until
        return Finding(verdict=verdict, reason=what, **figures)
    return Finding(verdict=DIFFERS, factor=factor, reason=_why(run, measured), **figures)


def _by_name(figure: Figure) -> dict[str, float]:
    """Figures by name; one alone goes by the empty name."""
    values = figure if isinstance(figure, Mapping) else {"": figure}
    return {name: float(value) for name, value in values.items()}


def _one(figures: Mapping[str, float]) -> Figure:
    return figures[""] if list(figures) == [""] else dict(figures)


def _apart(factor: float, claim: Claim) -> str:
    return (f"within {claim.tolerance_pct:g} %: {100 * (factor - 1):+.1f} %"
            if abs(factor - 1) >= 0.0005 else f"within {claim.tolerance_pct:g} %: the same")


def _changed_since(claim: Claim, run: Run) -> tuple[str, str] | None:
    """The verdict and the reason if the theory has the article's figure on earlier kernels and
    the measured one on the run's; None if it does not say so."""
    steady = [column for column in _columns(claim) if column == "steady_mib_s"]
    here = theory_of(run)
    wanted = list(_by_name(claim.expected).values())
    if len(steady) != 1 or len(wanted) != 1 or here is None:
        return None
    kernel = series(str(run.kernel["release"]))
    for since, what in CHANGES.items():
        then = theory_of(as_on(run, before(since)))
        if kernel >= since and then is not None and (
                abs(then.goodput_mib_s / wanted[0] - 1) <= claim.allowed
                < abs(here.goodput_mib_s / wanted[0] - 1)):
            return held_until(before(since)), (
                f"{what}: the theory has {in_digits(then.goodput_mib_s)} MiB/s up to "
                f"{before(since)} and {in_digits(here.goodput_mib_s)} on "
                f"{run.kernel['release']}")
    return None


def _columns(claim: Claim) -> tuple[str, ...]:
    if isinstance(claim.column, Mapping):
        return tuple(claim.column.values())
    return () if claim.column is None else (claim.column,)


def _why(run: Run, measured: Mapping[str, float]) -> str:
    """Why a speed is another than the article's, as far as the theory of this run can say."""
    theory = theory_of(run)
    if theory is None:
        return "the theory has no word on it"
    best = max(measured.values())
    if not _agrees(theory, best):
        return (f"not explained: the theory has {in_digits(theory.goodput_mib_s)} MiB/s, held "
                f"there by the {theory.bound}")
    if theory.bound == LINE:
        return (f"the run reaches what the line carries, {in_digits(theory.goodput_mib_s)} MiB/s "
                "of payload" + ("; on virtual time no machine stands in its way"
                                if run.testbed == "virtual" else ""))
    return (f"as the theory has it on {run.kernel['release']}: "
            f"{in_digits(theory.goodput_mib_s)} MiB/s, held there by the {theory.bound}")


def _agrees(theory: Prediction, mib_s: float) -> bool:
    allowed = theory.tolerance_pct
    return allowed is not None and abs(mib_s / theory.goodput_mib_s - 1) <= allowed / 100
