"""Results, effects and verdicts of the lab `stack`, from real runs of a busy machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labs.experiments.stack.claims import JUDGES
from labs.experiments.stack.effects import (
    INTERACTIONS,
    effects,
    in_words,
    interaction_in_words,
    interactions,
    settings_read_back,
)
from labs.experiments.stack.latencies import histogram, merged, settings_of
from labs.experiments.stack.narrative import compared
from labs.experiments.stack.results import article, knobs, results
from labs.read.claims.judge import verdicts
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Verdict
from labs.read.runs.archive import study_files, unpacked
from labs.read.runs.raw_files import VEGETA, WRK
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import Repeated, in_the_middle
from tests.real_runs import codes
from tests.stack_studies import LAB, undisturbed
from tests.stack_studies import stack_runs as runs

WRK_RUNS = ("polling-c1", "blocking-c1", "polling-many", "nginx-c1", "busy-poll-c1")


@pytest.mark.parametrize("condition", WRK_RUNS)
def test_histogram_has_the_percentiles_of_the_counts(condition: str) -> None:
    """Three digits: an HDR histogram is within 0.1 % of the value at that rank."""
    run = runs()[condition]
    counts = run.read("client/wrk.txt", WRK).latencies_us
    every = sorted(value for value, count in counts.items() for _ in range(count))
    found = histogram(run)
    assert found.get_total_count() == len(every)
    for percent in (50, 90, 99, 99.9):
        exact = every[max(0, -(-int(percent * len(every)) // 100) - 1)]
        near = every[max(0, round(percent * len(every) / 100) - 1)]
        value = found.get_value_at_percentile(percent)
        assert min(exact, near) * 0.999 <= value <= max(exact, near) * 1.001
    assert results(run).mean_us == pytest.approx(sum(every) / len(every), rel=1e-12)


def test_merged_histogram_is_that_of_all_requests() -> None:
    first, second = (runs()[name] for name in ("polling-c1", "polling-many"))
    total = merged((first, second, second))
    counts = [histogram(run).get_total_count() for run in (first, second)]
    assert total.get_total_count() == counts[0] + 2 * counts[1]
    assert total.get_max_value() == max(histogram(run).get_max_value() for run in (first, second))


def test_results_of_an_open_loop_beyond_the_capacity() -> None:
    """2 ms per request: 500 per second. 600 are intended in 1 s, so the last one waits at least
    100 requests of 2 ms: 0.2 s. On a busy machine vegeta falls behind by a few requests."""
    run = runs()["open-120"]
    found = results(run)
    assert found.rate_s == 600 and found.failed == 0
    assert found.requests is not None and 590 <= found.requests <= 600
    assert "sent_fewer" not in codes(found)
    assert found.requests_s is not None and found.requests_s <= 500
    assert found.max_us is not None and found.max_us >= 200_000


def test_results_of_an_open_loop_count_from_the_intended_moment() -> None:
    run = runs()["open-120"]
    sent = sorted(one.latency_ns // 1000 for one in run.read("client/vegeta.csv", VEGETA))
    found = results(run)
    assert found.p50_us is not None and found.p50_us >= 0.999 * sent[len(sent) // 2]


def test_results_of_a_closed_loop_cannot_wait_longer_than_its_connections() -> None:
    """16 connections, 2 ms each: none is sent before a response, so the median is near 32 ms, or
    longer by what the machine did meanwhile."""
    found, settings = results(runs()["closed"]), settings_of(runs()["closed"])
    assert (settings.connections, settings.work_us) == (16, 2000)
    assert found.p50_us is not None and found.p50_us >= 0.9 * 16 * 2000


def test_results_show_what_the_server_did() -> None:
    polling, blocking, nginx = (
        results(runs()[name]) for name in ("polling-c1", "blocking-c1", "nginx-c1")
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
def test_knobs_say_what_has_an_effect(condition: str, factor: str, effective: bool) -> None:
    run = runs()[condition]
    (one,) = (each for each in knobs(run) if each.factor == factor)
    assert one.effective is effective and bool(one.because) is not effective
    if not all(each.effective for each in knobs(run)):
        assert "no_effect" in codes(results(run)) and results(run).effective is False


def study() -> tuple[Repeated, ...]:
    return undisturbed().repeated


def test_effects_are_ratios_of_medians() -> None:
    found = {one.condition: one for one in effects(study())}
    for name, against in (("blocking-c1", "polling-c1"), ("polling-many", "polling-c1")):
        over, under = (results(runs()[which]) for which in (name, against))
        known = found[name].ratios["p50_us"]
        assert known is not None and over.p50_us is not None and under.p50_us is not None
        # Equal repetitions have an interval without a width.
        assert known.low == known.high == known.middle == over.p50_us / under.p50_us
    assert not found["rx-usecs-1-c1"].effective and found["polling-rules-100-c1"].effective
    assert "Operation not supported" in in_words(found["rx-usecs-1-c1"])


def test_effects_name_cpus_that_server_and_load_have_to_share() -> None:
    """The machine has two CPUs: enough for one thread and the load, too few for two threads. Here
    the base has the name of the condition that queues are compared with."""
    queues, base = undisturbed(("queues-2-c1", "polling-c1")).repeated
    if queues.condition != "queues-2-c1":
        queues, base = base, queues
    (found,) = effects([queues, replace(base, condition="gro-c1")])
    assert found.effective and found.beside == knobs(queues.runs[0])[0].because != ""
    assert found.beside in in_words(found) and found.as_json()["beside"] == found.beside
    (waiting,) = effects(undisturbed(("blocking-c1", "polling-c1")).repeated)
    assert waiting.beside == ""


def test_effects_of_disturbed_runs_have_no_interval() -> None:
    disturbed = [Repeated(LAB, name, "p50_us", (run,) * 5, (), ()) for name, run in runs().items()]
    assert all(ratio is None for one in effects(disturbed) for ratio in one.ratios.values())


def test_compared_as_json_names_every_setting() -> None:
    said = compared(study())
    assert {one["condition"] for one in said["settings"]} == set(runs())
    assert all(type(one["effective"]) is bool for one in said["settings"])
    assert len(list(settings_read_back(study()))) == len(said["settings"])


def judged(count: int = 5) -> dict[str, Any]:
    every = [run for run in runs().values() for _ in range(count)]
    return {one.id: one for one in verdicts(LAB, runs().values(), every)}


def test_verdicts_have_nine_entries_and_judge_no_absolute_time() -> None:
    found = judged()
    assert list(found) == [f"A2.{number}" for number in range(1, 10)]
    assert found["A2.1"].verdict == HARDWARE and found["A2.1"].measured
    assert all(
        "ratio" in one.unit or one.verdict in (HARDWARE, NOT_JUDGED) for one in found.values()
    )


def test_verdicts_on_disturbed_runs_are_not_judged() -> None:
    found = judged()
    assert {found[name].verdict for name in ("A2.2", "A2.4", "A2.7")} == {NOT_JUDGED}
    assert "not possible on this machine" in found["A2.2"].reason
    assert "undisturbed" in found["A2.4"].reason and "undisturbed" in found["A2.7"].reason


def test_verdict_on_what_must_be_known_lists_the_audit() -> None:
    """This machine shows neither turbo nor a governor, but hyper-threading and idle states."""
    reason = judged()["A2.8"].reason
    known, _, unknown = reason.partition("unknown: ")
    assert "haltpoll" in known and "no_turbo" in unknown and "scaling_governor" in unknown


class Undisturbed:
    """The runs as evidence in which the rule about disturbed runs does not apply, with a median
    that is `factor` times that of the run in the condition `name`, and repetitions that
    differ by `spread` of it."""

    def __init__(self, name: str, factor: float, spread: float = 0.001) -> None:
        self.name, self.factor, self.spread = name, factor, spread

    def run(self, name: str) -> Run:
        return runs()[name]

    def matching(self, *names: str) -> tuple[str, ...]:
        return tuple(name for name in names if name in runs())

    def ratio(self, over: str, under: str, column: str) -> Any:
        from labs.read.stats.repetitions import of_ratio

        base = 100.0
        high = [base * self.factor * (1 + step * self.spread) for step in range(-2, 3)]
        return of_ratio(high if over == self.name else [base] * 5, [base] * 5)


@pytest.mark.parametrize(
    ("claim", "factor", "verdict"),
    [
        ("A2.4", 10.0, HOLDS),  # the article's
        ("A2.4", 14.9, HOLDS),  # within 50 %
        ("A2.4", 16.0, DIFFERS),
        ("A2.4", 0.9, WRONG),
        ("A2.7", 1.37, HOLDS),
        ("A2.7", 2.0, DIFFERS),
        ("A2.9", 1.02, HOLDS),
        ("A2.9", 0.9, WRONG),
        ("A2.9", 1.0, NOT_JUDGED),
        ("A2.2", 1.19, NOT_JUDGED),  # veth ignores the setting
        ("A2.7", 1.0, DIFFERS),  # less than 25 % below 1.37
    ],
)
def test_judges_by_the_interval_of_a_ratio(claim: str, factor: float, verdict: str) -> None:
    (one,) = (each for each in article().claims if each.id == claim)
    assert one.judge is not None
    found = JUDGES[one.judge](one, Undisturbed(one.conditions[0], factor))  # type: ignore[arg-type]
    assert found.verdict == verdict


def test_judge_of_threads_needs_as_many_as_the_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with enough CPUs for two threads, where the article has eight."""
    monkeypatch.setattr(
        "labs.experiments.stack.claims.knobs",
        lambda run: tuple(replace(one, effective=True) for one in knobs(run)),
    )
    (claim,) = (each for each in article().claims if each.id == "A2.5")
    seen = Undisturbed("queues-2-c1", 1.02)
    found = JUDGES["ratio"](claim, seen)  # type: ignore[arg-type]
    assert found.verdict == NOT_JUDGED and "these runs have 2" in found.reason
    assert found.measured == pytest.approx(1.02, rel=0.01)
    two = replace(claim, arguments={**claim.arguments, "threads": 2})
    for factor, verdict in ((1.02, HOLDS), (0.95, WRONG)):  # "slightly slower"
        seen = Undisturbed("queues-2-c1", factor)
        assert JUDGES["ratio"](two, seen).verdict == verdict  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("factor", "spread", "verdict"),
    [
        (1.02, 0.001, HOLDS),
        (1.02, 0.05, NOT_JUDGED),  # 0.92 to 1.12: 5 % are allowed
        (1.2, 0.001, DIFFERS),
        (1.2, 0.1, NOT_JUDGED),
        (0.8, 0.001, DIFFERS),
    ],
)
def test_judge_of_no_effect_needs_an_interval_within_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, factor: float, spread: float, verdict: str
) -> None:
    """On a device that takes every delay: runs of a veth with settings read back as requested."""
    monkeypatch.setattr(
        "labs.experiments.stack.claims.knobs",
        lambda run: tuple(replace(one, effective=True) for one in knobs(run)),
    )
    (claim,) = (each for each in article().claims if each.id == "A2.3")
    claim = replace(claim, conditions=("rx-usecs-1-c1", "rx-usecs-0-c1"))
    seen = Undisturbed("rx-usecs-1-c1", factor, spread)
    found = JUDGES["delay"](claim, seen)  # type: ignore[arg-type]
    assert found.verdict == verdict and found.measured == pytest.approx(factor)


def test_judge_of_the_delay_reports_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device that takes every delay: runs of a veth with settings read back as requested."""
    monkeypatch.setattr(
        "labs.experiments.stack.claims.knobs",
        lambda run: tuple(replace(one, effective=True) for one in knobs(run)),
    )
    (claim,) = (each for each in article().claims if each.id == "A2.2")
    claim = replace(claim, arguments={**claim.arguments, "longer": ["polling-many"]})
    assert claim.judge == "delay"
    found = JUDGES["delay"](claim, Undisturbed("rx-usecs-1-c1", 1.19))  # type: ignore[arg-type]
    assert found.verdict == HOLDS and "polling-many: the ratio of medians is 1 " in found.reason


def test_interactions_are_ratios_of_effects() -> None:
    """Four conditions, each with equal repetitions: the intervals have no width."""
    by_name = {one.condition: one for one in study()}
    names = ("polling-c1", "blocking-c1", "polling-many", "nginx-c1")
    four = [
        replace(by_name[name], condition=condition)
        for name, condition in zip(names, INTERACTIONS["blocking and connections"], strict=True)
    ]
    (found,) = interactions(four)
    neither, first, second, both = (results(runs()[name]).p50_us or 0 for name in names)
    assert found.ratio.middle == pytest.approx((both / second) / (first / neither))
    assert found.ratio.low == found.ratio.middle and found.matters
    assert interaction_in_words(found).endswith("The two settings interact")
    assert interactions(four[:3]) == ()


@pytest.fixture(scope="module")
def on_machines() -> dict[str, list[Verdict]]:
    """The verdicts of the recorded studies on emulated machines, by claim."""
    data = Path(__file__).parents[4] / "data" / "stack-vm.tar.xz"
    found: dict[str, list[Verdict]] = {}
    for path in study_files(unpacked(data)):
        every = [open_run(folder) for folder in open_study(path).folders()]
        for one in verdicts(LAB, in_the_middle(LAB, every), every):
            found.setdefault(one.id, []).append(one)
    return found


def test_delay_that_is_not_shown_is_not_judged(on_machines: dict[str, list[Verdict]]) -> None:
    """rx-usecs 1 is shorter than a round trip of emulated machines: the interval includes 1."""
    said = [one for one in on_machines["A2.2"] if "includes 1" in one.reason]
    assert said and {one.verdict for one in on_machines["A2.2"]} == {NOT_JUDGED}


def test_threads_without_cpus_are_not_judged(on_machines: dict[str, list[Verdict]]) -> None:
    """Two machines with two CPUs each, on a host that has two."""
    assert {one.verdict for one in on_machines["A2.6"]} == {NOT_JUDGED}
    assert any("2 CPUs for 4" in one.reason for one in on_machines["A2.6"])


def test_blocking_on_emulated_machines_holds(on_machines: dict[str, list[Verdict]]) -> None:
    assert HOLDS in {one.verdict for one in on_machines["A2.7"]}
