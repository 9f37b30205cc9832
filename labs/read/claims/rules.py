"""The rules by which claims are judged, as the ledger declares them.

    column = "p50_ms"                       within, of a column of the claim's condition, with the
                                            prediction that the lab declares for it
    rule = { within = FIGURES }             each figure is the article's within the tolerance
    rule = { at_most = FIGURES }            none is above the article's, or below its lower limit
    rule = { at_least = FIGURES }
    rule = { equal = FIGURES }              each is the article's exactly, number or text
    rule = { measured = FIGURES, all = [COMPARISON, ...] }     all of these are true; nothing is
                                            measured where the rule has `predicted` alone
    rule = { measured = FIGURES, each = [COMPARISON, ...] }    all are, or it is undecided if some
                                            are: draws of chance
    rule = { shown = FIGURES }              shown and not judged: of a machine with `hardware`,
                                            else not judged, for the reason in the sentence

FIGURES are a formula (`labs.read.claims.formulas`), or several by name. Besides:

    predicted      the theory's figures, in the same form
    names          figures that the other formulas and the sentences may name
    needs          comparisons without which nothing is judged, each with its reason
    judged_if      comparisons without which the figures are shown and not judged, in the same form
    happens        figures that must not be 0: if one is, the claim is wrong, and these are shown
    wrong_unless   comparisons without which the claim is wrong, whatever else does not hold
    right_number   comparisons with which the number is right for a wrong reason, where the rule
                   does not hold
    degree         whether it differs where the rule does not hold, instead of being wrong (default:
                   not for all and each)
    factor         what is given as factor where it differs, if not the farthest of the figures
    exact          figures that must be the article's exactly
    by_source      what the source of the article's kernel gives, where the measured kernels differ

`because` and `because_not` are the reason as a sentence (`labs.read.claims.sentences`).
A tolerance of a limit is on its lenient side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isinf, isnan
from numbers import Real
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims import sentences
from labs.read.claims.evidence import Evidence
from labs.read.claims.formulas import Value, parse
from labs.read.claims.ledger import COMPARED, RATIO, WILD, Article, Claim, Figure, Rule
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
from labs.read.stats.repetitions import FEWEST

Figures = Mapping[str, Value]
Outcome = tuple[str, float | None, str]
"""The word, the factor if it differs, and what is compared, in words."""
NOT_SETTLED = "not_settled"
"""The code of the note that a run had not reached a steady state."""
SAME = 0.0005
"""A figure this close to the article's is called equal."""
MANY = 10
"""A figure that is this many times the article's is said to be so, and not in %."""
DIGITS_OF_IPERF = 3
FEW = (
    f"needs at least {FEWEST} undisturbed runs of each condition; `labs run` says what disturbed "
    "the others"
)
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def not_judged(reason: str, measured: Figure | None = None) -> Finding:
    """The finding for a claim that these runs cannot judge."""
    return Finding(verdict=NOT_JUDGED, reason=reason, measured=measured)


@dataclass(frozen=True)
class Look:
    """The values of what a claim's formulas and sentences refer to: `named` figures, the claim's
    own, and columns of conditions."""

    claim: Claim
    seen: Evidence
    named: Figures = field(default_factory=dict)

    def __call__(self, reference: str) -> Value:
        name = reference.strip("{}")
        for figures in (self.named, self.claim.given):
            if name in figures:
                return figures[name]
        condition, column = split_reference(self.claim, name)
        if RATIO in condition:
            ratio = self.seen.ratio(*condition.split(RATIO), column)
            return ratio and [ratio.low, ratio.middle, ratio.high]
        if any(sign in condition for sign in WILD):
            matching = sorted(self.seen.matching(condition), key=_numbered)
            return [self._cell(each, column) for each in matching]
        return self._cell(condition, column)

    def _cell(self, condition: str, column: str) -> Value:
        if condition not in self.seen.conditions:
            return None
        value = self.seen.row(condition)[column]
        return None if _is_nan(value) else value

    def naming(self, figures: Figures, **more: Value) -> Look:
        """The same with further figures by name; one alone is also `measured`."""
        single = {"measured": next(iter(figures.values()))} if len(figures) == 1 else {}
        return replace(self, named={**self.named, **figures, **single, **more})

    def value(self, formula: str) -> Value:
        return parse(formula).value(self)

    def values(self, formulas: Mapping[str, str]) -> dict[str, Value]:
        return {name: self.value(formula) for name, formula in formulas.items()}

    def all(self, comparisons: Iterable[str]) -> bool:
        return all(map(self.value, comparisons))

    def describe(self, text: str) -> str:
        return sentences.describe(text, self)


def _numbered(name: str) -> list[str | float]:
    """The name of a condition as words and numbers, by which draws of several series pair up."""
    return [float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(name))]


def split_reference(claim: Claim, reference: str) -> tuple[str, str]:
    """The condition and the column that are meant; a column alone is of the first condition."""
    condition, _, column = reference.rpartition(".")
    return condition or next(iter(claim.conditions), ""), column


def check_columns(lab: Lab, article: Article) -> None:
    """BadInput, in one line with the file and the claim's id, for a column that the lab lacks."""
    columns = {*lab.columns, *BESIDE_RESULTS}
    for claim in article.claims:
        named = [split_reference(claim, reference)[1] for reference in claim.references]
        for column in (*claim.columns.values(), *named):
            if column not in columns:
                wrong = unknown(column, lab.columns, "column of Results")
                raise BadInput(f"{lab.ledger}: {claim.id}: {wrong}")


def follow(claim: Claim, seen: Evidence) -> Finding:
    """The finding of the claim's rule, or of its columns."""
    rule = claim.rule or _of_columns(claim, seen.lab)
    look = Look(claim, seen)
    look = replace(look, named=look.values(rule.names))
    for comparison, reason in rule.needs.items():
        if not look.value(comparison):
            return not_judged(look.describe(reason))
    if not claim.hardware and (restless := _restless(rule, look)):
        return not_judged(f"{', '.join(restless)} did not reach a steady state")
    happened = look.values(rule.happens)
    if not all(happened.values()):
        reason = _reason(look.naming(happened), WRONG, "")
        return Finding(verdict=WRONG, measured=as_figure(happened), reason=reason)
    measured, theory = look.values(rule.figures), look.values(rule.predicted)
    if rule.kind in COMPARED and rule.kind != "equal":
        measured = _as_floats(measured)
    if claim.column is not None:
        theory = _as_floats(theory)
    if claim.hardware or rule.kind == "shown":
        return _shown(look.naming(measured), measured)
    theory = {name: value for name, value in theory.items() if value is not None}
    predicted = as_figure(theory) if theory else None
    for name, value in measured.items():
        if value is None or _is_nan(value):
            few = RATIO in rule.figures[name]
            return not_judged(FEW if few else f"these runs have no figure{f' for {name}' * bool(name)}")
    for comparison, reason in rule.judged_if.items():
        if not look.value(comparison):
            return not_judged(look.naming(measured).describe(reason), as_figure(measured))
    return _judged(rule, look, measured, predicted)


def _of_columns(claim: Claim, lab: Lab) -> Rule:
    """The rule of a claim about columns, with the predictions that the lab declares for them."""
    predicted = {
        name: lab.columns[column].predicted_by or ""
        for name, column in claim.columns.items()
        if column in lab.columns and lab.columns[column].predicted_by
    }
    return Rule(kind="within", figures=claim.columns, predicted=predicted)


def _restless(rule: Rule, look: Look) -> list[str]:
    """The conditions of figures in steady state that did not reach it."""
    columns, seen = look.seen.lab.columns, look.seen
    named = [
        split_reference(look.claim, reference)
        for text in rule.figures.values()
        for reference in parse(text).references.values()
    ]
    steady = [name for name, column in named if column in columns and columns[column].steady]
    return [name for name in seen.matching(*steady) if seen.has_note(name, NOT_SETTLED)]


def _as_floats(figures: Figures) -> dict[str, Value]:
    """The figures as numbers; None for a text, which can be compared with none."""
    return {
        name: float(value) if isinstance(value, Real) else None for name, value in figures.items()
    }


def _judged(rule: Rule, look: Look, measured: Figures, predicted: Figure | None) -> Finding:
    """The finding for complete figures by the claim's rule."""
    finite = not any(isinstance(value, float) and isinf(value) for value in measured.values())
    look = look.naming(measured)
    verdict, factor, compared = RULES[rule.kind](rule, look, measured)
    if not finite:
        factor, compared = None, "nothing to divide by"
    if not look.all(rule.wrong_unless):
        verdict, factor = WRONG, None
    elif verdict == DIFFERS:
        verdict, factor = _not_held(rule, look, factor)
    look = look.naming(measured, within=compared, factor=factor)
    return Finding(
        verdict=verdict,
        factor=factor,
        reason=_reason(look, verdict, compared),
        measured=as_figure(measured) if measured and finite else None,
        predicted=predicted,
    )


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def _not_held(rule: Rule, look: Look, factor: float | None) -> tuple[str, float | None]:
    """The word for a claim whose rule does not hold, and the factor if it differs."""
    figures, by_source = look.claim.named_figures, look.values(rule.by_source)
    if by_source and all(printed(by_source[name]) == printed(figures[name]) for name in by_source):
        return BY_SOURCE, None
    if rule.right_number and look.all(rule.right_number):
        return RIGHT_NUMBER, None
    if not rule.degree:
        return WRONG, None
    return DIFFERS, look.value(rule.factor) if rule.factor else factor


def printed(kib: Any) -> str:
    """A size in all digits that iperf 2 prints."""
    return f"{kib:.{DIGITS_OF_IPERF}g}"


def _reason(look: Look, verdict: str, compared: str) -> str:
    """The claim's sentence for this outcome, then what the rule says, if it is not in there."""
    claim = look.claim
    text = claim.because if verdict == HOLDS or not claim.because_not else claim.because_not
    phrases = (look.describe(text), "" if "{within}" in text else compared)
    return "; ".join(filter(None, phrases))


def _shown(look: Look, measured: Figures) -> Finding:
    """A figure that is not judged: with `hardware` that of the author's own machine."""
    claim, names = look.claim, look.seen.matching(*look.claim.conditions)
    excluded = [text for name in names for text in look.seen.excluded(name)]
    there = {name: value for name, value in measured.items() if value is not None}
    figures = as_figure(there) if there and not excluded else None
    reason = look.describe(claim.because)
    if not claim.hardware:
        return not_judged(reason or "these runs lack a figure", figures)
    reason = reason or "this is the speed of the author's machines"
    if not names:
        reason = f"{reason}; there is no run to compare"
    elif excluded:
        reason = f"{reason}; here: {excluded[0]}"
    return Finding(verdict=HARDWARE, measured=figures if names else None, reason=reason)


def as_figure(figures: Mapping[str, Any]) -> Figure:
    """Figures by name; one alone has the empty name."""
    return figures[""] if list(figures) == [""] else dict(figures)


def _factors(look: Look, measured: Figures) -> dict[str, float]:
    """The figures divided by the article's; of 0, everything else is infinitely more."""
    return {
        name: measured[name] / figure if figure else inf if measured[name] else 1.0
        for name, figure in look.claim.figures.items()
        if name in measured and name not in look.claim.shown
    }


def _within(rule: Rule, look: Look, measured: Figures) -> Outcome:
    factors, (least, most) = _factors(look, measured), look.claim.factors
    name = max(factors, key=lambda each: abs(factors[each] - 1))
    holds = all(
        factor == 1 if name in rule.exact else least <= factor <= most
        for name, factor in factors.items()
    )
    factor = factors[name]
    phrase = f"{f'{name}: ' * bool(name)}{_deviation(factor, look.claim.figures[name])}"
    compared = f"{phrase} ({look.claim.allowed_in_words})"
    return (HOLDS, None, compared) if holds else (DIFFERS, factor, compared)


def _deviation(factor: float, figure: float) -> str:
    """How far a figure is from the article's."""
    if abs(factor - 1) < SAME:
        return f"equal to the article's {in_digits(figure)}"
    if factor >= MANY:
        return f"{in_digits(factor)} times the article's {in_digits(figure)}"
    beyond = "above" if factor > 1 else "below"
    return f"{100 * abs(factor - 1):.1f} % {beyond} the article's {in_digits(figure)}"


def _limited(above: bool) -> Callable[[Rule, Look, Figures], Outcome]:
    """The rule that no figure is above the article's, or none below it."""

    def limit(rule: Rule, look: Look, measured: Figures) -> Outcome:
        factors, allowed = _factors(look, measured), look.claim.factors[above]
        name = (max if above else min)(factors, key=lambda each: factors[each])
        word, most = ("at most" if above else "at least"), look.claim.figures[name] * allowed
        phrase = f"{in_digits(measured[name])}; {word} {in_digits(most)} allowed"
        compared = f"{name}: {phrase}" if name else phrase
        holds = measured[name] <= most if above else measured[name] >= most
        return (HOLDS, None, compared) if holds else (DIFFERS, factors[name], compared)

    return limit


def _equal(rule: Rule, look: Look, measured: Figures) -> Outcome:
    expected = look.claim.named_figures
    others = [name for name, value in measured.items() if value != expected[name]]
    compared = ", ".join(f"{name} is {measured[name]}" for name in others) or "all are equal"
    return (DIFFERS if others else HOLDS), None, compared


def _comparisons(rule: Rule, look: Look, measured: Figures) -> Outcome:
    """Whether each comparison of the rule is true; of a pattern, in each condition."""
    results = map(look.value, rule.comparisons)
    every = [each for value in results for each in (value if isinstance(value, list) else [value])]
    some = rule.kind == "each" and any(every)
    return (HOLDS if all(every) else UNDECIDED if some else DIFFERS), None, ""


RULES: Mapping[str, Callable[[Rule, Look, Figures], Outcome]] = {
    "within": _within,
    "at_most": _limited(above=True),
    "at_least": _limited(above=False),
    "equal": _equal,
    "all": _comparisons,
    "each": _comparisons,
}
