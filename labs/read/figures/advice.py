"""Goodput against buffer size for an advice: the point advised, and the point where you are."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

from labs.guest.units import KIB, MIB
from labs.read.display.advice import describe_path, describe_reached
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.figures.axes import SIZES, Axis
from labs.read.figures.lines import Lines
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import BLUE, GREEN, ORANGE, VERMILION
from labs.read.theory.advice import LARGEST_BYTES, Reached, reached

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TITLE = "Goodput against the largest size of one socket buffer"
POINTS_PER_DOUBLING = 4
LEAST_BYTES = 16 * KIB
SMALLEST_SHARE, LARGEST_SHARE = 1 / 16, 2
"""The range of sizes, as shares of the smallest and the largest size that is marked."""
RECEIVE, SEND = "receive buffer varies", "send buffer varies"
LOOKS = {
    RECEIVE: Look(BLUE, size=0),
    SEND: Look(VERMILION, "dash", size=0),
    "advised at least, receive buffer": Look(GREEN, size=12),
    "you, receive buffer": Look(ORANGE, size=12),
    "advised at least, send buffer": Look(GREEN, symbol="square", size=12),
    "you, send buffer": Look(ORANGE, symbol="square", size=12),
}


def against_buffer_size(here: Reached) -> Figure:
    """Two curves: the receive buffer varies with the advised send buffer, and the reverse.

    `here` is what the buffers of today reach. Sizes are the maxima of tcp_rmem and tcp_wmem.
    """
    return Lines(
        TITLE,
        rows=_points,
        x=Axis("size_bytes", "largest size of the buffer", log=True, ticks=SIZES),
        y=Axis("goodput_mib_s", begins_at_0=True),
        by="series",
        looks=LOOKS,
        marks=(
            Mark(
                here.advice.line_bytes_s / MIB, "payload of the full link, {digits} MiB/s", axis="y"
            ),
        ),
        words=_words,
        caption=lambda rows: f"{describe_path(here.advice)} · simulated packet by packet",
        describe=lambda rows: _describe(here),
        table=_table,
        height=288,
    )(here)


def _points(here: Reached) -> DataFrame:
    """Both curves, and of each buffer the advised size and the present one."""
    advice = here.advice
    marked = (advice.receive_bytes, advice.send_bytes, here.rcvbuf_bytes, here.sndbuf_bytes)
    low = max(SMALLEST_SHARE * min(marked), LEAST_BYTES)
    sizes = _sizes(low, min(LARGEST_SHARE * max(marked), LARGEST_BYTES))
    rows = []
    for size in sizes:
        varied = {
            RECEIVE: {"sndbuf_bytes": advice.sender.set_bytes, "rcvbuf_bytes": size},
            SEND: {"sndbuf_bytes": size, "rcvbuf_bytes": advice.receiver.set_bytes},
        }
        for name, buffers in varied.items():
            result = reached(advice, **buffers)
            rows.append((name, size, result.goodput_bytes_s, f": limited by the {result.bound}"))
    for buffer, best, present in (
        ("receive buffer", advice.receive_bytes, here.rcvbuf_bytes),
        ("send buffer", advice.send_bytes, here.sndbuf_bytes),
    ):
        rows.append((f"advised at least, {buffer}", best, advice.line_bytes_s, ""))
        rows.append((f"you, {buffer}", present, here.goodput_bytes_s, ""))
    table = DataFrame(rows, columns=["series", "size_bytes", "goodput_bytes_s", "because"])
    return table.assign(goodput_mib_s=table["goodput_bytes_s"] / MIB)


def _sizes(low: float, high: float) -> list[int]:
    steps = max(1, ceil(POINTS_PER_DOUBLING * log2(high / low)))
    return [round(low * (high / low) ** (step / steps)) for step in range(steps + 1)]


def _words(row: Mapping[Any, Any]) -> str:
    goodput = in_three_digits(row["goodput_mib_s"])
    return f"{size_in_words(row['size_bytes'])}{row['because']}, {goodput} MiB/s"


def _describe(here: Reached) -> str:
    """Both points."""
    advice = here.advice
    return (
        f"{TITLE}. With at least {size_in_words(advice.receive_bytes)} at the receiver and "
        f"{size_in_words(advice.send_bytes)} at the sender one flow fills the link, "
        f"{in_three_digits(advice.line_bytes_s / MIB)} MiB/s. With "
        f"{size_in_words(here.rcvbuf_bytes)} and {size_in_words(here.sndbuf_bytes)}: "
        f"{describe_reached(here)}."
    )


def _table(rows: DataFrame) -> DataFrame:
    curves = rows[rows["series"].isin([RECEIVE, SEND])]
    wide = curves.pivot_table(index="size_bytes", columns="series", values="goodput_mib_s")
    columns = {"buffer, MiB": wide.index / MIB}
    return DataFrame(
        columns | {f"{name}, MiB/s": wide[name].to_numpy() for name in (RECEIVE, SEND)}
    )
