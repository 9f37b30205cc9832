"""The judging functions of the second part of article 6: flows that share a link."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from labs.drive.units import bytes_per_second
from labs.read.claims.bounds import at_least, at_most, limited, ratio, within
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import Finding
from labs.read.display.format import in_digits
from labs.read.readings.flows import goodputs_mbit, mean_rtts_ms, traffic_of
from labs.read.theory import rtt_unfairness
from labs.read.theory.bdp import payload_share

FEWEST = 4
"""A median error needs at least so many buffers."""


def median_error(claim: Claim, seen: Evidence) -> Finding:
    """The median deviation of the share from its prediction, in % of the link."""
    rows = [(name, seen.row(name)) for name in seen.matching(*claim.conditions)]
    errors = {
        name: abs(row["share_pct"] - row["predicted_share_pct"])
        for name, row in rows
        if row["share_pct"] is not None and row["predicted_share_pct"] is not None
    }
    if len(errors) < FEWEST:
        return not_judged(f"needs at least {FEWEST} buffers; there are {len(errors)}")
    said = ", ".join(f"{name.rpartition('-')[2]} {in_digits(one)}" for name, one in errors.items())
    return limited(claim, median(errors.values()), above=True, reason=said)


def power_of_rtt(claim: Claim, seen: Evidence) -> Finding:
    """The power of 1/RTT by which two throughputs differ; RTTs are the mean ones in steady state,
    with the queue."""
    run = seen.run(claim.conditions[0])
    (far, near), (far_ms, near_ms) = goodputs_mbit(run), mean_rtts_ms(run)
    power = rtt_unfairness.power_of_rtt((far, near), (far_ms, near_ms))
    if power is None or not far_ms or not near_ms:
        return not_judged("one of the flows carried nothing, or their RTTs are equal")
    said = (
        f"{in_digits(near)} and {in_digits(far)} Mbit/s over {in_digits(near_ms)} and "
        f"{in_digits(far_ms)} ms"
    )
    return within(claim, power, said)


def beyond_the_transfer(claim: Claim, seen: Evidence) -> Finding:
    """How much longer flows with a size take together than the link needs for their bytes."""
    name = claim.conditions[0]
    run, took_ms = seen.run(name), seen.row(name)["completed_ms"]
    traffic = traffic_of(run)
    rate, size = traffic.path.down.rate_mbit, sum(one.size_bytes or 0 for one in traffic.flows)
    if took_ms is None or rate is None:
        return not_judged("not all flows ended within the run")
    needs_ms = 1e3 * size / (bytes_per_second(rate) * payload_share()) + traffic.path.rtt_ms
    said = f"{in_digits(took_ms)} ms, of which the link needs {in_digits(needs_ms)}"
    return limited(claim, took_ms - needs_ms, above=False, reason=said)


JUDGES: Mapping[str, Judge] = {
    "at_least": at_least,
    "at_most": at_most,
    "ratio": ratio,
    "median_error": median_error,
    "power_of_rtt": power_of_rtt,
    "beyond_the_transfer": beyond_the_transfer,
}
