"""A study at every combination of values: its points, table, links and chart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import labs
from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.read.result_row import UNUSED
from labs.read.unused_parameters import unused_axes
from labs.studies.grid import Grid, Point, varied_points
from labs.studies.study import Study
from tests.real_runs import real, with_condition

BUFFERS = find("buffers")
RECORDED = Buffers(testbed="recorded", only="both")


@pytest.fixture(scope="module")
def grid() -> Grid:
    return labs.study(RECORDED, over={"delay_ms": [201, 200]})


def test_study_over_recorded_points_tells_those_that_are_lacking(grid: Grid) -> None:
    assert list(grid.studies) == [(201.0,), (200.0,)]
    assert grid.studies[200,].conditions == ("both",) and not grid.studies[201,].runs
    (lacking,) = grid.lacking.to_dict("records")
    assert lacking["delay_ms"] == 201 and "DELAY_MS = 201" in lacking["lacks"]
    assert [type(error) for error in grid.errors] == [BadInput]
    assert "2 points, 1 without runs" in repr(grid)


def test_results_begin_with_the_varied_parameters(grid: Grid) -> None:
    table = grid.results()
    results = labs.study(RECORDED).results()
    assert list(table) == ["delay_ms", *results]
    assert table["delay_ms"].tolist() == [200]
    assert table["goodput_mib_s"].tolist() == results["goodput_mib_s"].tolist()


def test_results_rename_columns_of_the_same_name() -> None:
    """The measured rate of a run has the name of the parameter."""
    grid = labs.study(RECORDED, over={"rate_mbit": [1000]})
    (row,) = grid.results().to_dict("records")
    assert row["rate_mbit"] == 1000
    assert row["run_rate_mbit"] == labs.study(RECORDED).results()["rate_mbit"][0]


def test_study_over_points_that_all_lack_is_the_first_error() -> None:
    with pytest.raises(BadInput, match="DELAY_MS = 201"):
        labs.study(RECORDED, over={"delay_ms": [201, 202]})


def test_study_over_nothing_is_one_point() -> None:
    grid = labs.study(RECORDED, over={})
    assert [point.values for point in grid.points] == [{}]
    assert len(grid.results()) == 1
    assert grid.chart().data[0].y == (grid.results()["goodput_mib_s"][0],)


def test_study_over_kernels_of_the_parameters() -> None:
    several = replace(RECORDED, kernel="6.1,5.4")
    grid = labs.study(several, over={"delay_ms": [200]})
    assert list(grid.studies) == [(200.0, "6.1"), (200.0, "5.4")]
    assert grid.lacking["kernel"].tolist() == ["5.4"]
    assert grid.results()["run_kernel"].str.startswith("6.1.").all()


@pytest.mark.parametrize("testbed", ["namespaces", "vagrant"])
def test_kernel_of_a_machine_cannot_be_varied(testbed: str) -> None:
    with pytest.raises(BadInput, match="has a kernel of its own"):
        varied_points(Buffers(testbed=testbed), {"kernel": ["6.1", "7.2"]})


def own_link() -> Grid:
    """Two points with `both`, and with `near`, whose delay is its own, so it is the same run."""
    base = real("captured")
    near = with_condition(base, name="near", link={"delay_ms": 0.6})
    points = []
    for delay_ms in (40.0, 80.0):
        both = with_condition(base, link={"delay_ms": delay_ms})
        both = replace(both, record={**both.record, "key": f"{delay_ms:064.0f}"})
        p = Buffers(only="both,near", delay_ms=delay_ms)
        study = Study(p, (both, near), Path("runs"), None, True, lab=BUFFERS)
        points.append(Point({"delay_ms": delay_ms}, study))
    return Grid(Buffers(only="both,near"), {"delay_ms": (40.0, 80.0)}, tuple(points), BUFFERS)


def test_condition_with_a_link_of_its_own_is_the_same_run() -> None:
    grid = own_link()
    assert grid.same == {"near": ["delay_ms"]}
    table = grid.results()
    near = table["condition"] == "near"
    assert near.tolist() == [False, True, False, True]
    assert table["notes"].str.contains("the same run for every delay_ms").equals(near)
    assert all(UNUSED in codes.split() for codes in table[near]["note_codes"])
    links = grid.link
    assert list(links)[:2] == ["delay_ms", "Condition"]
    assert links["Note"].str.contains("the same run").tolist() == [False, True, False, True]
    assert "near: the same run for every delay_ms" in grid.chart().layout.meta["caption"]


def test_unused_axes_of_conditions_that_use_one_of_two() -> None:
    varied, points = varied_points(
        Buffers(only="near,both"), {"rate_mbit": [5, 10], "delay_ms": [10, 50], "seed": [1, 2]}
    )
    assert unused_axes(BUFFERS, points, varied) == {"near": ["delay_ms"]}


def test_chart_draws_the_headline_figure() -> None:
    figure = own_link().chart()
    assert "Goodput (MiB/s)" in figure.layout.yaxis.title.text
    assert [trace.name for trace in figure.data if trace.showlegend] == [
        "both",
        "near",
        "predicted",
    ]
    assert list(figure.data[-1].x) == [40, 80]


def test_chart_of_one_condition_and_another_column() -> None:
    figure = own_link().chart("rtt_ms", condition="both", delay_ms=[40])
    assert [list(trace.x) for trace in figure.data] == [[40]]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"column": "goodput"}, "did you mean goodput_mib_s"),
        ({"x": "rate_mbit"}, "rate_mbit does not vary"),
        ({"delay": 40}, "did you mean delay_ms"),
        ({"delay_ms": 50}, "delay_ms has no value 50; allowed: 40, 80"),
        ({"condition": "bth"}, "condition has no value bth"),
    ],
)
def test_chart_refuses_in_one_line(given: dict[str, object], part: str) -> None:
    with pytest.raises(BadInput) as caught:
        own_link().chart(**given)  # type: ignore[arg-type]
    assert part in str(caught.value) and "\n" not in str(caught.value)
