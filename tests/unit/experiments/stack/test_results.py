"""Results, effects and verdicts of the lab `stack`, from real runs of a busy machine."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from labs.experiments.stack.results import (
    COMPARED,
    Results,
    knobs,
    latencies,
    merged,
    percentile_us,
)
from labs.read.runs.raw_files import VEGETA, WRK
from labs.read.stats.repetitions import Repeated
from tests.real_runs import codes
from tests.stack_studies import LAB, undisturbed
from tests.stack_studies import stack_runs as runs

WRK_RUNS = ("polling-c1", "blocking-c1", "polling-many", "nginx-c1", "busy-poll-c1")


@pytest.mark.parametrize("condition", WRK_RUNS)
def test_percentiles_are_those_of_the_sorted_requests(condition: str) -> None:
    """Nearest rank: the least latency that the given share of all requests does not exceed."""
    run = runs()[condition]
    counts = run.read("client/wrk.txt", WRK).latencies_us
    every = sorted(value for value, count in counts.items() for _ in range(count))
    total = latencies(run)
    assert total.iloc[-1] == len(every)
    assert percentile_us(total, 100) == every[-1]
    assert percentile_us(total, 0) == every[0]
    for percent in ("50", "90", "99", "99.9", "99.95", "99.99", "100"):
        rank = math.ceil(Fraction(percent) * len(every) / 100)
        assert percentile_us(total, float(percent)) == every[rank - 1]
    assert Results(run).mean_us == pytest.approx(sum(every) / len(every), rel=1e-12)


def test_merged_latencies_are_those_of_all_requests() -> None:
    first, second = (runs()[name] for name in ("polling-c1", "polling-many"))
    total = merged((first, second, second))
    alone = [latencies(run) for run in (first, second)]
    counts = [up_to.iloc[-1] for up_to in alone]
    assert total.iloc[-1] == counts[0] + 2 * counts[1]
    assert percentile_us(total, 100) == max(percentile_us(up_to, 100) for up_to in alone)


def test_results_of_an_open_loop_count_from_the_intended_moment() -> None:
    run = runs()["open-120"]
    sent = sorted(hit.latency_ns // 1000 for hit in run.read("client/vegeta.csv", VEGETA))
    results = Results(run)
    assert results.p50_us is not None and results.p50_us >= 0.999 * sent[len(sent) // 2]


@pytest.mark.parametrize(
    ("condition", "factor", "effective"),
    [
        ("polling-rules-100-c1", "rules", True),
        ("rx-usecs-1-c1", "rx_usecs", False),
        ("irqs-deferred-c1", "deferred_irqs", True),
        ("irq-same-c1", "interrupts", False),  # a veth has no interrupts
        ("queues-2-c1", "queues", True),
        ("queues-2-c1", "threads", False),
        ("queues-2-c1", "pinning", False),
        ("busy-poll-c1", "busy_poll_us", True),
    ],
)
def test_knobs_say_what_was_applied(condition: str, factor: str, effective: bool) -> None:
    run = runs()[condition]
    (setting,) = (each for each in knobs(run) if each.factor == factor)
    assert setting.effective is effective and bool(setting.because) is not effective
    if not all(each.effective for each in knobs(run)):
        assert "not_applied" in codes(Results(run)) and Results(run).effective is False


def study() -> tuple[Repeated, ...]:
    return undisturbed().repeated


def test_effects_name_cpus_that_server_and_load_have_to_share() -> None:
    """The machine has two CPUs: enough for one thread and the load, too few for two threads. Here
    the base has the name of the condition that queues are compared with."""
    queues, base = undisturbed(("queues-2-c1", "polling-c1")).repeated
    if queues.condition != "queues-2-c1":
        queues, base = base, queues
    (effect,) = COMPARED.effects_of([queues, replace(base, condition="gro-c1")])
    assert effect.effective and effect.beside == knobs(queues.runs[0])[0].because != ""
    assert (
        effect.beside in COMPARED.describe_effect(effect)
        and effect.as_json()["beside"] == effect.beside
    )
    (waiting,) = COMPARED.effects_of(undisturbed(("blocking-c1", "polling-c1")).repeated)
    assert waiting.beside == ""


def test_effects_of_disturbed_runs_have_no_interval() -> None:
    disturbed = [Repeated(LAB, name, "p50_us", (run,) * 5, (), ()) for name, run in runs().items()]
    assert all(
        ratio is None
        for effect in COMPARED.effects_of(disturbed)
        for ratio in effect.ratios.values()
    )


def test_interactions_are_ratios_of_effects() -> None:
    """Four conditions, each with equal repetitions: the intervals have no width."""
    by_name = {some.condition: some for some in study()}
    names = ("polling-c1", "blocking-c1", "polling-many", "nginx-c1")
    four = [
        replace(by_name[name], condition=condition)
        for name, condition in zip(
            names, COMPARED.interactions["blocking and connections"], strict=True
        )
    ]
    (interaction,) = COMPARED.interactions_of(four)
    neither, first, second, both = (Results(runs()[name]).p50_us or 0 for name in names)
    assert interaction.ratio.middle == pytest.approx((both / second) / (first / neither))
    assert interaction.ratio.low == interaction.ratio.middle and interaction.matters
    assert COMPARED.describe_interaction(interaction).endswith("The two settings interact")
    assert not [*COMPARED.interactions_of(four[:3])]
