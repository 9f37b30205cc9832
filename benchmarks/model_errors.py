"""The errors of the model at the stored points: summaries, the goal, and all of it as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median, quantiles

from benchmarks.points import LARGE_WRITE_BYTES, QUEUE_PACKETS, Point
from labs.guest.units import MB

GOAL_MEDIAN_PCT, GOAL_95_PCT, GOAL_WORST_PCT, GOAL_SILENT = 0.5, 2.0, 5.0, 3
"""The goal for a set of 104 points: the median error, that of 95 % of the points, the largest, and
how many points may be without a prediction."""
GOAL_BEYOND_PCT, GOAL_CHANCE_SHARE = 0.5, 0.01
"""One point in a hundred may have a larger error if the measurement lies within the model's
interval, or at most this far (in percent) outside it."""
WORST_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One point: as measured, as predicted, and the errors in percent of what was measured.

    `steady_error_pct` is that of the goodput in the last third, `time_error_pct` that of the time
    for the whole transfer. They are None if the point was not measured or not predicted; `reason`
    says why. `disturbed` says what was wrong with the run. `beyond_pct` is known for errors above
    the goal: how far the measurement lies outside the interval of the model, 0 if within.
    """

    point: Point
    run: str | None
    measured_goodput_bytes_s: float | None
    measured_steady_bytes_s: float | None
    measured_s: float | None
    predicted_goodput_bytes_s: float | None
    predicted_steady_bytes_s: float | None
    predicted_s: float | None
    steady_error_pct: float | None
    time_error_pct: float | None
    bound: str
    reason: str
    disturbed: str
    beyond_pct: float | None = None

    @property
    def error_pct(self) -> float | None:
        """The larger of the two errors, without its sign."""
        if self.steady_error_pct is None or self.time_error_pct is None:
            return None
        return max(abs(self.steady_error_pct), abs(self.time_error_pct))


def error_pct(predicted: float | None, measured: float | None) -> float | None:
    """How far a prediction differs, in percent of what was measured."""
    if predicted is None or not measured:
        return None
    return 100 * (predicted - measured) / measured


@dataclass(frozen=True)
class Summary:
    """The errors of some points: their number, how many were predicted, and the distribution."""

    group: str
    points: int
    predicted: int
    median_pct: float | None
    p95_pct: float | None
    worst_pct: float | None

    @property
    def silent_pct(self) -> float:
        """The share of points without a prediction."""
        return 100 * (self.points - self.predicted) / self.points


def summary(group: str, compared: Sequence[Compared]) -> Summary:
    """The errors of these points; of each, the larger one counts."""
    errors = sorted(result.error_pct for result in compared if result.error_pct is not None)
    if not errors:
        return Summary(group, len(compared), 0, None, None, None)
    p95 = quantiles(errors, n=20, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    return Summary(group, len(compared), len(errors), median(errors), p95, errors[-1])


def summaries(compared: Sequence[Compared]) -> list[Summary]:
    """The errors of all points, per kernel, per bound, per size of a write and per MSS."""
    made = [summary("all points", compared)]
    for by in (
        lambda result: f"Linux {result.point.kernel}",
        lambda result: f"bound: {result.bound or 'cannot say'}",
        lambda result: f"writes: {pattern(result.point)}",
        lambda result: f"MSS {result.point.mss_bytes}",
    ):
        ordered = sorted(compared, key=by)
        made += [summary(group, list(some)) for group, some in groupby(ordered, by)]
    return made


def pattern(point: Point) -> str:
    """The size of a write in words."""
    if point.write_bytes == LARGE_WRITE_BYTES:
        return "128 KiB"
    return "odd sizes" if point.write_bytes % point.mss_bytes else "whole segments"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text, columns aligned; the first column to the left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def describe(compared: Sequence[Compared]) -> str:
    """The summaries, the goal, and the points with the largest errors."""
    head = ("Error of", "Points", "Predicted", "Median (%)", "95 % (%)", "Worst (%)", "Silent (%)")
    rows = [
        (
            summary.group,
            str(summary.points),
            str(summary.predicted),
            *(percent(value) for value in (summary.median_pct, summary.p95_pct, summary.worst_pct)),
            percent(summary.silent_pct),
        )
        for summary in summaries(compared)
    ]
    short = any(result.point.queue_packets < QUEUE_PACKETS for result in compared)
    met = outside(compared) if short else goal(compared)
    parts = (table([head, *rows]), met, furthest(compared))
    return "\n\n".join([*parts, silent(compared)]).rstrip()


def missed(compared: Sequence[Compared]) -> list[str]:
    """The parts of the goal that these points do not meet."""
    overall = summary("all points", compared)
    silent_points = overall.points - overall.predicted
    allowed = within(compared)[: int(GOAL_CHANCE_SHARE * len(compared))]
    held = [result for result in compared if result not in allowed]
    limits = (
        ("median", overall.median_pct, GOAL_MEDIAN_PCT),
        ("95 % of the points", overall.p95_pct, GOAL_95_PCT),
        ("worst", summary("", held).worst_pct, GOAL_WORST_PCT),
    )
    lacking = [
        f"{name} {percent(value)} %, not {limit:g} %"
        for name, value, limit in limits
        if value is None or value > limit
    ]
    if silent_points > GOAL_SILENT:
        lacking.append(f"{silent_points} points without an error, not {GOAL_SILENT}")
    return lacking


def within(compared: Sequence[Compared]) -> list[Compared]:
    """The points above the goal whose measurement lies within the model's interval, or at most
    GOAL_BEYOND_PCT outside it."""
    return [
        result
        for result in compared
        if result.beyond_pct is not None and result.beyond_pct <= GOAL_BEYOND_PCT
    ]


def goal(compared: Sequence[Compared]) -> str:
    """The goal, whether it is met, and the points above it that the model's interval permits."""
    lacking, wide = missed(compared), [result.point.name for result in within(compared)]
    return (
        f"Goal: median error at most {GOAL_MEDIAN_PCT:g} %, 95 % of the points within "
        f"{GOAL_95_PCT:g} %, none above {GOAL_WORST_PCT:g} % (but one in a hundred whose "
        f"measurement is in the model's interval), at most {GOAL_SILENT} points not "
        f"predicted. {'Not met: ' + '; '.join(lacking) if lacking else 'Met'}."
        + (f" Above {GOAL_WORST_PCT:g} % and in the interval: {', '.join(wide)}." if wide else "")
    )


def outside(compared: Sequence[Compared]) -> str:
    """The points above the goal whose measurement is outside the model's interval."""
    beyond = [result.point.name for result in compared if result.beyond_pct]
    return f"Above {GOAL_WORST_PCT:g} % and outside the interval: {', '.join(beyond) or 'none'}."


def furthest(compared: Sequence[Compared]) -> str:
    """The points with the largest errors."""
    head = (
        *("Point", "Kernel", "Mbit/s", "RTT (ms)", "MSS", "sndbuf", "rcvbuf", "Write"),
        *("Steady (MB/s)", "Error (%)", "Time (s)", "Error (%)", "Bound"),
    )
    predicted = [result for result in compared if result.error_pct is not None]
    worst = sorted(predicted, key=lambda result: result.error_pct or 0, reverse=True)[:WORST_SHOWN]
    rows = [
        (
            *(result.point.name, result.point.kernel, f"{result.point.rate_mbit:g}"),
            *(f"{result.point.rtt_ms:g}", str(result.point.mss_bytes)),
            *(
                size(result.point.sndbuf_kib),
                size(result.point.rcvbuf_kib),
                str(result.point.write_bytes),
            ),
            *(f"{(result.measured_steady_bytes_s or 0) / MB:.3f}", signed(result.steady_error_pct)),
            *(f"{result.measured_s or 0:.3f}", signed(result.time_error_pct), result.bound),
        )
        for result in worst
    ]
    return table([head, *rows]) if rows else ""


def size(requested_kib: int) -> str:
    """A buffer as granted."""
    return f"{2 * requested_kib} KiB" if requested_kib else "automatic"


def signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def silent(compared: Sequence[Compared]) -> str:
    """The points without a prediction or a measurement, and those whose run was disturbed."""
    lines = [
        f"{result.point.name}: {result.reason}" for result in compared if result.error_pct is None
    ]
    lines += [f"{result.point.name}: {result.disturbed}" for result in compared if result.disturbed]
    return "\n".join(lines)
