"""From a claim and the evidence to a verdict, by a rule or by one of the JUDGES of the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.claims.evidence import Evidence
from labs.read.claims.ledger import WILD, Claim, has_number
from labs.read.claims.rules import follow, not_judged
from labs.read.claims.verdict import HARDWARE, NO_WORD, RIGHT_NUMBER, Finding, Verdict
from labs.read.display.format import in_runs, input_value, printable
from labs.read.lab import Lab

Judge = Callable[[Claim, Evidence], Finding]


def judges_of(lab: Lab) -> Mapping[str, Judge]:
    """The judging functions of a lab, by name."""
    judges: Mapping[str, Judge] = getattr(lab.part("claims"), "JUDGES", {})
    return judges


def judge(
    claim: Claim, seen: Evidence, judges: Mapping[str, Judge], parameters: Mapping[str, float | str]
) -> Verdict:
    """The verdict on one claim.

    `parameters` are the article's own. BadInput for a claim whose judging function is not there.
    """
    others = _unfit_figures(claim, seen, parameters)
    left_out = "; ".join(f"not judged: {figure} ({why})" for figure, why in others.items())
    finding = _unfit(claim, seen, parameters)
    if finding is None and left_out and set(others) == set(claim.figures):
        finding = not_judged(left_out)
    if finding is None:
        finding = _followed(claim.without(others) if others else claim, seen, judges)
        if left_out and finding.verdict not in NO_WORD:
            finding = replace(finding, reason=f"{finding.reason}; {left_out}")
        finding = _shown_at(claim, seen, parameters, finding)
    names = seen.matching(*claim.conditions)
    figures = len(claim.figures)
    judged = finding.judged or figures - len(others) - len(claim.shown)
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
        conditions=_conditions(claim, seen),
        link="; ".join(dict.fromkeys(str(seen.row(name)["link_asked"]) for name in names)),
        figures=figures,
        judged=0 if finding.verdict in NO_WORD else judged,
        witness=finding.witness or seen.witness(names),
    )


def _followed(claim: Claim, seen: Evidence, judges: Mapping[str, Judge]) -> Finding:
    """The finding of the claim's judging function, or of its rule. ValueError for a verdict that
    the claim cannot have: a mistake in the code."""
    if claim.judge is None:
        return follow(claim, seen)
    if claim.judge not in judges:
        raise BadInput(f"{claim.id}: {unknown(claim.judge, judges, 'judging function')}")
    finding = judges[claim.judge](claim, seen)
    if finding.verdict == RIGHT_NUMBER and not has_number(claim.expected):
        raise ValueError(f"{claim.id} has no number that could be right: {claim.judge}")
    return finding


def _shown_at(
    claim: Claim, seen: Evidence, parameters: Mapping[str, float | str], finding: Finding
) -> Finding:
    """The finding, without figures of hardware that were measured with other parameters."""
    others = _unlike(claim, seen, parameters)
    if finding.verdict != HARDWARE or finding.measured is None or not others:
        return finding
    reason = f"{finding.reason}. Other parameters: {', '.join(others)}"
    return replace(finding, measured=None, predicted=None, reason=reason)


def _conditions(claim: Claim, seen: Evidence) -> str:
    """The judged conditions: by name, or by pattern with the number of runs."""
    phrases = []
    for pattern in claim.conditions:
        names = seen.matching(pattern)
        if names and any(sign in pattern for sign in WILD):
            phrases.append(f"{pattern} ({in_runs(len(names))})")
        else:
            phrases += names
    return ", ".join(phrases)


def _unfit(claim: Claim, seen: Evidence, parameters: Mapping[str, float | str]) -> Finding | None:
    """Why the existing runs cannot judge the claim; None if they can."""
    lacking = seen.lacking(needed(claim))
    if lacking and not claim.hardware:
        return not_judged(_needs(claim, lacking, seen))
    others = _others(claim.parameters, claim, seen, parameters)
    if others and not claim.hardware:
        return not_judged(f"other parameters: {', '.join(others)}")
    for name in seen.matching(*claim.conditions):
        if not claim.hardware and (problem := seen.link_problem(name)):
            return not_judged(f"the link of {name} is {problem}")
    for name, columns in claim.requires.items():
        row = seen.row(name)
        for column, allowed in columns.items():
            if row[column] not in allowed:
                return not_judged(
                    f"{column} of {name} is {row[column] or 'unknown'}, not {' or '.join(allowed)}"
                )
    return None


def _unfit_figures(
    claim: Claim, seen: Evidence, parameters: Mapping[str, float | str]
) -> dict[str, str]:
    """The figures that these runs cannot judge, each with the parameters in which the claim's
    first condition differs from the article's."""
    first = replace(claim, conditions=claim.conditions[:1])
    return {
        figure: ", ".join(others)
        for figure, names in claim.figure_parameters.items()
        if (others := _others(names, first, seen, parameters))
    }


def is_as_in_the_article(
    claim: Claim, seen: Evidence, parameters: Mapping[str, float | str]
) -> bool:
    """Whether the runs of the claim's first condition have all parameters with which its figures
    are shown beside the article's; a claim may be judged with fewer."""
    return not _unlike(claim, seen, parameters)


def _unlike(claim: Claim, seen: Evidence, parameters: Mapping[str, float | str]) -> list[str]:
    """The parameters, in words, in which the runs of the claim's first condition differ from the
    article's, of those on which showing the claim's figures depends."""
    first = replace(claim, conditions=claim.conditions[:1])
    return _others(claim.shown_at or claim.parameters, first, seen, parameters)


def needed(claim: Claim) -> tuple[str, ...]:
    """The conditions that are judged, and those whose results are required."""
    return tuple(dict.fromkeys((*claim.conditions, *claim.requires)))


def _needs(claim: Claim, lacking: tuple[str, ...], seen: Evidence) -> str:
    noun = "condition" if len(lacking) == 1 else "conditions"
    several = any(sign in pattern for pattern in claim.conditions for sign in WILD)
    how = "--size full" if several else f"--only {','.join(needed(claim))}"
    return f"needs the {noun} {', '.join(lacking)}: labs run {seen.lab.name} {how}"


def _others(
    names: Iterable[str], claim: Claim, seen: Evidence, articles: Mapping[str, float | str]
) -> list[str]:
    """The parameters of these names in which the runs differ from the article's, in words."""
    given = [
        (name, seen.parameter(condition, name))
        for name in names
        for condition in seen.matching(*claim.conditions)
    ]
    return list(
        dict.fromkeys(
            f"{name} {input_value(value)}, not {input_value(articles[name])}"
            for name, value in given
            if value is not None and value != articles[name]
        )
    )
