"""Figures of the lab `sweeps`, from real runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.catalog import find
from labs.experiments.sweeps import figures as charts
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.experiments.sweeps.figures import SERIES
from labs.experiments.sweeps.results import Results
from labs.studies.study import Study
from tests.real_runs import known, sweeps_study, with_condition

STUDY = sweeps_study()
FIGURES = (
    charts.goodput_by_buffer,
    charts.surface,
    charts.measured_and_predicted,
    charts.in_flight_by_write,
)


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> list[str]:
    return [str(note.text) for note in figure.layout.annotations]


@pytest.mark.parametrize("draw", FIGURES)
def test_figures_have_a_text_alternative_and_their_numbers(draw: Any) -> None:
    figure = draw(STUDY)
    assert len(figure.layout.meta["tell"]) > 60
    assert figure.layout.meta["table"]["rows"]
    assert "virtual · Linux 6.1.192" in figure.layout.meta["caption"]


@pytest.mark.parametrize("draw", FIGURES)
def test_figures_without_runs_say_so(draw: Any) -> None:
    empty = Study(Sweeps(), (), STUDY.folder, None, False, lab=find("sweeps"))
    assert "there are no runs to show" in texts(draw(empty))


def test_goodput_by_buffer_draws_each_series_in_the_order_of_its_sizes() -> None:
    figure = charts.goodput_by_buffer(STUDY)
    drawn = named(figure)
    assert set(SERIES.values()) < set(drawn)
    both = drawn[SERIES["both"]]
    assert list(both.x) == [16, 64, 256, 1024, 4096, 16384]
    assert both.y[2] == Results(STUDY.run("both-256k")).steady_mib_s
    points = sum(len(drawn[name].x) for name in SERIES.values())
    predicted = [trace for trace in figure.data if trace.name == "predicted"]
    assert sum(len(trace.x) for trace in predicted) == points
    # 1 Gbit/s x 8 ms are 1,000,000 bytes.
    assert "BDP 977 KiB" in texts(figure)


def test_goodput_by_buffer_draws_a_run_of_two_studies_once() -> None:
    assert len(named(charts.goodput_by_buffer(STUDY, STUDY))[SERIES["sender"]].x) == 4


def test_surface_has_the_goodput_in_each_cell_and_frames_the_best_pairs() -> None:
    """The series with an automatic receiver, and with 256 KiB and 8 MiB, are its rows."""
    figure = charts.surface(STUDY)
    grid, best = figure.data
    assert list(grid.y) == ["256<br>KiB", "8<br>MiB", "auto"]
    measured = known(Results(STUDY.run("fixed-8m-1m")).steady_mib_s)
    place = list(grid.x).index("1<br>MiB")
    assert grid.z[1][place] == measured
    cells = sum(value == value for row in grid.z for value in row)
    assert cells == len([name for name in STUDY.conditions if name.startswith(("sender", "fixed"))])
    # The article: 16 MB or more with 256 KB, and 8 MB or more with 8 MB.
    assert set(zip(best.x, best.y, strict=True)) == {
        ("16<br>MiB", "256<br>KiB"),
        ("16<br>MiB", "8<br>MiB"),
    }
    words = [text for row in grid.text for text in row]
    assert "<b>114</b>" in words and f"{measured:.0f}" in words
    runs = tuple(with_condition(run, link={"rate_mbit": 300}) for run in STUDY.runs)
    assert [trace.type for trace in charts.surface(replace(STUDY, runs=runs)).data] == ["heatmap"]


def test_measured_and_predicted_draws_the_error_of_each_transfer() -> None:
    figure = charts.measured_and_predicted(STUDY)
    table = STUDY.results()
    predicted = table[table["predicted_mib_s"].notna() & table["steady_mib_s"].notna()]
    assert sum(len(trace.x) for trace in figure.data) == len(predicted)
    assert {trace.name for trace in figure.data} == {
        f"limited by: {bound}" for bound in predicted["bound"]
    }


def test_in_flight_by_write_shows_that_nagle_lifts_the_limit() -> None:
    """A burst of writes that leave a partial segment: more in flight than the send buffer has."""
    figure = charts.in_flight_by_write(STUDY)
    drawn = named(figure)
    burst = "16,384<br>x 1,000"
    nagle, nodelay = drawn["Nagle's algorithm on"], drawn["TCP_NODELAY"]
    with_nagle = dict(zip(nagle.x, nagle.y, strict=True))
    without = dict(zip(nodelay.x, nodelay.y, strict=True))
    assert with_nagle[burst] > 4 * 128 > 128 * 1.1 > without[burst]
    assert with_nagle["14,480"] < 128
    assert "send buffer<br>128 KiB" in texts(figure)


def series(*points: tuple[str, float | None, float | None, float | None]) -> list[str]:
    """The remarks on runs with these conditions, sizes of both buffers in KiB, and goodputs."""
    columns = ["condition", "requested_send_kib", "requested_receive_kib", "steady_mib_s"]
    return charts.remarks(DataFrame(points, columns=columns).assign(predicted_mib_s=None))


def test_series_is_full_from_the_smallest_size_with_95_percent_of_the_best() -> None:
    points = {1024: 96.0, 64: 7.0, 4096: 100.0, 16384: 80.0}
    names = {1024: "1m", 64: "64k", 4096: "4m", 16384: "16m"}
    (text,) = series(*((f"both-{names[kib]}", kib, kib, at) for kib, at in points.items()))
    assert "7.00 MiB/s at 64 KiB" in text and "80.0 MiB/s at 16 MiB" in text
    assert "from 1 MiB on" in text


def test_series_take_the_size_that_varies_and_leave_out_what_belongs_to_none() -> None:
    texts = series(
        ("receiver-64k", None, 64.0, 7.0),
        ("sender-1m", 1024.0, None, 90.0),
        ("fixed-256k-4m", 4096.0, 256.0, 80.0),
        ("fixed-8m-default", None, 8192.0, 80.0),
        ("sender-64k", 64.0, None, None),
        ("default", None, None, 113.0),
        ("surface-16k-1m", 16.0, 1024.0, 2.0),
    )
    assert [text.partition(":")[0] for text in texts] == [
        SERIES[name] for name in ("sender", "receiver", "fixed-256k")
    ]
    sizes = ("at 1 MiB", "at 64 KiB", "at 4 MiB")
    assert all(size in text for text, size in zip(texts, sizes, strict=True))
