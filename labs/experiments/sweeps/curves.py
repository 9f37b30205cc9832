"""Goodput against one buffer: the series of a sweep, and where each rises, levels off and falls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labs.drive.units import KIB
from labs.read.display.format import in_three_digits, is_known, size_in_words
from labs.read.theory.bdp import bdp_bytes

SERIES = {
    "sender": "send buffer alone",
    "receiver": "receive buffer alone",
    "both": "both buffers",
    "fixed-256k": "send buffer, receiver 256 KiB",
    "fixed-8m": "send buffer, receiver 8 MiB",
}
"""The five series of the article, and what varies in each."""
REACHES_PCT = 95.0
"""A point with this share of the best goodput of its curve counts as reaching it."""
_NAME = re.compile(rf"({'|'.join(SERIES)})-\d+[km]", re.ASCII)


@dataclass(frozen=True)
class Point:
    """One run of a series: the size that was requested, and the steady goodput."""

    condition: str
    size_kib: float
    steady_mib_s: float
    predicted_mib_s: float | None


@dataclass(frozen=True)
class Curve:
    """A series: its points by size, and the BDP of its link."""

    series: str
    points: tuple[Point, ...]
    bdp_kib: float

    @property
    def best(self) -> Point:
        """The point with the highest goodput; the smallest size if several reach it."""
        return max(self.points, key=lambda one: one.steady_mib_s)

    @property
    def full(self) -> Point:
        """The smallest size that reaches 95 % of the best goodput."""
        enough = REACHES_PCT / 100 * self.best.steady_mib_s
        return next(one for one in self.points if one.steady_mib_s >= enough)

    @property
    def fall_pct(self) -> float:
        """How far the goodput falls at most beyond the smallest size that reaches the best, in %
        of the best."""
        later = [one.steady_mib_s for one in self.points if one.size_kib >= self.full.size_kib]
        return 100 * (1 - min(later) / self.best.steady_mib_s)

    def rise_pct(self, size_kib: float) -> float:
        """The share of the best goodput that is reached up to a size, in %."""
        below = [one.steady_mib_s for one in self.points if one.size_kib <= size_kib]
        return 100 * max(below, default=0.0) / self.best.steady_mib_s

    @property
    def in_words(self) -> str:
        """The ends of the curve, and the size from which it is flat."""
        first, last = self.points[0], self.points[-1]
        return (
            f"{in_three_digits(first.steady_mib_s)} MiB/s at "
            f"{size_in_words(first.size_kib * KIB)}, {REACHES_PCT:.0f} % of the best goodput from "
            f"{size_in_words(self.full.size_kib * KIB)} on, "
            f"{in_three_digits(last.steady_mib_s)} MiB/s at {size_in_words(last.size_kib * KIB)}"
        )


def series_of(condition: str) -> str | None:
    """The series of a condition by its name; None for a condition that belongs to none."""
    match = _NAME.fullmatch(condition)
    return match[1] if match else None


def curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    """The curves of the existing runs by series, in the article's order; `rows` are results of one
    kernel."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        name = series_of(row["condition"])
        if name is not None and is_known(row["steady_mib_s"]):
            found.setdefault(name, []).append(row)
    return {name: curve(name, found[name]) for name in SERIES if name in found}


def curve(series: str, rows: Iterable[Mapping[str, Any]]) -> Curve:
    """The curve of rows on one link with what varies in a series."""
    rows = list(rows)
    points = sorted((_point(series, row) for row in rows), key=lambda one: one.size_kib)
    bdp = bdp_bytes(rows[0]["rate_mbit"], rows[0]["rtt_ms"])
    return Curve(series, tuple(points), bdp / KIB)


def _point(series: str, row: Mapping[str, Any]) -> Point:
    size = row["requested_receive_kib" if series == "receiver" else "requested_send_kib"]
    return Point(row["condition"], size, row["steady_mib_s"], row["predicted_mib_s"])
