"""From a claim and the evidence to a verdict, by a rule or by one of the JUDGES of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.ledger import WILD, Claim
from labs.read.claims.rules import follow, not_judged
from labs.read.claims.verdict import HARDWARE, NO_WORD, Finding, Verdict
from labs.read.display.format import in_runs, input_value, printable
from labs.read.lab import Lab

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
