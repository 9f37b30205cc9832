"""Judging functions: congestion controls under random loss."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import MIB, bytes_carried
from labs.experiments.buffers.conditions import ALGORITHMS
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HOLDS, WRONG, Finding
from labs.read.display.format import in_digits

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
    """The fastest control over the slowest at each loss, on the article's link.

    Judged at the largest loss that is still few: of its download at most `few` packets are lost.
    """
    found = _speeds(claim, seen)
    packets = claim.arguments["download_mib"] * MIB / MSS_BYTES
    few = [loss for loss in found if 0 < loss / 100 * packets <= claim.arguments["few"]]
    lacking = _lacking(found, ALGORITHMS)
    if lacking or not few:
        what = lacking or "a loss of a few packets per download"
        return not_judged(f"needs {what} too: labs run {seen.lab.name} --size full")
    ratios = {loss_pct: _fastest_over_slowest(one) for loss_pct, one in found.items()}
    most = max(few)
    path = seen.run(seen.matching(*claim.conditions)[0]).link.asked
    in_flight = bytes_carried(path.rate_mbit or 0.0, path.delay_ms) / MSS_BYTES
    told = "; ".join(
        f"at {loss_pct:g} % loss ({loss_pct / 100 * in_flight:.2g} losses per BDP, "
        f"{loss_pct / 100 * packets:.1g} per download) by a factor of "
        f"{in_digits(round(ratios[loss_pct], 2))}"
        for loss_pct in few
    )
    return Finding(
        verdict=HOLDS if ratios[most] - 1 <= claim.allowed else WRONG,
        measured={f"{loss_pct:g} % loss": ratio for loss_pct, ratio in ratios.items()},
        reason=f"goodput differs {told}. {_ranges(found)[0].upper()}{_ranges(found)[1:]}",
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
