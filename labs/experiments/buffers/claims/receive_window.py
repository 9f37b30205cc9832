"""Judging functions: the share of a receive buffer that becomes window, and its growth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labs.drive.testbed.link import MSS_BYTES
from labs.read.claims.evidence import Evidence
from labs.read.claims.rules import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run
from labs.read.theory.windows import receive_window_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

SCALE = "net.ipv4.tcp_adv_win_scale"
# How close a sample must be to the article's sample, by the bytes received until then.
NEAR = 0.05


def share_of_scale(scale: int) -> float:
    """The share of a receive buffer that becomes window by the rule of tcp_adv_win_scale.

    Source: include/net/tcp.h tcp_win_from_space(), up to 6.5.
    """
    return float(2**scale if scale <= 0 else 1 - 2**-scale)


def window_share(claim: Claim, seen: Evidence) -> Finding:
    """The window's share of the receive buffer, by the setting of tcp_adv_win_scale."""
    measured: dict[str, float] = {}
    predicted: dict[str, float] = {}
    fits = True
    names = seen.matching(*claim.conditions)
    for name in names:
        run = seen.run(name)
        rows = _client(run)
        scale = int(run.sysctls["client"]["after"].get(SCALE, "1"))
        if rows.empty:
            return not_judged(f"{name} ended before its window was sampled")
        window, buffer = (
            int(rows[column].iloc[-1]) for column in ("rcv_ssthresh_bytes", "rcvbuf_bytes")
        )
        measured[str(scale)] = window / buffer
        predicted[str(scale)] = (
            receive_window_bytes(buffer, run.kernel.release, adv_win_scale=scale) / buffer
        )
        # One segment is always missing from the window.
        fits &= (
            abs(measured[str(scale)] - share_of_scale(scale)) <= claim.allowed + MSS_BYTES / buffer
        )
    return _of_shares(claim, seen.run(names[0]), _by_scale(measured), _by_scale(predicted), fits)


def _by_scale(shares: dict[str, float]) -> dict[str, float]:
    return dict(sorted(shares.items(), key=lambda item: int(item[0])))


def _of_shares(
    claim: Claim, run: Run, measured: dict[str, float], predicted: dict[str, float], fits: bool
) -> Finding:
    """The verdict on the rule, from the measured shares."""
    kernel = run.kernel.release
    ignored = max(measured.values()) - min(measured.values()) <= claim.allowed
    figures: dict[str, Any] = {
        "measured": measured,
        "predicted": predicted,
        "judged": len(measured.keys() & claim.figures.keys()),
    }
    if len(measured) < 2 or (fits and ignored):
        return not_judged("needs two settings of tcp_adv_win_scale that differ in their share")
    if fits:
        reason = f"on {kernel} each share matches the rule"
        return Finding(verdict=HOLDS, reason=reason, **figures)
    shares = ", ".join(map(in_digits, measured.values()))
    reason = (
        f"on {kernel} the share is {in_digits(max(measured.values()))}, whatever the setting"
        if ignored
        else f"on {kernel} the shares are {shares}"
    )
    return Finding(verdict=WRONG, reason=reason, **figures)


def growth(claim: Claim, seen: Evidence) -> Finding:
    """rcv_space and rcv_ssthresh after as many bytes as at the article's three samples."""
    name = seen.matching(*claim.conditions)[0]
    run = seen.run(name)
    rows = _client(run)
    if rows.empty:
        return not_judged(f"{name} ended before its window was sampled")
    wanted = claim.figures
    measured: dict[str, float] = {}
    for look, received in enumerate(claim.arguments["received_bytes"], start=1):
        measured |= _at(rows, received, look)
    judged = [what for what in wanted if what not in claim.shown]
    missing = [what for what in judged if what not in measured]
    if missing:
        return not_judged(f"no sample of {name} is close enough to measure {', '.join(missing)}")
    buffer = int(rows["rcvbuf_bytes"].iloc[-1])
    window = receive_window_bytes(buffer, run.kernel.release)
    settled = float(rows["rcv_ssthresh_bytes"].max())
    figures: dict[str, Any] = {
        "measured": measured,
        "predicted": {"rcv_ssthresh, settled": float(window)},
    }
    farthest = max(
        (measured[what] / wanted[what] for what in judged), key=lambda ratio: abs(ratio - 1)
    )
    reason = f"rcv_ssthresh reaches {settled:,.0f}; predicted {window:,}. {_only_shown(claim)}"
    if abs(farthest - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, reason=reason, **figures)
    return Finding(verdict=DIFFERS, factor=farthest, reason=reason, **figures)


def _only_shown(claim: Claim) -> str:
    """Why some of the figures are not judged."""
    return (
        f"{', '.join(claim.shown)}: not judged, because the amount read per round trip depends on "
        "the speed of the author's machine"
    )


def _client(run: Run) -> DataFrame:
    """The samples of the client's socket that contain its window."""
    rows = own_socket(run.samples("client"), "bytes_received")
    if not {"rcv_ssthresh_bytes", "rcv_space_bytes", "rcvbuf_bytes"} <= set(rows):
        return rows.iloc[:0]
    known: DataFrame = rows[rows["rcv_ssthresh_bytes"].notna() & rows["rcvbuf_bytes"].notna()]
    return known


def _at(rows: DataFrame, received: int, look: int) -> dict[str, float]:
    """Values at the last sample with at most `received` bytes; fast-changing ones are left out if
    that sample is too early."""
    until = rows[rows["bytes_received"] <= received * (1 + NEAR)]
    if until.empty:
        return {}
    last = until.iloc[-1]
    found = {
        f"rcv_space {look}": float(last["rcv_space_bytes"]),
        f"rcv_ssthresh {look}": float(last["rcv_ssthresh_bytes"]),
    }
    settled = rows["rcv_ssthresh_bytes"].max() * (1 - NEAR) <= last["rcv_ssthresh_bytes"]
    if settled or abs(last["bytes_received"] / received - 1) <= NEAR:
        return found
    return {}
