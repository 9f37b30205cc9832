"""Bars by condition: everything is inside the axis, and every figure is written above its bar."""

from __future__ import annotations

import re

from plotly.graph_objects import Figure

from labs.read.figures.bar_rows import BarSeries, Measured, Row, bars, beside

MEAN = BarSeries("mean", "#0072B2")


def words(figure: Figure) -> list[str]:
    return [re.sub("<[^>]*>", "", str(one.text)) for one in figure.layout.annotations]


def drawn(figure: Figure, name: str) -> list[float]:
    (trace,) = [one for one in figure.data if one.name == name]
    return [x for x in trace.x if x is not None]


def test_bars_axis_holds_the_largest_value_prediction_and_article() -> None:
    for largest in (20.0, 200.0, 2000.0):
        for values in ((largest, 1, 1), (1, largest, 1), (1, 1, largest)):
            figure = bars(
                [Row("a", (Measured(MEAN, values[0], "", *values[1:]),))], title="", unit="ms"
            )
            assert drawn(figure, "mean") == [values[0]]
            assert drawn(figure, "predicted") == [values[1]] * 2
            assert drawn(figure, "the article") == [values[2]]
            assert figure.layout.xaxis.range[0] == 0 and figure.layout.xaxis.range[1] > largest


def test_bars_longer_than_the_edge_are_cut_and_say_so() -> None:
    rows = [Row("far", (Measured(MEAN, 900.0, "900"),)), Row("near", (Measured(MEAN, 90.0, "90"),))]
    figure = bars(rows, title="", unit="ms", edge=100.0)
    assert drawn(figure, "mean") == [figure.layout.xaxis.range[1], 90.0]
    assert words(figure) == ["far", "900 →", "near", "90"]


def test_bars_without_a_figure_take_one_line() -> None:
    rows = [Row("a", (Measured(MEAN, None, "below 1 ms"),)), Row("b", note="no rate", remark="x")]
    figure = bars(rows, title="", unit="ms")
    assert words(figure) == ["a  below 1 ms", "b  xno rate"]
    assert not figure.data


def test_bars_have_words_above_them() -> None:
    """The y axis counts pixels from the top."""
    rows = [
        Row(name, (Measured(MEAN, 1.0, f"{name}1"), Measured(MEAN, 2.0, f"{name}2")))
        for name in "ab"
    ]
    figure = bars(rows, title="", unit="ms")
    tops = {text: one.y for text, one in zip(words(figure), figure.layout.annotations, strict=True)}
    places = list(figure.data[0].y)
    assert tops["a1"] + 16 <= places[0] - 5.5 and tops["a2"] + 16 <= places[1] - 5.5
    assert places == sorted(places) and tops["b"] > places[1]
    assert figure.layout.yaxis.ticktext == ("a", "b")


def test_beside_leaves_out_what_is_not_known() -> None:
    assert beside("", "") == ""
    assert re.sub("<[^>]*>", "", beside("1", "2")).replace("\N{NO-BREAK SPACE}", " ") == (
        " · | predicted 1 · ● article 2"
    )
