"""The chart of the article's five series: goodput against the size of a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import KIB, MIB
from labs.experiments.sweeps.curves import SERIES, Curve, Point, curves
from labs.read.display.format import in_three_digits, is_known, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    NO_RUNS,
    ORANGE,
    PURPLE,
    VEIL,
    VERMILION,
    dressed,
    log_title,
    nothing,
)
from labs.read.theory.bdp import line_goodput_bytes_s

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.study import Study

TITLE = "Goodput against the requested buffer"
LOOKS = {
    "sender": (BLUE, "circle", "solid"),
    "receiver": (VERMILION, "square", "dash"),
    "both": (BLACK, "diamond", "solid"),
    "fixed-256k": (GREEN, "triangle-up", "dot"),
    "fixed-8m": (PURPLE, "x", "dashdot"),
}
"""Colour, symbol and line of each series."""
LEFT_PX = 58


def goodput_by_buffer(*studies: Study) -> Figure:
    """Steady goodput of each series against the requested size, and the predicted values.

    All studies must be on one kernel; runs that several studies contain are drawn once.
    """
    rows = together(studies)
    found = curves(records(rows))
    if not found:
        return nothing(TITLE, NO_RUNS)
    used = rows[rows["condition"].isin([one.condition for one in _points(found)])]
    figure = Figure([_line(curve) for curve in found.values()])
    figure.add_trace(_predicted(found))
    _limits(figure, used, next(iter(found.values())).bdp_kib)
    sizes = sorted({one.size_kib for one in _points(found)})
    figure.update_xaxes(
        type="log",
        title=log_title("requested size"),
        tickvals=sizes,
        ticktext=[size_in_words(size * KIB).replace(" ", "<br>") for size in sizes],
    )
    figure.update_yaxes(title="steady goodput, MiB/s", rangemode="tozero")
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(used),
        height=520,
        tell=_tell(found),
        table=_as_table(found),
    ).update_layout(showlegend=True, margin_l=LEFT_PX)


def together(studies: tuple[Study, ...]) -> DataFrame:
    """The results of several studies as one table, each condition once per kernel."""
    tables = [study.results() for study in studies if study.runs]
    if not tables:
        return pandas.DataFrame()
    return pandas.concat(tables).drop_duplicates(["condition", "kernel"])


def records(rows: DataFrame) -> list[Mapping[str, Any]]:
    """The rows of a table as mappings."""
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _points(found: Mapping[str, Curve]) -> list[Point]:
    return [one for curve in found.values() for one in curve.points]


def _line(curve: Curve) -> Scatter:
    colour, symbol, dash = LOOKS[curve.series]
    return Scatter(
        x=[one.size_kib for one in curve.points],
        y=[one.steady_mib_s for one in curve.points],
        mode="lines+markers",
        name=SERIES[curve.series],
        line={"color": colour, "width": 2, "dash": dash},
        marker={"color": colour, "size": 9, "symbol": symbol},
        text=[
            f"{one.condition}: {in_three_digits(one.steady_mib_s)} MiB/s" for one in curve.points
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _predicted(found: Mapping[str, Curve]) -> Scatter:
    """The predicted values of all series, as open circles around the measured ones."""
    known = [
        (one, one.predicted_mib_s)
        for one in _points(found)
        if one.predicted_mib_s is not None and is_known(one.predicted_mib_s)
    ]
    return Scatter(
        x=[one.size_kib for one, _ in known],
        y=[predicted for _, predicted in known],
        mode="markers",
        name="predicted",
        marker={"symbol": "circle-open", "size": 16, "color": ORANGE, "line": {"width": 2}},
        text=[
            f"{one.condition}: predicted {in_three_digits(predicted)} MiB/s"
            for one, predicted in known
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _limits(figure: Figure, rows: DataFrame, bdp_kib: float) -> None:
    """The line rate and the BDP."""
    line = line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB
    figure.add_hline(y=line, line={"color": GREY, "dash": "dot", "width": 1.5})
    figure.add_vline(x=bdp_kib, line={"color": GREY, "dash": "longdash", "width": 1.5})
    for words, x, y, anchor in (
        (f"line rate {in_three_digits(line)} MiB/s", 0.01, 1.0, "left"),
        (f"BDP {size_in_words(bdp_kib * KIB)}", log10(bdp_kib), 0.72, "right"),
    ):
        upright = anchor == "right"
        figure.add_annotation(
            text=words,
            x=x,
            xref="x" if upright else "paper",
            y=y if upright else line,
            yref="paper" if upright else "y",
            xanchor=anchor,
            yanchor="bottom",
            xshift=-5 if upright else 0,
            showarrow=False,
            font={"color": GREY},
            bgcolor=VEIL,
        )


def _tell(found: Mapping[str, Curve]) -> str:
    """The text alternative: each series in one sentence."""
    said = "; ".join(f"{SERIES[name]}: {curve.in_words}" for name, curve in found.items())
    bdp = size_in_words(next(iter(found.values())).bdp_kib * KIB)
    return f"Steady goodput against the requested size, with a BDP of {bdp}. {said}."


def _as_table(found: Mapping[str, Curve]) -> DataFrame:
    return pandas.DataFrame(
        [
            {
                "series": SERIES[name],
                "requested, KiB": one.size_kib,
                "measured, MiB/s": one.steady_mib_s,
                "predicted, MiB/s": one.predicted_mib_s,
            }
            for name, curve in found.items()
            for one in curve.points
        ]
    )
