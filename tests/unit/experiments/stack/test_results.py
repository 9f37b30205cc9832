"""Results, effects and verdicts of the lab `stack`, from real runs of a busy machine."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from labs.experiments.stack.figures import compared
from labs.experiments.stack.results import COMPARED, Results, knobs, latencies, merged
from labs.experiments.stack.settings import Settings
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
    found = latencies(run)
    assert found.requests == len(every)
    assert found.max_us == every[-1]
    assert found.percentile_us(0) == every[0]
    for percent in ("50", "90", "99", "99.9", "99.95", "99.99", "100"):
        rank = math.ceil(Fraction(percent) * len(every) / 100)
        assert found.percentile_us(float(percent)) == every[rank - 1]
    assert Results(run).mean_us == pytest.approx(sum(every) / len(every), rel=1e-12)


def test_merged_latencies_are_those_of_all_requests() -> None:
    first, second = (runs()[name] for name in ("polling-c1", "polling-many"))
    total = merged((first, second, second))
    counts = [latencies(run).requests for run in (first, second)]
    assert total.requests == counts[0] + 2 * counts[1]
    assert total.max_us == max(latencies(run).max_us for run in (first, second))


def test_results_of_an_open_loop_beyond_the_capacity() -> None:
    """2 ms per request: 500 per second. 600 are intended in 1 s, so the last one waits at least
    100 requests of 2 ms: 0.2 s. On a busy machine vegeta falls behind by a few requests."""
    run = runs()["open-120"]
    found = Results(run)
    assert found.rate_s == 600 and found.failed == 0
    assert found.requests is not None and 590 <= found.requests <= 600
    assert "sent_fewer" not in codes(found)
    assert found.requests_s is not None and found.requests_s <= 500
    assert found.max_us is not None and found.max_us >= 200_000


def test_results_of_an_open_loop_count_from_the_intended_moment() -> None:
    run = runs()["open-120"]
    sent = sorted(one.latency_ns // 1000 for one in run.read("client/vegeta.csv", VEGETA))
    found = Results(run)
    assert found.p50_us is not None and found.p50_us >= 0.999 * sent[len(sent) // 2]


def test_results_of_a_closed_loop_cannot_wait_longer_than_its_connections() -> None:
    """16 connections, 2 ms each: none is sent before a response, so the median is near 32 ms, or
    longer by what the machine did meanwhile."""
    found, settings = Results(runs()["closed"]), runs()["closed"].settings_as(Settings)
    assert (settings.connections, settings.work_us) == (16, 2000)
    assert found.p50_us is not None and found.p50_us >= 0.9 * 16 * 2000


def test_results_show_what_the_server_did() -> None:
    polling, blocking, nginx = (
        Results(runs()[name]) for name in ("polling-c1", "blocking-c1", "nginx-c1")
    )
    assert polling.polls is not None and blocking.polls is not None
    assert polling.polls > 2 > blocking.polls >= 1
    assert nginx.polls is None and nginx.cpu_us is None
    assert polling.received_softirqs == pytest.approx(2, abs=0.1)  # a request, a response


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
    (one,) = (each for each in knobs(run) if each.factor == factor)
    assert one.effective is effective and bool(one.because) is not effective
    if not all(each.effective for each in knobs(run)):
        assert "not_applied" in codes(Results(run)) and Results(run).effective is False


def study() -> tuple[Repeated, ...]:
    return undisturbed().repeated


def test_effects_are_ratios_of_medians() -> None:
    found = {one.condition: one for one in COMPARED.effects_of(study())}
    for name, against in (("blocking-c1", "polling-c1"), ("polling-many", "polling-c1")):
        over, under = (Results(runs()[which]) for which in (name, against))
        known = found[name].ratios["p50_us"]
        assert known is not None and over.p50_us is not None and under.p50_us is not None
        # Equal repetitions have an interval without a width.
        assert known.low == known.high == known.middle == over.p50_us / under.p50_us
    assert not found["rx-usecs-1-c1"].effective and found["polling-rules-100-c1"].effective
    assert "Operation not supported" in COMPARED.describe_effect(found["rx-usecs-1-c1"])


def test_effects_name_cpus_that_server_and_load_have_to_share() -> None:
    """The machine has two CPUs: enough for one thread and the load, too few for two threads. Here
    the base has the name of the condition that queues are compared with."""
    queues, base = undisturbed(("queues-2-c1", "polling-c1")).repeated
    if queues.condition != "queues-2-c1":
        queues, base = base, queues
    (found,) = COMPARED.effects_of([queues, replace(base, condition="gro-c1")])
    assert found.effective and found.beside == knobs(queues.runs[0])[0].because != ""
    assert (
        found.beside in COMPARED.describe_effect(found)
        and found.as_json()["beside"] == found.beside
    )
    (waiting,) = COMPARED.effects_of(undisturbed(("blocking-c1", "polling-c1")).repeated)
    assert waiting.beside == ""


def test_effects_of_disturbed_runs_have_no_interval() -> None:
    disturbed = [Repeated(LAB, name, "p50_us", (run,) * 5, (), ()) for name, run in runs().items()]
    assert all(
        ratio is None for one in COMPARED.effects_of(disturbed) for ratio in one.ratios.values()
    )


def test_compared_as_json_names_every_setting() -> None:
    said = compared(study())
    assert {one["condition"] for one in said["settings"]} == set(runs())
    assert all(type(one["effective"]) is bool for one in said["settings"])
    assert len(list(COMPARED.settings_of(study()))) == len(said["settings"])


def test_interactions_are_ratios_of_effects() -> None:
    """Four conditions, each with equal repetitions: the intervals have no width."""
    by_name = {one.condition: one for one in study()}
    names = ("polling-c1", "blocking-c1", "polling-many", "nginx-c1")
    four = [
        replace(by_name[name], condition=condition)
        for name, condition in zip(
            names, COMPARED.interactions["blocking and connections"], strict=True
        )
    ]
    (found,) = COMPARED.interactions_of(four)
    neither, first, second, both = (Results(runs()[name]).p50_us or 0 for name in names)
    assert found.ratio.middle == pytest.approx((both / second) / (first / neither))
    assert found.ratio.low == found.ratio.middle and found.matters
    assert COMPARED.describe_interaction(found).endswith("The two settings interact")
    assert COMPARED.interactions_of(four[:3]) == ()
