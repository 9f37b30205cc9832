"""The rules by which claims are judged, as the ledger declares them.

    column = "p50_ms"                       within: a column is the article's figure within the
                                            tolerance, reduced over the runs
    rule = { within = FIGURES }             each figure is the article's within the tolerance
    rule = { at_most = FIGURES }            none is above the article's, or below its lower limit
    rule = { at_least = FIGURES }
    rule = { equal = FIGURES }              each is the article's exactly, number or text
    rule = { measured = FIGURES, all = [COMPARISON, ...] }     all of these are true
    rule = { measured = FIGURES, any = [COMPARISON, ...] }     one of them is
    rule = { measured = FIGURES, each = [COMPARISON, ...] }    all are, or it is undecided if some
                                            are: draws of chance
    rule = { computed = FIGURES }           within, of arithmetic: nothing is measured
    rule = { shown = FIGURES }              shown and not judged: of a machine with `hardware`,
                                            else not judged, for the reason in the sentence

FIGURES are a formula (`labs.read.claims.formulas`), or several by name. Besides:

    predicted      the theory's figures, in the same form
    needs          comparisons without which nothing is judged, each with its reason
    happens        figures that must not be 0: if one is, the claim is wrong, and these are shown
    wrong_unless   comparisons without which the claim is wrong, whatever else does not hold
    right_number   comparisons with which the number is right for a wrong reason, where the rule
                   does not hold
    degree         whether it differs where the rule does not hold, instead of being wrong (default:
                   not for all, any and each)
    factor         what is given as factor where it differs, if not the farthest of the figures
    exact          figures that must be the article's exactly
    by_source      what the source of the article's kernel gives, where the measured kernels differ
    digits         the decimals that measured figures are rounded to

`because` and `because_not` are the reason as a sentence (`labs.read.claims.sentences`).
A tolerance of a limit is on its lenient side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf, isinf, isnan
from numbers import Real
from statistics import mean, median
from types import MappingProxyType
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.formulas import Look, Value, parse
from labs.read.claims.ledger import COMPARED, WILD, Article, Claim, Figure, Rule
from labs.read.claims.sentences import describe
from labs.read.claims.verdict import (
    BY_SOURCE,
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WRONG,
    Finding,
)
from labs.read.display.format import in_digits
from labs.read.lab import BESIDE_RESULTS, Lab

Figures = Mapping[str, Value]
NOTHING: Figures = MappingProxyType({})
NOT_SETTLED = "not_settled"
"""The code of the note that a run had not reached a steady state."""
SAME = 0.0005
"""A figure this close to the article's is called equal."""
MANY = 10
"""A figure that is this many times the article's is said to be so, and not in %."""
DIGITS_OF_IPERF = 3
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")
REDUCE: Mapping[str, Callable[[list[float]], float]] = {
    "only": lambda values: values[0],
    "median": median,
    "mean": mean,
    "min": min,
    "max": max,
}


def not_judged(reason: str, measured: Figure | None = None) -> Finding:
    """The finding for a claim that these runs cannot judge."""
    return Finding(verdict=NOT_JUDGED, reason=reason, measured=measured)


def unsettled(names: Iterable[str], seen: Evidence) -> Finding | None:
    """The finding for runs without a steady state; None if all reached it."""
    restless = [name for name in names if seen.has_note(name, NOT_SETTLED)]
    return not_judged(f"{', '.join(restless)} did not reach a steady state") if restless else None


def look(claim: Claim, seen: Evidence, named: Figures = NOTHING) -> Look:
    """The values of references: figures by name, and columns of conditions."""
    articles = {f"expected {name}".strip(): figure for name, figure in claim.named_figures.items()}
    figures = {"allowed": claim.allowed, **articles, **named}

    def value(reference: str) -> Value:
        name = reference.strip("{}")
        if name in figures:
            return figures[name]
        condition, column = _of(claim, name)
        if any(sign in condition for sign in WILD):
            matching = sorted(seen.matching(condition), key=_numbered)
            return [_cell(seen, each, column) for each in matching]
        return _cell(seen, condition, column)

    return value


def _numbered(name: str) -> list[str | float]:
    """The name of a condition as words and numbers, by which draws of several series pair up."""
    return [float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(name))]


def _of(claim: Claim, reference: str) -> tuple[str, str]:
    """The condition and the column that are meant; a column alone is of the first condition."""
    condition, _, column = reference.rpartition(".")
    return condition or next(iter(claim.conditions), ""), column


def _cell(seen: Evidence, condition: str, column: str) -> Value:
    value = seen.row(condition)[column] if condition in seen.conditions else None
    return None if isinstance(value, float) and isnan(value) else value


def check_columns(lab: Lab, article: Article) -> None:
    """BadInput, in one line with the file and the claim's id, for a column that the lab lacks."""
    columns = {*lab.columns, *BESIDE_RESULTS}
    for claim in article.claims:
        named = [_of(claim, reference)[1] for reference in claim.references]
        for column in (*claim.columns.values(), *named):
            if column not in columns:
                wrong = unknown(column, lab.columns, "column of Results")
                raise BadInput(f"{lab.ledger}: {claim.id}: {wrong}")


def follow(claim: Claim, seen: Evidence) -> Finding:
    """The finding of the claim's rule, or of its columns."""
    if claim.rule is None:
        return _by_column(claim, seen)
    value = look(claim, seen)
    for comparison, reason in claim.rule.needs.items():
        if not parse(comparison).value(value):
            return not_judged(describe(reason, value))
    named = [_of(claim, name) for text in claim.rule.figures.values() for name in _names(text)]
    steady = [condition for condition, column in named if _is_steady(seen, column)]
    if steady and (restless := unsettled(seen.matching(*steady), seen)) is not None:
        return restless

    def computed(formulas: Mapping[str, str]) -> Figures:
        return {name: parse(formula).value(value) for name, formula in formulas.items()}

    happened = computed(claim.rule.happens)
    if not all(happened.values()):
        reason = _reason(claim, seen, WRONG, happened, "")
        return Finding(verdict=WRONG, measured=as_figure(happened), reason=reason)
    measured = computed(claim.rule.figures)
    if (digits := claim.rule.digits) is not None:
        measured = {
            name: None if figure is None else round(figure, digits)
            for name, figure in measured.items()
        }
    return _finding(claim, seen, measured, computed(claim.rule.predicted))


def _names(text: str) -> Iterable[str]:
    return parse(text).references.values()


def _is_steady(seen: Evidence, column: str) -> bool:
    return column in seen.lab.columns and seen.lab.columns[column].steady


def _by_column(claim: Claim, seen: Evidence) -> Finding:
    """The finding for figures that are columns of the results, reduced over the runs."""
    names = seen.matching(*claim.conditions)
    rows = [seen.row(name) for name in names]
    measured = {
        name: _reduced(claim.reduction, column, rows) for name, column in claim.columns.items()
    }
    declared = seen.lab.columns
    predicted = {
        name: _reduced(claim.reduction, declared[column].predicted_by or "", rows)
        for name, column in claim.columns.items()
        if column in declared and declared[column].predicted_by is not None
    }
    missing = [column for name, column in claim.columns.items() if measured[name] is None]
    if missing and not claim.hardware:
        return not_judged(f"the run of {', '.join(names)} has no {missing[0]}")
    steady = not claim.hardware and any(map(partial(_is_steady, seen), claim.columns.values()))
    restless = unsettled(names, seen) if steady else None
    return restless or _finding(claim, seen, measured, predicted)


def _reduced(reduction: str, column: str, rows: list[Mapping[str, Any]]) -> float | None:
    values = [row.get(column) for row in rows]
    numbers = [float(value) for value in values if isinstance(value, Real)]
    return REDUCE[reduction](numbers) if numbers and len(numbers) == len(values) else None


def _finding(claim: Claim, seen: Evidence, measured: Figures, predicted: Figures) -> Finding:
    """The finding for measured figures by the claim's rule."""
    kind = "within" if claim.rule is None else claim.rule.kind
    theory = {name: value for name, value in predicted.items() if value is not None}
    figures: dict[str, Any] = {"predicted": as_figure(theory) if theory else None}
    if claim.hardware or kind == "shown":
        return _shown(claim, seen, measured)
    missing = [name for name, value in measured.items() if value is None or _is_nan(value)]
    if missing:
        return not_judged(f"these runs have no figure{f' for {missing[0]}' * bool(missing[0])}")
    if kind in COMPARED and kind != "equal":
        measured = {name: float(value) for name, value in measured.items()}
    finite = not any(isinstance(value, float) and isinf(value) for value in measured.values())
    shown = "predicted" if kind == "computed" else "measured"
    figures[shown] = as_figure(measured) if finite else None
    verdict, factor, told = RULES[kind](claim, seen, measured)
    if not finite:
        factor, told = None, "nothing to divide by"
    if claim.rule is not None:
        value = look(claim, seen, measured)
        if not all(parse(comparison).value(value) for comparison in claim.rule.wrong_unless):
            verdict, factor = WRONG, None
        elif verdict == DIFFERS:
            verdict, factor = _not_held(claim, claim.rule, value, factor)
    named = {"within": told, "factor": factor, "expected": claim.expected, **_alone(measured)}
    reason = _reason(claim, seen, verdict, {**measured, **named}, told)
    return Finding(verdict=verdict, factor=factor, reason=reason, **figures)


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def _alone(measured: Figures) -> Figures:
    return {"measured": next(iter(measured.values()))} if len(measured) == 1 else {}


def _not_held(
    claim: Claim, rule: Rule, value: Look, factor: float | None
) -> tuple[str, float | None]:
    """The word for a claim whose rule does not hold, and the factor if it differs."""
    then = {name: parse(text).value(value) for name, text in rule.by_source.items()}
    if then and all(printed(size) == printed(claim.figures[name]) for name, size in then.items()):
        return BY_SOURCE, None
    if rule.right_number and all(parse(each).value(value) for each in rule.right_number):
        return RIGHT_NUMBER, None
    if not rule.degree:
        return WRONG, None
    return DIFFERS, parse(rule.factor).value(value) if rule.factor else factor


def printed(kib: float) -> str:
    """A size in all digits that iperf 2 prints."""
    return f"{kib:.{DIGITS_OF_IPERF}g}"


def _reason(claim: Claim, seen: Evidence, verdict: str, named: Figures, told: str) -> str:
    """The claim's sentence for this outcome, then what the rule says, if it is not in there."""
    text = claim.because if verdict == HOLDS or not claim.because_not else claim.because_not
    sentence = describe(text, look(claim, seen, named))
    if "{within}" in text:
        return sentence
    return "; ".join(filter(None, (sentence, told)))


def _shown(claim: Claim, seen: Evidence, measured: Figures) -> Finding:
    """A figure that is not judged: with `hardware` that of the author's own machine."""
    names = seen.matching(*claim.conditions)
    excluded = [text for name in names for text in seen.excluded(name)]
    complete = not excluded and all(value is not None for value in measured.values())
    figures = as_figure(measured) if complete else None
    named = {**measured, **_alone(measured), "expected": claim.expected}
    reason = describe(claim.because, look(claim, seen, named))
    if not claim.hardware:
        return not_judged(reason or "these runs lack a figure", figures)
    reason = reason or "this is the speed of the author's machines"
    if not names:
        return Finding(verdict=HARDWARE, reason=f"{reason}; there is no run to compare")
    return Finding(
        verdict=HARDWARE,
        measured=figures,
        reason=f"{reason}; here: {excluded[0]}" if excluded else reason,
    )


def as_figure(figures: Mapping[str, Any]) -> Figure:
    """Figures by name; one alone has the empty name."""
    return figures[""] if list(figures) == [""] else dict(figures)


Outcome = tuple[str, float | None, str]
"""The word, the factor if it differs, and what is compared, in words."""


def _within(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
    factors = {
        name: _over(measured[name], figure)
        for name, figure in claim.figures.items()
        if name in measured and name not in claim.shown
    }
    name = max(factors, key=lambda each: abs(factors[each] - 1))
    factor, (least, most) = factors[name], claim.factors
    told = _deviation(name, factor, claim)
    exact = () if claim.rule is None else claim.rule.exact
    holds = all(
        each == 1 if name in exact else least <= each <= most for name, each in factors.items()
    )
    return (HOLDS, None, told) if holds else (DIFFERS, factor, told)


def _over(measured: float, figure: float) -> float:
    """A figure divided by the article's; of 0, everything else is infinitely more."""
    if figure:
        return measured / figure
    return inf if measured else 1.0


def compared(
    claim: Claim, measured: Mapping[str, float], predicted: Mapping[str, float] | None = None
) -> Finding:
    """The finding for figures that a judging function measured: within the tolerance or not."""
    verdict, factor, told = _within(claim, None, measured)  # type: ignore[arg-type]
    theory = None if predicted is None else as_figure(predicted)
    figures: dict[str, Any] = {"measured": as_figure(measured), "predicted": theory}
    return Finding(verdict=verdict, factor=factor, reason=told, **figures)


def _deviation(name: str, factor: float, claim: Claim) -> str:
    """The largest deviation from the article's figures, and the deviation that is allowed."""
    figure = in_digits(claim.figures[name])
    what = f"{name}: " if name else ""
    if abs(factor - 1) < SAME:
        return f"{what}equal to the article's {figure} ({claim.allowed_in_words})"
    if factor >= MANY:
        return f"{what}{in_digits(factor)} times the article's {figure} ({claim.allowed_in_words})"
    beyond = "above" if factor > 1 else "below"
    apart = f"{100 * abs(factor - 1):.1f} % {beyond} the article's {figure}"
    return f"{what}{apart} ({claim.allowed_in_words})"


def _limited(above: bool) -> Callable[[Claim, Evidence, Figures], Outcome]:
    """The rule that no figure is above the article's, or none below it."""

    def limit(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
        factors = {name: _over(measured[name], figure) for name, figure in claim.figures.items()}
        name = (max if above else min)(factors, key=lambda each: factors[each])
        factor, allowed = factors[name], claim.factors[above]
        word, limit = ("at most" if above else "at least"), claim.figures[name] * allowed
        told = f"{in_digits(measured[name])}; {word} {in_digits(limit)} allowed"
        told = f"{name}: {told}" if name else told
        holds = measured[name] <= limit if above else measured[name] >= limit
        return (HOLDS, None, told) if holds else (DIFFERS, factor, told)

    return limit


def _equal(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
    expected = claim.expected if isinstance(claim.expected, Mapping) else {"": claim.expected}
    others = [name for name, value in measured.items() if value != expected[name]]
    told = ", ".join(f"{name} is {measured[name]}" for name in others) or "all are equal"
    return (DIFFERS if others else HOLDS), None, told


def _comparisons(claim: Claim, seen: Evidence, measured: Figures) -> list[bool]:
    """Whether each comparison of the rule is true; of a pattern, in each condition."""
    assert claim.rule is not None
    value = look(claim, seen, {**measured, **_alone(measured)})
    results = [parse(comparison).value(value) for comparison in claim.rule.comparisons]
    return [
        bool(each)
        for result in results
        for each in (result if isinstance(result, list) else [result])
    ]


def _all(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
    return (HOLDS if all(_comparisons(claim, seen, measured)) else DIFFERS), None, ""


def _any(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
    return (HOLDS if any(_comparisons(claim, seen, measured)) else DIFFERS), None, ""


def _each(claim: Claim, seen: Evidence, measured: Figures) -> Outcome:
    results = _comparisons(claim, seen, measured)
    return (HOLDS if all(results) else UNDECIDED if any(results) else DIFFERS), None, ""


RULES: Mapping[str, Callable[[Claim, Evidence, Figures], Outcome]] = {
    "within": _within,
    "at_most": _limited(above=True),
    "at_least": _limited(above=False),
    "equal": _equal,
    "computed": _within,
    "all": _all,
    "any": _any,
    "each": _each,
}
