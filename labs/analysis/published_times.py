"""The figures of article 3 that stand beside a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from labs.analysis.asking import asked
from labs.runs.run import Run


@dataclass(frozen=True)
class Article:
    """A mean time per request of article 3, in ms, as ab printed it; `hardware`: its machines'."""

    claim: str
    mean_ms: float
    hardware: bool = False


ARTICLES = {"off": Article("A3.1", 44.619), "on": Article("A3.2", 14.285, hardware=True)}
OWN = {"requests": 1000, "concurrency": 100, "page_bytes": 612}


def article_of(run: Run) -> Article | None:
    """The article's figure for the run's condition; None where the run was asked otherwise."""
    told = asked(run)
    fits = (not run.link["asked"]["delay_ms"]
            and all(getattr(told, name) == value for name, value in OWN.items()))
    return ARTICLES.get(run.condition) if fits else None
