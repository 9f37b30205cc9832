"""The judging functions of the first part of article 6: queues."""

from __future__ import annotations

from collections.abc import Mapping

from labs.read.claims.bounds import at_least, at_most, ratio, ratio_at_least
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.flows import traffic_of
from labs.read.runs.run import Run


def parameter(run: Run, name: str) -> int | None:
    """A parameter of this lab that is not a setting: the packets of the FIFO, from its plan."""
    queue = traffic_of(run).path.queue("down") if name == "fifo_packets" else None
    return None if queue is None else queue.packets


def marks_and_drops_nothing(claim: Claim, seen: Evidence) -> Finding:
    """Whether the queue marked packets and dropped none."""
    row = seen.row(claim.conditions[0])
    marked, lost = row["marked_pct"], row["lost_pct"]
    if marked is None or lost is None:
        return not_judged("the queue has no counters of marks and drops")
    measured = {"marked": float(marked), "dropped": float(lost)}
    reason = f"{in_digits(marked)} % of the packets are marked, {in_digits(lost)} % dropped"
    if lost and marked:
        return Finding(
            verdict=DIFFERS, factor=float(lost / marked), measured=measured, reason=reason
        )
    return Finding(verdict=HOLDS if marked else WRONG, measured=measured, reason=reason)


JUDGES: Mapping[str, Judge] = {
    "at_least": at_least,
    "at_most": at_most,
    "ratio": ratio,
    "ratio_at_least": ratio_at_least,
    "marks_and_drops_nothing": marks_and_drops_nothing,
}
