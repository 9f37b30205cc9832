"""The figures of the lab `buffers` beyond the first two, drawn from real studies."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
from plotly.graph_objects import Figure

import labs
from labs.experiments.buffers import figures as buffers
from labs.experiments.buffers.figures import promised, timeline
from labs.read.figures.axes import powers_of_two
from tests.real_runs import real, real_study, with_file

POINTS_PX, WORDS_PX, LINES_PX = 690, 106, 51
"""The points of a plot on a page; three lines of words, which are a fifth of the plot's height."""


@cache
def results_on(*kernels: str) -> pandas.DataFrame:
    return pandas.concat([real_study(kernel).results() for kernel in kernels])


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(one.text) for one in figure.layout.annotations)


def caption(figure: Figure) -> str:
    return next(str(one.text) for one in figure.layout.annotations if one.name == "caption")


FIGURES = {
    "conditions": lambda: buffers.by_condition(results_on("6.1")),
    "sweep": lambda: buffers.against_buffer_size(results_on("6.1")),
    "shares": lambda: buffers.adv_win_scale(results_on("6.1", "6.12")),
    "loss": lambda: buffers.loss(results_on("6.1")),
    "kernels": lambda: buffers.kernels(results_on("6.1"), results_on("6.12")),
    "timeline": lambda: timeline(real_study("6.1").run("default")),
}


@pytest.mark.parametrize("name", FIGURES)
def test_charts_say_what_they_show_and_where_it_is_from(name: str) -> None:
    figure = FIGURES[name]()
    figure.to_json()
    assert len(figure.layout.meta["tell"]) > 60 and "<" not in figure.layout.meta["tell"]
    assert all(
        len(row) == len(figure.layout.meta["table"]["heads"])
        for row in figure.layout.meta["table"]["rows"]
    )
    assert figure.layout.title.text
    said = caption(figure).split("<br>")[0]
    assert said.startswith("virtual · Linux 6.1.192") and said.endswith("· live")
    assert ("6.12.117" in said) == (name in ("shares", "kernels"))
    axes = [*figure.select_xaxes(), *figure.select_yaxes()]
    titles = [axis.title.text or "" for axis in axes]
    assert any("MiB/s" in title for title in titles)
    assert all(
        "(logarithmic)" in (one.title.text or "(logarithmic)") for one in axes if one.type == "log"
    )


def test_by_condition_leaves_out_groups_with_a_chart_of_their_own() -> None:
    figure = buffers.by_condition(results_on("6.1"))
    assert figure.layout.yaxis.ticktext == ("shaped", "default", "wmem", "both", "rmem100")
    alone = buffers.by_condition(
        results_on("6.1")[results_on("6.1")["condition"].str.startswith("sweep-set")]
    )
    assert len(alone.layout.yaxis.ticktext) == 3


def test_against_buffer_size_has_both_series_the_theory_and_its_marks() -> None:
    figure = buffers.against_buffer_size(results_on("6.1"))
    traces = named(figure)
    assert {"predicted", "set by sysctl, automatic sizing off", "set by setsockopt"} <= set(traces)
    rows = (
        results_on("6.1")
        .query("group == 'sweep' and series == 'sysctl'")
        .sort_values("buffer_bytes")
    )
    (top,) = [
        one
        for one in figure.data
        if one.name.startswith("set by sysctl") and one.showlegend is not False
    ]
    assert top.x == tuple(rows["buffer_bytes"]) and top.y == tuple(rows["steady_mib_s"])
    assert figure.layout.xaxis.type == "log"
    assert "BDP 48.8 KiB" in texts(figure)
    assert "fills the line<br>from 98 KiB<br>(2.01 BDP)" in texts(figure)
    below = [one for one in figure.data if one.yaxis == "y2"]
    apart = [value for one in below for value in one.y]
    assert len(apart) == 7 and sum(abs(value) > 5 for value in apart) == 0


def test_against_buffer_size_draws_a_prediction_that_is_far_off() -> None:
    rows = results_on("6.1").assign(predicted_mib_s=results_on("6.1")["predicted_mib_s"] * 1.6)
    figure = buffers.against_buffer_size(rows)
    apart = [value for one in figure.data if one.yaxis == "y2" for value in one.y]
    assert 55 < max(apart) < figure.layout.yaxis2.range[1]


def test_words_of_a_full_sweep_hide_no_point_on_a_page() -> None:
    study = labs.study(labs.check("buffers", {"TESTBED": "recorded", "SIZE": "full"}))
    figure = buffers.against_buffer_size(study.results())
    words = next(text for text in figure.layout.annotations if str(text.text).startswith("fills"))
    points = next(trace for trace in figure.data if trace.yaxis == "y" and trace.mode == "markers")
    places = numpy.log10(numpy.array(points.x))
    left_px = POINTS_PX * (words.x - places) / (places.max() - places.min())
    above_px = LINES_PX * 5 * (numpy.array(points.y) / figure.layout.yaxis.range[1] - words.y)
    hidden = (left_px > 0) & (left_px < WORDS_PX) & (above_px >= 0) & (above_px <= LINES_PX)
    assert words.xanchor == "right" and not hidden.any()


def test_by_condition_draws_goodput_above_the_link_of_other_rows() -> None:
    """The axis is not that of the rows' median rate."""
    rows = results_on("6.1", "6.12")[
        results_on("6.1", "6.12")["condition"].str.startswith("adv-")
    ].copy()
    rows["steady_mib_s"] = rows["steady_mib_s"].where(rows.index != rows.index[-1], 500.0)
    assert buffers.adv_win_scale(rows).layout.xaxis.range[1] > 500
    rows = results_on("6.1")[results_on("6.1")["condition"].str.startswith("loss-")].copy()
    rows["goodput_mib_s"] = [5000.0, *rows["goodput_mib_s"].iloc[1:]]
    figure = buffers.loss(rows)
    assert 10 ** figure.layout.xaxis.range[1] > 5000
    assert 1000 in figure.layout.xaxis.tickvals


def test_against_buffer_size_has_the_article_s_points() -> None:
    of_both = results_on("6.1")["condition"] == "both"
    rows = results_on("6.1").assign(
        article_steady_mib_s=of_both.map({True: 92.7}), article_claim=of_both.map({True: "A1.8"})
    )
    points = named(buffers.against_buffer_size(rows))["the article"]
    assert (points.x, points.y) == ((50 * 2**20,), (92.7,))
    assert "the article" not in named(buffers.against_buffer_size(results_on("6.1")))


def test_against_buffer_size_fades_points_without_a_steady_state() -> None:
    rows = results_on("6.1").copy()
    rows.loc[rows["condition"] == "sweep-24k", "settled"] = False
    (top, _) = [
        one
        for one in buffers.against_buffer_size(rows).data
        if one.name.startswith("set by sysctl")
    ]
    assert sorted(top.marker.opacity) == [0.3, 1, 1, 1]


def test_adv_win_scale_has_a_plot_for_each_value() -> None:
    figure = buffers.adv_win_scale(results_on("6.1", "6.12"))
    bars = [one for one in figure.data if one.type == "bar"]
    assert [one.name for one in bars] == ["Linux 6.1.192", "Linux 6.12.117 (ignores it)"]
    assert [len(one.x) for one in bars] == [2, 2]
    assert "<b>-2: 1/4 of it</b>" in texts(figure) and "<b>2: 3/4 of it</b>" in texts(figure)
    assert [promised(scale) for scale in (-2, -1, 0, 1, 2, 3)] == [
        "-2: 1/4 of it",
        "-1: 1/2 of it",
        "0: all of the buffer",
        "1: 1/2 of it",
        "2: 3/4 of it",
        "3: 7/8 of it",
    ]


def test_loss_has_the_median_and_the_range_of_the_draws() -> None:
    figure = buffers.loss(results_on("6.1"))
    cubic = named(figure)["cubic"]
    drawn = results_on("6.1")[results_on("6.1")["condition"].str.startswith("loss-1-cubic")][
        "goodput_mib_s"
    ]
    assert cubic.x[1] == pytest.approx(drawn.median())
    assert cubic.x[1] + cubic.error_x.array[1] == pytest.approx(drawn.max())
    assert cubic.x[1] - cubic.error_x.arrayminus[1] == pytest.approx(drawn.min())
    assert "median and range of 2 draws" in figure.layout.title.text
    assert "<b>no loss</b>" in texts(figure)
    assert "<b>1 % loss</b> (dropped: 0.96 to 1.6 %)" in texts(figure)
    assert named(figure)["bbr"].x[0] > 2 * cubic.x[1]


def test_kernels_side_by_side() -> None:
    figure = buffers.kernels(results_on("6.1"), results_on("6.12"))
    bars = {one.name: one for one in figure.data if one.type == "bar"}
    assert set(bars) == {"Linux 6.1.192", "Linux 6.12.117"}
    assert len(bars["Linux 6.1.192"].y) == 3
    swept = {
        trace.name: trace
        for trace in figure.data
        if trace.type == "scatter" and trace.mode == "markers"
    }
    assert len(swept["Linux 6.1.192"].x) == len(swept["Linux 6.12.117"].x) == 4
    assert {trace.marker.color for trace in figure.data if trace.name == "Linux 6.12.117"} == {
        swept["Linux 6.12.117"].marker.color
    }
    assert "6.12: 98 KiB" in texts(figure)


def test_kernels_of_one_kernel_alone() -> None:
    figure = buffers.kernels(results_on("6.1"), pandas.DataFrame())
    assert [one.name for one in figure.data if one.type == "bar"] == ["Linux 6.1.192"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda rows: buffers.against_buffer_size(rows),
        lambda rows: buffers.adv_win_scale(rows),
        lambda rows: buffers.loss(rows),
        lambda rows: buffers.kernels(rows, rows),
    ],
)
def test_charts_of_a_table_without_such_runs_say_so(draw: Any) -> None:
    figure = draw(results_on("6.1")[results_on("6.1")["condition"] == "httping"])
    assert not figure.data
    assert len(texts(figure)) > 20


@pytest.mark.parametrize(
    "draw",
    [
        buffers.by_condition,
        buffers.against_buffer_size,
        buffers.adv_win_scale,
        buffers.loss,
        lambda rows: buffers.kernels(rows, rows),
    ],
)
def test_charts_of_a_study_without_runs_say_so(draw: Any) -> None:
    """Such as one on a kernel that is not built here."""
    assert "no runs" in texts(draw(pandas.DataFrame()))


def test_timeline_marks_where_ss_agrees(tmp_path: Path) -> None:
    traces = named(timeline(real("captured")))
    (rings,) = [
        trace for name, trace in traces.items() if name.startswith("ss at the same moments")
    ]
    assert rings.marker.symbol == "circle-open" and rings.name.endswith(" identical")
    run = real("captured")
    before = next(
        word for word in run.text("client/ss.txt").split() if word.startswith("rcv_ssthresh:")
    )
    other = timeline(with_file(run, tmp_path, "client/ss.txt", before, "rcv_ssthresh:1"))
    crossed = [
        trace
        for trace in other.data
        if trace.name.startswith("ss at the same moments") and trace.marker.symbol == "x"
    ]
    assert len(crossed) == 1 and "rcv_ssthresh_bytes" in crossed[0].text[0]
    assert any(" of " in str(trace.name) for trace in other.data)


def test_timeline_of_a_run_without_download_says_so() -> None:
    figure = timeline(real_study("6.1").run("setsockopt"))
    assert not figure.data and "no download" in texts(figure)


def test_buffers_table_has_one_unit_per_column() -> None:
    rows = buffers.buffers_table(real_study("6.1"))
    html = rows[rows["condition"] == "both"][["condition", "requested", "used"]]._repr_html_()
    assert "Requested (KiB)</th>" in html and ">51,200</td>" in html
    assert "80 more of 80" not in rows._repr_html_() and "60 more of 80 rows" in rows._repr_html_()
    assert len(rows) == 2 * 20 + 20 * 2


def test_ticks_are_powers_of_two_and_not_too_many() -> None:
    assert powers_of_two(65536, 2 << 20) == [65536 << step for step in range(6)]
    assert len(powers_of_two(1024, 1 << 30)) <= 13
