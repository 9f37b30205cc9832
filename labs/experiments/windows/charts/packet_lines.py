"""The lines and marks of a receive buffer, packet by packet."""

from __future__ import annotations

from dataclasses import dataclass

import pandas
from pandas import DataFrame
from plotly.graph_objects import Scatter

from labs.read.display.format import in_digits
from labs.read.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

ROWS_OF_TABLE = 12
"""Rows of the table behind a chart."""


@dataclass(frozen=True)
class Line:
    """A size of each packet that is drawn as a line."""

    name: str
    column: str
    colour: str
    dash: str = "solid"
    width: float = 2


@dataclass(frozen=True)
class Mark:
    """An event of a packet that is drawn as a symbol: on the line of the memory in use, or below
    the axis."""

    name: str
    column: str
    colour: str
    symbol: str
    size: int
    below_axis: bool = False


@dataclass(frozen=True)
class Axis:
    """The axis against which packets are drawn; `button` is the label of its button."""

    column: str
    title: str
    button: str


BUFFER = Line("buffer (skmem_rb)", "rcvbuf_bytes", BLACK, "dashdot")
IN_USE = Line("memory in use (skmem_r)", "rmem_bytes", BLUE, width=2.5)
QUEUED = Line("data queued (Recv-Q)", "recv_q_bytes", GREEN)
ACKNOWLEDGED = Line("acknowledged", "acked_bytes", SKY, "dash")
SSTHRESH = Line("rcv_ssthresh", "rcv_ssthresh_bytes", PURPLE, "dash")
WINDOW = Line("window left, on the wire", "window_left_bytes", ORANGE, width=2.5)
PREDICTED = Line("window left, predicted", "predicted_window_left_bytes", BLACK, "dot", 1.5)
LINES = (BUFFER, IN_USE, QUEUED, ACKNOWLEDGED, SSTHRESH, WINDOW, PREDICTED)

COALESCED = Mark("coalesced", "coalesced", GREY, "line-ns-open", 8, below_axis=True)
COLLAPSED = Mark("collapsed", "collapsed", VERMILION, "circle-open", 13)
DROPPED = Mark("dropped", "dropped", BLACK, "x-thin", 9)
MARKS = (COALESCED, COLLAPSED, DROPPED)

BY_PACKET = Axis("packet", "packet number", "by packet")
BY_TIME = Axis("time_s", "seconds since the first packet", "by time")

BELOW_AXIS = -0.025
"""Where the marks below the axis are, as a share of the largest size."""
HEADROOM = 1.07


def known(table: DataFrame, lines: tuple[Line, ...] = LINES) -> list[Line]:
    """The lines for which a run has figures."""
    return [one for one in lines if table[one.column].notna().any()]


def line(table: DataFrame, one: Line, axis: Axis = BY_PACKET) -> Scatter:
    """One size against packet number or time."""
    return Scatter(
        x=table[axis.column].tolist(),
        y=[None if pandas.isna(value) else int(value) for value in table[one.column]],
        mode="lines",
        name=one.name,
        legendgroup=one.name,
        line={"color": one.colour, "dash": one.dash, "width": one.width},
        customdata=table["packet"].tolist(),
        hovertemplate="%{y:,} bytes at packet %{customdata}<extra>" + one.name + "</extra>",
    )


def marks(table: DataFrame, axis: Axis = BY_PACKET, lowest: float | None = None) -> list[Scatter]:
    """The events of packets, one trace per kind that occurs; `lowest` is where those below the axis
    are drawn."""
    low = BELOW_AXIS * top(table) if lowest is None else lowest
    found = []
    for one in MARKS:
        own = table[table[one.column].fillna(0) > 0]
        if own.empty:
            continue
        found.append(
            Scatter(
                x=own[axis.column].tolist(),
                y=[low] * len(own) if one.below_axis else own[IN_USE.column].tolist(),
                mode="markers",
                name=one.name,
                legendgroup=one.name,
                marker={
                    "color": one.colour,
                    "symbol": one.symbol,
                    "size": one.size,
                    "line": {"color": one.colour, "width": 1.5},
                },
                customdata=own["packet"].tolist(),
                hovertemplate="packet %{customdata}<extra>" + one.name + "</extra>",
            )
        )
    return found


def top(table: DataFrame, lines: tuple[Line, ...] = LINES) -> float:
    """The end of the axis of sizes."""
    columns = [one.column for one in known(table, lines)]
    return HEADROOM * float(table[columns].astype(float).max().max())


def sampled(table: DataFrame) -> DataFrame:
    """The packets after which the receiver was sampled before the next one arrived."""
    return table[table[IN_USE.column].notna()]


def spread(table: DataFrame) -> DataFrame:
    """Some rows of a table at equal distances, with the first and the last."""
    step = max(1, -(-len(table) // ROWS_OF_TABLE))
    return table.iloc[sorted({*range(0, len(table), step), len(table) - 1})]


def ending(table: DataFrame) -> str:
    """The last packet in words: `73,984 of 65,536 bytes, 13 dropped`."""
    last, dropped = sampled(table).iloc[-1], int((table["dropped"] > 0).sum())
    said = f"{in_digits(last['rmem_bytes'])} of {in_digits(last['rcvbuf_bytes'])} bytes"
    return f"{said}, {dropped:,} dropped" if dropped else said
