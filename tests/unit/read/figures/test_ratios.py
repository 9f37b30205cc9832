"""The chart of two testbeds: what is drawn, what is written, and where it is from."""

from __future__ import annotations

from typing import Any

import pytest
from plotly.graph_objects import Figure

import labs
from labs.read.display.rich_output import Table
from labs.read.stats.testbed_comparison import AGREE, COLUMNS, DISAGREE, NOT_COMPARED, UNDECIDED

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


def texts(figure: Figure) -> list[str]:
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
    words = texts(drawn(*ROWS))
    assert "<b>shaped</b> <b>0.99</b> (0.98 to 1), 5 runs, 2 disturbed" in words
    assert any("not compared" in text for text in words)
    assert any("undecided: 3 runs counted" in text for text in words)


def test_ratios_axis_holds_all_intervals() -> None:
    low, high = drawn(*ROWS).layout.xaxis.range
    assert low < 0.68 and high > 1.1
    wide = drawn(*ROWS, row("rmem100", DISAGREE, (0.05, 0.06, 0.08)))
    assert wide.layout.xaxis.type == "log"


def test_ratios_without_a_second_testbed() -> None:
    assert texts(drawn())[0] == "no study on a second testbed yet"
