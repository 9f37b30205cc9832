"""Charts of a table of results, of two testbeds and of several tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

import labs
from labs.catalog import find
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.buffers.figures import timeline
from labs.read.display.rich_output import Table
from labs.read.figures.several_tables import joined
from labs.read.figures.style import BLACK
from labs.read.stats.testbed_comparison import AGREE, COLUMNS, DISAGREE, NOT_COMPARED, UNDECIDED
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


NAN = float("nan")


def row(
    condition: str,
    verdict: str,
    ratio: tuple[float, float, float] = (NAN, NAN, NAN),
    counted: int = 5,
    disturbed: int = 0,
) -> dict[str, Any]:
    low, middle, high = ratio
    return {
        "condition": condition,
        "figure": "goodput_mib_s",
        "first": 11.4,
        "second": 11.3,
        "ratio": middle,
        "low": low,
        "high": high,
        "verdict": verdict,
        "because": "",
        "counted": counted,
        "disturbed": disturbed,
        "margin_low": 0.9,
        "margin_high": 1.1,
        "first_testbed": "virtual · Linux 6.1.192",
        "second_testbed": "vagrant · Linux 6.1.0",
    }


ROWS = (
    row("unshaped", NOT_COMPARED),
    row("shaped", AGREE, (0.98, 0.99, 1.0), disturbed=2),
    row("default", UNDECIDED, (0.85, 0.92, 0.95)),
    row("both", DISAGREE, (0.68, 0.73, 0.76)),
    row("wmem", UNDECIDED, counted=3),
)


def drawn(*rows: dict[str, Any]) -> Figure:
    return labs.charts.witnesses.ratios(Table(rows, columns=list(COLUMNS)))


def texts_of(figure: Figure) -> list[str]:
    return [str(words.text) for words in figure.layout.annotations]


def test_ratios_each_verdict_has_its_own_symbol() -> None:
    figure = drawn(*ROWS)
    traces = {str(trace.name): trace for trace in figure.data}
    assert sorted(traces, key=lambda name: traces[name].y[0]) == [AGREE, UNDECIDED, DISAGREE]
    assert len({trace.marker.symbol for trace in traces.values()}) == 3
    assert len({trace.marker.color for trace in traces.values()}) == 3
    part = traces[DISAGREE]
    assert list(part.x) == [0.73]
    assert part.error_x.array[0] == pytest.approx(0.03)
    assert part.error_x.arrayminus[0] == pytest.approx(0.05)


def test_ratios_shade_the_margin_and_name_the_testbeds() -> None:
    figure = drawn(*ROWS)
    band, line = figure.layout.shapes
    assert (band.x0, band.x1, line.x0) == (0.9, 1.1, 1)
    (caption,) = [str(words.text) for words in figure.layout.annotations if words.name == "caption"]
    assert "second: vagrant · Linux 6.1.0 · first: virtual · Linux 6.1.192" in caption
    assert "0.9 to 1.1" in caption


def test_ratios_every_condition_has_its_words() -> None:
    words = texts_of(drawn(*ROWS))
    assert "<b>shaped</b> <b>0.99</b> (0.98 to 1), 5 runs, 2 disturbed" in words
    assert any("not compared" in text for text in words)
    assert any("undecided: 3 runs counted" in text for text in words)


def test_ratios_axis_holds_all_intervals() -> None:
    low, high = drawn(*ROWS).layout.xaxis.range
    assert low < 0.68 and high > 1.1
    wide = drawn(*ROWS, row("rmem100", DISAGREE, (0.05, 0.06, 0.08)))
    assert wide.layout.xaxis.type == "log"


class Tabled:
    """A study with so many runs, which has this table of results."""

    def __init__(self, table: DataFrame) -> None:
        self.runs, self.table = tuple(table.index), table

    def results(self) -> DataFrame:
        assert self.runs
        return self.table


def of_kernel(kernel: str, *conditions: str) -> DataFrame:
    return DataFrame([{"condition": name, "kernel": kernel} for name in conditions])


def test_joined_has_the_oldest_kernel_first_and_each_condition_once() -> None:
    new, old = of_kernel("6.12.1", "wmem", "both"), of_kernel("6.1.192", "both")
    studies: list[Any] = [Tabled(new), Tabled(old), Tabled(DataFrame()), Tabled(old)]
    for sources in (studies, [new, old, DataFrame(), old]):
        rows = joined(*sources)
        assert rows["kernel"].tolist() == ["6.1.192", "6.12.1", "6.12.1"]
        assert rows["condition"].tolist() == ["both", "wmem", "both"]


def test_joined_of_nothing_is_empty() -> None:
    assert joined().empty
    assert joined(DataFrame()).empty
