"""Claims about goodput against buffers: where a curve rises, is best, and falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import KIB, bytes_per_second
from labs.experiments.sweeps.curves import Curve, curves
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.verdict import HARDWARE, HOLDS, Finding
from labs.read.display.format import size_in_words

if TYPE_CHECKING:
    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim

FEWEST_POINTS = 3
"""A series with fewer points is not judged."""
SLOW_PCT = 50.0
"""A rise is slow up to a size if less than this share of the best goodput is reached by then."""
FALLS_PCT = 5.0
"""A curve falls if it loses more than this share of its best goodput."""
FALL_IS_HARDWARE = "computation takes no time here, so a fall is an effect of the author's hardware"


def send_buffer_alone(claim: Claim, seen: Evidence) -> Finding:
    """Whether most of the rise is above the BDP, if the receive buffer is automatic."""
    return _rise(claim, seen, "sender")


def both_buffers(claim: Claim, seen: Evidence) -> Finding:
    """The same for both buffers; the fall is not judged."""
    return _rise(claim, seen, "both")


def _rise(claim: Claim, seen: Evidence, series: str) -> Finding:
    curve = _curve(claim, seen, series)
    if curve is None:
        return _too_few(claim)
    up_to_bdp_pct = curve.rise_pct(_bdp_and_a_bit(curve))
    slow = up_to_bdp_pct < SLOW_PCT
    reason = (
        f"{curve.in_words}; up to the BDP of {size_in_words(curve.bdp_kib * KIB)} the goodput "
        f"reaches {up_to_bdp_pct:.0f} % of the best. A buffer below the BDP limits the goodput in "
        "proportion to its size, and a larger one does not limit it"
    )
    if not slow:
        reason += (
            ". A rise above the BDP, as the author measured it, needs a limit other than buffers, "
            "such as the CPU time per write of the author's hardware"
        )
    if "beyond" in claim.texts:
        reason += f". {_fall(curve)}"
    return Finding(
        verdict=HOLDS if slow else HARDWARE,
        measured=round(up_to_bdp_pct, 1),
        reason=reason,
        judged=1,
    )


def receive_buffer_alone(claim: Claim, seen: Evidence) -> Finding:
    """The size from which a larger receive buffer gains nothing; the fall is not judged."""
    curve = _curve(claim, seen, "receiver")
    if curve is None:
        return _too_few(claim)
    found = compared(claim.without(["beyond"]), {"best from": curve.full.size_kib}, None, seen)
    return Finding(
        verdict=found.verdict,
        factor=found.factor,
        measured={"best from": curve.full.size_kib},
        reason=f"{curve.in_words}. {_fall(curve)}. {found.reason}",
        judged=1,
    )


def best_pairs(claim: Claim, seen: Evidence) -> Finding:
    """The smallest sufficient send buffer for two receive buffers, and the goodput of each pair."""
    found = curves(seen.row(name) for name in seen.matching(*claim.conditions))
    small, large = found.get("fixed-256k"), found.get("fixed-8m")
    if small is None or large is None or min(len(small.points), len(large.points)) < FEWEST_POINTS:
        return _too_few(claim)
    measured = {"receiver 256 KB": small.full.size_kib, "receiver 8 MB": large.full.size_kib}
    judged = compared(claim.without(["goodput"]), measured, None, seen)
    window_bytes = claim.arguments["window_kib"] * KIB
    rtt_ms = 1e3 * window_bytes / bytes_per_second(1e3 * claim.arguments["gbit_s"])
    share_pct = 100 * small.best.steady_mib_s / large.best.steady_mib_s
    return Finding(
        verdict=judged.verdict,
        factor=judged.factor,
        measured=measured,
        reason=f"with 256 KiB at the receiver: {small.in_words}; with 8 MiB: {large.in_words}. A "
        "send buffer beyond the receive window gains nothing, and the first pair reaches "
        f"{share_pct:.0f} % of the second. The article's 12 Gbit/s need no more than a window of "
        f"{size_in_words(window_bytes)} if the RTT is {rtt_ms:.3f} ms, which is within its 0.1 to "
        "0.2 ms. That both pairs reach the same goodput is an effect of the author's hardware. "
        f"{judged.reason}",
        judged=2,
    )


def _curve(claim: Claim, seen: Evidence, series: str) -> Curve | None:
    rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    found = curves(rows).get(series)
    return found if found is not None and len(found.points) >= FEWEST_POINTS else None


def _too_few(claim: Claim) -> Finding:
    return not_judged(
        f"fewer than {FEWEST_POINTS} sizes of {' or '.join(claim.conditions)} were run"
    )


def _fall(curve: Curve) -> str:
    """Whether a curve falls beyond its rise."""
    if curve.fall_pct > FALLS_PCT:
        return f"Beyond, it falls by {curve.fall_pct:.0f} %"
    return (
        f"Beyond, it stays within {max(1.0, curve.fall_pct):.0f} % of the best: {FALL_IS_HARDWARE}"
    )


def _bdp_and_a_bit(curve: Curve) -> float:
    """The BDP and 10 % more, which includes the nearest size of the series: 1 MiB for 1 MB."""
    return 1.1 * curve.bdp_kib
