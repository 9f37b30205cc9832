"""What a sweep over buffer sizes shows: the smallest buffer that fills the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from labs.drive.units import MIB
from labs.read.display.format import in_three_digits, size_in_mb, size_in_words
from labs.read.readings.bulk_transfer import SYSCTL
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.windows import series

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
    buffer_bytes: int | None
    of_the_line_pct: float | None
    below_bytes: int | None
    below_pct: float | None
    below_share_pct: float | None

    @property
    def of_the_bdp(self) -> float | None:
        """The buffer as a multiple of the BDP."""
        return None if self.buffer_bytes is None else self.buffer_bytes / self.bdp_bytes


def line_mib_s(rows: DataFrame) -> float:
    """The payload that the link of these rows carries, as it was measured; the median."""
    return line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB


def points(table: DataFrame) -> DataFrame:
    """The rows of a table of results that are points of a sweep over a shaped link, by size.

    With `line_mib_s` and `bdp_bytes` of the link as it was measured, the size as `buffer_mib` and
    `of_the_bdp`, and `of_the_line_pct`.
    """
    rows = table[(table["group"] == SWEEP) & table["rate_mbit"].notna()]
    # By sysctl first.
    rows = rows.sort_values(["series", "buffer_bytes"], ascending=[False, True])
    rows = rows.sort_values("kernel", key=lambda names: names.map(series), kind="stable")
    line = rows["rate_mbit"].map(line_goodput_bytes_s) / MIB
    bdp = [
        bdp_bytes(rate, rtt) for rate, rtt in zip(rows["rate_mbit"], rows["rtt_ms"], strict=True)
    ]
    return rows.assign(
        line_mib_s=line,
        bdp_bytes=bdp,
        buffer_mib=rows["buffer_bytes"] / MIB,
        of_the_bdp=rows["buffer_bytes"] / bdp,
        of_the_line_pct=100 * rows["steady_mib_s"] / line,
    )


def smallest(table: DataFrame, full_pct: float = FULL_PCT) -> list[Smallest]:
    """The answer of each sweep in a table, one per kernel and series, from points in steady
    state: the smallest buffer that reaches `full_pct` of the line."""
    rows = points(table)
    rows = rows[rows["steady_mib_s"].notna() & (rows["settled"] != False)]  # noqa: E712
    sweeps = rows.groupby(["kernel", "series"], sort=False)
    return [_smallest(sweep.sort_values("buffer_bytes"), full_pct) for _, sweep in sweeps]


def _smallest(rows: DataFrame, full_pct: float) -> Smallest:
    """The answer of the rows of one sweep, by size."""
    ordered: list[dict[Any, Any]] = rows.to_dict("records")
    reaching = (place for place, row in enumerate(ordered) if row["of_the_line_pct"] >= full_pct)
    place = next(reaching, len(ordered))
    first, below = (row[0] if row else {} for row in (ordered[place:][:1], ordered[:place][-1:]))
    last = ordered[-1]
    return Smallest(
        kernel=str(last["kernel"]),
        series=str(last["series"]),
        points=len(ordered),
        rate_mbit=float(last["rate_mbit"]),
        rtt_ms=float(last["rtt_ms"]),
        bdp_bytes=last["bdp_bytes"],
        buffer_bytes=int(first["buffer_bytes"]) if first else None,
        of_the_line_pct=first.get("of_the_line_pct"),
        below_bytes=int(below["buffer_bytes"]) if below else None,
        below_pct=below.get("of_the_line_pct"),
        below_share_pct=_share_pct(below) if below else None,
    )


def _share_pct(row: dict[Any, Any]) -> float:
    """How much of its buffer a flow had in flight in steady state, as payload."""
    under_way = float(row["steady_bytes_s"]) * float(row["rtt_ms"]) / 1e3
    return 100 * under_way / float(row["buffer_bytes"])


def remarks(table: DataFrame) -> list[str]:
    """What a table of results shows beyond its rows: the smallest buffer of each sweep."""
    return [describe_smallest(answer) for answer in smallest(table)]


def describe_sweep(rows: DataFrame) -> str:
    """The ends of the sweep, and the smallest buffer that fills the line."""
    first, last = rows.iloc[0], rows.iloc[-1]
    return (
        f"Steady goodput over {len(rows)} buffer sizes, from "
        f"{in_three_digits(first['steady_mib_s'])} MiB/s with "
        f"{size_in_words(first['buffer_bytes'])} to {in_three_digits(last['steady_mib_s'])} MiB/s "
        f"with {size_in_words(last['buffer_bytes'])}. {' '.join(remarks(rows))}"
    )


def describe_smallest(answer: Smallest) -> str:
    """The smallest buffer, with the size below it, and the computed sizes."""
    return describe_size(answer, size_in_words) + _computed(answer)


def describe_size(answer: Smallest, in_words: Callable[[float], str]) -> str:
    """One sentence on the smallest buffer, with the size below it."""
    how = "" if answer.series == SYSCTL else " set by setsockopt"
    below = in_words(answer.below_bytes or 0)
    if answer.buffer_bytes is None:
        return (
            f"Linux {answer.kernel}: none of the {answer.points} buffers of the sweep{how} "
            f"fills the link; the largest, {below}, reaches {answer.below_pct or 0:.0f} % of the "
            "line rate."
        )
    smaller = f"; the next smaller one, {below}, reaches {answer.below_pct or 0:.1f} %"
    return (
        f"Linux {answer.kernel}: of the {answer.points} sizes of the sweep{how}, the smallest "
        f"buffer that reaches {FULL_PCT:g} % of the line rate is {in_words(answer.buffer_bytes)}, "
        f"{answer.of_the_bdp:.2f} times the BDP of {in_words(answer.bdp_bytes)}"
        f"{smaller if answer.below_bytes else ''}."
    )


def _computed(answer: Smallest) -> str:
    """The computed sizes, next to that of the sweep, which can only be one of those tried.

    On some kernels a buffer fixed by setsockopt has another share of window, so there is no advice
    for it here.
    """
    if answer.series != SYSCTL or answer.buffer_bytes is None:
        return ""
    computed = advise(answer.rate_mbit, answer.rtt_ms, answer.kernel)
    receive, send = (
        size / computed.bdp_bytes for size in (computed.receive_bytes, computed.send_bytes)
    )
    return (
        f" Computed for a full link: {receive:.2f} times the BDP at the receiver, {send:.2f} at "
        f"the sender. With the same size at both ends the "
        f"{'receiver' if receive >= send else 'sender'} needs more. The sweep can only "
        "find one of its own sizes."
    )


def filling(rows: DataFrame, place: int) -> Smallest | None:
    """The smallest buffer of one of the sweeps that fills the line; those by sysctl come first."""
    answers = [answer for answer in smallest(rows) if answer.series == SYSCTL] or smallest(rows)
    return answers[place] if place < len(answers) and answers[place].buffer_bytes else None


def of_each_kernel(answers: Iterable[Smallest]) -> list[Smallest]:
    """The first answer of each kernel."""
    return list({answer.kernel: answer for answer in reversed([*answers])}.values())[::-1]


def describe_published(
    answer: Smallest, articles_bytes: float, within_pct: float, believed: float
) -> str:
    """An article's buffer beside the smallest one that fills the link; `believed` is the BDP that
    it computed."""
    enough, share = answer.buffer_bytes or 0, answer.below_share_pct
    more_pct = 100 * (articles_bytes / enough - 1) if enough else inf
    if enough and abs(100 * (enough / articles_bytes - 1)) <= within_pct:
        cancels = (
            ""
            if share is None
            else f", but only {share:.0f} % of a receive buffer is usable as window; the two "
            "errors cancel"
        )
        return (
            f"So the article's number is right (within {within_pct:.0f} %) for the wrong reason. "
            f"Its RTT is {believed / answer.bdp_bytes:.2f} times the true one{cancels}."
        )
    if answer.below_bytes is not None and answer.below_bytes < articles_bytes < enough:
        return (
            f"The sweep has no size near {size_in_mb(articles_bytes)}, so it does not show "
            "whether the article's number is sufficient."
        )
    than = "more" if more_pct > 0 else "less"
    return f"The article's number is {abs(more_pct):.0f} % {than} than that."
