"""The time-sequence graph: data of one side, acknowledgements, and the edge of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy
from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.errors import BadInput
from labs.read.capture.segment_table import ACK, SYN
from labs.read.capture.tcp_marks import marks
from labs.read.display.format import size_in_words
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Source,
    dressed,
    nothing,
    where_from,
)

if TYPE_CHECKING:
    from pandas import Series

MOST_POINTS = 4000
MOMENTS = 12
"""Rows of the table behind the graph."""
NAMES = ("client", "server")
# Marks of data, of which the first that applies is drawn; and of the other side's ACKs.
ON_DATA = (
    ("retransmission", "retransmission", VERMILION, "x"),
    ("out_of_order", "out of order", ORANGE, "diamond"),
    ("window_full", "window full", BLACK, "line-ew-open"),
)
ON_ACKS = (
    ("zero_window", "zero window", BLACK, "square"),
    ("duplicate_ack", "duplicate ACK", GREY, "triangle-up-open"),
)


def time_sequence(
    segments: DataFrame,
    connection: int = 0,
    *,
    direction: int | None = None,
    seconds: tuple[float, float] | None = None,
    source: Source = "",
) -> Figure:
    """Sequence numbers against time for one direction of a connection.

    `segments` is a table of segments (`labs.capture.read`). `direction` is 0 for what the client
    sent, 1 for the server, by default the one that sent more payload. Bars are segments, from
    their first byte to their last; below them the line of acknowledgements, above them the edge of
    the receiver's window. `seconds` since the connection's first segment cut a stretch out. Of
    more than 4,000 segments every n-th is drawn, and all that are marked; the caption says so.
    Raises BadInput for a connection that does not exist.
    """
    packets = segments[segments["connection"] == connection]
    if packets.empty:
        last = -1 if segments.empty else int(segments["connection"].max())
        raise BadInput(
            f"no connection {connection}; the capture has "
            f"{f'connections 0 to {last}' if last >= 0 else 'no TCP at all'}"
        )
    marked = marks(packets)
    packets = packets.assign(s=(packets["time_ns"] - packets["time_ns"].iloc[0]) / 1e9)
    if seconds is not None:
        packets = packets[(packets["s"] >= seconds[0]) & (packets["s"] <= seconds[1])]
        marked = marked.loc[packets.index]
    side = _busier(packets) if direction is None else direction
    title = f"Time-sequence graph: data of the {NAMES[side]} on connection {connection}"
    data = packets[(packets["direction"] == side) & (packets["payload_bytes"] > 0)]
    if data.empty:
        return nothing(title, f"the {NAMES[side]} sends no data there")
    answers = packets[(packets["direction"] != side) & ((packets["flags"] & (ACK | SYN)) == ACK)]
    figure = Figure()
    every = max(1, -(-max(len(data), len(answers)) // MOST_POINTS))
    _answers(figure, answers.iloc[::every], 1 - side)
    _bars(figure, data.iloc[::every], side)
    _marked(figure, data, marked, ON_DATA, data["seq_rel"])
    _marked(figure, answers, marked, ON_ACKS, answers["ack_rel"])
    figure.update_xaxes(title="seconds since the connection's first segment")
    figure.update_yaxes(title="sequence number, bytes", tickformat=",")
    figure.update_layout(legend={"x": 1.01, "xanchor": "left", "y": 1, "yanchor": "top"})
    thinned = f" · every {every}th segment is drawn" if every > 1 else ""
    return dressed(
        figure,
        title=title,
        caption=where_from(source) + thinned,
        height=520,
        tell=_tell(title, data, marked),
        table=_moments(data, answers),
    )


def _tell(title: str, data: DataFrame, marked: DataFrame) -> str:
    """The text alternative: how much was sent in which time, and how many segments again."""
    again = int(marked.loc[data.index, "retransmission"].sum())
    return (
        f"{title}. {len(data):,} segments carry {size_in_words(data['payload_bytes'].sum())} in "
        f"{data['s'].iloc[-1] - data['s'].iloc[0]:.3g} s; {again:,} of them are retransmissions."
    )


def _moments(data: DataFrame, answers: DataFrame) -> DataFrame:
    """The graph at a few moments: what was sent, acknowledged, and permitted until then."""
    moments = numpy.linspace(data["s"].iloc[0], data["s"].iloc[-1], MOMENTS)
    sent = (data["seq_rel"] + data["payload_bytes"]).cummax().to_numpy()
    acked = answers["ack_rel"].cummax().to_numpy()
    edge = (answers["ack_rel"] + answers["window_bytes"]).to_numpy()
    before = [int((data["s"] <= at).sum()) - 1 for at in moments]
    heard = [int((answers["s"] <= at).sum()) - 1 for at in moments]
    return DataFrame(
        {
            "time, s": [float(at) for at in moments],
            "sent, bytes": [int(sent[place]) for place in before],
            "acknowledged, bytes": [int(acked[place]) if place >= 0 else None for place in heard],
            "permitted, bytes": [int(edge[place]) if place >= 0 else None for place in heard],
        },
        dtype=object,
    )


def _busier(segments: DataFrame) -> int:
    """The direction that carried more."""
    theirs = segments["direction"] == 1
    carried = [int(segments.loc[which, "payload_bytes"].sum()) for which in (~theirs, theirs)]
    return int(carried[1] > carried[0])


def _bars(figure: Figure, data: DataFrame, side: int) -> None:
    begin, end = data["seq_rel"], data["seq_rel"] + data["payload_bytes"]
    figure.add_trace(
        Scatter(
            x=[x for at in data["s"] for x in (at, at, None)],
            y=[y for pair in zip(begin, end, strict=True) for y in (*pair, None)],
            mode="lines+markers",
            name=f"data of the {NAMES[side]}",
            line={"color": BLUE, "width": 3},
            marker={"size": 3, "color": BLUE},
            hovertemplate="%{y:,} at %{x:.6f} s<extra>data</extra>",
        )
    )


def _answers(figure: Figure, answers: DataFrame, side: int) -> None:
    reach, edge = answers["ack_rel"].cummax(), answers["ack_rel"] + answers["window_bytes"]
    seconds = answers["s"].tolist()
    if len(answers):
        figure.add_trace(
            Scatter(
                x=seconds,
                y=edge.where(answers["window_bytes"] >= 0).tolist(),
                mode="lines",
                name="edge of the window",
                line={"color": SKY, "width": 2, "shape": "hv"},
                hovertemplate="may send up to %{y:,} at %{x:.6f} s<extra></extra>",
            )
        )
        figure.add_trace(
            Scatter(
                x=seconds,
                y=reach.tolist(),
                mode="lines",
                name=f"acknowledged by the {NAMES[side]}",
                line={"color": GREEN, "width": 2, "shape": "hv", "dash": "dash"},
                hovertemplate="acknowledged up to %{y:,} at %{x:.6f} s<extra></extra>",
            )
        )


def _marked(
    figure: Figure,
    rows: DataFrame,
    marked: DataFrame,
    kinds: tuple[tuple[str, str, str, str], ...],
    height: Series[int],
) -> None:
    left = marked.loc[rows.index]
    for column, words, colour, symbol in kinds:
        chosen = left.index[left[column]]
        left = left.drop(chosen)
        if len(chosen):
            figure.add_trace(
                Scatter(
                    x=rows.loc[chosen, "s"].tolist(),
                    y=height.loc[chosen].tolist(),
                    mode="markers",
                    name=f"{words} ({len(chosen)})",
                    marker={
                        "color": colour,
                        "symbol": symbol,
                        "size": 9,
                        "line": {"width": 1.5, "color": colour},
                    },
                    text=[size_in_words(size) for size in rows.loc[chosen, "payload_bytes"]],
                    hovertemplate=f"{words}: %{{text}} at %{{x:.6f}} s<extra></extra>",
                )
            )
