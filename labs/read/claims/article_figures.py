"""The figures of an article that can be compared with a run, from the article's ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from labs.read.claims.ledger import Article, Claim
from labs.read.runs.run import Run

Value = float | str | None
OwnParameter = Callable[[Run, str], Value]
"""What a lab says of a parameter that is neither of the link nor a setting; None if nothing."""


def parameter(run: Run, name: str, own: OwnParameter | None = None) -> Value:
    """The value of a lab parameter that a run was requested with; None if it does not say it."""
    condition = run.condition_asked
    for place in (asdict(condition.link), condition.settings):
        if name in place:
            return place[name]
    return None if own is None else own(run, name)


def figures_by_column(
    article: Article, run: Run, own: OwnParameter | None = None
) -> tuple[str, Mapping[str, float]] | None:
    """The claim that has figures for columns of this run's results, and these figures.

    None if no claim is about the run's condition, or the run's parameters are not the article's.
    """
    for claim in article.claims:
        if claim.column is not None and claim.conditions == (run.condition,):
            if not _fits(claim, run, article, own):
                return None
            return claim.id, {claim.columns[name]: figure for name, figure in claim.figures.items()}
    return None


def figure_of_claim(article: Article, run: Run, id_: str) -> float | None:
    """The one figure of a claim; None where the claim's conditions do not include the run's, or
    the run's parameters are not the article's."""
    claim = article.claim(id_)
    if run.condition not in claim.conditions or not _fits(claim, run, article, None):
        return None
    return claim.figure


def _fits(claim: Claim, run: Run, article: Article, own: OwnParameter | None) -> bool:
    return all(parameter(run, name, own) == article.parameters[name] for name in claim.parameters)
