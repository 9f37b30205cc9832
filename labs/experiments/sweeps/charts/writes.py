"""The chart of the size of a write: payload in flight, with Nagle's algorithm and without."""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import KIB
from labs.experiments.sweeps.charts.goodput import together
from labs.experiments.sweeps.settings import WRITES_PER_WAKE
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREY,
    NO_RUNS,
    VEIL,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.study import Study

TITLE = "Payload in flight by the size of a write"
WRITES = "writes-"
SERIES = (
    (False, "Nagle's algorithm on", VERMILION, "circle-open"),
    (True, "TCP_NODELAY", BLUE, "x"),
)
"""Each with its colour and its symbol."""
BEYOND = 1.1
"""Points with more in flight than this multiple of the send buffer show their value."""
LEFT_PX = 58


def in_flight_by_write(*studies: Study) -> Figure:
    """The median of the payload in flight for each size of a write, with the same send buffer."""
    rows = together(studies)
    if len(rows):
        rows = rows[rows["condition"].str.startswith(WRITES) & rows["in_flight_kib"].notna()]
    if rows.empty:
        return nothing(TITLE, NO_RUNS)
    rows = rows.sort_values(["writes_per_wake", "write_bytes"])
    rows = rows.assign(writes=[_writes(row) for row in rows.to_dict("records")])
    granted_kib = float(rows["granted_send_kib"].iloc[0])
    figure = Figure()
    for nodelay, name, colour, symbol in SERIES:
        some = rows[rows["nodelay"] == nodelay]
        figure.add_trace(
            Scatter(
                x=some["writes"].tolist(),
                y=some["in_flight_kib"].tolist(),
                mode="markers+text",
                name=name,
                marker={"color": colour, "size": 12, "symbol": symbol, "line": {"width": 2}},
                text=[
                    in_three_digits(value) if value > BEYOND * granted_kib else ""
                    for value in some["in_flight_kib"]
                ],
                textposition="top center",
                textfont={"size": 11, "color": BLACK},
                cliponaxis=False,
                customdata=[in_three_digits(value) for value in some["steady_mib_s"]],
                hovertemplate="%{y:.4g} KiB in flight, %{customdata} MiB/s<extra>"
                + name
                + "</extra>",
            )
        )
    _buffer(figure, granted_kib)
    low, high = float(rows["in_flight_kib"].min()), float(rows["in_flight_kib"].max())
    ticks = log_ticks(low / 2, high * 2)
    figure.update_xaxes(title="size of a write, bytes", type="category", showgrid=False)
    figure.update_yaxes(
        type="log",
        title=log_title("payload in flight, KiB"),
        range=[log10(low / 1.7), log10(high * 1.7)],
        tickvals=ticks,
        ticktext=[f"{tick:,.0f}" for tick in ticks],
    )
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=460,
        tell=_tell(rows),
        table=_as_table(rows),
    ).update_layout(showlegend=True, margin_l=LEFT_PX)


def _writes(row: Mapping[Any, Any]) -> str:
    """The size of a write, with the number of writes per wake-up if it is not iperf3's default."""
    size, many = f"{row['write_bytes']:,.0f}", row["writes_per_wake"]
    return size if many == WRITES_PER_WAKE else f"{size}<br>x {many:,.0f}"


def _buffer(figure: Figure, granted_kib: float) -> None:
    figure.add_hline(y=granted_kib, line={"color": GREY, "dash": "dash", "width": 1.5})
    figure.add_annotation(
        text=f"send buffer<br>{size_in_words(granted_kib * KIB)}",
        x=0.01,
        xref="paper",
        y=log10(granted_kib),
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        align="left",
        font={"color": GREY},
        bgcolor=VEIL,
    )


def _tell(rows: DataFrame) -> str:
    """The text alternative: for each size of a write both values."""
    said = []
    for writes in dict.fromkeys(rows["writes"]):
        some = rows[rows["writes"] == writes].to_dict("records")
        values = {bool(row["nodelay"]): row["in_flight_kib"] for row in some}
        words = [
            f"{in_three_digits(values[nodelay])} KiB with {name}"
            for nodelay, name, *_ in SERIES
            if nodelay in values
        ]
        said.append(f"{writes.replace('<br>', ' ')} bytes: {', '.join(words)}")
    return f"Payload in flight by the size of a write. {'; '.join(said)}."


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "write, bytes": rows["write_bytes"],
            "writes per wake-up": rows["writes_per_wake"],
            "TCP_NODELAY": rows["nodelay"],
            "in flight, KiB": rows["in_flight_kib"],
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
        }
    )
