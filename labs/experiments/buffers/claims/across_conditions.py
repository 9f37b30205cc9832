"""Judging functions that compare conditions: over buffer sizes, and over loss rates."""

from __future__ import annotations

from statistics import median

from pandas import DataFrame

from labs.drive.units import MB
from labs.experiments.buffers.conditions import LOSS
from labs.experiments.buffers.results import SYSCTL
from labs.experiments.buffers.socket_buffers import window
from labs.experiments.buffers.sweep import FULL_PCT, Smallest, smallest
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, size_in_words

LOST_PCT = 1.0
CONTROLS = ("reno", "cubic", "bbr")


def no_effect(claim: Claim, seen: Evidence) -> Finding:
    """How far goodput with buffers that were set lies from that with the kernel's own."""
    alone = str(claim.arguments["beside"])
    rows = [seen.row(name) for name in seen.matching(*claim.conditions) if name != alone]
    plain = seen.row(alone)["goodput_mib_s"]
    if plain is None or any(row["goodput_mib_s"] is None for row in rows):
        return not_judged("a run gives no goodput")
    measured = max(abs(100 * (row["goodput_mib_s"] / plain - 1)) for row in rows)
    sizes = sorted(row["buffer_bytes"] for row in rows if row["buffer_bytes"] is not None)
    tried = ", ".join(map(size_in_words, sizes))
    return Finding(
        verdict=HOLDS if measured <= (claim.tolerance_pct or 0) else WRONG,
        measured=measured,
        reason=f"with buffers of {tried} goodput is up to {measured:.2g} % from the "
        f"{in_digits(plain)} MiB/s with the kernel's own",
    )


def buffer_needed(claim: Claim, seen: Evidence) -> Finding:
    """The smallest buffer of the sweep that fills the line, beside the BDP at the true RTT."""
    names = seen.matching(*claim.conditions)
    table = DataFrame([seen.row(name) for name in names])
    # One size at both ends, by sysctl, as in the article; by setsockopt is the second series.
    table = table[table["series"] == SYSCTL]
    answers = smallest(table)
    if not answers:
        return not_judged("needs a sweep by sysctl that has settled")
    found = answers[0]
    if found.buffer_bytes is None:
        return not_judged(f"no buffer of the sweep reaches {FULL_PCT:.0f} % of the line rate")
    theory = smallest(table.assign(steady_mib_s=table["predicted_mib_s"]))[0].buffer_bytes
    believed, bdp, needed = (claim.figure, found.bdp_bytes / MB, (found.buffer_bytes / MB))
    right = abs(bdp / believed - 1) <= claim.allowed and abs(needed / believed - 1) <= claim.allowed
    rtt_ms = float(table["rtt_ms"].iloc[0])
    enough = str(table.loc[table["buffer_bytes"] == found.buffer_bytes, "condition"].iloc[0])
    return Finding(
        verdict=HOLDS if right else WRONG,
        measured=needed,
        predicted=None if theory is None else theory / MB,
        reason=f"the round trip is {rtt_ms:.1f} ms, so the BDP is {bdp:.1f} MB; the smallest "
        f"buffer of the sweep that reaches {FULL_PCT:.0f} % of the line rate is "
        f"{needed:.1f} MB, {needed / bdp:.2f} times that{_next_below(found)}; "
        f"{_share(seen, enough)}{_number(found, believed, claim)}",
    )


def _next_below(found: Smallest) -> str:
    if found.below_bytes is None:
        return " (there is no smaller one in the sweep)"
    return (
        f" (the next smaller one, {found.below_bytes / MB:.1f} MB, reaches {found.below_pct:.0f} %)"
    )


def _share(seen: Evidence, name: str) -> str:
    """What of the buffer becomes window, as the run with the buffer that is enough showed it."""
    found, kernel = window(seen.run(name)), seen.run(name).kernel.release
    if found is None or not found.receive_buffer_bytes:
        return f"measured on {kernel}"
    share = found.offered_bytes / found.receive_buffer_bytes
    return f"on {kernel} {100 * share:.0f} % of a receive buffer becomes window"


def _number(found: Smallest, believed: float, claim: Claim) -> str:
    """Whether the number is right all the same, as far as the sweep can say."""
    needed, below = (found.buffer_bytes or 0) / MB, (found.below_bytes or 0) / MB
    if abs(needed / believed - 1) <= claim.allowed:
        return ": the right number for a wrong reason"
    if below < believed < needed:
        return f"; whether {believed:g} MB are enough, a sweep with more points says"
    return f": {believed:g} MB is not the right number either"


def loss_and_control(claim: Claim, seen: Evidence) -> Finding:
    """bbr over cubic where packets are lost, and the fastest over the slowest where none are."""
    lost, unlost = (
        {control: _speeds(claim, seen, loss_pct, control) for control in CONTROLS}
        for loss_pct in (LOST_PCT, 0.0)
    )
    lacking = [
        f"{control} at {loss_pct:g} % loss"
        for loss_pct, speeds in ((LOST_PCT, lost), (0.0, unlost))
        for control, found in speeds.items()
        if not found
    ]
    if lacking:
        return not_judged(f"needs {', '.join(lacking)} too: labs run {seen.lab.name} --size full")
    middle = {control: median(found) for control, found in lost.items()}
    alike = [median(found) for found in unlost.values()]
    ratio, even = middle["bbr"] / middle["cubic"], max(alike) / min(alike)
    measured = {"1 % loss, bbr over cubic": ratio, "no loss, fastest over slowest": even}
    ranges = ", ".join(
        f"{control} {in_digits(middle[control])} ({in_digits(min(found))} to "
        f"{in_digits(max(found))})"
        for control, found in lost.items()
    )
    reason = (
        f"MiB/s at 1 % loss, median and range of {len(lost['bbr'])} draws: {ranges}; "
        f"without loss {in_digits(min(alike))} to {in_digits(max(alike))}"
    )
    least = float(claim.arguments["at_least"])
    if ratio <= 1 or even - 1 > claim.allowed:
        return Finding(verdict=WRONG, measured=measured, reason=reason)
    if ratio < least:
        return Finding(verdict=DIFFERS, factor=ratio / least, measured=measured, reason=reason)
    return Finding(verdict=HOLDS, measured=measured, reason=reason)


def _speeds(claim: Claim, seen: Evidence, loss_pct: float, control: str) -> list[float]:
    """The goodput of every draw in MiB/s; none if a run has no figure."""
    rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    found = [
        row["goodput_mib_s"]
        for row in rows
        if (row["group"], row["loss_pct"]) == (LOSS.name, loss_pct)
        and row["congestion_control"] == control
    ]
    return [] if None in found else [float(speed) for speed in found]
