"""The figures of the lab `buffers` beyond the first two, drawn from real studies."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pandas
from plotly.graph_objects import Figure

import labs
from labs.experiments.buffers import figures as buffers
from labs.experiments.buffers.figures import timeline
from labs.read.figures.axes import powers_of_two
from tests.real_runs import real, real_study, with_file

POINTS_PX, WORDS_PX, LINES_PX = 690, 106, 51
"""The points of a plot on a page; three lines of words, which are a fifth of the plot's height."""


@cache
def results_on(*kernels: str) -> pandas.DataFrame:
    return pandas.concat([real_study(kernel).results() for kernel in kernels])


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


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


def test_ticks_are_powers_of_two_and_not_too_many() -> None:
    assert powers_of_two(65536, 2 << 20) == [65536 << step for step in range(6)]
    assert len(powers_of_two(1024, 1 << 30)) <= 13
