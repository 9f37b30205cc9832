"""Claims about what the article recommends, and what it says of a write and of a full queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.experiments.sweeps.claims.goodput import (
    FEWEST_POINTS,
    at_rtts,
    in_a_list,
    of_receiver,
    too_few,
)
from labs.experiments.sweeps.curves import curves
from labs.experiments.sweeps.experiment import INTERRUPTED, REPORT, RESET
from labs.experiments.sweeps.results import sender_rows, written_ahead_bytes
from labs.experiments.sweeps.settings import Settings
from labs.read.claims.judge import not_judged
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, WRONG, Finding
from labs.read.display.format import size_in_words
from labs.read.readings.bulk_transfer import SENDER
from labs.read.readings.instruments import shaper_drops
from labs.read.runs import raw_files
from labs.read.theory.bdp import line_goodput_bytes_s

if TYPE_CHECKING:
    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim


def receive_buffer_falls_short(claim: Claim, seen: Evidence) -> Finding:
    """The best goodput of the receive buffer alone, as a share of the best of all series: shown."""
    alone = of_receiver(seen, ["receiver-*"])
    others = curves(seen.row(name) for name in seen.matching("sender-*", "both-*"))
    if alone is None or not others:
        return too_few(claim)
    best = max(alone.best.steady_mib_s, *(one.best.steady_mib_s for one in others.values()))
    share_pct = 100 * alone.best.steady_mib_s / best
    return Finding(
        verdict=HARDWARE,
        measured=round(share_pct, 1),
        reason=f"the receive buffer alone reaches {share_pct:.0f} % of the best goodput of all "
        "series, because the kernel enlarges an automatic send buffer up to tcp_wmem[2] (4 MiB), "
        "which exceeds the BDP; what limited it on the author's machines is unknown",
    )


def equal_choices(claim: Claim, seen: Evidence) -> Finding:
    """The goodput of the article's three choices, at each RTT of its range, as a share of the best
    of the three."""
    shares: dict[str, list[float]] = {}
    for name in at_rtts(claim)[1]:
        rows = {one.rpartition("-")[2]: seen.row(one) for one in seen.matching(name)}
        if len(rows) < FEWEST_POINTS:
            return too_few(claim)
        best = max(row["steady_mib_s"] for row in rows.values())
        for size, row in rows.items():
            shares.setdefault(size, []).append(100 * row["steady_mib_s"] / best)
    least = {size: round(min(some), 1) for size, some in shares.items()}
    lowest = min(least.values())
    return Finding(
        verdict=HOLDS if lowest >= 100 - (claim.tolerance_pct or 0) else DIFFERS,
        measured=least,
        reason=f"at RTTs of {in_a_list(at_rtts(claim)[0])} ms and the goodput that the article "
        f"reaches, each choice has at least {lowest:.1f} % of the best. The first one is an "
        "automatic receive buffer, like the article's default",
    )


def sender_alone(claim: Claim, seen: Evidence) -> Finding:
    """The goodput with a large send buffer alone: shown, as a share of the link's."""
    names = seen.matching(*claim.conditions)
    if not names:
        return not_judged(f"{claim.conditions[0]} was not run")
    row = seen.row(names[0])
    share_pct = 100 * row["steady_bytes_s"] / line_goodput_bytes_s(row["rate_mbit"])
    given = claim.arguments
    low, high = (100 * reached / given["gbit_s"] for reached in given["reached_gbit_s"])
    reached = " to ".join(f"{one:g}" for one in given["reached_gbit_s"])
    return Finding(
        verdict=HARDWARE,
        measured=round(share_pct, 1),
        reason=f"{names[0]} reaches {share_pct:.0f} % of what its link carries. {reached} Gbit/s "
        f"are {low:.0f} to {high:.0f} % of the author's link: something else than buffers limits "
        "it",
    )


def full_queue(claim: Claim, seen: Evidence) -> Finding:
    """Whether all bytes arrive although the sender's queue dropped packets, without an error of the
    program: the peer acknowledges without a gap, and only the interrupt of the run ends iperf3."""
    (name,) = claim.conditions
    run = seen.run(name)
    dropped, rows = shaper_drops(run), sender_rows(run)
    if not dropped or rows is None or rows.empty:
        return not_judged("the queue dropped no packet in this run")
    counted = int(rows["total_retrans_segments"].max())
    acked_bytes = int(rows["bytes_acked"].max())
    arrived = acked_bytes >= run.settings_as(Settings).transfer_bytes
    told = run.read(f"{SENDER}/{REPORT}", raw_files.IPERF3_ERROR) or "no error"
    untold = told in ("no error", INTERRUPTED, RESET)
    return Finding(
        verdict=HOLDS if arrived and untold else WRONG,
        measured={"dropped": dropped, "counted as retransmitted": counted},
        reason=f"the queue of the sender's own device dropped {dropped} packets, and "
        f"{acked_bytes / MIB:.1f} MiB were acknowledged without a gap. The sender's iperf3 "
        f"reports: {told}{' (how each run ends)' if untold else ''}. TCP learns of the drop: the "
        f"error keeps the segment in its write queue, so it is sent later, and {counted} segments "
        "are counted as retransmitted "
        "(net/ipv4/tcp_output.c tcp_write_xmit(), net/core/dev.c)",
    )


def write_returns(claim: Claim, seen: Evidence) -> Finding:
    """The most bytes whose write had returned and that the peer had not acknowledged: all but one
    write, because iperf3 starts a write when the one before has returned."""
    (name,) = claim.conditions
    ahead_bytes = written_ahead_bytes(seen.run(name))
    if ahead_bytes is None:
        return not_judged(f"{name} has no samples of the sender")
    write_bytes = seen.run(name).settings_as(Settings).write_bytes
    returned_bytes = max(0, ahead_bytes - write_bytes)
    return Finding(
        verdict=HOLDS if returned_bytes else WRONG,
        measured=round(returned_bytes / MIB, 1),
        reason=f"at one sample {size_in_words(ahead_bytes)} had been written and were not "
        f"acknowledged; of these at most one write of {write_bytes:,} bytes had not returned. If a "
        "write waited for the peer, no more than one write would be unacknowledged",
    )
