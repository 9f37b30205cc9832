"""The judging functions of the first part of article 6: queues."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from labs.read.claims.bounds import at_most, ratio, ratio_at_least, within
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.flows import outside_probe_rtt as share_outside
from labs.read.readings.flows import window_cuts

SPREAD_MOST = 20
"""How many cuts of a window a reason lists."""


def window_after_loss(claim: Claim, seen: Evidence) -> Finding:
    """What losses leave of the window, from the samples of the sender: the median."""
    cuts = window_cuts(seen.run(claim.conditions[0]))
    if not cuts:
        return not_judged("no loss was sampled after slow start")
    shown = ", ".join(in_digits(one) for one in cuts[:SPREAD_MOST])
    return within(claim, median(cuts), f"{len(cuts)} losses leave {shown}")


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


def outside_probe_rtt(claim: Claim, seen: Evidence) -> Finding:
    """The share of the time that BBR's window is above the four segments of ProbeRTT."""
    share = share_outside(seen.run(claim.conditions[0]))
    if share is None:
        return not_judged("the run has no samples of a BBR flow")
    return within(claim, 100 * share, f"{in_digits(100 * share)} % of the samples")


JUDGES: Mapping[str, Judge] = {
    "at_most": at_most,
    "ratio": ratio,
    "ratio_at_least": ratio_at_least,
    "window_after_loss": window_after_loss,
    "marks_and_drops_nothing": marks_and_drops_nothing,
    "outside_probe_rtt": outside_probe_rtt,
}
