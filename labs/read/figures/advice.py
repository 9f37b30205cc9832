"""Goodput against buffer size for an advice: the point advised, and the point where you are."""

from __future__ import annotations

from math import ceil, log2

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import KIB, MIB
from labs.read.display.advice import path_in_words, reached_in_words
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VEIL,
    VERMILION,
    dressed,
    log_title,
)
from labs.read.theory.advice import LARGEST_BYTES, Advice, Reached, reached

TITLE = "Goodput against the largest size of one socket buffer"
HEIGHT_PX = 460
POINTS_PER_DOUBLING = 4
TICKS = [1 << power for power in range(10, 32, 2)]
LEAST_BYTES = 16 * KIB
SMALLEST_SHARE, LARGEST_SHARE = 1 / 16, 2
"""The range of sizes, as shares of the smallest and the largest size that is marked."""


def against_buffer_size(advice: Advice, here: Reached) -> Figure:
    """Two curves: the receive buffer varies with the advised send buffer, and the reverse.

    `here` is what the buffers of today reach. Sizes are the maxima of tcp_rmem and tcp_wmem.
    """
    marked = (advice.receive_bytes, advice.send_bytes, here.rcvbuf_bytes, here.sndbuf_bytes)
    low = max(SMALLEST_SHARE * min(marked), LEAST_BYTES)
    sizes = _sizes(low, min(LARGEST_SHARE * max(marked), LARGEST_BYTES))
    send, receive = advice.send_set_bytes, advice.receive_set_bytes
    curves = {
        "receive buffer varies": [
            reached(advice, sndbuf_bytes=send, rcvbuf_bytes=n) for n in sizes
        ],
        "send buffer varies": [
            reached(advice, sndbuf_bytes=n, rcvbuf_bytes=receive) for n in sizes
        ],
    }
    figure = Figure()
    looks = ((BLUE, "solid", "circle"), (VERMILION, "dash", "square"))
    advised = (advice.receive_bytes, advice.send_bytes)
    yours = (here.rcvbuf_bytes, here.sndbuf_bytes)
    for (name, found), look, best, own in zip(curves.items(), looks, advised, yours, strict=True):
        colour, dash, symbol = look
        figure.add_trace(
            Scatter(
                x=sizes,
                y=[one.goodput_bytes_s / MIB for one in found],
                mode="lines",
                name=name,
                line={"color": colour, "dash": dash, "width": 2},
                text=[
                    f"{size_in_words(size)}: limited by the {one.bound}"
                    for size, one in zip(sizes, found, strict=True)
                ],
                hovertemplate="%{text}, %{y:.4g} MiB/s<extra>" + name + "</extra>",
            )
        )
        _points(
            figure,
            f"advised at least, {name.split(' varies')[0]}",
            best,
            advice.line_bytes_s,
            GREEN,
            symbol,
        )
        _points(
            figure, f"you, {name.split(' varies')[0]}", own, here.goodput_bytes_s, ORANGE, symbol
        )
    _lay_out(figure, advice, sizes)
    return dressed(
        figure,
        title=TITLE,
        caption=f"{path_in_words(advice)} · simulated packet by packet",
        height=HEIGHT_PX,
        tell=_tell(advice, here),
        table=_table(sizes, curves),
    )


def _sizes(low: float, high: float) -> list[int]:
    steps = max(1, ceil(POINTS_PER_DOUBLING * log2(high / low)))
    return [round(low * (high / low) ** (step / steps)) for step in range(steps + 1)]


def _points(
    figure: Figure, name: str, size: int, goodput_bytes_s: float, colour: str, symbol: str
) -> None:
    figure.add_trace(
        Scatter(
            x=[size],
            y=[goodput_bytes_s / MIB],
            mode="markers",
            name=name,
            cliponaxis=False,
            marker={
                "size": 12,
                "color": colour,
                "symbol": symbol,
                "line": {"color": BLACK, "width": 1},
            },
            hovertemplate=f"{size_in_words(size)}, %{{y:.4g}} MiB/s<extra>{name}</extra>",
        )
    )


def _lay_out(figure: Figure, advice: Advice, sizes: list[int]) -> None:
    ticks = [size for size in TICKS if sizes[0] <= size <= sizes[-1]]
    line = advice.line_bytes_s / MIB
    figure.update_xaxes(
        type="log",
        title=log_title("largest size of the buffer"),
        tickvals=ticks,
        ticktext=[size_in_words(tick) for tick in ticks],
    )
    figure.update_yaxes(title="goodput, MiB/s", range=[0, 1.12 * line], showgrid=True)
    figure.add_hline(y=line, line={"color": GREY, "dash": "dot", "width": 1})
    figure.add_annotation(
        x=0,
        xref="paper",
        y=line,
        text=f"payload of the full link, {in_three_digits(line)} MiB/s",
        showarrow=False,
        xanchor="left",
        yanchor="bottom",
        bgcolor=VEIL,
        font={"size": 12, "color": GREY},
    )
    figure.update_layout(legend={"x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top"})


def _tell(advice: Advice, here: Reached) -> str:
    """The text alternative: both points."""
    return (
        f"{TITLE}. With at least {size_in_words(advice.receive_bytes)} at the receiver and "
        f"{size_in_words(advice.send_bytes)} at the sender one flow fills the link, "
        f"{in_three_digits(advice.line_bytes_s / MIB)} MiB/s. With "
        f"{size_in_words(here.rcvbuf_bytes)} and {size_in_words(here.sndbuf_bytes)}: "
        f"{reached_in_words(here, advice)}."
    )


def _table(sizes: list[int], curves: dict[str, list[Reached]]) -> DataFrame:
    return DataFrame(
        {
            "buffer, MiB": [size / MIB for size in sizes],
            **{
                f"{name}, MiB/s": [one.goodput_bytes_s / MIB for one in found]
                for name, found in curves.items()
            },
        }
    )
