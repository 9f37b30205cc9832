"""Figures of the lab `stack`, from real runs of a busy machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.experiments.stack import charts
from labs.experiments.stack.charts.distribution import LOOKS, in_unit
from labs.experiments.stack.charts.effects import MARKED, PLACE_LOOKS, SHORT_NOT_APPLIED
from labs.experiments.stack.effects import SHARED, TOO_FEW
from labs.experiments.stack.open_loop import server
from labs.experiments.stack.results import Results
from tests.stack_studies import RepeatedStudy, disturbed, stack_runs, undisturbed

MANY = 100
"""The connections of conditions with many of them."""
FIGURES = {
    "effects": lambda study: charts.effects(study),
    "effects_of_many": lambda study: charts.effects(study, connections=MANY),
    "distribution": lambda study: charts.distribution(study, "polling-c1", "blocking-c1"),
    "loops": lambda study: charts.distribution(study, "closed", "open-50", "open-120"),
    "load": lambda study: charts.load_and_latency(study),
    "work": lambda study: charts.work_per_request(study, "polling-c1", "blocking-c1", "nginx-c1"),
}


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> list[str]:
    return [str(one.text) for one in figure.layout.annotations]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_a_text_and_a_table(name: str) -> None:
    figure: Figure = FIGURES[name](undisturbed())
    meta = figure.layout.meta
    assert meta["tell"] and meta["table"]["rows"] and "namespaces" in meta["caption"]
    assert all(len(trace.x) for trace in figure.data)


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"effects", "effects_of_many"}))
def test_figures_without_undisturbed_runs_say_so(name: str) -> None:
    figure: Figure = FIGURES[name](disturbed())
    assert not figure.data and "no runs" in figure.layout.meta["tell"]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_without_runs_say_so(name: str) -> None:
    figure: Figure = FIGURES[name](RepeatedStudy((), ()))
    assert not figure.data and "no runs" in figure.layout.meta["tell"]


def test_effects_of_disturbed_runs_say_so() -> None:
    figure = charts.effects(disturbed())
    assert any(TOO_FEW in text for text in texts(figure))
    assert not any(len(trace.x) for trace in figure.data)


def test_effects_draws_settings_without_effect_hollow() -> None:
    figure = charts.effects(undisturbed())
    median = named(figure)["median"]
    conditions = [text.split(" ")[0] for text in median.text]
    signs = dict(zip(conditions, median.marker.symbol, strict=True))
    assert signs["blocking-c1"] == "circle"
    ignored = [name for name, sign in signs.items() if sign == "circle-open"]
    assert any(name.startswith("rx-usecs-") for name in ignored)
    said = " ".join(texts(figure))
    assert all(f"<b>{name}</b>" in said for name in signs)
    assert said.count(f"<b>{SHORT_NOT_APPLIED}</b>") >= len(ignored)


def test_effects_marks_pairs_of_which_one_shares_a_cpu() -> None:
    """The machine has two CPUs: too few for two threads and the load. Here `polling-c1` also
    serves as `gro-c1`."""
    some = undisturbed(["queues-2-c1", "blocking-c1", "polling-c1"])
    (base,) = (one for one in some.repeated if one.condition == "polling-c1")
    gro = replace(base, condition="gro-c1")
    figure = charts.effects(RepeatedStudy(some.runs, (*some.repeated, gro)))
    marked = [text.split(" ")[0] for text in texts(figure) if text.endswith(f" {MARKED}")]
    assert marked == ["<b>queues-2-c1</b>"]
    assert f"{MARKED} {SHARED} (2 CPUs for 2" in figure.layout.meta["caption"]
    without = charts.effects(undisturbed(["blocking-c1", "polling-c1"]))
    assert SHARED not in without.layout.meta["caption"]


def test_figures_refuse_more_than_they_have_colours_for() -> None:
    names = [f"open-{number}" for number in range(len(LOOKS) + 1)]
    with pytest.raises(BadInput, match=f"at most {len(LOOKS)}"):
        charts.distribution(undisturbed(), *names)
    studies = [undisturbed(["polling-c1", "blocking-c1"]) for _ in range(len(PLACE_LOOKS) + 1)]
    with pytest.raises(BadInput, match=f"at most {len(PLACE_LOOKS)}"):
        charts.effects(*studies)


def test_effects_has_the_ratio_of_medians_and_both_ends_of_the_interval() -> None:
    figure = charts.effects(undisturbed())
    median = named(figure)["median"]
    place = next(n for n, text in enumerate(median.text) if text.startswith("blocking-c1"))
    over, under = (Results(stack_runs()[name]).p50_us for name in ("blocking-c1", "polling-c1"))
    assert over is not None and under is not None
    # Equal repetitions have an interval without a width.
    assert median.x[place] == over / under
    assert median.error_x.array[place] == median.error_x.arrayminus[place] == 0


def test_effects_are_separate_by_number_of_connections() -> None:
    one, many = (charts.effects(undisturbed(), connections=count) for count in (1, MANY))
    assert all("-many" not in text.partition("/")[0] for text in texts(one))
    assert any(text.startswith("<b>polling-many</b> / polling-c1") for text in texts(many))


def test_effects_with_other_studies_are_those_of_the_others() -> None:
    other = undisturbed(["polling-c1", "blocking-c1"])
    figure = charts.effects(undisturbed(), other)
    assert list(named(figure)) == [
        "namespaces (veth), median",
        "namespaces (veth), number 2, median",
    ]
    assert all(len(trace.x) == 1 for trace in figure.data)
    alone = charts.effects(undisturbed(), RepeatedStudy((), ()))
    assert not alone.data and "no study on another testbed" in alone.layout.meta["tell"]


def test_distribution_shows_no_percentile_that_chance_decides() -> None:
    """At least ten requests are slower than the last percentile."""
    figure = charts.distribution(undisturbed(), "closed", "polling-many")
    for trace in figure.data:
        count = int(trace.name.partition("n = ")[2].replace(",", ""))
        slower = count / trace.x[-1]
        assert slower >= 10
    assert list(figure.data[0].y) == sorted(figure.data[0].y)


def test_load_and_latency_has_the_closed_loop_below_the_capacity() -> None:
    """It cannot send more than the server answers; its open counterpart at 120 % of 500 per second
    (2 ms each) can."""
    figure = charts.load_and_latency(undisturbed())
    drawn = named(figure)
    known = server(undisturbed().repeated)
    assert known is not None and known.limit_per_s == 500
    assert max(drawn["open loop, median"].x) == 600
    assert list(drawn["closed loop, median"].x) == [pytest.approx(known.capacity_per_s)]
    assert known.capacity_per_s <= 500
    # 16 connections of 2 ms each.
    assert list(drawn["predicted for the closed loop"].y) == [32_000]


def test_load_and_latency_predicts_a_wait_beyond_the_capacity_alone() -> None:
    curve = named(charts.load_and_latency(undisturbed()))["predicted for even intervals"]
    known = server(undisturbed().repeated)
    assert known is not None
    below = [us for rate, us in zip(curve.x, curve.y, strict=True) if rate < known.capacity_per_s]
    assert set(below) == {known.service_us} and max(curve.y) > 10 * known.service_us


def test_work_per_request_has_a_panel_per_measure() -> None:
    figure = charts.work_per_request(undisturbed(), "polling-c1", "nginx-c1")
    assert len(figure.data) == 5
    said = texts(figure)
    # nginx reports no CPU time per request.
    assert "nginx-c1: <b>unknown</b>" in said
    softirqs = figure.data[4]
    assert list(softirqs.x) == pytest.approx([2, 2], abs=0.1)  # a request, a response


def test_in_unit_keeps_three_digits() -> None:
    assert [in_unit(us) for us in (7.0, 28.4, 1500, 2_067_455)] == [
        "7 µs",
        "28.4 µs",
        "1.5 ms",
        "2.07 s",
    ]
