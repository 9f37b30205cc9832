"""All verdicts on an article, from the runs of one study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.catalog import find
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, judge
from labs.read.claims.ledger import article
from labs.read.claims.verdict import Verdict
from labs.read.runs.run import Run


def verdicts_on(number: int, judges: Mapping[str, Judge],
                runs: Iterable[Run]) -> tuple[Verdict, ...]:
    """A verdict on each claim of the article, in its order, from the runs of one study.

    Of two runs of a condition the last counts. What the runs cannot say is "not judged", and why.
    """
    ledger = article(number)
    seen = Evidence(find(ledger.lab), {run.condition: run for run in runs})
    return tuple(judge(claim, seen, judges, ledger.parameters) for claim in ledger.claims)
