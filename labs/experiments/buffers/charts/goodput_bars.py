"""Goodput condition by condition: measured, predicted, published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas

from labs.experiments.buffers.conditions import ARTICLE
from labs.experiments.buffers.results import NO_RATE
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table
from labs.read.figures.bar_rows import LEFT_PX, BarSeries, Measured, Row, bars, beside
from labs.read.figures.style import BLUE, NO_RUNS, SKY, dressed, nothing

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

TITLE = "Goodput by condition"
UNIT = "MiB/s"
UNLIMITED = "no meaningful rate: an unshaped link is unlimited in virtual time"


@dataclass(frozen=True)
class Measure:
    """One of the two bars of a condition: its column, and those that are compared with it."""

    column: str
    predicted: str
    article: str
    series: BarSeries


MEASURES = (
    Measure(
        "goodput_mib_s", "predicted_mean_mib_s", "article_mib_s", BarSeries("whole file", BLUE)
    ),
    Measure(
        "steady_mib_s", "predicted_mib_s", "article_steady_mib_s", BarSeries("last third", SKY)
    ),
)


def by_condition(table: DataFrame) -> Figure:
    """Goodput of each condition: measured mean and last third, the prediction, the article.

    `table` is `study.results()`, or some rows of it. Rows with a chart of their own (sweep, shares,
    loss) and rows without a download are drawn only if there are no others. A run that nothing
    limits has a note in place of its bars; one far beyond the shaped ones is cut at the end of the
    axis, with its figure.
    """
    if table.empty:
        return nothing(TITLE, NO_RUNS)
    rows = _own_rows(table).reset_index(drop=True)
    shown = [_row(row) for row in rows.to_dict("records")]
    figure = bars(shown, title=f"goodput, {UNIT}", unit=UNIT, edge=_edge(rows[~_unlimited(rows)]))
    return dressed(
        figure,
        title=TITLE,
        caption=of_table(rows),
        height=int(figure.layout.height),
        tell=_tell(rows),
        table=rows[["condition", *(name for one in MEASURES for name in _columns(one))]],
    ).update_layout(margin_l=LEFT_PX)


def _own_rows(table: DataFrame) -> DataFrame:
    """The rows of the article's own conditions; all that are downloads if there are none."""
    downloads = table[table["bytes"].notna()]
    own: DataFrame = downloads[downloads["group"] == ARTICLE.name]
    return downloads if own.empty else own


def _columns(one: Measure) -> tuple[str, str, str]:
    return one.column, one.predicted, one.article


def _unlimited(rows: DataFrame) -> pandas.Series[bool]:
    return rows["note_codes"].str.split().map(lambda codes: NO_RATE in codes).astype(bool)


def _edge(rows: DataFrame) -> float:
    """The longest figure that is drawn in full: of the shaped runs, or of all if none is shaped."""
    shaped = rows[rows["rate_mbit"].notna()]
    known = rows if shaped.empty else shaped
    longest = known[[name for one in MEASURES for name in _columns(one)]].astype(float).max().max()
    return float(longest) if pandas.notna(longest) and longest > 0 else 1.0


def _row(row: dict[Any, Any]) -> Row:
    if NO_RATE in row["note_codes"].split():
        article = _known(row["article_mib_s"])
        theirs = "" if article is None else f" (the article's machines: {article:g})"
        return Row(str(row["condition"]), note=UNLIMITED + theirs)
    return Row(
        str(row["condition"]),
        tuple(_bar(row, one) for one in MEASURES if _known(row[one.column]) is not None),
    )


def _bar(row: dict[Any, Any], one: Measure) -> Measured:
    predicted, article = _known(row[one.predicted]), _known(row[one.article])
    value = float(row[one.column])
    return Measured(
        one.series,
        value,
        f"<b>{in_three_digits(value)}</b>" + beside(_digits(predicted), _digits(article)),
        predicted,
        article,
        str(row["article_claim"]),
    )


def _tell(rows: DataFrame) -> str:
    """The text alternative."""
    said = []
    for row in rows.to_dict("records"):
        steady = _known(row["steady_mib_s"])
        value = _known(row["goodput_mib_s"]) if steady is None else steady
        if NO_RATE in row["note_codes"].split():
            said.append(f"{row['condition']}: no meaningful rate")
        elif value is not None:
            of = "over the whole file" if steady is None else "in the last third"
            predicted = _known(row["predicted_mib_s"])
            beside = "" if predicted is None else f" (predicted {in_three_digits(predicted)})"
            said.append(f"{row['condition']}: {in_three_digits(value)} {UNIT} {of}{beside}")
    return f"{TITLE}. {'; '.join(said)}."


def _digits(value: float | None) -> str:
    return "" if value is None else in_three_digits(value)


def _known(value: Any) -> float | None:
    return None if pandas.isna(value) else float(value)
