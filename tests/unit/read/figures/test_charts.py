"""Figures of real runs: what is drawn, what is written below, what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plotly.graph_objects import Figure

import labs
from labs.catalog import find
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.figures import timeline
from labs.read.figures.style import BLACK
from labs.studies.study import Study
from tests.real_runs import real

BUFFERS = find("buffers")


def study(*names: str, live: bool = True) -> Study:
    return Study(Buffers(), tuple(map(real, names)), Path("runs"), None, live, lab=BUFFERS)


def by_condition(table: Any) -> Figure:
    return labs.charts.buffers.by_condition(table)


def caption(figure: Figure) -> str:
    return next(str(text.text) for text in figure.layout.annotations if text.name == "caption")


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> str:
    return " | ".join(str(text.text) for text in figure.layout.annotations)


def test_by_condition_shows_prediction_and_article_beside_the_measurement() -> None:
    table = study("unshaped", "both-1gib").results()
    figure = by_condition(table)
    traces = named(figure)
    assert list(traces) == ["whole file", "last third", "predicted", "the article"]
    assert traces["whole file"].x == (table["goodput_mib_s"][1],)
    assert traces["predicted"].x[0] == table["predicted_mean_mib_s"][1]
    assert traces["the article"].x == (77.8, 92.7)
    assert figure.layout.xaxis.title.text == "goodput (MiB/s)"
    assert figure.layout.yaxis.ticktext == ("unshaped", "both")


def test_by_condition_of_an_unlimited_run_is_a_note() -> None:
    """On virtual time an unshaped link shows tens of GB/s, which mean nothing."""
    figure = by_condition(study("unshaped", "both-1gib").results())
    assert "no meaningful rate" in texts(figure)
    assert figure.layout.xaxis.range[1] < 200


def test_by_condition_cuts_a_bar_far_beyond_the_others() -> None:
    table = study("unshaped", "both-1gib").results()
    table["note_codes"] = ""
    table["goodput_mib_s"] = [2140.3, table["goodput_mib_s"][1]]
    figure = by_condition(table)
    assert "2,140" in texts(figure) and "→" in texts(figure)
    assert max(named(figure)["whole file"].x) <= figure.layout.xaxis.range[1]


@pytest.mark.parametrize("name", ["unshaped", "loss", "limit"])
def test_by_condition_of_one_row(name: str) -> None:
    table = study(name).results()
    assert table["condition"][0] in texts(by_condition(table))


@pytest.mark.parametrize("live", [True, False])
def test_by_condition_caption_names_the_source(live: bool) -> None:
    figure = by_condition(study("unshaped", "captured", live=live).results())
    assert caption(figure) == (
        f"virtual · Linux 6.1.192 · link as asked (40.0 ms, 10 Mbit/s) · "
        f"{'live' if live else 'recorded'}"
    )


def test_by_condition_caption_warns_of_the_link() -> None:
    table = study("captured").results()
    table["link_ok"] = False
    assert "LINK NOT AS ASKED: both" in caption(by_condition(table))


def test_timeline_shows_both_ends_and_the_goodput() -> None:
    figure = timeline(real("captured"))
    traces = named(figure)
    assert {
        "congestion window (cwnd)",
        "in flight",
        "receive window (rwnd)",
        "send buffer in use",
        "receive buffer",
        "rcv_ssthresh",
        "rcv_space",
    } <= set(traces)
    # 10 Mbit/s and 40 ms, as measured: 50,000 bytes.
    assert "BDP 48.8 KiB" in texts(figure)
    assert {figure.layout.yaxis.type, figure.layout.yaxis2.type} == {"log"}
    assert figure.layout.xaxis3.title.text.startswith("seconds")
    assert figure.layout.yaxis.title.text == "size (logarithmic)"
    assert figure.layout.yaxis3.title.text == "goodput (MiB/s)"
    assert caption(figure).endswith("· live")
    measured, predicted = (trace for trace in figure.data if trace.yaxis == "y3")
    assert predicted.line.color == BLACK != measured.line.color  # it is drawn over the other
    drawn = [value for trace in figure.data if trace.yaxis != "y3" for value in trace.y]
    assert not any(value <= 0 for value in drawn if value is not None)  # the scale has no zero


def test_timeline_of_a_transfer_without_samples() -> None:
    figure = timeline(real("unshaped"))
    assert not figure.data
    assert "before the first sample" in texts(figure)


def test_charts_are_found_by_the_name_of_their_lab() -> None:
    assert labs.charts.buffers.timeline is timeline
    with pytest.raises(AttributeError, match="no attribute 'bufers'"):
        _ = labs.charts.bufers
