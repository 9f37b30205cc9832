"""Judging functions: congestion controls under random loss."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import ALGORITHMS
from labs.experiments.buffers.results import article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, in_three_digits
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.mathis import mathis_bytes_s

Speeds = Mapping[float, Mapping[str, list[float]]]
"""Goodput in MiB/s of every draw, by loss in % and congestion control."""


def bbr_over_cubic(claim: Claim, seen: Evidence) -> Finding:
    """The median goodput of one control over that of another, at each loss.

    It holds if every draw of the faster one is above every draw of the slower one, at each loss.
    """
    faster, slower = claim.arguments["faster"], claim.arguments["slower"]
    found = _speeds(claim, seen)
    lacking = _lacking(found, (faster, slower))
    if lacking:
        return not_judged(f"needs {lacking} too: labs run {seen.lab.name} --size full")
    apart = all(min(one[faster]) > max(one[slower]) for one in found.values())
    return Finding(
        verdict=HOLDS if apart else WRONG,
        measured={
            f"{loss_pct:g} % loss": median(one[faster]) / median(one[slower])
            for loss_pct, one in found.items()
        },
        reason=_ranges(found),
    )


def few_losses(claim: Claim, seen: Evidence) -> Finding:
    """The fastest control over the slowest at each loss, and the loss from which they differ.

    The claim is judged at the smallest loss that is not 0.
    """
    found = _speeds(claim, seen)
    lacking = _lacking(found, ALGORITHMS)
    if lacking or len([loss_pct for loss_pct in found if loss_pct > 0]) < 2:
        what = lacking or "two losses that are not 0"
        return not_judged(f"needs {what} too: labs run {seen.lab.name} --size full")
    ratios = {loss_pct: _fastest_over_slowest(one) for loss_pct, one in found.items()}
    fewest = min(loss_pct for loss_pct in ratios if loss_pct > 0)
    alike = [loss_pct for loss_pct, ratio in ratios.items() if ratio - 1 <= claim.allowed]
    apart = min((loss_pct for loss_pct in ratios if loss_pct not in alike), default=None)
    below = [loss_pct for loss_pct in alike if apart is not None and loss_pct < apart]
    limit = ""
    if apart is not None and below:
        limit = (
            f"the choice changes goodput by at most {claim.tolerance_pct:g} % up to "
            f"{max(below):g} % loss, and by a factor of "
            f"{in_digits(round(ratios[apart], 2))} at {apart:g} %; "
        )
    return Finding(
        verdict=HOLDS if fewest in alike else WRONG,
        measured={f"{loss_pct:g} % loss": ratio for loss_pct, ratio in ratios.items()},
        reason=limit + _ranges(found) + _on_the_articles_link(fewest),
    )


def _on_the_articles_link(loss_pct: float) -> str:
    """What the same loss leaves of reno on the article's link, if that is less than the link."""
    own = article().parameters
    rate_mbit, delay_ms = float(own["rate_mbit"]), float(own["delay_ms"])
    line, reno = line_goodput_bytes_s(rate_mbit), mathis_bytes_s(loss_pct, delay_ms)
    if reno >= line:
        return ""
    return (
        f". How many losses are few depends on the BDP: at {rate_mbit:g} Mbit/s and {delay_ms:g} "
        f"ms, the article's link, {loss_pct:g} % would leave reno {in_three_digits(reno / MIB)} of "
        f"{in_three_digits(line / MIB)} MiB/s (formula of Mathis)"
    )


def _speeds(claim: Claim, seen: Evidence) -> Speeds:
    """Runs without a figure are omitted, so their congestion control counts as missing."""
    found: dict[float, dict[str, list[float]]] = {}
    for row in map(seen.row, seen.matching(*claim.conditions)):
        if row["goodput_mib_s"] is None:
            continue
        of_loss = found.setdefault(row["loss_pct"], {})
        of_loss.setdefault(row["congestion_control"], []).append(float(row["goodput_mib_s"]))
    return dict(sorted(found.items()))


def _lacking(found: Speeds, controls: tuple[str, ...]) -> str:
    return ", ".join(
        f"{control} at {loss_pct:g} % loss"
        for loss_pct, one in found.items()
        for control in controls
        if control not in one
    )


def _fastest_over_slowest(speeds: Mapping[str, list[float]]) -> float:
    middle = [median(found) for found in speeds.values()]
    return max(middle) / min(middle)


def _ranges(found: Speeds) -> str:
    """The median and range of each control's draws at each loss, in words."""
    draws = min(len(drawn) for one in found.values() for drawn in one.values())
    at_each = "; ".join(
        f"at {loss_pct:g} % loss "
        + ", ".join(
            f"{control} {in_digits(median(drawn))} ({in_digits(min(drawn))} to "
            f"{in_digits(max(drawn))})"
            for control, drawn in one.items()
        )
        for loss_pct, one in found.items()
    )
    return f"goodput in MiB/s, median (range) of {draws} draws: {at_each}"
