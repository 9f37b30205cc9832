"""A receive buffer packet by packet: its size, its contents, and the window left."""

from __future__ import annotations

from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.experiments.windows.charts.packet_lines import (
    BELOW_AXIS,
    BY_PACKET,
    BY_TIME,
    MARKS,
    Axis,
    known,
    line,
    marks,
    spread,
    top,
)
from labs.experiments.windows.narrative import describe_run
from labs.experiments.windows.packets import packets
from labs.read.display.provenance import of_run
from labs.read.figures.style import GREY, dressed, nothing
from labs.read.runs.run import Run

AXES = {"packet": BY_PACKET, "time": BY_TIME}


def by_packet(run: Run, over: str = "packet") -> Figure:
    """The sizes of a receive buffer at each packet that arrived, in bytes on one axis.

    `over` is "packet" or "time" (BadInput for others); the buttons above the plot switch between
    them. The values of the socket were sampled after it had processed the packet. Marks: the packet
    was coalesced with the one before it, the queue was collapsed, or the packet was dropped.
    """
    if over not in AXES:
        raise BadInput(unknown(over, AXES, "axis"))
    table = packets(run)
    title = f"The receive buffer packet by packet: {run.condition}"
    if table.empty:
        return nothing(title, "no data packet arrived in this run", of_run(run))
    axis, highest = AXES[over], top(table)
    figure = Figure([*(line(table, one, axis) for one in known(table)), *marks(table, axis)])
    figure.update_yaxes(title="bytes", range=[2 * BELOW_AXIS * highest, highest], tickformat=",")
    figure.update_xaxes(title=axis.title)
    dressed(
        figure,
        title=title,
        caption=of_run(run),
        height=560,
        tell=describe_run(run),
        table=_table(table),
    )
    return figure.update_layout(
        updatemenus=[_switch(figure, table, axis)], margin_t=100, legend_tracegroupgap=0
    )


def _table(table: DataFrame) -> DataFrame:
    """Some rows of the table, with readable headings."""
    names = {one.column: f"{one.name}, bytes" for one in known(table)}
    events = {one.column: one.name for one in MARKS}
    rows = spread(table)[["packet", *names, *events]].astype(object)
    return rows.where(rows.notna(), None).rename(columns={**names, **events})


def _switch(figure: Figure, table: DataFrame, axis: Axis) -> dict[str, object]:
    """Two buttons that plot the packets by number or by time."""
    choices = list(AXES.values())
    return {
        "type": "buttons",
        "direction": "right",
        "buttons": [
            {
                "label": one.button,
                "method": "update",
                "args": [{"x": _places(figure, table, one)}, {"xaxis.title.text": one.title}],
            }
            for one in choices
        ],
        "active": choices.index(axis),
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "pad": {"b": 6, "t": 0},
        "font": {"size": 12},
        "bordercolor": GREY,
    }


def _places(figure: Figure, table: DataFrame, axis: Axis) -> list[list[float]]:
    """The positions of the packets of each trace on an axis."""
    where = dict(zip(table["packet"].tolist(), table[axis.column].tolist(), strict=True))
    return [[where[packet] for packet in trace.customdata] for trace in figure.data]
