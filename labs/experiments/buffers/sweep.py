"""What a sweep over buffer sizes shows: the smallest buffer that fills the line."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from labs.drive.units import GIB, MIB
from labs.experiments.buffers.conditions import SWEEP
from labs.experiments.buffers.prediction import of_client, predicted
from labs.experiments.buffers.settings import DISCARD, Settings
from labs.read.display.format import size_in_words
from labs.read.display.rich_output import Words
from labs.read.readings.bulk_transfer import SYSCTL
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.bulk_flow import Flow

if TYPE_CHECKING:
    from pandas import DataFrame

FULL_PCT = 99.5
"""Of the line's payload rate: what three digits, as wget prints them, cannot tell from all of it
(113.5 of 114.0 MiB/s). Larger buffers reach 99.97 %."""
NEARLY_FULL_PCT = 95.0
"""A lower limit, to show what depends on it."""
CURVE_ROUND_TRIPS = 60
"""Enough to reach the steady state."""


@dataclass(frozen=True)
class Smallest:
    """The smallest buffer of a sweep, of both ends, with which a flow fills the line (FULL_PCT).

    `buffer_bytes` is None if none is large enough; `below_bytes` is the next smaller one, which
    reaches `below_pct` of the line (None: there is no smaller one), with `below_share_pct` of it
    in flight. `points` is how many sizes were tried. The link is the measured one.
    """

    kernel: str
    series: str
    points: int
    rate_mbit: float
    rtt_ms: float
    bdp_bytes: float
    buffer_bytes: int | None
    of_the_line_pct: float | None
    below_bytes: int | None
    below_pct: float | None
    below_share_pct: float | None

    @property
    def of_the_bdp(self) -> float | None:
        """The buffer as a multiple of the BDP."""
        return None if self.buffer_bytes is None else self.buffer_bytes / self.bdp_bytes


def points(table: DataFrame) -> DataFrame:
    """The rows of a table of results that are points of a sweep over a shaped link, by size.

    With `line_mib_s` and `bdp_bytes` of the link as it was measured, and `of_the_line_pct`.
    """
    rows = table[(table["group"] == SWEEP.name) & table["rate_mbit"].notna()]
    # By sysctl first.
    rows = rows.sort_values(["kernel", "series", "buffer_bytes"], ascending=[True, False, True])
    line = rows["rate_mbit"].map(line_goodput_bytes_s) / MIB
    bdp = [
        bdp_bytes(rate, rtt) for rate, rtt in zip(rows["rate_mbit"], rows["rtt_ms"], strict=True)
    ]
    return rows.assign(
        line_mib_s=line, bdp_bytes=bdp, of_the_line_pct=100 * rows["steady_mib_s"] / line
    )


def smallest(table: DataFrame, full_pct: float = FULL_PCT) -> list[Smallest]:
    """The answer of each sweep in a table, one per kernel and series, from points in steady
    state: the smallest buffer that reaches `full_pct` of the line."""
    rows = points(table)
    rows = rows[rows["steady_mib_s"].notna() & (rows["settled"] != False)]  # noqa: E712
    return [
        _smallest(str(kernel), str(series), some, full_pct)
        for (kernel, series), some in rows.groupby(["kernel", "series"], sort=False)
    ]


def _smallest(kernel: str, series: str, rows: DataFrame, full_pct: float) -> Smallest:
    ordered: list[dict[Any, Any]] = rows.sort_values("buffer_bytes").to_dict("records")
    first = next(
        (place for place, row in enumerate(ordered) if row["of_the_line_pct"] >= full_pct), None
    )
    below = (ordered if first is None else ordered[:first])[-1:]
    return Smallest(
        kernel=kernel,
        series=series,
        points=len(ordered),
        rate_mbit=float(ordered[-1]["rate_mbit"]),
        rtt_ms=float(ordered[-1]["rtt_ms"]),
        bdp_bytes=ordered[-1]["bdp_bytes"],
        buffer_bytes=None if first is None else int(ordered[first]["buffer_bytes"]),
        of_the_line_pct=None if first is None else ordered[first]["of_the_line_pct"],
        below_bytes=int(below[0]["buffer_bytes"]) if below else None,
        below_pct=below[0]["of_the_line_pct"] if below else None,
        below_share_pct=_share_pct(below[0]) if below else None,
    )


def _share_pct(row: dict[Any, Any]) -> float:
    """How much of its buffer a flow had in flight in steady state, as payload."""
    under_way = float(row["steady_bytes_s"]) * float(row["rtt_ms"]) / 1e3
    return 100 * under_way / float(row["buffer_bytes"])


def in_words(found: Smallest) -> str:
    """One sentence on the smallest buffer, with the size below it."""
    how = "" if found.series == SYSCTL else " set by setsockopt"
    if found.buffer_bytes is None:
        return (
            f"Linux {found.kernel}: none of the {found.points} buffers of the sweep{how} "
            f"fills the link; the largest, {size_in_words(found.below_bytes or 0)}, reaches "
            f"{found.below_pct or 0:.0f} % of the line rate."
        )
    said = (
        f"Linux {found.kernel}: of the {found.points} sizes of the sweep{how}, the smallest "
        f"buffer that reaches {FULL_PCT:g} % of the line rate is "
        f"{size_in_words(found.buffer_bytes)}, {found.of_the_bdp:.2f} times the BDP of "
        f"{size_in_words(found.bdp_bytes)}"
    )
    if found.below_bytes is not None:
        said += (
            f"; the next smaller one, {size_in_words(found.below_bytes)}, reaches "
            f"{found.below_pct:.1f} %"
        )
    return f"{said}.{_computed(found)}"


def _computed(found: Smallest) -> str:
    """The computed sizes, next to that of the sweep, which can only be one of those tried.

    On some kernels a buffer fixed by setsockopt has another share of window, so there is no advice
    for it here.
    """
    if found.series != SYSCTL:
        return ""
    computed = advise(found.rate_mbit, found.rtt_ms, found.kernel)
    receive, send = (
        size / computed.bdp_bytes for size in (computed.receive_bytes, computed.send_bytes)
    )
    end = "receiver" if receive >= send else "sender"
    return (
        f" Computed for a full link: {receive:.2f} times the BDP at the receiver, {send:.2f} at "
        f"the sender. With the same size at both ends the {end} needs more. The sweep can only "
        "find one of its own sizes."
    )


def tell_smallest(table: DataFrame) -> Words:
    """The remarks as Markdown."""
    return Words("\n\n".join(remarks(table)) or "None of these runs belongs to a sweep.")


def remarks(table: DataFrame) -> list[str]:
    """What a table of results shows beyond its rows: the smallest buffer of each sweep."""
    return [in_words(found) for found in smallest(table)]


def curve(rows: DataFrame, points_a_doubling: int = 4) -> tuple[list[float], list[float]]:
    """The prediction for every size between the smallest and the largest of a sweep's rows.

    The rows are of one kernel. Sizes in bytes, goodput in MiB/s; empty if the theory does not cover
    the rows (loss, jitter).
    """
    known = rows[rows["predicted_mib_s"].notna()]
    if known.empty:
        return [], []
    one = known.iloc[0]
    smallest_bytes, largest = float(known["buffer_bytes"].min()), float(known["buffer_bytes"].max())
    steps = max(1, ceil(points_a_doubling * log2(largest / smallest_bytes)))
    sizes = [
        smallest_bytes * (largest / smallest_bytes) ** (step / steps) for step in range(steps + 1)
    ]
    speeds = []
    for size in sizes:
        both = (4096, round(size), round(size))
        flow = Flow(
            rate_mbit=float(one["rate_mbit"]),
            rtt_ms=float(one["rtt_ms"]),
            tcp_rmem=both,
            tcp_wmem=both,
            kernel=str(one["kernel"]),
            adv_win_scale=int(one["adv_win_scale"]),
            **of_client(DISCARD, GIB, Settings.read_bytes),
        )
        held = min(bdp_bytes(flow.rate_mbit, flow.rtt_ms), size)
        enough = min(GIB, round(CURVE_ROUND_TRIPS * held))
        speeds.append(predicted(flow, enough).goodput_mib_s)
    return sizes, speeds
