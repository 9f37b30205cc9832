"""What a sweep over buffer sizes shows: the smallest buffer that fills the line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.guest.units import MIB, bytes_carried
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.readings.bulk_transfer import SYSCTL
from labs.read.theory.advice import advise
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.kernels import series

if TYPE_CHECKING:
    from pandas import DataFrame

SWEEP = "sweep"
"""The group of the conditions of a sweep."""
FULL_PCT = 99.5
"""Of the line's payload rate: what three digits, as wget prints them, cannot tell from all of it
(113.5 of 114.0 MiB/s). Larger buffers reach 99.97 %."""
NEARLY_FULL_PCT = 95.0
"""A lower limit, to show what depends on it."""


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
    buffer_bytes: float | None
    of_the_line_pct: float | None
    below_bytes: float | None
    below_pct: float | None
    below_share_pct: float | None

    @property
    def of_the_bdp(self) -> float | None:
        """The buffer as a multiple of the BDP."""
        return None if self.buffer_bytes is None else self.buffer_bytes / self.bdp_bytes

    def sentence(self, in_words: Callable[[float], str] = size_in_words) -> str:
        """The buffer, with the size below it."""
        how = "" if self.series == SYSCTL else " set by setsockopt"
        below = f"{in_words(self.below_bytes or 0)}, reaches {self.below_pct or 0:.1f} %"
        if self.buffer_bytes is None:
            return (
                f"Linux {self.kernel}: none of the {self.points} buffers of the sweep{how} fills "
                f"the link; the largest, {below} of the line rate."
            )
        smaller = f"; the next smaller one, {below}" if self.below_bytes else ""
        return (
            f"Linux {self.kernel}: of the {self.points} sizes of the sweep{how}, the smallest "
            f"buffer that reaches {FULL_PCT:g} % of the line rate is "
            f"{in_words(self.buffer_bytes)}, {self.of_the_bdp:.2f} times the BDP of "
            f"{in_words(self.bdp_bytes)}{smaller}."
        )

    def computed(self) -> str:
        """The computed sizes, next to that of the sweep, which can only be one of those tried.

        On some kernels a buffer fixed by setsockopt has another share of window, so there is no
        advice for it here.
        """
        if self.series != SYSCTL or self.buffer_bytes is None:
            return ""
        advised = advise(self.rate_mbit, self.rtt_ms, self.kernel)
        receive, send = (
            size / advised.bdp_bytes for size in (advised.receive_bytes, advised.send_bytes)
        )
        more = "receiver" if receive >= send else "sender"
        return (
            f" Computed for a full link: {receive:.2f} times the BDP at the receiver, {send:.2f} "
            f"at the sender. With the same size at both ends the {more} needs more. The sweep can "
            "only find one of its own sizes."
        )


def line_mib_s(rows: DataFrame) -> float:
    """The payload that the link of these rows carries, as it was measured; the median."""
    return line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB


def points(table: DataFrame) -> DataFrame:
    """The rows of a table of results that are points of a sweep over a shaped link: by kernel,
    those by sysctl first, by size.

    With `line_mib_s` and `bdp_bytes` of the link as it was measured, the size as `buffer_mib` and
    `of_the_bdp`, `of_the_line_pct`, and `in_flight_pct`, the payload in flight in steady state as
    a share of the buffer.
    """
    rows = table[(table["group"] == SWEEP) & table["rate_mbit"].notna()]
    rows = rows.sort_values(["series", "buffer_bytes"], ascending=[False, True])
    rows = rows.sort_values("kernel", key=lambda names: names.map(series), kind="stable")
    line, size = rows["rate_mbit"].map(line_goodput_bytes_s) / MIB, rows["buffer_bytes"]
    links = zip(rows["rate_mbit"], rows["rtt_ms"], strict=True)
    bdp = [bytes_carried(*link) for link in links]
    return rows.assign(
        line_mib_s=line,
        bdp_bytes=bdp,
        buffer_mib=size / MIB,
        of_the_bdp=size / bdp,
        of_the_line_pct=100 * rows["steady_mib_s"] / line,
        in_flight_pct=100 * (rows["steady_bytes_s"] * rows["rtt_ms"] / 1e3) / size,
    )


def smallest(table: DataFrame, full_pct: float = FULL_PCT) -> list[Smallest]:
    """The answer of each sweep in a table, one per kernel and series, from points in steady
    state: the smallest buffer that reaches `full_pct` of the line."""
    rows = points(table)
    rows = rows[rows["steady_mib_s"].notna() & (rows["settled"] != False)]  # noqa: E712
    sweeps = rows.groupby(["kernel", "series"], sort=False)
    return [_smallest(sweep, full_pct) for _, sweep in sweeps]


def _smallest(rows: DataFrame, full_pct: float) -> Smallest:
    """The answer of the rows of one sweep, by size."""
    full = rows["of_the_line_pct"] >= full_pct
    place = int(full.argmax()) if full.any() else len(rows)
    last, sizes = rows.iloc[-1], ["buffer_bytes", "of_the_line_pct"]
    first = rows[sizes].iloc[place].tolist() if place < len(rows) else [None] * 2
    below = rows[[*sizes, "in_flight_pct"]].iloc[place - 1].tolist() if place else [None] * 3
    link = (float(last[name]) for name in ("rate_mbit", "rtt_ms", "bdp_bytes"))
    return Smallest(str(last["kernel"]), str(last["series"]), len(rows), *link, *first, *below)


def of_each_kernel(table: DataFrame) -> list[Smallest]:
    """The first answer of each kernel: of the sweep by sysctl, if there is one."""
    return [*{answer.kernel: answer for answer in smallest(table)[::-1]}.values()][::-1]


def remarks(table: DataFrame) -> list[str]:
    """What a table of results shows beyond its rows: the smallest buffer of each sweep."""
    return [answer.sentence() + answer.computed() for answer in smallest(table)]


def describe_sweep(rows: DataFrame) -> str:
    """The ends of the sweep, and the smallest buffer that fills the line."""
    first, last = (
        f"{in_three_digits(row['steady_mib_s'])} MiB/s with {size_in_words(row['buffer_bytes'])}"
        for row in (rows.iloc[0], rows.iloc[-1])
    )
    return (
        f"Steady goodput over {len(rows)} buffer sizes, from {first} to {last}. "
        f"{' '.join(remarks(rows))}"
    )
