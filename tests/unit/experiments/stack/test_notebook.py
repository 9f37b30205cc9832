"""The tables of the notebook about the network stack, from real runs of a busy machine."""

from __future__ import annotations

from statistics import median

import pytest

from labs.experiments.stack.charts import work_per_request
from labs.experiments.stack.charts.chosen import places
from labs.experiments.stack.claims import parameter
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.effects import TOO_FEW
from labs.experiments.stack.narrative import describe, describe_run
from labs.experiments.stack.notebook import (
    article_figures,
    as_printed,
    effects,
    instructions,
    littles_law,
    ratio,
    settings,
)
from labs.experiments.stack.results import Results, article
from labs.read.claims.ledger import has_articles_parameters
from labs.studies.study import Study, study
from tests.real_runs import with_condition
from tests.stack_studies import RepeatedStudy, disturbed, stack_runs, undisturbed

VETH = "namespaces (veth)"
WITHOUT_RUNS = RepeatedStudy((), ())


def test_places_name_testbed_and_driver_and_number_equal_ones() -> None:
    found = places([undisturbed(), WITHOUT_RUNS, disturbed()])
    assert list(found) == [VETH, f"{VETH}, number 2"]


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
        (values,) = (one for one in of_kernel.values() if {over, under} <= one.keys())
        assert ratio(two_machines, over, under) == median(values[over]) / median(values[under])
    assert ratio(two_machines, "awake-c1", "polling-many") is None  # no machine has both


def test_work_of_two_machines_is_that_of_one(two_machines: Study) -> None:
    awake = next(run for run in two_machines.every if run.condition == "awake-c1")
    figure = work_per_request(two_machines, "polling-c1", "blocking-c1", "awake-c1")
    assert f"Linux {awake.kernel.release} · " in figure.layout.meta["caption"]
    figure = work_per_request(two_machines, "polling-c1", "blocking-c1", "polling-many")
    assert awake.kernel.release not in figure.layout.meta["caption"]


def test_effects_have_a_column_per_study_that_has_runs() -> None:
    table = effects(undisturbed(), WITHOUT_RUNS, disturbed())
    assert list(table)[3:] == [VETH, f"{VETH}, number 2"]
    rows = table.set_index("Condition")
    first, second = (dict(rows[name].items()) for name in list(rows)[2:])
    ours = ratio(undisturbed(), "blocking-c1", "polling-c1")
    # Equal repetitions have an interval without a width.
    assert first["blocking-c1"] == f"{ours:#.3g} ({ours:#.3g} to {ours:#.3g})"
    assert second["blocking-c1"] == TOO_FEW
    ignored = {said for name, said in first.items() if str(name).startswith("rx-usecs-")}
    assert ignored == {"not applied here"}


def test_settings_that_were_not_applied_are_first() -> None:
    table = settings(undisturbed())
    said = table["Applied"].tolist()
    assert said == sorted(said) and set(said) == {"no", "yes"}
    assert all(table.loc[table["Applied"] == "no", "Reason"])


def test_littles_law_is_connections_over_throughput() -> None:
    table = littles_law(undisturbed(), "polling-c1", "polling-many", "no-such-condition")
    assert table["Connections"].tolist() == [1, 100]
    many = Results(stack_runs()["polling-many"])
    assert many.requests_s is not None
    predicted = table["Connections / throughput (µs)"].tolist()[1]
    assert predicted == pytest.approx(100 * 1e6 / many.requests_s)
    # The closed loop of wrk: a request is counted while it waits for wrk's one thread, too, so the
    # two figures differ by what wrk does between a response and the next request.
    assert table["Measured mean (µs)"].tolist()[1] == pytest.approx(predicted, rel=0.5)


def test_article_figures_stand_beside_ours() -> None:
    table = article_figures(undisturbed(), WITHOUT_RUNS)
    rows = table.set_index(["Condition", "Figure"])
    one, many = (f"polling-{name}" for name in ("c1", "many"))
    theirs, ours = (dict(rows[place].items()) for place in ("Article", VETH))
    mean = "mean latency, as wrk prints it (µs)"
    assert theirs[one, mean] == 24.56
    assert ours[one, mean] == Results(stack_runs()[one]).printed_mean_us
    # 100 connections have 10.0 times the latency of one (A2.4).
    assert theirs[many, mean] / theirs[one, mean] == pytest.approx(10.0, abs=0.05)
    # Of 50 connections no figure is shown beside those of 100.
    run = with_condition(stack_runs()[many], settings={"connections": 50})
    assert parameter(run, "many_connections") == 50
    assert not has_articles_parameters(article(), run, "A2.3", parameter)
    assert has_articles_parameters(article(), stack_runs()[many], "A2.3", parameter)


def test_as_printed_has_lines_of_wrk_beside_the_article_s() -> None:
    """The lines of the article have the figures of its ledger, ours those of the results."""
    table = as_printed(undisturbed())
    figures = {name: row for claim in article().claims for name, row in claim.rows.items()}
    conditions = [command.removeprefix("wrk, ") for command in table["Command"]]
    assert [conditions.count(name) for name in dict.fromkeys(conditions)] == [5, 5, 5]
    for condition, theirs, ours in zip(
        conditions, table["Article"], table["This run"], strict=True
    ):
        said = Results(stack_runs()[condition])
        if theirs.startswith("Latency"):
            assert theirs.split()[1] == f"{figures[condition]['printed_mean_us']:.2f}us"
        if theirs.startswith("Requests/sec:"):
            assert float(theirs.split()[1]) == figures[condition]["requests_s"]
            assert float(ours.split()[1]) == pytest.approx(said.requests_s, rel=0.001)


def test_instructions_are_ratios_to_the_kernel_without_options() -> None:
    table = instructions()
    counts, ratios = table["Instructions per request"].tolist(), table["Ratio"].tolist()
    assert ratios[0] == 1
    assert ratios == pytest.approx([one / counts[0] for one in counts], abs=0.0001)


def test_describe_has_a_line_per_condition() -> None:
    lines = describe(undisturbed().results()).splitlines()
    assert len(lines) == len(stack_runs())
    (loop,) = [line for line in lines if line.startswith("- **open-120**")]
    assert "of 600 intended" in loop
    (nginx,) = [line for line in lines if line.startswith("- **nginx-c1**")]
    assert "CPU time" not in nginx


def test_describe_run_has_the_largest_latency() -> None:
    run = stack_runs()["blocking-c1"]
    found = Results(run)
    assert f"The largest latency of {found.requests:,} requests is" in describe_run(run)
