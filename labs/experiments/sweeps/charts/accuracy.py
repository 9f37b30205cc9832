"""The chart of the model's errors: predicted against measured steady goodput, in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas
from plotly.graph_objects import Figure, Scatter

from labs.experiments.sweeps.charts.goodput import together
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    NO_RUNS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.study import Study

TITLE = "The model's error by measured goodput"
LOOKS = (
    (BLUE, "circle"),
    (VERMILION, "square"),
    (GREEN, "diamond"),
    (PURPLE, "x"),
    (ORANGE, "triangle-up"),
    (BLACK, "circle-open"),
    (SKY, "square-open"),
)
WITHIN_PCT = 5.0
LEFT_PX = 58


def measured_and_predicted(*studies: Study) -> Figure:
    """How far each predicted steady goodput is above or below the measured one, by what the theory
    says is the limit."""
    rows = together(studies)
    if len(rows):
        rows = rows[rows["predicted_mib_s"].notna() & rows["steady_mib_s"].notna()]
    if rows.empty:
        return nothing(TITLE, NO_RUNS)
    rows = rows.assign(error_pct=100 * (rows["predicted_mib_s"] / rows["steady_mib_s"] - 1))
    figure = Figure()
    figure.add_hrect(y0=-WITHIN_PCT, y1=WITHIN_PCT, fillcolor=SKY, opacity=0.18, line_width=0)
    figure.add_hline(y=0, line={"color": GREY, "width": 1})
    bounds = list(dict.fromkeys(rows["bound"]))
    for place, bound in enumerate(bounds):
        colour, symbol = LOOKS[place % len(LOOKS)]
        some = rows[rows["bound"] == bound]
        figure.add_trace(
            Scatter(
                x=some["steady_mib_s"].tolist(),
                y=some["error_pct"].tolist(),
                mode="markers",
                name=f"limited by: {bound}",
                marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.5}},
                text=[_words(row) for row in some.to_dict("records")],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    low, high = float(rows["steady_mib_s"].min()), float(rows["steady_mib_s"].max())
    ticks = log_ticks(low / 2, high * 2)
    farthest = max(1.4 * WITHIN_PCT, 1.15 * float(rows["error_pct"].abs().max()))
    figure.update_xaxes(
        type="log",
        title=log_title("measured steady goodput, MiB/s"),
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    figure.update_yaxes(title="error of the prediction, %", range=[-farthest, farthest])
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=440,
        tell=_tell(rows),
        table=_as_table(rows),
    ).update_layout(showlegend=True, margin_l=LEFT_PX)


def _words(row: dict[str, object]) -> str:
    measured, predicted = float(str(row["steady_mib_s"])), float(str(row["predicted_mib_s"]))
    return (
        f"{row['condition']}: measured {in_three_digits(measured)}, predicted "
        f"{in_three_digits(predicted)} MiB/s"
    )


def _tell(rows: DataFrame) -> str:
    """The text alternative: the median and the largest error."""
    error = rows["error_pct"].abs()
    worst = rows["condition"].tolist()[int(error.argmax())]
    return (
        f"{len(rows)} transfers. The median error of the predicted steady goodput is "
        f"{error.median():.1f} %, the largest {error.max():.1f} % ({worst}); "
        f"{int((error <= WITHIN_PCT).sum())} are within {WITHIN_PCT:.0f} %."
    )


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "condition": rows["condition"],
            "kernel": rows["kernel"],
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
            "error, %": rows["error_pct"],
            "limited by": rows["bound"],
        }
    )
