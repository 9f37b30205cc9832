"""The chart of the surface: goodput by send buffer and receive buffer, in shaded cells."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeAlias

import pandas
from plotly.graph_objects import Figure, Heatmap, Scatter

from labs.drive.units import KIB
from labs.experiments.sweeps.charts.goodput import together
from labs.experiments.sweeps.curves import REACHES_PCT
from labs.experiments.sweeps.results import article, parameter
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.heatmap import SHADES
from labs.read.figures.style import BLACK, LEGEND_ABOVE, NO_RUNS, VERMILION, dressed, nothing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pandas import DataFrame

    from labs.read.study import Study

TITLE = "Steady goodput (MiB/s) by send buffer and receive buffer"
AUTOMATIC = inf
"""The place of an automatic buffer among the sizes."""
BEST = ((16384, 256), (8192, 8192), (16384, AUTOMATIC))
"""The article's best pairs: the least send buffer and the receive buffer, in KiB. Its default
receive buffer is automatic."""
ROW_PX, FRAME_PX, LEFT_PX = 46, 210, 78
PAIRS = ("surface-", "sender-", "fixed-")
"""The conditions that fix the send buffer for one receive buffer, by the prefix of their names."""
Cells: TypeAlias = dict[tuple[float, float], float]
"""Steady goodput by send buffer and receive buffer."""


def surface(*studies: Study) -> Figure:
    """Steady goodput of each pair of buffers, including the points of the series. Bold: at
    least 95 % of the best goodput. Frames: the article's best pairs, if the BDP is its own."""
    rows = together(studies)
    if len(rows):
        pairs = rows["condition"].str.startswith(PAIRS) & rows["requested_send_kib"].notna()
        rows = rows[pairs & rows["steady_mib_s"].notna()]
    if rows.empty:
        return nothing(TITLE, NO_RUNS)
    rows = rows.fillna({"requested_receive_kib": AUTOMATIC})
    cells: Cells = {
        (float(row["requested_send_kib"]), float(row["requested_receive_kib"])): float(
            row["steady_mib_s"]
        )
        for row in rows.to_dict("records")
    }
    senders, receivers = (sorted({pair[end] for pair in cells}) for end in (0, 1))
    figure = Figure(
        Heatmap(
            x=_names(senders),
            y=_names(receivers),
            z=[[cells.get((sender, receiver)) for sender in senders] for receiver in receivers],
            colorscale=SHADES,
            showscale=False,
            xgap=2,
            ygap=2,
            hovertemplate="send buffer %{x}, receive buffer %{y}: %{z:.3g} MiB/s<extra></extra>",
        )
    )
    _numbers(figure, cells)
    runs = [run for study in studies for run in study.runs if run.condition.startswith(PAIRS)]
    if all(has_articles_parameters(article(), run, "A5.9", parameter) for run in runs):
        figure.add_trace(_best(cells))
    figure.update_xaxes(title="requested send buffer", type="category", showgrid=False)
    figure.update_yaxes(title="requested receive buffer", type="category", showgrid=False)
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=FRAME_PX + ROW_PX * len(receivers),
        tell=_tell(cells),
        table=_as_table(rows),
    ).update_layout(showlegend=True, margin_l=LEFT_PX, legend=LEGEND_ABOVE)


def _names(sizes: Iterable[float]) -> list[str]:
    return [_name(size).replace(" ", "<br>") for size in sizes]


def _name(size_kib: float) -> str:
    return "auto" if size_kib == AUTOMATIC else size_in_words(size_kib * KIB)


def _numbers(figure: Figure, cells: Cells) -> None:
    """The goodput in each cell."""
    enough = REACHES_PCT / 100 * max(cells.values())
    for pair, value in cells.items():
        sender, receiver = _names(pair)
        words = in_three_digits(value)
        figure.add_annotation(
            x=sender,
            y=receiver,
            text=f"<b>{words}</b>" if value >= enough else words,
            showarrow=False,
            font={"size": 13, "color": BLACK},
        )


def _best(cells: Cells) -> Scatter:
    """A frame around each of the article's best pairs that the grid contains."""
    best = [
        _names((sender, receiver))
        for sender, receiver in cells
        for least, fixed in BEST
        if receiver == fixed and sender >= least
    ]
    return Scatter(
        x=[sender for sender, _ in best],
        y=[receiver for _, receiver in best],
        mode="markers",
        name="the article's best pairs",
        marker={
            "symbol": "square-open",
            "size": 38,
            "color": VERMILION,
            "line": {"width": 3, "color": VERMILION},
        },
        hoverinfo="skip",
    )


def _tell(cells: Cells) -> str:
    """The text alternative: the range, and the smallest pair with nearly the best goodput."""
    best = max(cells.values())
    enough = [pair for pair, value in cells.items() if value >= REACHES_PCT / 100 * best]
    sender, receiver = min(enough, key=lambda pair: pair[0] * pair[1])
    senders, receivers = (len({pair[end] for pair in cells}) for end in (0, 1))
    return (
        f"A grid of {senders} send buffers and {receivers} receive buffers. The goodput is between "
        f"{in_three_digits(min(cells.values()))} and {in_three_digits(best)} MiB/s; it follows the "
        f"smaller of the two buffers. The smallest pair with {REACHES_PCT:.0f} % of the best has "
        f"{_name(sender)} at the sender and {_name(receiver)} at the receiver."
    )


def _as_table(rows: DataFrame) -> DataFrame:
    return pandas.DataFrame(
        {
            "send buffer": rows["requested_send_kib"].map(_name),
            "receive buffer": rows["requested_receive_kib"].map(_name),
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
            "limited by": rows["bound"],
        }
    )
