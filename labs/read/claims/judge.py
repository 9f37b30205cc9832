"""From a claim and the evidence to a verdict, by the rule that the ledger declares or by one of the
JUDGES of the lab. Rules are

    column = "p50_ms"                       within, of a column of the claim's condition, with the
                                            prediction that the lab declares for it
    rule = { within = FIGURES }             each figure is the article's within the tolerance
    rule = { at_most = FIGURES }            none is above the article's, or below its lower limit
    rule = { at_least = FIGURES }
    rule = { measured = FIGURES, all = [COMPARISON, ...] }     all of these are true; nothing is
                                            measured where the rule has `predicted` alone
    rule = { measured = FIGURES, each = [COMPARISON, ...] }    all are, or it is undecided if some
                                            are: draws of chance
    rule = { shown = FIGURES }              shown and not judged: of a machine with `hardware`,
                                            else not judged, for the reason in the sentence

FIGURES are a formula (`labs.read.claims.formulas`), or several by name. Besides:

    predicted      the theory's figures, in the same form
    names          figures that the formulas behind them and the sentences may name
    needs          comparisons without which nothing is judged, each with its reason
    judged_if      comparisons without which the figures are shown and not judged, in the same form
    happens        figures that must not be 0: if one is, the claim is wrong, and these are shown
    wrong_unless   comparisons without which the claim is wrong, whatever else does not hold
    right_number   comparisons with which the number is right for a wrong reason, where the rule
                   does not hold
    degree         whether it differs where the rule does not hold, instead of being wrong (default:
                   not for all and each)
    factor         what is given as factor where it differs, if not the farthest of the figures
    partly         whether figures and comparisons that are unknown are left out: not every
                   condition was run
    exact          figures that must be the article's exactly
    by_source      what the source of the article's kernel gives, where the measured kernels differ

`because` and `because_not` are the reason as a sentence (`labs.read.claims.formulas`).
A tolerance of a limit is on its lenient side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf, isinf, isnan
from numbers import Real
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.formulas import Value, describe, parse
from labs.read.claims.ledger import (
    COMPARED,
    RATIO,
    WILD,
    Article,
    Claim,
    Figure,
    Formulas,
    Rule,
    as_figure,
    tolerance_in_words,
)
from labs.read.claims.verdict import (
    BY_SOURCE,
    DIFFERS,
    HARDWARE,
    HOLDS,
    NO_WORD,
    NOT_JUDGED,
    RIGHT_NUMBER,
    UNDECIDED,
    WRONG,
    Finding,
    Verdict,
)
from labs.read.display.format import in_digits, in_runs, input_value, printable
from labs.read.lab import BESIDE_RESULTS, Lab
from labs.read.stats.repetitions import FEWEST

Figures = Mapping[str, Value]
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
            over, _, under = condition.partition(RATIO)
            ratio = self.seen.ratio(over, under, column)
            return ratio and [ratio.low, ratio.middle, ratio.high]
        if any(sign in condition for sign in WILD):
            matching = sorted(self.seen.matching(condition), key=_numbered)
            return [self._cell(each, column) for each in matching]
        return self._cell(condition, column)

    def _cell(self, condition: str, column: str) -> Value:
        if condition not in self.seen.rows:
            return None
        value = self.seen.row(condition)[column]
        return None if _is_nan(value) else value

    def naming(self, figures: Figures, **more: Value) -> Look:
        """The same with further figures by name; one alone is also `measured`."""
        single = {"measured": next(iter(figures.values()))} if len(figures) == 1 else {}
        return replace(self, named={**self.named, **figures, **single, **more})

    def value(self, formula: str) -> Value:
        return parse(formula).value(self)

    def values(self, formulas: Formulas) -> dict[str, Value]:
        return {name: self.value(formula) for name, formula in formulas.items()}

    def all(self, comparisons: Iterable[str]) -> bool:
        return all(map(self.value, comparisons))

    def objection(self, comparisons: Mapping[str, str]) -> str:
        """The reason of the first comparison that is not true; empty if all are."""
        unmet = (reason for formula, reason in comparisons.items() if not self.value(formula))
        return self.describe(next(unmet, ""))

    def describe(self, text: str) -> str:
        return describe(text, self)


def _numbered(name: str) -> list[str | float]:
    """The name of a condition as words and numbers, by which draws of several series pair up."""
    return [float(part) if place % 2 else part for place, part in enumerate(NUMBER.split(name))]


def split_reference(claim: Claim, reference: str) -> tuple[str, str]:
    """The condition and the column that are meant; a column alone is of the first condition."""
    condition, _, column = reference.rpartition(".")
    return condition or next(iter(claim.conditions), ""), column


def check_columns(lab: Lab, article: Article) -> None:
    """BadInput, in one line with the file and the claim's id, for a column that the lab lacks."""
    for claim in article.claims:
        for reference in (*claim.columns.values(), *claim.references):
            column = split_reference(claim, reference)[1]
            if column not in lab.columns and column not in BESIDE_RESULTS:
                wrong = unknown(column, lab.columns, "column of Results")
                raise BadInput(f"{lab.ledger}: {claim.id}: {wrong}")


def follow(claim: Claim, seen: Evidence) -> Finding:
    """The finding of the claim's rule, or of its columns."""
    rule = claim.rule or _of_columns(claim, seen.lab)
    look = Look(claim, seen)
    for name, formula in rule.names.items():
        look = replace(look, named={**look.named, name: look.value(formula)})
    if reason := look.objection(rule.needs):
        return not_judged(reason)
    if not claim.hardware and (restless := _restless(rule, look)):
        return not_judged(f"{', '.join(restless)} did not reach a steady state")
    happened = look.values(rule.happens)
    if not all(happened.values()):
        reason = look.naming(happened).describe(claim.because_not or claim.because)
        return Finding(verdict=WRONG, measured=as_figure(happened), reason=reason)
    measured = look.values(rule.figures)
    if rule.kind in COMPARED:  # a text can be compared with nothing
        measured = {name: _as_float(value) for name, value in measured.items()}
    if claim.hardware or rule.kind == "shown":
        return _shown(look.naming(measured), measured)
    look = look.naming(measured)
    if rule.partly:
        measured = {name: value for name, value in measured.items() if value is not None}
    for name, value in measured.items():
        if value is None or _is_nan(value):
            few = any(RATIO in text for text in rule.formulas)
            return not_judged(FEW if few else f"these runs have no figure{name and f' for {name}'}")
    if reason := look.objection(rule.judged_if):
        return not_judged(reason, as_figure(measured))
    return _judged(rule, look, measured)


def _of_columns(claim: Claim, lab: Lab) -> Rule:
    """The rule of a claim about columns, with the predictions that the lab declares for them."""
    declared = {name: lab.columns.get(column) for name, column in claim.columns.items()}
    predicted = {name: column and column.predicted_by for name, column in declared.items()}
    named = {name: column for name, column in predicted.items() if column}
    return Rule(kind="within", figures=claim.columns, predicted=named)


def _restless(rule: Rule, look: Look) -> list[str]:
    """The conditions of figures in steady state that did not reach it."""
    columns, seen = look.seen.lab.columns, look.seen
    steady = [
        condition
        for text in rule.figures.values()
        for reference in parse(text).references.values()
        for condition, column in [split_reference(look.claim, reference)]
        if column in columns and columns[column].steady
    ]
    return [name for name in seen.matching(*steady) if seen.has_note(name, NOT_SETTLED)]


def _as_float(value: Value) -> float | None:
    return float(value) if isinstance(value, Real) else None


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def _judged(rule: Rule, look: Look, measured: Figures) -> Finding:
    """The finding for complete figures by the claim's rule."""
    finite = not any(isinstance(value, float) and isinf(value) for value in measured.values())
    judging = _compared if rule.kind in COMPARED else _comparisons
    verdict, factor, compared = judging(rule, look, measured)
    if not finite:
        factor, compared = None, "nothing to divide by"
    if not look.all(rule.wrong_unless):
        verdict, factor = WRONG, None
    elif verdict == DIFFERS:
        verdict, factor = _not_held(rule, look, factor)
    claim, look = look.claim, look.naming({}, within=compared, factor=factor)
    text = claim.because if verdict == HOLDS or not claim.because_not else claim.because_not
    reason = [look.describe(text), "" if "{within}" in text else compared]
    return Finding(
        verdict=verdict,
        factor=factor if verdict == DIFFERS else None,
        reason="; ".join(filter(None, reason)),
        measured=as_figure(measured) if finite else None,
        predicted=as_figure(look.values(rule.predicted)),
        judged=len(measured) if rule.partly else None,
    )


def _not_held(rule: Rule, look: Look, factor: float | None) -> tuple[str, float | None]:
    """The word for a claim whose rule does not hold, and the factor if it differs."""
    figures, by_source = look.claim.figures, look.values(rule.by_source)
    if by_source and all(printed(by_source[name]) == printed(figures[name]) for name in by_source):
        return BY_SOURCE, None
    if rule.right_number and look.all(rule.right_number):
        return RIGHT_NUMBER, None
    if not rule.degree:
        return WRONG, None
    return DIFFERS, look.value(rule.factor) if rule.factor else factor


def printed(kib: float) -> str:
    """A size in all digits that iperf 2 prints."""
    return f"{kib:.{DIGITS_OF_IPERF}g}"


def _shown(look: Look, measured: Figures) -> Finding:
    """A figure that is not judged: with `hardware` that of the author's own machine."""
    claim, names = look.claim, look.seen.matching(*look.claim.conditions)
    excluded = look.seen.excluded(names)
    figures = as_figure(measured) if names and not excluded else None
    reason = look.describe(claim.because)
    if not claim.hardware:
        return not_judged(reason, figures)
    reason = reason or "this is the speed of the author's machines"
    if not names:
        reason = f"{reason}; there is no run to compare"
    elif excluded:
        reason = f"{reason}; here: {excluded[0]}"
    return Finding(verdict=HARDWARE, measured=figures, reason=reason)


Outcome = tuple[str, float | None, str]
"""The word, the factor if it differs, and what is compared, in words."""


def _factors(look: Look, measured: Figures) -> dict[str, float]:
    """The figures divided by the article's; of 0, everything else is infinitely more."""
    return {
        name: measured[name] / figure if figure else inf if measured[name] else 1.0
        for name, figure in look.claim.figures.items()
        if name in measured and name not in look.claim.shown
    }


def _compared(rule: Rule, look: Look, measured: Figures) -> Outcome:
    """Whether each figure is the article's within the tolerance, not above it, or not below it."""
    claim, factors, above = look.claim, _factors(look, measured), rule.kind == "at_most"
    least, most = claim.factors
    name = max(factors, key=lambda each: FARTHEST[rule.kind](factors[each]))
    limit = f"{tolerance_in_words(claim.tolerance_pct or 0)} allowed"
    if rule.kind == "within":
        phrase = f"{_deviation(factors[name], claim.figures[name])} ({limit})"
    else:
        limit = in_digits(claim.figures[name] * (most if above else least))
        phrase = f"{in_digits(measured[name])}; {rule.kind.replace('_', ' ')} {limit} allowed"
    least, most = -inf if above else least, inf if rule.kind == "at_least" else most
    holds = all(
        factor == 1 if each in rule.exact else least <= factor <= most
        for each, factor in factors.items()
    )
    return HOLDS if holds else DIFFERS, factors[name], f"{name and f'{name}: '}{phrase}"


FARTHEST: Mapping[str, Callable[[float], float]] = {
    "within": lambda factor: abs(factor - 1),
    "at_most": lambda factor: factor,
    "at_least": lambda factor: -factor,
}
"""Of several figures, that with the largest of these decides."""


def _deviation(factor: float, figure: float) -> str:
    """How far a figure is from the article's."""
    if abs(factor - 1) < SAME:
        return f"equal to the article's {in_digits(figure)}"
    if factor >= MANY:
        return f"{in_digits(factor)} times the article's {in_digits(figure)}"
    beyond = "above" if factor > 1 else "below"
    return f"{100 * abs(factor - 1):.1f} % {beyond} the article's {in_digits(figure)}"


def _comparisons(rule: Rule, look: Look, measured: Figures) -> Outcome:
    """Whether each comparison of the rule is true; of a pattern, in each condition."""
    results = [look.value(comparison) for comparison in rule.comparisons]
    if rule.partly:
        results = [value for value in results if value is not None]
    every = [each for value in results for each in (value if isinstance(value, list) else [value])]
    some = rule.kind == "each" and any(every)
    return HOLDS if all(every) else UNDECIDED if some else DIFFERS, None, ""


Judge = Callable[[Claim, Evidence], Finding]
OF_THE_CLAIM = ("id", "statement", "expected", "unit", "tolerance_pct", "tolerance_reason")
Parameters = Mapping[str, float | str]
"""An article's own parameters."""


def judges_of(lab: Lab) -> Mapping[str, Judge]:
    """The judging functions of a lab, by name."""
    judges: Mapping[str, Judge] = getattr(lab.part("claims"), "JUDGES", {})
    return judges


def judge(
    claim: Claim, seen: Evidence, judges: Mapping[str, Judge], parameters: Parameters
) -> Verdict:
    """The verdict on one claim.

    `parameters` are the article's own. BadInput for a claim whose judging function is not there, or
    with a parameter that its runs do not say.
    """
    _check_parameters(claim, seen)
    left_out = {
        figure: ", ".join(others)
        for figure, names in claim.figure_parameters.items()
        if (others := _others(names, claim.conditions[:1], seen, parameters))
    }
    finding = _finding(claim, seen, judges, parameters, left_out)
    # What a claim judges of conditions that it only names does not depend on their goodput or link.
    names, figures = seen.matching(*claim.conditions or claim.beside), len(claim.figures)
    judged = finding.judged or figures - len(left_out) - len(claim.shown)
    of_the_claim = {name: getattr(claim, name) for name in OF_THE_CLAIM}
    found_out: dict[str, Any] = {
        **vars(finding),
        "reason": printable(finding.reason),
        "judged": 0 if finding.verdict in NO_WORD else judged,
        "witness": finding.witness or seen.witness(names),
    }
    return Verdict(
        **of_the_claim,
        **found_out,
        conditions=_conditions(claim, seen),
        link="; ".join(dict.fromkeys(str(seen.row(name)["link_asked"]) for name in names)),
        figures=figures,
        runs=seen.name,
        behind=seen.judged(claim.needed),
    )


def _finding(
    claim: Claim,
    seen: Evidence,
    judges: Mapping[str, Judge],
    parameters: Parameters,
    left_out: Mapping[str, str],
) -> Finding:
    """The finding of the claim's judging function, or of its rule, without the figures that these
    runs cannot judge."""
    if not claim.hardware and (reason := _objection(claim, seen, parameters)):
        return not_judged(reason)
    without = "; ".join(f"not judged: {figure} ({why})" for figure, why in left_out.items())
    if left_out and left_out.keys() == claim.figures.keys():
        return not_judged(without)
    rest = claim.without(left_out) if left_out else claim
    if claim.judge is not None and claim.judge not in judges:
        raise BadInput(f"{claim.id}: {unknown(claim.judge, judges, 'judging function')}")
    finding = follow(rest, seen) if claim.judge is None else judges[claim.judge](rest, seen)
    if left_out and finding.verdict not in NO_WORD:
        return replace(finding, reason=f"{finding.reason}; {without}")
    others = unlike_the_article(claim, seen, parameters)
    if finding.verdict == HARDWARE and finding.measured is not None and others:
        reason = f"{finding.reason}. Other parameters: {', '.join(others)}"
        return replace(finding, measured=None, predicted=None, reason=reason)
    return finding


def _conditions(claim: Claim, seen: Evidence) -> str:
    """The judged conditions: by name, or by pattern with the number of runs."""
    phrases = list[str]()
    for pattern in claim.conditions:
        names = seen.matching(pattern)
        if names and any(sign in pattern for sign in WILD):
            phrases.append(f"{pattern} ({in_runs(len(names))})")
        else:
            phrases += names
    return ", ".join(phrases)


def _objection(claim: Claim, seen: Evidence, parameters: Parameters) -> str:
    """Why the existing runs cannot judge the claim; empty if they can."""
    lacking = [pattern for pattern in claim.needed if not seen.matching(pattern)]
    if lacking:
        noun = "condition" if len(lacking) == 1 else "conditions"
        several = any(sign in pattern for pattern in claim.conditions for sign in WILD)
        how = "--size full" if several else f"--only {','.join(claim.needed)}"
        return f"needs the {noun} {', '.join(lacking)}: labs run {seen.lab.name} {how}"
    if others := _others(claim.parameters, claim.conditions, seen, parameters):
        return f"other parameters: {', '.join(others)}"
    for name in seen.matching(*claim.conditions):
        if not seen.row(name)["link_ok"]:
            return f"the link of {name} is {seen.row(name)['link']}"
    for name, columns in claim.requires.items():
        for column, allowed in columns.items():
            if (value := seen.row(name)[column]) not in allowed:
                return f"{column} of {name} is {value or 'unknown'}, not {' or '.join(allowed)}"
    return ""


def _check_parameters(claim: Claim, seen: Evidence) -> None:
    """BadInput for a parameter that no run of the claim's conditions says: runs with any value of
    it would judge the claim."""
    names = seen.matching(*claim.conditions)
    if not names or not all(map(seen.matching, claim.conditions)):
        return
    of_figures = chain.from_iterable(claim.figure_parameters.values())
    for parameter in (*claim.parameters, *claim.shown_at, *of_figures):
        if not seen.says(names, parameter):
            raise BadInput(
                f"{seen.lab.ledger}: {claim.id}: {parameter} is neither a setting of "
                f"{', '.join(claim.conditions)} nor of the link. "
                f"Allowed: {', '.join(seen.requested(names))}. Name one of these, or define "
                f"parameter(run, name) beside Results, which returns the run's {parameter}"
            )


def unlike_the_article(claim: Claim, seen: Evidence, parameters: Parameters) -> list[str]:
    """The parameters, in words, in which the runs of the claim's first condition differ from the
    article's, of those on which showing the claim's figures depends; a claim may be judged with
    fewer."""
    return _others(claim.shown_at or claim.parameters, claim.conditions[:1], seen, parameters)


def _others(
    names: Iterable[str], conditions: Iterable[str], seen: Evidence, articles: Parameters
) -> list[str]:
    """The parameters of these names in which conditions differ from the article's, in words."""
    given = [
        (name, seen.parameter(condition, name))
        for name in names
        for condition in seen.matching(*conditions)
    ]
    return list(
        dict.fromkeys(
            f"{name} {input_value(value)}, not {input_value(articles[name])}"
            for name, value in given
            if value is not None and value != articles[name]
        )
    )
