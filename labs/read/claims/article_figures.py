"""The figures of an article that can be compared with a run, from the article's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from labs.read.claims.ledger import Article, Claim, article
from labs.read.runs.run import Run

MIB = 1 << 20
WMEM = "net.ipv4.tcp_wmem"


def parameter(run: Run, name: str) -> float | str | None:
    """The value of a lab parameter that a run was requested with; None if it does not say it."""
    condition = run.inputs["condition"]
    if name in condition["link"]:
        value: float | str | None = condition["link"][name]
        return value
    if name in condition["settings"]:
        setting: float | str | None = condition["settings"][name]
        return setting
    if name == "transfer_mib":
        return float(condition["settings"]["transfer_bytes"]) / MIB
    if name == "buffer_mib":
        raised = condition["sysctls"].get("server", {}).get(WMEM)
        return None if raised is None else int(raised.split()[-1]) / MIB
    return None


def figures_by_column(run: Run, number: int) -> tuple[str, Mapping[str, float]] | None:
    """The claim that has figures for columns of this run's results, and these figures.

    None if no claim is about the run's condition, or the run's parameters are not the article's.
    """
    ledger = _article(number)
    for claim in ledger.claims:
        if claim.column is not None and claim.conditions == (run.condition,):
            return (claim.id, _by_column(claim)) if _fits(claim, run, ledger) else None
    return None


def figure_of_claim(run: Run, number: int, id_: str) -> float | None:
    """The one figure of a claim; None where the claim's conditions do not include the run's, or
    the run's parameters are not the article's."""
    ledger = _article(number)
    claim = ledger.claim(id_)
    if run.condition not in claim.conditions or not _fits(claim, run, ledger):
        return None
    assert isinstance(claim.expected, int | float)
    return float(claim.expected)


@cache
def _article(number: int) -> Article:
    return article(number)


def _by_column(claim: Claim) -> dict[str, float]:
    if isinstance(claim.column, Mapping) and isinstance(claim.expected, Mapping):
        return {column: float(claim.expected[name]) for name, column in claim.column.items()}
    assert not isinstance(claim.expected, Mapping)
    return {str(claim.column): float(claim.expected)}


def _fits(claim: Claim, run: Run, ledger: Article) -> bool:
    return all(parameter(run, name) == ledger.parameters[name] for name in claim.parameters)
