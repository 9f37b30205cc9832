"""A batch as a notebook sees it: its table, what stands out, and what moved."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import labs
from labs.batches.report import Batch, ReportParameters, batch
from labs.errors import BadInput
from labs.read.batch_index import INDEX
from labs.read.runs.compare import CHANGED, EQUAL, IDENTICAL
from tests.index_rows import AXES, index_of

RATES, DELAYS = AXES["rate_mbit"], AXES["delay_ms"]


def cell(rate: float, delay: float, condition: str, **values: Any) -> dict[str, Any]:
    """A row at a point; its goodput is a tenth of the rate, unless it is given."""
    told = {"goodput_mib_s": rate / 10, "predicted_mean_mib_s": rate / 10, "digest": "d"}
    parameters = {"rate_mbit": rate, "delay_ms": delay}
    return {"parameters": parameters, "condition": condition, **told, **values}


def every(**changed: Any) -> list[dict[str, Any]]:
    """A row per point and condition."""
    points = product(DELAYS, RATES, ("default", "both"))
    return [cell(rate, delay, condition, **changed) for delay, rate, condition in points]


def of(path: Path, cells: list[dict[str, Any]], **head: Any) -> Batch:
    return Batch(index_of(path / INDEX, cells, **head))


def test_table_begins_with_the_varied_parameters(tmp_path: Path) -> None:
    report = of(tmp_path, every())
    assert list(report.table)[:5] == [*AXES, "condition", "status", "goodput_mib_s"]
    assert len(report.table.columns) == len(report.index.columns)
    assert list(report.results) == [
        *AXES,
        "condition",
        "goodput_mib_s",
        "predicted_mean_mib_s",
        "notes",
    ]
    assert report.axes == AXES and report.units["goodput_mib_s"] == "MiB/s"
    assert report.counts == {
        "points": 4,
        "rows": 8,
        "runs": 8,
        "made": 8,
        "missing": 0,
        "failed": 0,
        "damaged": 0,
    }


def test_best_and_worst_leave_out_what_means_nothing(tmp_path: Path) -> None:
    cells = every()
    cells[0] |= {"goodput_mib_s": 5000.0, "excluded": True}
    cells[1] |= {"goodput_mib_s": 400.0}
    cells[2] |= {"goodput_mib_s": 1.0}
    cells[3] |= {"goodput_mib_s": 9000.0, "status": "missing"}
    report = of(tmp_path, cells)
    best, worst = report.best(n=2), report.worst("goodput_mib_s", n=2)
    assert best["goodput_mib_s"].tolist() == [400, 100]
    assert (best["condition"][0], best["rate_mbit"][0]) == ("both", 100)
    assert worst["goodput_mib_s"].tolist() == [1, 10]


def test_best_of_a_time_is_the_smallest(tmp_path: Path) -> None:
    cells = [row | {"httping_ms": float(at)} for at, row in enumerate(every())]
    report = of(tmp_path, cells)
    assert report.best("httping_ms", 1)["httping_ms"].tolist() == [0]
    assert report.worst("httping_ms", 1)["httping_ms"].tolist() == [7]


def test_off_counts_half_and_double_alike(tmp_path: Path) -> None:
    cells = every()
    cells[0] |= {"predicted_mean_mib_s": 4 * cells[0]["goodput_mib_s"]}
    cells[1] |= {"predicted_mean_mib_s": cells[1]["goodput_mib_s"] / 3}
    cells[2] |= {"predicted_mean_mib_s": None}
    cells[3] |= {"steady_mib_s": 1.0, "predicted_mib_s": 9.0, "note_codes": "x not_settled"}
    cells[4] |= {"steady_mib_s": 10.0, "predicted_mib_s": 5.0, "note_codes": "x"}
    deviations = of(tmp_path, cells).off(n=4)
    assert deviations["ratio"].tolist() == pytest.approx([0.25, 3, 2, 1])
    assert deviations["figure"].tolist() == ["goodput_mib_s"] * 2 + [
        "steady_mib_s",
        "goodput_mib_s",
    ]
    assert deviations["measured"][0] == 10 and deviations["predicted"][0] == 40


def test_failures_keep_their_messages(tmp_path: Path) -> None:
    cells = every()
    cells[0] |= {"status": "failed", "message": "no boot"}
    cells[1] |= {"status": "damaged", "message": "changed"}
    cells[2] |= {"status": "missing"}
    report = of(tmp_path, cells)
    assert report.failures["message"].tolist() == ["no boot", "changed"]
    assert "5 made, 1 missing, 1 failed, 1 damaged" in report.words


def test_words_have_the_figures(tmp_path: Path) -> None:
    cells = every()
    cells[7] |= {"predicted_mean_mib_s": 50.0}
    words = of(tmp_path, cells).words
    for figure in ("4 points", "8 rows", "10.0 MiB/s", "100 MiB/s", "7 of 8", "2 times"):
        assert figure in words


def test_moved_names_results_and_digests(tmp_path: Path) -> None:
    earlier = every()
    now = [dict(row) for row in earlier]
    now[0] |= {"goodput_mib_s": 12.0, "digest": "e"}
    now[1] |= {"goodput_mib_s": 9.5, "digest": "e"}
    now[2] |= {"digest": "e"}
    now[3] |= {"status": "failed", "message": "x"}
    del now[-1]
    now.append(cell(100.0, 70.0, "default"))
    moved = of(tmp_path / "now", now).moved(of(tmp_path / "earlier", earlier))
    assert moved.counts == {
        IDENTICAL: 3,
        EQUAL: 1,
        CHANGED: 2,
        "not_made": 1,
        "only_here": 1,
        "only_earlier": 1,
    }
    assert moved.table["change, %"].tolist() == pytest.approx([20, -5])
    assert moved.table[["earlier", "now"]].values.tolist() == [[10, 12], [10, 9.5]]
    assert moved.table["result"].tolist() == ["goodput_mib_s"] * 2
    assert len(moved.digests) == 3


def test_moved_names_constants_that_differ(tmp_path: Path) -> None:
    batches = [
        of(
            tmp_path / str(size),
            [
                row | {"parameters": {**row["parameters"], "transfer_mib": size, "runs": str(size)}}
                for row in every()
            ],
        )
        for size in (1024, 4)
    ]
    moved = batches[0].moved(batches[1])
    assert moved.counts["only_here"] == moved.counts["only_earlier"] == 8
    assert moved.constants.values.tolist() == [["transfer_mib", 1024, 4]]
    assert "transfer_mib (1024 here, 4 earlier)" in repr(moved)
    assert len(batches[0].moved(batches[0]).constants) == 0


def test_moved_has_a_change_from_zero_first(tmp_path: Path) -> None:
    earlier, now = every(), every()
    now[0] |= {"goodput_mib_s": 12.0}
    earlier[1] |= {"goodput_mib_s": 0.0}
    now[2] |= {"bound": "window"}
    earlier[2] |= {"bound": "rate"}
    moved = of(tmp_path / "now", now).moved(of(tmp_path / "earlier", earlier))
    assert moved.table["earlier"].tolist() == [0, 10, "rate"]


@pytest.mark.parametrize(
    ("factor", "part"),
    [(1.004, "1.004 times"), (0.996, "0.996 times"), (1.0009, "All 8"), (1.296, "1.3 times")],
)
def test_words_have_enough_digits(tmp_path: Path, factor: float, part: str) -> None:
    cells = every()
    cells[3] |= {"goodput_mib_s": cells[3]["goodput_mib_s"] * factor}
    words = of(tmp_path, cells).words
    assert part in words and "1 times" not in words


def overnight(path: Path) -> Batch:
    """Rates and buffers that advance together, three delays, two kernels, two conditions."""
    kernels, delays = ("6.1", "7.2"), (10.0, 20.0, 50.0)
    pairs = ((100.0, 4.0), (1000.0, 8.0))
    axes = {"rate_mbit": RATES, "buffer_mib": (4.0, 8.0), "delay_ms": delays, "kernel": kernels}
    cells = []
    for (rate, buffer), delay, kernel, name in product(pairs, delays, kernels, ("default", "both")):
        row = cell(rate, delay, name, run_kernel=f"{kernel}.1", run_testbed="virtual")
        row["parameters"] |= {"buffer_mib": buffer, "kernel": kernel}
        cells.append(row)
    return of(path, cells, axes=axes)


def test_chart_of_parameters_that_advance_together(tmp_path: Path) -> None:
    figure = overnight(tmp_path).chart()
    assert len(figure.layout.meta["table"]["rows"]) == 24
    assert "buffer_mib with rate_mbit" in figure.layout.meta["caption"]


def test_chart_fixes_what_does_not_fit(tmp_path: Path) -> None:
    cells = [
        cell(rate, delay, name, run_kernel=f"{kernel}.1")
        | {
            "parameters": {
                "rate_mbit": rate,
                "delay_ms": delay,
                "buffer_mib": buffer,
                "kernel": kernel,
            }
        }
        for rate, delay, buffer, kernel, name in product(
            RATES, DELAYS, (4.0, 8.0), ("6.1", "7.2"), ("default", "both")
        )
    ]
    axes = {**AXES, "buffer_mib": (4.0, 8.0), "kernel": ("6.1", "7.2")}
    report = of(tmp_path, cells, axes=axes)
    figure = report.chart()
    assert len(figure.layout.meta["table"]["rows"]) == 16
    caption = figure.layout.meta["caption"]
    assert "kernel = 6.1; others: chart(kernel=...)" in caption and "7.2" not in caption
    for given in ({"x": "delay_ms"}, {"kernel": ["6.1", "7.2"]}):
        with pytest.raises(BadInput, match="does not fit"):
            report.chart(**given)


def test_moved_ignores_where_runs_are_kept_and_how_many(tmp_path: Path) -> None:
    other = [
        row | {"parameters": row["parameters"] | {"size": "full", "runs": "x"}} for row in every()
    ]
    moved = of(tmp_path / "now", every()).moved(of(tmp_path / "other", other))
    assert moved.counts[IDENTICAL] == 8 and len(moved.table) == len(moved.digests) == 0


def test_moved_without_an_earlier_batch(tmp_path: Path) -> None:
    moved = of(tmp_path, every()).moved("")
    assert moved.counts == {} and len(moved.table) == 0 and "earlier" in moved._repr_html_()


def test_equal_questions_are_compared_in_their_order(tmp_path: Path) -> None:
    twice = [cell(100.0, 10.0, "default", goodput_mib_s=value) for value in (1.0, 2.0)]
    moved = of(tmp_path / "now", twice).moved(of(tmp_path / "earlier", twice))
    assert moved.counts[IDENTICAL] == 2


def test_chart_draws_every_row(tmp_path: Path) -> None:
    figure = of(tmp_path, every()).chart()
    drawn = [trace for trace in figure.data if trace.mode == "markers"]
    assert sum(len(trace.x) for trace in drawn) == 8
    assert len(figure.layout.meta["table"]["rows"]) == 8
    of_both = of(tmp_path, every()).chart("goodput_mib_s", condition="both")
    assert len(of_both.layout.meta["table"]["rows"]) == 4


def test_chart_of_repetitions_has_their_medians(tmp_path: Path) -> None:
    cells = [
        cell(
            rate, 10.0, "both", goodput_mib_s=rate * factor, repetition=number, excluded=factor > 9
        )
        for rate in RATES
        for number, factor in enumerate((1.0, 2.0, 5.0, 10.0), start=1)
    ]
    report = of(tmp_path, cells)
    rows = report.chart().layout.meta["table"]["rows"]
    assert [row[-2] for row in rows] == ["200", "2000"]
    assert report.best(n=1)["goodput_mib_s"].tolist() == [5000]


def test_chart_of_many_values_is_a_heat_map(tmp_path: Path) -> None:
    values = [float(10 * number) for number in range(1, 13)]
    cells = [cell(rate, delay, "default") for rate in values for delay in values]
    axes = {"rate_mbit": tuple(values), "delay_ms": tuple(values)}
    figure = of(tmp_path, cells, axes=axes).chart()
    (shades,) = figure.data
    assert shades.type == "heatmap" and len(shades.z) == len(shades.z[0]) == 12
    assert shades.z[0][0] == 1 and shades.z[0][11] == 12


def test_heatmap_needs_one_row_per_cell(tmp_path: Path) -> None:
    report = of(tmp_path, every())
    with pytest.raises(BadInput, match="Restrict"):
        report.heatmap("goodput_mib_s", "rate_mbit", "delay_ms")
    figure = report.heatmap(x="rate_mbit", condition="both")
    assert [len(row) for row in figure.data[0].z] == [2, 2]
    assert len(figure.layout.meta["table"]["rows"]) == 4


@pytest.mark.parametrize("wrong", ["gooput_mib_s", "bound", "rate_mbit", "run_loss"])
def test_name_that_is_no_numeric_result_is_refused(tmp_path: Path, wrong: str) -> None:
    report = of(tmp_path, every())
    for use in (report.best, report.worst, report.chart, report.heatmap):
        with pytest.raises(BadInput, match=wrong):
            use(wrong)


def test_names_and_values_of_axes_are_checked(tmp_path: Path) -> None:
    report = of(tmp_path, every())
    for fixed in ({"rate_mbit": 5}, {"rate": 100.0}):
        with pytest.raises(BadInput):
            report.chart("goodput_mib_s", **fixed)
    with pytest.raises(BadInput, match="rate"):
        report.heatmap("goodput_mib_s", "rate", "delay_ms")


def test_batch_of_an_index_of_nothing_that_was_made(tmp_path: Path) -> None:
    report = of(tmp_path, every(status="missing"))
    assert len(report.results) == len(report.off()) == 0 and report.counts["missing"] == 8
    assert "8 rows: 8 missing" in report.words
    with pytest.raises(BadInput, match="headline"):
        report.chart()
    assert len(report.about) > 0 and "8 missing" in repr(report)


def test_example_has_three_rates_three_delays_and_four_kernels() -> None:
    report = batch()
    assert [len(values) for values in report.axes.values()] == [3, 3, 4]
    assert report.counts["made"] == report.counts["rows"] == 72
    assert report.off(1)["ratio"][0] == pytest.approx(1.009, abs=0.001)  # the largest deviation
    assert labs.batch is batch


def test_check_report_refuses_what_cannot_be_shown(tmp_path: Path) -> None:
    assert labs.check_report({}) == ReportParameters()
    of(tmp_path, every())
    given = {"INDEX": str(tmp_path), "EARLIER": str(tmp_path / INDEX), "COLUMN": "goodput_mib_s"}
    assert labs.check_report(given).index == str(tmp_path)
    for wrong in (
        {"INDEX": "gone"},
        {"EARLIER": "gone"},
        {"COLUMN": "goodput"},
        {"INDEX": 3},
        {"INDX": ""},
    ):
        with pytest.raises(BadInput):
            labs.check_report({**given, **wrong})
