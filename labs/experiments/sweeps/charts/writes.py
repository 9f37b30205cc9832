"""The chart of the size of a write: payload in flight, with Nagle's algorithm and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas
from plotly.graph_objects import Bar, Figure

from labs.drive.units import KIB
from labs.experiments.sweeps.charts.goodput import together
from labs.read.charts.style import BLUE, GREY, NO_RUNS, ORANGE, VEIL, dressed, nothing
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.lab import Study

TITLE = "Payload in flight by the size of a write"
WRITES = "writes-"
SERIES = ((False, "Nagle's algorithm on", ORANGE), (True, "TCP_NODELAY", BLUE))
LEFT_PX = 58


def in_flight_by_write(*studies: Study) -> Figure:
    """The median of the payload in flight for each size of a write, over the same send buffer."""
    rows = together(studies)
    if len(rows):
        rows = rows[rows["condition"].str.startswith(WRITES) & rows["in_flight_kib"].notna()]
    if rows.empty:
        return nothing(TITLE, NO_RUNS)
    rows = rows.sort_values("write_bytes")
    figure = Figure()
    for nodelay, name, colour in SERIES:
        some = rows[rows["nodelay"] == nodelay]
        figure.add_trace(
            Bar(
                x=[f"{size:,}" for size in some["write_bytes"]],
                y=some["in_flight_kib"].tolist(),
                name=name,
                marker={"color": colour},
                text=[in_three_digits(value) for value in some["in_flight_kib"]],
                textposition="outside",
                cliponaxis=False,
                customdata=[in_three_digits(value) for value in some["steady_mib_s"]],
                hovertemplate="%{y:.4g} KiB in flight, %{customdata} MiB/s<extra>"
                + name
                + "</extra>",
            )
        )
    _buffer(figure, float(rows["granted_send_kib"].iloc[0]))
    figure.update_xaxes(title="size of a write, bytes", type="category", showgrid=False)
    figure.update_yaxes(title="payload in flight, KiB", rangemode="tozero")
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=460,
        tell=_tell(rows),
        table=_as_table(rows),
    ).update_layout(showlegend=True, barmode="group", margin_l=LEFT_PX)


def _buffer(figure: Figure, granted_kib: float) -> None:
    figure.add_hline(
        y=granted_kib,
        line={"color": GREY, "dash": "dash", "width": 1.5},
        annotation={
            "text": f"send buffer {size_in_words(granted_kib * KIB)}",
            "font": {"color": GREY},
            "bgcolor": VEIL,
            "x": 0.01,
            "xref": "paper",
            "xanchor": "left",
            "yanchor": "bottom",
        },
    )


def _tell(rows: DataFrame) -> str:
    """The text alternative: for each size of a write both values."""
    said = []
    for size, some in rows.groupby("write_bytes", sort=True):
        values = {bool(row["nodelay"]): row["in_flight_kib"] for row in some.to_dict("records")}
        words = [
            f"{in_three_digits(values[nodelay])} KiB with {name}"
            for nodelay, name, _ in SERIES
            if nodelay in values
        ]
        said.append(f"{size:,} bytes: {', '.join(words)}")
    return f"Payload in flight by the size of a write. {'; '.join(said)}."


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "write, bytes": rows["write_bytes"],
            "TCP_NODELAY": rows["nodelay"],
            "in flight, KiB": rows["in_flight_kib"],
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
        }
    )
