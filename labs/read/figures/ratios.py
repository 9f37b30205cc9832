"""Two testbeds side by side: the ratio of their figures, condition by condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plotly.graph_objects import Figure, Scatter

from labs.read.figures.style import (
    BLACK,
    BLUE,
    LEGEND_ABOVE,
    ORANGE,
    SKY,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
    plain,
)
from labs.read.stats.testbed_comparison import AGREE, DISAGREE, NOT_COMPARED, UNDECIDED

if TYPE_CHECKING:
    from pandas import DataFrame

TITLE = "Ratio of the second testbed to the first"
# Colour, sign and filling differ, so that each alone tells the verdicts apart.
LOOKS = {
    AGREE: (BLUE, "circle"),
    UNDECIDED: (ORANGE, "circle-open"),
    DISAGREE: (VERMILION, "diamond"),
}
ROW_PX, FRAME_PX, LEFT_PX = 52, 230, 20
COLUMNS = ("condition", "ratio", "low", "high", "counted", "disturbed", "verdict")
WIDEST = 4.0
"""Beyond such a quotient of the largest and the smallest, ratios are drawn on a log scale."""


def ratios(table: DataFrame) -> Figure:
    """The ratio of each condition with its 95 % interval, and the margin within which two agree.

    `table` is `study.compare(other)`. A condition without an interval has its
    verdict alone. An open circle is undecided: its interval crosses an edge of the margin.
    """
    if table.empty:
        return nothing(TITLE, "no study on a second testbed yet")
    rows = table.reset_index(drop=True)
    low, high = float(rows["margin_low"].iloc[0]), float(rows["margin_high"].iloc[0])
    figure = Figure()
    figure.add_vrect(x0=low, x1=high, fillcolor=SKY, opacity=0.25, line_width=0, layer="below")
    figure.add_vline(x=1, line={"color": BLACK, "width": 1})
    for verdict, (colour, sign) in LOOKS.items():
        _draw(
            figure, rows[(rows["verdict"] == verdict) & rows["low"].notna()], verdict, colour, sign
        )
    for place, row in enumerate(rows.to_dict("records")):
        figure.add_annotation(
            x=0,
            xref="paper",
            y=place,
            text=f"<b>{row['condition']}</b> {_words(row)}",
            showarrow=False,
            xanchor="left",
            yanchor="bottom",
            yshift=9,
            align="left",
            font={"size": 12},
        )
    _lay_out(figure, rows, low, high)
    return dressed(
        figure,
        title=TITLE,
        caption=_caption(rows, low, high),
        height=FRAME_PX + ROW_PX * len(rows),
        tell=_tell(rows),
        table=rows[[name for name in COLUMNS if name in rows]],
    ).update_layout(margin_l=LEFT_PX)


def _tell(rows: DataFrame) -> str:
    """The text alternative: each condition with its ratio and verdict."""
    said = [
        f"{row['condition']}: {plain(_words(row))}"
        + ("" if row["low"] != row["low"] else f", {row['verdict']}")
        for row in rows.to_dict("records")
    ]
    return f"{TITLE}. {'; '.join(said)}."


def _draw(figure: Figure, rows: DataFrame, verdict: str, colour: str, sign: str) -> None:
    middle = rows["ratio"]
    figure.add_trace(
        Scatter(
            x=middle.tolist(),
            y=rows.index.tolist(),
            mode="markers",
            name=verdict,
            showlegend=True,
            marker={
                "color": colour,
                "symbol": sign,
                "size": 12,
                "line": {"width": 2, "color": colour},
            },
            error_x={
                "type": "data",
                "symmetric": False,
                "array": (rows["high"] - middle).tolist(),
                "arrayminus": (middle - rows["low"]).tolist(),
                "color": colour,
                "thickness": 2,
                "width": 6,
            },
            text=[_words(row) for row in rows.to_dict("records")],
            hovertemplate="%{text}<extra></extra>",
        )
    )


def _words(row: dict[Any, Any]) -> str:
    if row["low"] != row["low"]:
        # The reason is the table's; here it is said that there is one.
        counted = f": {row['counted']} runs counted" if row["verdict"] == UNDECIDED else ""
        return f"{row['verdict']}{counted}"
    disturbed = f", {row['disturbed']} disturbed" if row["disturbed"] else ""
    return (
        f"<b>{row['ratio']:.3g}</b> ({row['low']:.3g} to {row['high']:.3g}), "
        f"{row['counted']} runs{disturbed}"
    )


def _lay_out(figure: Figure, rows: DataFrame, low: float, high: float) -> None:
    shown = rows[rows["verdict"] != NOT_COMPARED]
    least = min([low, *shown["low"].dropna()])
    most = max([high, *shown["high"].dropna()])
    room = 0.08 * (most - least)
    figure.update_xaxes(
        title="ratio, second over first", range=[least - room, most + room], showgrid=True
    )
    if most / max(least, 1e-9) > WIDEST:
        ticks = log_ticks(max(least, 1e-9) / 2, most * 2)
        figure.update_xaxes(
            type="log",
            title=log_title("ratio, second over first"),
            autorange=True,
            range=None,
            tickvals=ticks,
            ticktext=[f"{tick:g}" for tick in ticks],
        )
    figure.update_yaxes(
        tickvals=list(rows.index),
        ticktext=list(rows["condition"]),
        visible=False,
        range=[len(rows) - 0.6, -0.7],
        showgrid=False,
    )
    figure.update_layout(legend=LEGEND_ABOVE)


def _caption(rows: DataFrame, low: float, high: float) -> str:
    first, second = (
        ", ".join(dict.fromkeys(rows[f"{place}_testbed"])) for place in ("first", "second")
    )
    return (
        f"second: {second} · first: {first}<br>shaded: the margin, {low:g} to {high:g}; bars: "
        "95 % interval of the ratio of medians"
    )
