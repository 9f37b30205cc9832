"""Figures as declarations: what each form draws, says and puts in its table."""

from __future__ import annotations

from typing import Any

import pandas
import pytest
from plotly.graph_objects import Figure

from labs.drive.result_columns import Column
from labs.errors import BadInput
from labs.read.figures.axes import POINTS, SIZES, Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.declaration import in_group
from labs.read.figures.intervals import Intervals
from labs.read.figures.lines import NOT_SETTLED, USUAL_STEPS, Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.panels import Multiples, Panels

COLUMNS = {
    "goodput": Column("goodput", "MiB/s", "goodput; of the whole file", "expected", steady=True),
    "expected": Column("expected", "MiB/s", "predicted goodput"),
}
ROWS = pandas.DataFrame(
    {
        "group": "sweep",
        "condition": ["a", "b", "c", "d"],
        "kernel": ["6.1", "6.1", "7.2", "7.2"],
        "size": [1.06, 2.04, 1.06, 2.04],
        "goodput": [1.0, 2.0, 3.0, 4.0],
        "expected": [1.0, 2.2, 3.0, None],
        "settled": [True, False, True, True],
        "article": [None, 2.5, None, None],
    }
)


@pytest.fixture(autouse=True)
def of_a_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labs.read.figures.declaration.declared", lambda results: COLUMNS)


def caption(rows: Any) -> str:
    return "from a test"


def lines(**more: Any) -> Lines:
    shown = {"x": Axis("size", log=True, ticks=POINTS), "y": "goodput", "by": "kernel", **more}
    return Lines("Goodput", rows=in_group("sweep"), caption=caption, **shown)


def named(figure: Figure) -> dict[str, Any]:
    return {str(trace.name): trace for trace in figure.data}


def test_lines_take_words_units_and_predictions_from_the_columns() -> None:
    figure = lines(predicted=Prediction(each=True, name="{}, predicted"))(ROWS)
    traces = named(figure)
    assert list(traces["7.2"].y) == [3, 4] and list(traces["6.1, predicted"].y) == [1, 2.2]
    assert figure.layout.yaxis.title.text == "goodput (MiB/s)"
    assert list(figure.layout.xaxis.tickvals) == [1.06, 2.04]  # at the points, not beside them
    assert list(traces["6.1"].marker.opacity) == [1.0, NOT_SETTLED]
    assert figure.layout.meta["table"]["heads"][-2:] == ["Measured (MiB/s)", "Predicted (MiB/s)"]
    assert "6.1: 1 (predicted 1) at 1.06" in figure.layout.meta["tell"]
    assert figure.layout.meta["step_places"]["x"][0] == (1.06, "size: 1.06")


def test_a_line_of_many_points_has_even_steps() -> None:
    xs = [float(place) for place in range(1, 1001)]
    rows = pandas.DataFrame({"group": "sweep", "size": xs, "goodput": xs})
    places = lines(by=None, predicted=None)(rows).layout.meta["step_places"]["x"]
    assert len(places) == USUAL_STEPS and places[-1][0] == 1000


def test_an_axis_refuses_another_unit_than_its_column_s() -> None:
    given = lines(y=Axis("goodput", "speed", "MiB/s"))(ROWS)
    assert given.layout.yaxis.title.text == "speed (MiB/s)"
    with pytest.raises(BadInput, match="goodput is in MiB/s"):
        lines(y=Axis("goodput", "speed", "Mbit/s"))(ROWS)


def test_differences_need_a_column_of_predictions() -> None:
    with pytest.raises(BadInput, match=r'"Goodput".*Prediction\(column=') as caught:
        lines(y="expected", within_pct=5.0, predicted=Prediction(curve=lambda rows: ([], [])))(ROWS)
    assert "\n" not in str(caught.value)


def test_lines_have_the_article_s_points_and_differences_below() -> None:
    figure = lines(published="article", within_pct=5.0)(ROWS)
    assert list(named(figure)["the article"].y) == [2.5]
    below = [trace for trace in figure.data if trace.yaxis == "y2"]
    assert below[0].y[1] == pytest.approx(10)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert (band.y0, band.y1, band.yref) == (-5, 5, "y2")


def test_words_of_a_mark_hide_no_point() -> None:
    xs = [2.0**power for power in range(12)]
    rows = pandas.DataFrame({"group": "sweep", "size": xs, "goodput": xs})
    axis = Axis("size", log=True, ticks=SIZES)
    figure = lines(x=axis, by=None, predicted=None, marks=(Mark(600.0, "fills the line"),))(rows)
    words = next(text for text in figure.layout.annotations if text.text == "fills the line")
    height = float(words.y) * max(xs)
    assert words.xanchor == "right" and not height <= 512 <= height + 0.1 * max(xs)


def test_nothing_to_draw_says_why() -> None:
    figure = Lines("T", rows=in_group("other"), empty="no such rows", x="size", y="goodput")(ROWS)
    assert not figure.data and figure.layout.meta["tell"] == "no such rows"


def test_bars_write_values_predictions_and_notes() -> None:
    figure = Bars(
        "Goodput",
        caption=caption,
        bars=(Bar("goodput", "measured", published="article"),),
        instead=lambda row: "no rate" if row["condition"] == "d" else "",
    )(ROWS)
    texts = [str(text.text) for text in figure.layout.annotations]
    assert list(named(figure)["measured"].x) == [1, 2, 3]
    assert any("<b>2.00</b>" in text and "2.20" in text and "2.50" in text for text in texts)
    assert "<b>d</b><br>no rate" in texts
    assert "b: 2.00 (predicted 2.20)" in figure.layout.meta["tell"]
    assert [words for _, words in figure.layout.meta["step_places"]["y"]] == list("abcd")


def test_intervals_have_both_ends_and_steps_by_row() -> None:
    rows = ROWS.assign(low=ROWS["goodput"] - 0.5, high=ROWS["goodput"] + 1)
    shown = Intervals(
        "T",
        caption=caption,
        x="goodput",
        by="kernel",
        row_name=lambda records: str(records[0]["condition"]),
        says=lambda row: "",
        table={"low": "low"},
    )
    trace = named(shown(rows))["7.2"]
    assert list(trace.error_x.array) == [1, 1] and list(trace.error_x.arrayminus) == [0.5, 0.5]
    assert [words for _, words in shown(rows).layout.meta["step_places"]["y"]] == list("abcd")


def test_panels_stand_below_each_other_and_multiples_side_by_side() -> None:
    bars = Bars("Bars", rows=in_group("sweep"), bars=(Bar("goodput", "measured"),))
    both = Panels(
        "T",
        rows=in_group("sweep"),
        caption=caption,
        panels=(bars, lines()),
        table={"goodput": "goodput"},
    )(ROWS)
    assert both.layout.yaxis.domain[0] > both.layout.yaxis2.domain[1]
    assert {"<b>Bars</b>", "<b>Goodput</b>"} <= {text.text for text in both.layout.annotations}
    cells = Multiples(
        "T",
        rows=in_group("sweep"),
        caption=caption,
        panel_of=lines(by=None),
        by="kernel",
        named=lambda rows: f"Linux {rows['kernel'].iloc[0]}",
        describe=lambda rows: "two kernels",
        table={"goodput": "goodput"},
    )(ROWS)
    assert cells.layout.xaxis.domain[1] < cells.layout.xaxis2.domain[0]
    assert cells.layout.xaxis2.matches == "x"
