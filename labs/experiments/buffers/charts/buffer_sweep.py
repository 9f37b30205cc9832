"""Goodput against buffer size: the two series of a sweep, the prediction, the article."""

from __future__ import annotations

from math import ceil, floor, log2, log10
from typing import TYPE_CHECKING, Any

import pandas
from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from labs.drive.units import MIB
from labs.experiments.buffers.results import SETSOCKOPT, SYSCTL
from labs.experiments.buffers.sweep import Smallest, curve, points, remarks, smallest
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    SKY,
    VEIL,
    VERMILION,
    dressed,
    log_title,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TITLE = "Goodput against the size of both socket buffers"
TOP, BOTTOM = 1, 2
# The two plots in parts of the figure's height: from, to.
PLACES = {TOP: (0.33, 1.0), BOTTOM: (0.0, 0.2)}
HEIGHT_PX = 552
WITHIN_PCT = 5.0
SERIES = {
    SYSCTL: ("set by sysctl, automatic sizing off", "circle", 9),
    SETSOCKOPT: ("set by setsockopt", "diamond-open", 13),
}
MOST_TICKS = 8


def against_buffer_size(table: DataFrame) -> Figure:
    """Steady goodput against one buffer size for both ends, on a scale of doublings.

    `table` is `study.results()`: its sweep is drawn, with the theory as a line, the BDP, the
    smallest buffer that fills the line, and the article's own two points. Below:
    how far the prediction is above or below each measured value. A table without a sweep gives a
    figure that says so.
    """
    if table.empty:
        return nothing(TITLE, NO_RUNS)
    rows = points(table)
    if rows.empty:
        return nothing(TITLE, "none of these runs belongs to a sweep")
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True)
    sizes, speeds = curve(rows)
    figure.add_trace(
        Scatter(
            x=sizes,
            y=speeds,
            mode="lines",
            name="predicted",
            line={"color": VERMILION, "width": 2},
            hoverinfo="skip",
        ),
        row=TOP,
        col=1,
    )
    for name, (words, symbol, size) in SERIES.items():
        of_series(
            figure,
            rows[rows["series"] == name],
            words,
            {"symbol": symbol, "size": size, "color": BLUE if name == SYSCTL else BLACK},
        )
    _articles_points(figure, table)
    _lines(figure, rows)
    _lay_out(figure, rows)
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=HEIGHT_PX,
        tell=_tell(rows),
        table=_as_table(rows),
    )


def _tell(rows: DataFrame) -> str:
    """The text alternative: the ends of the sweep, and what the narrative finds in it."""
    first, last = rows.iloc[0], rows.iloc[-1]
    found = " ".join(remarks(rows))
    return (
        f"Steady goodput over {len(rows)} buffer sizes, from "
        f"{in_three_digits(first['steady_mib_s'])} MiB/s with "
        f"{size_in_words(first['buffer_bytes'])} to {in_three_digits(last['steady_mib_s'])} MiB/s "
        f"with {size_in_words(last['buffer_bytes'])}. {found}"
    )


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "condition": rows["condition"],
            "buffer, MiB": rows["buffer_bytes"] / MIB,
            "of the BDP": rows["buffer_bytes"] / rows["bdp_bytes"],
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
        }
    )


def of_series(figure: Figure, rows: DataFrame, name: str, marker: dict[str, Any]) -> None:
    """The points of one series, and below them the difference of each prediction."""
    if rows.empty:
        return
    settled = rows["settled"].fillna(False).astype(bool)
    measured = rows["steady_mib_s"].astype(float)
    texts = [
        f"{size_in_words(row['buffer_bytes'])}: {in_three_digits(row['steady_mib_s'])} MiB/s"
        f"<br>{row['condition']}{'' if row['settled'] else ', not in steady state'}"
        for row in rows.to_dict("records")
    ]
    opacity = [1.0 if still else 0.3 for still in settled]
    shared = {
        "mode": "markers",
        "cliponaxis": False,
        "legendgroup": name,
        "text": texts,
        "marker": {**marker, "opacity": opacity, "line": {"width": 1.5}},
        "hovertemplate": "%{text}<extra></extra>",
    }
    figure.add_trace(
        Scatter(x=rows["buffer_bytes"].tolist(), y=measured.tolist(), name=name, **shared),
        row=TOP,
        col=1,
    )
    figure.add_trace(
        Scatter(
            x=rows["buffer_bytes"].tolist(),
            y=_apart_pct(rows).tolist(),
            name=name,
            showlegend=False,
            **shared,
        ),
        row=BOTTOM,
        col=1,
    )


def _apart_pct(rows: DataFrame) -> Series[float]:
    """The difference of each prediction, in % of the measured value."""
    predicted, measured = (rows[name].astype(float) for name in ("predicted_mib_s", "steady_mib_s"))
    return 100 * (predicted / measured - 1)


def _articles_points(figure: Figure, table: DataFrame) -> None:
    rows = table[table["article_steady_mib_s"].notna() & table["buffer_bytes"].notna()]
    if rows.empty:
        return
    figure.add_trace(
        Scatter(
            x=rows["buffer_bytes"].tolist(),
            y=rows["article_steady_mib_s"].tolist(),
            mode="markers",
            name="the article, steady state",
            text=rows["article_claim"].tolist(),
            marker={"size": 11, "color": ORANGE, "line": {"color": "black", "width": 1}},
            hovertemplate="%{text}: %{y:g} MiB/s with %{customdata} at the receiver<extra></extra>",
            customdata=[size_in_words(size) for size in rows["buffer_bytes"]],
        ),
        row=TOP,
        col=1,
    )


def _lines(figure: Figure, rows: DataFrame) -> None:
    """The BDP, the smallest buffer that fills the line, the line rate, the band below."""
    bdp, line = float(rows["bdp_bytes"].median()), float(rows["line_mib_s"].median())
    upright(figure, bdp, f"BDP {size_in_words(bdp)}", BLACK, "longdash", 0.06)
    found = [one for one in smallest(rows) if one.series == SYSCTL] or smallest(rows)
    for one in found[:1]:
        mark_smallest(figure, one, GREEN)
    figure.add_hline(
        y=line,
        line={"color": GREY, "dash": "dot", "width": 1.5},
        row=TOP,
        col=1,
        annotation={
            "text": f"line rate {in_three_digits(line)} MiB/s",
            "font": {"color": GREY},
            "xanchor": "left",
            "x": 0.005,
            "xref": "paper",
            "yanchor": "bottom",
        },
    )
    band(figure)


def mark_smallest(figure: Figure, found: Smallest, colour: str) -> None:
    """An upright line at the smallest buffer that fills the line."""
    if found.buffer_bytes is not None:
        upright(
            figure,
            found.buffer_bytes,
            f"fills the line<br>from {size_in_words(found.buffer_bytes)}"
            f"<br>({found.of_the_bdp:.2f} BDP)",
            colour,
            "dash",
            0.2,
        )


def upright(figure: Figure, size: float, words: str, colour: str, dash: str, height: float) -> None:
    """An upright line over both plots, with words at its left: there the curve is low."""
    figure.add_vline(x=size, line={"color": colour, "dash": dash, "width": 1.5})
    figure.add_annotation(
        x=log10(size),
        y=height,
        xref="x",
        yref="y domain",
        text=words,
        showarrow=False,
        xanchor="right",
        xshift=-6,
        align="right",
        font={"color": colour},
        bgcolor=VEIL,
    )


def band(figure: Figure) -> None:
    """The tolerance of a prediction."""
    figure.add_hrect(
        y0=-WITHIN_PCT, y1=WITHIN_PCT, fillcolor=SKY, opacity=0.18, line_width=0, row=BOTTOM, col=1
    )
    figure.add_hline(y=0, line={"color": GREY, "width": 1}, row=BOTTOM, col=1)


def _lay_out(figure: Figure, rows: DataFrame) -> None:
    sizes = ticks(float(rows["buffer_bytes"].min()), float(rows["buffer_bytes"].max()))
    for row, (bottom, top) in PLACES.items():
        figure.update_yaxes(domain=[bottom, top], row=row, col=1)
        figure.update_xaxes(
            type="log",
            tickvals=sizes,
            ticktext=[size_in_words(size) for size in sizes],
            row=row,
            col=1,
        )
    figure.update_xaxes(showticklabels=True, row=TOP, col=1)
    highest = 1.1 * float(rows[["line_mib_s", "steady_mib_s"]].max().max())
    figure.update_yaxes(title="steady goodput, MiB/s", range=[0, highest], row=TOP, col=1)
    farthest = max(1.6 * WITHIN_PCT, 1.1 * float(_apart_pct(rows).abs().max()))
    figure.update_yaxes(title="difference, %", row=BOTTOM, col=1, range=[-farthest, farthest])
    figure.update_xaxes(title=log_title("size of both buffers"), row=BOTTOM, col=1)
    figure.update_layout(legend=LEGEND_ABOVE)


def ticks(smallest_bytes: float, largest_bytes: float, most: int = MOST_TICKS) -> list[int]:
    """Powers of two over a range of sizes, every second or third one where there are many."""
    first, last = floor(log2(smallest_bytes)), ceil(log2(largest_bytes))
    step = 1 + (last - first) // most
    return [1 << power for power in range(first, last + 1, step)]
