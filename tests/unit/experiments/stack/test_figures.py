"""What notebook 05 shows of the lab `stack`, from real runs of a busy machine."""

from __future__ import annotations

from dataclasses import replace
from statistics import median as median_of
from typing import Any

import pytest
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.experiments.stack import figures
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.figures import article_figures, effects_table, in_unit, ratio
from labs.experiments.stack.results import COMPARED, Results, article, parameter, server
from labs.read.claims.ledger import has_articles_parameters
from labs.read.figures.effects import MARKED
from labs.read.figures.lines import LOOKS
from labs.read.stats.effects import TOO_FEW
from labs.read.stats.machines import places
from labs.studies.study import Study, study
from tests.real_runs import with_condition
from tests.stack_studies import RepeatedStudy, disturbed, stack_runs, undisturbed

MANY = 100
"""The connections of conditions with many of them."""
FIGURES = {
    "effects": lambda study: figures.effects(study),
    "effects_of_many": lambda study: figures.effects(study, connections=MANY),
    "distribution": lambda study: figures.distribution(study, "polling-c1", "blocking-c1"),
    "loops": lambda study: figures.distribution(study, "closed", "open-50", "open-120"),
    "load": lambda study: figures.load_and_latency(study),
    "work": lambda study: figures.work_per_request(study, "polling-c1", "blocking-c1", "nginx-c1"),
}


def named(figure: Figure) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def texts(figure: Figure) -> list[str]:
    return [str(note.text) for note in figure.layout.annotations]


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"effects", "effects_of_many"}))
def test_figures_without_undisturbed_runs_say_so(name: str) -> None:
    figure: Figure = FIGURES[name](disturbed())
    assert not figure.data and "no runs" in figure.layout.meta["tell"]


def test_effects_marks_pairs_of_which_one_shares_a_cpu() -> None:
    """The machine has two CPUs: too few for two threads and the load. Here `polling-c1` also
    serves as `gro-c1`."""
    some = undisturbed(["queues-2-c1", "blocking-c1", "polling-c1"])
    (base,) = (each for each in some.repeated if each.condition == "polling-c1")
    gro = replace(base, condition="gro-c1")
    figure = figures.effects(RepeatedStudy(some.runs, (*some.repeated, gro)))
    marked = [text.split(" ")[0] for text in texts(figure) if text.endswith(f" {MARKED}")]
    assert marked == ["<b>queues-2-c1</b>"]
    assert f"{MARKED} {COMPARED.beside_in_words} (2 CPUs for 2" in figure.layout.meta["caption"]
    without = figures.effects(undisturbed(["blocking-c1", "polling-c1"]))
    assert COMPARED.beside_in_words not in without.layout.meta["caption"]


def test_figures_refuse_more_than_they_have_colours_for() -> None:
    names = [f"open-{number}" for number in range(len(LOOKS) + 1)]
    with pytest.raises(BadInput, match=f"at most {len(LOOKS)}"):
        figures.distribution(undisturbed(), *names)
    studies = [undisturbed(["polling-c1", "blocking-c1"]) for _ in range(len(LOOKS) + 1)]
    with pytest.raises(BadInput, match=f"at most {len(LOOKS)}"):
        figures.effects(*studies)


def test_effects_with_other_studies_are_those_of_the_others() -> None:
    other = undisturbed(["polling-c1", "blocking-c1"])
    figure = figures.effects(undisturbed(), other)
    assert list(named(figure)) == [
        "namespaces (veth), median",
        "namespaces (veth), number 2, median",
    ]
    assert all(len(trace.x) == 1 for trace in figure.data)
    alone = figures.effects(undisturbed(), RepeatedStudy((), ()))
    assert not alone.data and "no study on another testbed" in alone.layout.meta["tell"]


def test_distribution_shows_no_percentile_that_chance_decides() -> None:
    """At least ten requests are slower than the last percentile."""
    figure = figures.distribution(undisturbed(), "closed", "polling-many")
    for trace in figure.data:
        count = int(trace.name.partition("n = ")[2].replace(",", ""))
        slower = count / trace.x[-1]
        assert slower >= 10
    assert list(figure.data[0].y) == sorted(figure.data[0].y)


def test_load_and_latency_has_the_closed_loop_below_the_capacity() -> None:
    """It cannot send more than the server answers; its open counterpart at 120 % of 500 per second
    (2 ms each) can."""
    figure = figures.load_and_latency(undisturbed())
    drawn = named(figure)
    theory = server(undisturbed().repeated)
    assert theory is not None and theory.limit_per_s == 500
    assert max(drawn["open loop, median"].x) == 600
    assert list(drawn["closed loop, median"].x) == [pytest.approx(theory.capacity_per_s)]
    assert theory.capacity_per_s <= 500
    # 16 connections of 2 ms each.
    assert list(drawn["predicted for the closed loop"].y) == [32_000]


def test_load_and_latency_predicts_a_wait_beyond_the_capacity_alone() -> None:
    curve = named(figures.load_and_latency(undisturbed()))["predicted for even intervals"]
    theory = server(undisturbed().repeated)
    assert theory is not None
    below = [us for rate, us in zip(curve.x, curve.y, strict=True) if rate < theory.capacity_per_s]
    assert set(below) == {theory.service_us} and max(curve.y) > 10 * theory.service_us


def test_in_unit_keeps_three_digits() -> None:
    assert [in_unit(us) for us in (7.0, 28.4, 1500, 2_067_455)] == [
        "7 µs",
        "28.4 µs",
        "1.5 ms",
        "2.07 s",
    ]


VETH = "namespaces (veth)"
WITHOUT_RUNS = RepeatedStudy((), ())


def test_places_name_testbed_and_driver_and_number_equal_ones() -> None:
    by_place = places([undisturbed(), WITHOUT_RUNS, disturbed()])
    assert list(by_place) == [VETH, f"{VETH}, number 2"]


def test_ratio_is_that_of_the_medians() -> None:
    over, under = (Results(stack_runs()[name]).p50_us for name in ("blocking-c1", "polling-c1"))
    assert over is not None and under is not None
    assert ratio(undisturbed(), "blocking-c1", "polling-c1") == over / under
    assert ratio(disturbed(), "blocking-c1", "polling-c1") is None
    assert ratio(undisturbed(), "blocking-c1", "no-such-condition") is None


@pytest.fixture(scope="module")
def two_machines() -> Study:
    """Recorded on two machines: `awake-c1` on the second one only."""
    names = ("polling-c1", "blocking-c1", "polling-many", "awake-c1")
    return study(Stack(testbed="recorded", only=",".join(names), duration_s=3))


def test_ratio_of_two_machines_is_that_of_one(two_machines: Study) -> None:
    of_kernel: dict[str, dict[str, list[float]]] = {}
    for run in two_machines.every:
        value = Results(run).p50_us
        assert value is not None
        of_kernel.setdefault(run.kernel.release, {}).setdefault(run.condition, []).append(value)
    assert len(of_kernel) == 2
    for over, under in (("polling-many", "polling-c1"), ("awake-c1", "blocking-c1")):
        (values,) = (
            values_of for values_of in of_kernel.values() if {over, under} <= values_of.keys()
        )
        assert ratio(two_machines, over, under) == median_of(values[over]) / median_of(
            values[under]
        )
    assert ratio(two_machines, "awake-c1", "polling-many") is None  # no machine has both


def test_effects_have_a_column_per_study_that_has_runs() -> None:
    table = effects_table(undisturbed(), WITHOUT_RUNS, disturbed())
    assert list(table)[3:] == [VETH, f"{VETH}, number 2"]
    rows = table.set_index("Condition")
    first, second = (dict(rows[name].items()) for name in list(rows)[2:])
    ours = ratio(undisturbed(), "blocking-c1", "polling-c1")
    # Equal repetitions have an interval without a width.
    assert first["blocking-c1"] == f"{ours:#.3g} ({ours:#.3g} to {ours:#.3g})"
    assert second["blocking-c1"] == TOO_FEW
    ignored = {text for name, text in first.items() if str(name).startswith("rx-usecs-")}
    assert ignored == {"not applied here"}


def test_article_figures_stand_beside_ours() -> None:
    table = article_figures(undisturbed(), WITHOUT_RUNS)
    rows = table.set_index(["Condition", "Figure"])
    single, many = (f"polling-{name}" for name in ("c1", "many"))
    theirs, ours = (dict(rows[place].items()) for place in ("Article", VETH))
    mean = "mean latency, as wrk prints it (µs)"
    assert theirs[single, mean] == 24.56
    assert ours[single, mean] == Results(stack_runs()[single]).printed_mean_us
    # 100 connections have 10.0 times the latency of one (A2.4).
    assert theirs[many, mean] / theirs[single, mean] == pytest.approx(10.0, abs=0.05)
    # Of 50 connections no figure is shown beside those of 100.
    run = with_condition(stack_runs()[many], settings={"connections": 50})
    assert parameter(run, "many_connections") == 50
    assert not has_articles_parameters(article(), run, "A2.3", parameter)
    assert has_articles_parameters(article(), stack_runs()[many], "A2.3", parameter)
