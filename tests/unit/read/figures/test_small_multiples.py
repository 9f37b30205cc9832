"""Small multiples: which parameter is drawn where, what each panel holds, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pandas
import pytest
from plotly.graph_objects import Bar, Figure

from labs.errors import BadInput
from labs.read.figures.lines import LOOKS
from labs.read.figures.parameter_layout import (
    MOST_LINES,
    MOST_PANELS,
    Layout,
    fitted,
    layout_of,
    together,
)
from labs.read.figures.small_multiples import small_multiples

ORIGIN: dict[str, Any] = {
    "testbed": "virtual",
    "kernel": "6.1.192",
    "link_ok": True,
    "source": "live",
}


def made(**axes: Any) -> pandas.DataFrame:
    """A table of every combination; the figure is 100 plus the row's number, predicted 1 % less."""
    rows = itertools.product(*axes.values())
    table = pandas.DataFrame([dict(zip(axes, row, strict=True)) for row in rows])
    table["took_ms"] = [100.0 + place for place in range(len(table))]
    table["predicted_ms"] = table["took_ms"] / 1.01
    table["condition"] = table.get("condition", "only")
    for name, value in ORIGIN.items():
        if name not in table:
            table[name] = value
    return table


def drawn(table: pandas.DataFrame, *over: str, **given: Any) -> Figure:
    return small_multiples(
        table, "took_ms", over=over, unit="ms", predicted="predicted_ms", **given
    )


def caption(figure: Figure) -> str:
    return str(figure.layout.meta["caption"])


def panels(figure: Figure) -> set[str]:
    return {str(trace.xaxis) for trace in figure.data}


@pytest.mark.parametrize(
    ("axes", "given", "layout"),
    [
        ({"rate_mbit": [1, 2]}, {}, Layout("rate_mbit", None, None, None)),
        (
            {"condition": "ab", "rate_mbit": [1, 2]},
            {},
            Layout("rate_mbit", "condition", None, None),
        ),
        (
            {"rate_mbit": [1, 2], "delay_ms": [1, 2, 3]},
            {},
            Layout("delay_ms", "rate_mbit", None, None),
        ),
        (
            {"condition": "ab", "rate_mbit": [1, 2], "delay_ms": [1, 2, 3], "client": "cd"},
            {},
            Layout("delay_ms", "condition", "rate_mbit", "client"),
        ),
        ({"client": "cd", "condition": "ab"}, {}, Layout("client", "condition", None, None)),
        (
            {"condition": "ab", "rate_mbit": [1, 2], "delay_ms": [1, 2]},
            {"x": "condition", "rows": "rate_mbit"},
            Layout("condition", "delay_ms", None, "rate_mbit"),
        ),
        ({"seed": [5], "condition": "ab"}, {}, Layout("condition", None, None, None)),
    ],
)
def test_layout_of_varied_parameters(
    axes: dict[str, Any], given: dict[str, str], layout: Layout
) -> None:
    over = [name for name in axes if name != "condition"]
    assert layout_of(made(**axes), over, **given) == layout


@pytest.mark.parametrize(
    ("axes", "given", "parts"),
    [
        ({"rate_mbit": [1, 2]}, {"x": "delay_ms"}, ["delay_ms does not vary", "rate_mbit"]),
        ({"rate_mbit": [1, 2]}, {"x": "rate_mbit", "rows": "rate_mbit"}, ["named twice"]),
        (
            {"condition": "ab", "seed": range(9), "rate_mbit": range(8)},
            {},
            ["rate_mbit has 8 values", f"{MOST_PANELS} columns", 'x="rate_mbit"'],
        ),
        (
            {"condition": "abcdefg", "rate_mbit": [1, 2]},
            {},
            ["condition has 7 values", f"{MOST_LINES} lines", 'chart(condition=["a"])'],
        ),
        (
            {"condition": "ab", "w_ms": [1, 2], "x_ms": [1, 2], "y_ms": [1, 2], "z_ms": [1, 2]},
            {},
            ["z_ms does not fit", "chart(z_ms=1)"],
        ),
    ],
)
def test_layout_of_refuses_in_one_line(
    axes: dict[str, Any], given: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(BadInput) as caught:
        layout_of(made(**axes), [name for name in axes if name != "condition"], **given)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_small_multiples_refuse_rows_that_differ_in_nothing_named() -> None:
    table = made(rate_mbit=[1, 2], seed=[1, 2])
    with pytest.raises(BadInput, match="several rows have rate_mbit 1"):
        drawn(table, "rate_mbit")


def test_small_multiples_have_a_measured_and_a_predicted_line_per_condition_and_panel() -> None:
    table = made(condition="ab", rate_mbit=[1, 2, 5], delay_ms=[10, 50], client="cd")
    figure = drawn(table, "rate_mbit", "delay_ms", "client")
    assert len(panels(figure)) == 4
    assert len(figure.data) == 4 * 2 * 2
    assert [trace.name for trace in figure.data if trace.showlegend] == ["a", "b", "predicted"]
    last = table[(table["condition"] == "b") & (table["delay_ms"] == 50) & (table["client"] == "d")]
    _, measured, _, predicted = figure.data[-4:]
    assert (measured.mode, predicted.mode) == ("markers", "lines")
    assert list(measured.x) == [1, 2, 5]
    assert list(measured.y) == last["took_ms"].tolist()
    assert list(predicted.y) == last["predicted_ms"].tolist()
    assert measured.marker.color == predicted.line.color == LOOKS[1].colour
    assert figure.layout.meta["table"]["heads"][:3] == ["Rate (Mbit/s)", "Delay (ms)", "Client"]
    assert len(figure.layout.meta["table"]["rows"]) == 24


def test_small_multiples_connect_measured_values_without_predictions() -> None:
    table = made(rate_mbit=[1, 2]).assign(predicted_ms=float("nan"))
    (measured,) = drawn(table, "rate_mbit").data
    assert measured.mode == "lines+markers"
    assert "predicted" not in caption(drawn(table, "rate_mbit"))


def test_small_multiples_draw_no_line_where_only_others_are_predicted() -> None:
    """A line beside predicted ones would be taken for a prediction."""
    table = made(rate_mbit=[10.0, 100.0], kernel=["5.10", "6.1"])
    table.loc[table["kernel"] == "5.10", "predicted_ms"] = float("nan")
    figure = drawn(table, "rate_mbit", "kernel", columns="kernel")
    first = [trace for trace in figure.data if trace.xaxis in (None, "x")]
    assert [trace.mode for trace in first] == ["markers"]
    assert sum(trace.mode == "lines" for trace in figure.data) == 1


def test_small_multiples_leave_out_points_without_a_value() -> None:
    table = made(rate_mbit=[1, 2, 5])
    table.loc[1, "took_ms"] = None
    assert list(drawn(table, "rate_mbit").data[-1].x) == [1, 5]
    table["took_ms"] = None
    assert "no run has a value of took_ms" in drawn(table, "rate_mbit").layout.meta["tell"]


def test_small_multiples_of_choices_are_bars_with_black_lines() -> None:
    figure = drawn(made(kernel=["6.1", "6.12"], condition="ab"), "kernel")
    bars = [trace for trace in figure.data if isinstance(trace, Bar)]
    assert [list(bar.y) for bar in bars] == [[100, 102], [101, 103]]
    assert figure.layout.xaxis.ticktext == ("6.1", "6.12")
    assert figure.layout.yaxis.range[0] == 0 and figure.layout.yaxis.title.text == "Took (ms)"
    assert next(trace for trace in figure.data if trace.name == "predicted").y[0] < 100
    assert "black lines: predicted" in caption(figure)


def test_choices_have_panels_by_further_choices() -> None:
    table = made(condition="ab", kernel=["6.1", "6.12"], client="cd", port=["p", "q"])
    figure = drawn(table, "kernel", "client", "port")
    assert len(panels(figure)) == 4
    assert sum(len(trace.x) for trace in figure.data if isinstance(trace, Bar)) == len(table)


def test_bars_of_choices_may_be_below_zero() -> None:
    table = made(kernel=["6.1", "6.12"])
    table["took_ms"] = [-2.0, 3.0]
    figure = drawn(table, "kernel")
    assert list(figure.data[0].y) == [-2, 3] and figure.layout.yaxis.range[0] < -2


@pytest.mark.parametrize(("values", "kind"), [([1, 9, 10], None), ([1, 9, 11], "log")])
def test_axes_are_logarithmic_beyond_a_decade(values: list[float], kind: str | None) -> None:
    table = made(rate_mbit=values)
    table["took_ms"] = table["predicted_ms"] = values
    figure = drawn(table, "rate_mbit")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == (kind, kind)
    assert ("(logarithmic)" in figure.layout.xaxis.title.text) == (kind == "log")
    table["rate_mbit"] = [str(value) for value in values]
    with_choices = drawn(table, "rate_mbit")
    assert with_choices.layout.yaxis.type == kind
    assert isinstance(with_choices.data[0], Bar) == (kind is None)


def test_caption_and_titles_of_small_multiples() -> None:
    table = made(rate_mbit=[1, 2], file_size=[3, 4])
    table.loc[3, "link_ok"] = False
    figure = drawn(table, "rate_mbit", "file_size", units={"file_size": "KiB"}, note="a note")
    assert figure.layout.title.text == "Took by rate and file size"
    assert "LINK NOT AS ASKED: only rate_mbit 2 file_size 4" in caption(figure)
    assert "virtual · Linux 6.1.192" in caption(figure) and caption(figure).endswith("a note")
    assert [trace.name for trace in figure.data if trace.showlegend] == [
        "file size 3 KiB",
        "file size 4 KiB",
        "predicted",
    ]
    assert figure.layout.yaxis.title.text == "Took (ms)"
    assert "100 ms at rate_mbit 1" in figure.layout.meta["tell"]
    assert "the prediction is 1 %" in figure.layout.meta["tell"]


def test_small_multiples_of_a_table_with_its_figures_alone() -> None:
    table = made(rate_mbit=[1, 2]).drop(columns=[*ORIGIN, "condition", "predicted_ms"])
    figure = small_multiples(
        table, "took_ms", over=["rate_mbit"], unit="ms", caption=lambda rows: f"{len(rows)} rows"
    )
    assert list(figure.data[0].y) == [100, 101]
    assert caption(figure) == "2 rows"


def zipped() -> pandas.DataFrame:
    """Three rates, each with a buffer of its own, at two delays, on two kernels."""
    table = made(condition="ab", rate_mbit=[1, 2, 5], delay_ms=[10, 50], kernel=["6.1", "7.2"])
    return table.assign(buffer_mib=table["rate_mbit"] * 4)


ZIPPED = ("rate_mbit", "buffer_mib", "delay_ms", "kernel")


@pytest.mark.parametrize(
    ("named", "drawn_axes"),
    [
        ((), {"rate_mbit": ("buffer_mib",), "delay_ms": (), "kernel": ()}),
        (("buffer_mib", None), {"buffer_mib": ("rate_mbit",), "delay_ms": (), "kernel": ()}),
        (("rate_mbit", "buffer_mib"), dict.fromkeys(ZIPPED, ())),
    ],
)
def test_together_groups_what_determines_each_other(
    named: tuple[str | None, ...], drawn_axes: dict[str, tuple[str, ...]]
) -> None:
    assert together(zipped(), ZIPPED, named) == drawn_axes


def test_together_leaves_constants_and_one_sided_dependence_apart() -> None:
    table = made(rate_mbit=[1, 2, 5]).assign(seed=1, burst=1, buffer_mib=[4, 4, 8])
    names = ("rate_mbit", "seed", "burst", "buffer_mib")
    assert together(table, names) == dict.fromkeys(names, ())


def test_small_multiples_draw_one_of_the_parameters_that_advance_together() -> None:
    figure = drawn(zipped(), *ZIPPED)
    assert len(panels(figure)) == 4 and len(figure.data) == 4 * 2 * 2
    assert "buffer_mib with rate_mbit" in caption(figure)
    assert len(figure.layout.meta["table"]["rows"]) == 24
    swapped = drawn(zipped(), *ZIPPED, x="buffer_mib")
    assert list(swapped.data[0].x) == [4, 8, 20] and "rate_mbit with" in caption(swapped)


def test_fitted_fixes_what_does_not_fit_at_its_first_value() -> None:
    table = made(condition="ab", seed=range(9), port=range(7), w=[1, 2], v=[1, 2])
    table["twin"] = table["port"] * 10
    rows, fixed = fitted(table, ("seed", "port", "twin", "w", "v"))
    assert fixed == {"port": 0, "twin": 0} and len(rows) == 2 * 9 * 2 * 2
    rows, fixed = fitted(made(condition="abcdefg", w=[1, 2]), ("w",))
    assert fixed == {"condition": "a"} and len(rows) == 2
    assert fitted(zipped(), ZIPPED)[1] == {}


def test_small_multiples_fit_only_without_a_choice() -> None:
    table = made(condition="ab", w_ms=[1, 2, 3], x_ms=[1, 2], y_ms=[1, 2], z_ms=[7, 8])
    over = ("w_ms", "x_ms", "y_ms", "z_ms")
    figure = drawn(table, *over, fit=True)
    assert len(figure.layout.meta["table"]["rows"]) == 24
    assert "z_ms = 7; others: chart(z_ms=...)" in caption(figure)
    for given in ({}, {"fit": True, "x": "w_ms"}):
        with pytest.raises(BadInput, match="z_ms does not fit"):
            drawn(table, *over, **given)
