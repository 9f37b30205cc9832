"""Claims about goodput against buffers: where a curve rises, is best, and falls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import KIB, MB, bytes_carried, bytes_per_second
from labs.experiments.sweeps.curves import REACHES_PCT, Curve, curve, curves
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, UNDECIDED, WRONG, Finding
from labs.read.display.format import in_three_digits, is_known, size_in_words
from labs.read.theory.windows import RATIO_SINCE, series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim

FEWEST_POINTS = 3
"""A series with fewer points is not judged."""
SLOW_PCT = 50.0
"""A rise is slow up to a size if less than this share of the best goodput is reached by then."""
FALLS_PCT = 5.0
"""A curve falls if it loses more than this share of its best goodput."""
NOT_REPRODUCED = (
    "not reproduced: computation takes no time here, so a fall would be an effect of the author's "
    "hardware"
)


def send_buffer_alone(claim: Claim, seen: Evidence) -> Finding:
    """Whether most of the rise is above the BDP, if the receive buffer is automatic."""
    return _rise(claim, seen, "sender")


def both_buffers(claim: Claim, seen: Evidence) -> Finding:
    """The same for both buffers."""
    return _rise(claim, seen, "both")


def _rise(claim: Claim, seen: Evidence, series: str) -> Finding:
    curve = _curve(claim, seen, series)
    if curve is None:
        return too_few(claim)
    up_to_bdp_pct = curve.rise_pct(_bdp_and_a_bit(curve))
    slow = up_to_bdp_pct < SLOW_PCT
    reason = (
        f"{up_to_bdp_pct:.0f} % of the best goodput is reached up to the BDP of "
        f"{size_in_words(curve.bdp_kib * KIB)}; a slow rise is read as less than {SLOW_PCT:.0f} %"
    )
    if not slow:
        reason += (
            ". This BDP is that of 40 Gbit/s and 0.2 ms; at a shorter RTT or a lower rate the rise "
            "ends further below 1 MB. The cause of the article's rise above it is unknown: buffers "
            "do not explain it, and no run here has the author's hardware"
        )
    return Finding(
        verdict=HOLDS if slow else DIFFERS,
        factor=None if slow else up_to_bdp_pct / SLOW_PCT,
        measured=round(up_to_bdp_pct, 1),
        reason=f"{reason}. {curve.in_words}",
    )


def receive_buffer_alone(claim: Claim, seen: Evidence) -> Finding:
    """The size from which a larger receive buffer gains nothing, at the goodput that the article
    reaches and each RTT of its range: it must be the article's at all of them."""
    found = {ms: of_receiver(seen, [name]) for ms, name in zip(*at_rtts(claim), strict=True)}
    curves = {rtt_ms: curve for rtt_ms, curve in found.items() if curve is not None}
    if len(curves) < len(found):
        return too_few(claim)
    right = [rtt for rtt, curve in curves.items() if curve.full.size_kib == claim.figure]
    said = ", ".join(_best_from(one, f"at {rtt} ms") for rtt, one in curves.items())
    named = of_receiver(seen, ["receiver-*"])
    if named is not None:
        said += f"; {_best_from(named, 'on the link that the article names')}"
    measured = {f"at {rtt} ms": curve.full.size_kib for rtt, curve in curves.items()}
    rows = [seen.row(name) for name in seen.matching(*at_rtts(claim)[1])]
    rates = in_a_list(sorted({round(row["rate_mbit"]) for row in rows}))
    run_rtts = in_a_list(sorted({round(row["rtt_ms"]) for row in rows}))
    words = {0: DIFFERS, len(curves): HOLDS}
    return Finding(
        verdict=words.get(len(right), UNDECIDED),
        measured=measured,
        reason=f"explained at {in_a_list(right)} ms (the article's RTT is 0.1 to 0.2 ms). "
        f"With the BDP of {claim.arguments['gbit_s']} Gbit/s and each RTT, on links of {rates} "
        f"Mbit/s and {run_rtts} ms, the goodput is best {said}. Best is {REACHES_PCT:.0f} % of the "
        f"largest goodput{_own_share(seen, claim)}",
    )


def _own_share(seen: Evidence, claim: Claim) -> str:
    """What is said of a kernel on which the runs do not have the window share of the article's."""
    kernel = seen.run(seen.matching(*claim.conditions)[0]).kernel.release
    if series(kernel) < RATIO_SINCE:
        return ""
    return (
        f". The window share is that of {kernel}: tcp_adv_win_scale, which these runs set as on "
        "the article's kernel, has no effect since 6.6"
    )


def fall(claim: Claim, seen: Evidence) -> Finding:
    """By how much the goodput falls at most beyond the smallest sufficient size: shown, because no
    computation of these runs can make it fall."""
    curves = [
        curve
        for name in claim.conditions
        if (curve := of_receiver(seen, [name]) or _curve(claim, seen, "both")) is not None
    ]
    if not curves:
        return too_few(claim)
    fall_pct = max(curve.fall_pct for curve in curves)
    beyond = f"beyond the smallest sufficient size the goodput falls by {fall_pct:.1f} % at most"
    return Finding(
        verdict=HARDWARE,
        measured=round(fall_pct, 1),
        reason=f"{beyond}; {NOT_REPRODUCED}" if fall_pct <= FALLS_PCT else beyond,
    )


def at_rtts(claim: Claim) -> tuple[list[float], list[str]]:
    """The RTTs of the article's range in ms, and the runs that have the BDP of each."""
    return claim.arguments["rtts_ms"], list(claim.conditions)


def in_a_list(values: Iterable[float]) -> str:
    *first, last = [f"{value:g}" for value in values] or ["no"]
    return f"{', '.join(first)} and {last}" if first else last


def _best_from(found: Curve, where: str) -> str:
    size, bdp = (size_in_words(kib * KIB) for kib in (found.full.size_kib, found.bdp_kib))
    return f"{where} from {size} on (BDP {bdp})"


def of_receiver(seen: Evidence, conditions: Iterable[str]) -> Curve | None:
    """The curve of these runs, which vary the receive buffer alone; None of too few."""
    rows = [
        row
        for name in seen.matching(*conditions)
        if is_known((row := seen.row(name))["steady_mib_s"])
        and is_known(row["requested_receive_kib"])
        and not is_known(row["requested_send_kib"])
    ]
    return curve("receiver", rows) if len(rows) >= FEWEST_POINTS else None


def too_small_to_fill(claim: Claim, seen: Evidence) -> Finding:
    """Whether a send buffer smaller than the BDP fills the path, and the BDP as computed."""
    found = _curve(claim, seen, "sender")
    if found is None:
        return too_few(claim)
    below = [one for one in found.points if one.size_kib < found.bdp_kib]
    if not below or found.points[-1].size_kib <= found.bdp_kib:
        return not_judged("the sizes of these runs are not on both sides of the BDP")
    nearest = below[-1]
    share_pct = 100 * max(one.steady_mib_s for one in below) / found.best.steady_mib_s
    given = claim.arguments
    bdp_mb = bytes_carried(1e3 * given["gbit_s"], given["rtt_ms"]) / MB
    in_flight = [bytes_carried(1e3 * one, given["rtt_ms"]) / MB for one in given["reached_gbit_s"]]
    reached = " to ".join(f"{one:g}" for one in given["reached_gbit_s"])
    reason = (
        f"{size_in_words(nearest.size_kib * KIB)}, the largest size below the BDP, reaches "
        f"{in_three_digits(nearest.steady_mib_s)} of {in_three_digits(found.best.steady_mib_s)} "
        f"MiB/s on a link with a BDP of {found.bdp_kib * KIB / MB:.2f} MB. At the {reached} Gbit/s "
        f"that the article reaches at most, {in_flight[0]:.2f} to {in_flight[1]:.2f} MB are in "
        "flight: its link is never full"
    )
    fills = share_pct >= REACHES_PCT
    differs = abs(bdp_mb / claim.figure - 1) > claim.allowed and not fills
    return Finding(
        verdict=WRONG if fills else DIFFERS if differs else HOLDS,
        factor=bdp_mb / claim.figure if differs else None,
        predicted=bdp_mb,
        reason=reason,
    )


def best_pairs(claim: Claim, seen: Evidence) -> Finding:
    """The smallest sufficient send buffer for two receive buffers, which the article's machines do
    not reach before 8 or 16 MB: shown with ours, without a verdict."""
    found = curves(seen.row(name) for name in seen.matching(*claim.conditions))
    small, large = found.get("fixed-256k"), found.get("fixed-8m")
    if small is None or large is None or min(len(small.points), len(large.points)) < FEWEST_POINTS:
        return too_few(claim)
    window_bytes = claim.arguments["window_kib"] * KIB
    rtt_ms = 1e3 * window_bytes / bytes_per_second(1e3 * claim.arguments["gbit_s"])
    share_pct = 100 * small.best.steady_mib_s / large.best.steady_mib_s
    return Finding(
        verdict=HARDWARE,
        measured={"receiver 256 KB": small.full.size_kib, "receiver 8 MB": large.full.size_kib},
        reason="buffers do not explain why his sender needs 8 or 16 MB: a send buffer beyond the "
        "receive window gains nothing here. 12 Gbit/s need a window of "
        f"{size_in_words(window_bytes)} at most, up to an RTT of {rtt_ms:.3f} ms, so both pairs "
        f"may be equally fast there; at this BDP the first reaches {share_pct:.0f} % of the "
        "second. With 256 KiB at the receiver: "
        f"{small.in_words}; with 8 MiB: {large.in_words}",
    )


def _curve(claim: Claim, seen: Evidence, series: str) -> Curve | None:
    rows = [seen.row(name) for name in seen.matching(*claim.conditions)]
    found = curves(rows).get(series)
    return found if found is not None and len(found.points) >= FEWEST_POINTS else None


def too_few(claim: Claim) -> Finding:
    return not_judged(
        f"fewer than {FEWEST_POINTS} sizes of {' or '.join(claim.conditions)} were run"
    )


def _bdp_and_a_bit(curve: Curve) -> float:
    """The BDP and 10 % more, which includes the nearest size of the series: 1 MiB for 1 MB."""
    return 1.1 * curve.bdp_kib
