"""Article 3 judged: Nagle's algorithm, the delayed ACK, and the stall of 40 ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.experiments.nagle.claims import stalled_requests as stalls
from labs.read.claims.judge import Judge
from labs.read.claims.of_article import verdicts_on
from labs.read.claims.verdict import Verdict
from labs.read.runs.run import Run

ARTICLE = 3

JUDGES: Mapping[str, Judge] = {
    "mean_time": stalls.mean_time,
    "on_the_machine": stalls.on_the_machine,
    "sequence": stalls.sequence,
    "kept_connections": stalls.kept_connections,
    "quick_acks": stalls.quick_acks,
    "joined": stalls.joined,
}


def verdicts(runs: Iterable[Run]) -> tuple[Verdict, ...]:
    """A verdict on each claim of the article, in its order: see `verdicts_on`."""
    return verdicts_on(ARTICLE, JUDGES, runs)
