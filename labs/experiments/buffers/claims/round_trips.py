"""Judging functions: the round-trip time, what httping times, and the cost of waiting."""

from __future__ import annotations

from typing import Any

from labs.read.claims.evidence import Evidence
from labs.read.claims.rules import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.readings.latency import latency
from labs.read.theory.bdp import sending_ms, utilisation_pct

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
    return compared(claim, measured, dict.fromkeys(measured, twice))


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
    """The share of the link's time that one block per round trip needs for sending.

    Measured by a client that fetches blocks of that size on one connection, at the RTT that the
    article assumes and at that of its link; the median leaves slow start out.
    """
    given = claim.arguments
    block, rate = given["block_bytes"], given["rate_bytes_s"]
    busy = sending_ms(block, rate)
    cycles = [latency(seen.run(given[which])).p50_ms for which in ("at_believed", "at_true")]
    believed, true = (100 * busy / cycle for cycle in cycles)
    believed_ms, true_ms = (
        seen.run(given[which]).link.measured.rtt_ms for which in ("at_believed", "at_true")
    )
    reason = (
        f"right at the RTT that the article assumes: {busy:g} ms of a cycle of "
        f"{cycles[0]:.1f} ms at an RTT of {believed_ms:.0f} ms are {believed:.2f} %, but at "
        f"{true_ms:.0f} ms, the RTT of the article's link, they are {true:.2f} %"
    )
    figures: dict[str, Any] = {
        "measured": {"400 ms": believed, "200 ms": true},
        "predicted": {
            "400 ms": utilisation_pct(block, rate, believed_ms),
            "200 ms": utilisation_pct(block, rate, true_ms),
        },
    }
    if abs(true / claim.figure - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=f"{busy:g} of {cycles[1]:.1f} ms", **figures)
    if abs(believed / claim.figure - 1) <= claim.allowed:
        return Finding(verdict=RIGHT_NUMBER, reason=reason, **figures)
    reason = f"{busy:g} of {cycles[0]:.1f} ms are {believed:.2f} %"
    return Finding(verdict=DIFFERS, factor=believed / claim.figure, reason=reason, **figures)
