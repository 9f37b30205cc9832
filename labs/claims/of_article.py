"""All verdicts on an article, from the runs of one study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.articles.ledger import article
from labs.catalogue import find
from labs.claims.evidence import Evidence
from labs.claims.judging import Judge, judge
from labs.claims.verdict import Verdict
from labs.runs.run import Run


def verdicts_on(number: int, judges: Mapping[str, Judge],
                runs: Iterable[Run]) -> tuple[Verdict, ...]:
    """A verdict on each claim of the article, in its order, from the runs of one study.

    Of two runs of a condition the last counts. What the runs cannot say is "not judged", and why.
    """
    ledger = article(number)
    seen = Evidence(find(ledger.lab), {run.condition: run for run in runs})
    return tuple(judge(claim, seen, judges, ledger.parameters) for claim in ledger.claims)
