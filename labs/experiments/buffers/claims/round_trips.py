"""Judging functions: the round-trip time, what httping times, and the cost of waiting."""

from __future__ import annotations

from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import ARITHMETIC, DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.theory.bdp import of_the_wait_pct, sending_ms, utilisation_pct

NO_ANSWER = "httping received no response"
TRIPS = 2
NEAR = 0.02


def httping_times(claim: Claim, seen: Evidence) -> Finding:
    """The times that httping reports, compared with twice the RTT of the handshake."""
    name = seen.matching(*claim.conditions)[0]
    run, said = seen.run(name), seen.run(name).httping()
    found = {} if said is None else {"min": said.min_ms, "mean": said.mean_ms, "max": said.max_ms}
    measured = {what: value for what, value in found.items() if value is not None}
    if len(measured) < 3:
        return not_judged(NO_ANSWER)
    twice = TRIPS * float(run.link.measured.rtt_ms)
    return compared(claim, measured, dict.fromkeys(measured, twice), seen, name)


def round_trip(claim: Claim, seen: Evidence) -> Finding:
    """The RTT of the link: the time of a handshake, not that of httping."""
    name = seen.matching(*claim.conditions)[0]
    run, said = seen.run(name), seen.run(name).httping()
    rtt_ms, asked_ms = float(run.link.measured.rtt_ms), run.link.asked.delay_ms
    believed_ms = claim.figure
    if abs(rtt_ms / believed_ms - 1) <= claim.allowed:
        return Finding(
            verdict=HOLDS,
            measured=rtt_ms,
            predicted=asked_ms,
            reason=f"a handshake takes {rtt_ms:.1f} ms, too",
        )
    if said is None or said.mean_ms is None:
        return not_judged(NO_ANSWER)
    trips = said.mean_ms / rtt_ms
    reason = (
        f"a handshake through the same class takes {rtt_ms:.1f} ms; httping's "
        f"{said.mean_ms:.1f} ms is {trips:.2f} times that"
    )
    if abs(trips / TRIPS - 1) <= NEAR:
        reason += ", because it times the handshake and then the request: two round trips"
    reason += (
        f". The article's own ss prints rtt:{claim.arguments['ss_rtt_ms']} "
        f"minrtt:{claim.arguments['ss_min_rtt_ms']}"
    )
    return Finding(verdict=WRONG, measured=rtt_ms, predicted=asked_ms, reason=reason)


def stop_and_wait(claim: Claim, seen: Evidence) -> Finding:
    """The share of a link that one block at a time uses: arithmetic that needs no run."""
    given = claim.arguments
    block, rate = given["block_bytes"], given["rate_bytes_s"]
    believed_ms, true_ms = given["rtt_ms"], given["true_rtt_ms"]
    as_computed = of_the_wait_pct(block, rate, believed_ms)
    exact, at_true = (utilisation_pct(block, rate, rtt) for rtt in (believed_ms, true_ms))
    busy = sending_ms(block, rate)
    reason = (
        f"arithmetic: {busy:g} of {believed_ms:g} ms are {in_digits(as_computed)} %; including "
        f"the time to send the block it is {exact:.2f} % ({busy:g} of {busy + believed_ms:g} "
        f"ms). At the link's RTT of {true_ms:g} ms it is {at_true:.2f} % ({busy:g} of "
        f"{busy + true_ms:g} ms), {in_digits(of_the_wait_pct(block, rate, true_ms))} % as the "
        "article computes it"
    )
    factor = exact / claim.figure
    if abs(factor - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=reason, predicted=exact, witness=ARITHMETIC)
    return Finding(
        verdict=DIFFERS, factor=factor, reason=reason, predicted=exact, witness=ARITHMETIC
    )
