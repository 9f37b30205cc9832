"""Two testbeds side by side: the ratio of their figures, condition by condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labs.read.figures.axes import Axis
from labs.read.figures.intervals import Intervals
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, ORANGE, SKY, VERMILION, nothing, plain
from labs.read.stats.testbed_comparison import AGREE, DISAGREE, UNDECIDED

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

TITLE = "Ratio of the second testbed to the first"
# Colour, sign and filling differ, so that each alone tells the verdicts apart.
LOOKS = {
    AGREE: Look(BLUE, size=12),
    UNDECIDED: Look(ORANGE, symbol="circle-open", size=12),
    DISAGREE: Look(VERMILION, symbol="diamond", size=12),
}
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
    low, high = float(table["margin_low"].iloc[0]), float(table["margin_high"].iloc[0])
    least, most = min([low, *table["low"].dropna()]), max([high, *table["high"].dropna()])
    return Intervals(
        TITLE,
        rows=lambda rows: rows.assign(ratio=rows["ratio"].where(rows["low"].notna())),
        x=Axis("ratio", "ratio, second over first", log=most > WIDEST * max(least, 1e-9)),
        row_name=lambda records: f"<b>{records[0]['condition']}</b> {_words(records[0])}",
        by="verdict",
        looks=LOOKS,
        marks=(Mark(low, until=high, colour=SKY), Mark(1.0, colour=BLACK, dash="solid", width=1)),
        says=_words,
        caption=_caption,
        describe=_describe,
        table=lambda rows: table[[name for name in COLUMNS if name in table]],
    )(table)


def _describe(rows: DataFrame) -> str:
    """Each condition with its ratio and verdict."""
    phrases = [
        f"{row['condition']}: {plain(_words(row))}"
        + ("" if row["low"] != row["low"] else f", {row['verdict']}")
        for row in rows.to_dict("records")
    ]
    return f"{TITLE}. {'; '.join(phrases)}."


def _words(row: Mapping[Any, Any]) -> str:
    if row["low"] != row["low"]:
        # The reason is the table's; here it is said that there is one.
        counted = f": {row['counted']} runs counted" if row["verdict"] == UNDECIDED else ""
        return f"{row['verdict']}{counted}"
    disturbed = f", {row['disturbed']} disturbed" if row["disturbed"] else ""
    return (
        f"<b>{row['ratio']:.3g}</b> ({row['low']:.3g} to {row['high']:.3g}), "
        f"{row['counted']} runs{disturbed}"
    )


def _caption(rows: DataFrame) -> str:
    first, second = (
        ", ".join(dict.fromkeys(rows[f"{place}_testbed"])) for place in ("first", "second")
    )
    low, high = (rows[f"margin_{end}"].iloc[0] for end in ("low", "high"))
    return (
        f"second: {second} · first: {first}<br>shaded: the margin, {low:g} to {high:g}; bars: "
        "95 % interval of the ratio of medians"
    )
