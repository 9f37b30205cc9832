"""Article 2 judged: made studies in which each claim holds and fails, and the recorded ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from benchmarks.netfilter import measure
from labs.experiments.stack import claims
from labs.experiments.stack.claims import JUDGES
from labs.experiments.stack.results import article
from labs.read.audit.machine import audit
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import follow
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Finding, Verdict
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Interval, of_ratio
from tests.made_verdicts import verdicts
from tests.stack_studies import LAB, stack_runs

LEDGER = article()
THREADS = {"queues-2-c1": 8, "work-queues-2-many": 8}


class Made(Evidence):
    """A study in which `over` has `factor` times the figure of every other condition, in five
    repetitions that differ by `spread`, on a machine that refuses what `refused` says."""

    def __init__(self, over: str, factor: float, spread: float, refused: str | None = None) -> None:
        super().__init__(LAB, {})
        self.over, self.factor, self.spread, self.refused = over, factor, spread, refused
        names = dict.fromkeys(name for claim in LEDGER.claims for name in claim.conditions)
        self.rows = {name: self.row(name) for name in names}

    def run(self, name: str) -> Run:
        return stack_runs()["polling-c1"]

    def row(self, name: str) -> Mapping[str, Any]:
        figure = 100.0 * (self.factor if name == self.over else 1)
        return {
            **dict.fromkeys((*LAB.columns, "note_codes")),
            **dict.fromkeys(("p50_us", "interrupts"), figure),
            "threads": THREADS.get(name, 1),
            "refused_rx_usecs": self.refused,
        }

    def ratio(self, over: str, under: str, column: str) -> Interval | None:
        values = [100.0 * (1 + step * self.spread) for step in range(-2, 3)]
        high = [value * self.factor for value in values]
        return of_ratio(*(high if name == self.over else values for name in (over, under)))


def judged(id_: str, factor: float, spread: float = 0.001) -> Finding:
    claim = LEDGER.claim(id_)
    seen = Made(claim.conditions[0], factor, spread)
    return follow(claim, seen) if claim.judge is None else JUDGES[claim.judge](claim, seen)


FAILING = {
    "A2.3": (1.2, DIFFERS),
    "A2.4": (40.0, DIFFERS),  # two orders of magnitude
    "A2.5": (0.9, WRONG),  # faster, not slower
    "A2.6": (0.9, WRONG),
    "A2.7": (1.0, WRONG),
    "A2.8": (1.0, WRONG),  # the sleep of CPUs does not matter
    "A2.10": (1.5, WRONG),  # more interrupts
    "A2.11": (0.6, WRONG),  # five are slower
}
FIXED = ("A2.2", "A2.9", "A2.12")
"""Judged without the figure of a run, or never."""


@pytest.mark.parametrize(
    "claim", [claim for claim in LEDGER.claims if not claim.hardware and claim.id not in FIXED]
)
def test_every_claim_can_fail(claim: Claim) -> None:
    factor, verdict = FAILING[claim.id]
    assert judged(claim.id, factor).verdict == verdict


@pytest.mark.parametrize(
    ("claim", "factor", "spread", "verdict"),
    [
        ("A2.2", 1.19, 0.001, NOT_JUDGED),  # 1 is no delay
        ("A2.3", 1.02, 0.001, HOLDS),
        ("A2.3", 1.02, 0.05, NOT_JUDGED),  # 5 % are allowed
        ("A2.3", 0.8, 0.001, DIFFERS),
        ("A2.4", 10.0, 0.001, HOLDS),  # the article's
        ("A2.4", 16.8, 0.001, HOLDS),
        ("A2.4", 3.1, 0.001, DIFFERS),  # 10 is 3.16 times as much, and more
        ("A2.4", 0.9, 0.001, WRONG),
        ("A2.5", 1.02, 0.001, HOLDS),
        ("A2.5", 1.2, 0.001, DIFFERS),
        ("A2.6", 3.8, 0.001, HOLDS),  # eight threads
        ("A2.6", 8.1, 0.001, DIFFERS),  # more than eight threads can do
        ("A2.6", 1.1, 0.2, NOT_JUDGED),
        ("A2.7", 1.09, 0.01, HOLDS),
        ("A2.7", 3.17, 0.01, HOLDS),
        ("A2.7", 1.1, 0.1, NOT_JUDGED),
        ("A2.8", 3.0, 0.01, HOLDS),
        ("A2.10", 0.25, 0.01, HOLDS),
        ("A2.10", 0.95, 0.1, NOT_JUDGED),
        ("A2.11", 1.1, 0.01, HOLDS),
    ],
)
def test_judges_by_the_interval_of_a_ratio(
    claim: str, factor: float, spread: float, verdict: str
) -> None:
    assert judged(claim, factor, spread).verdict == verdict


def test_threads_of_another_number_than_the_article_are_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(THREADS, "queues-2-c1", 4)
    finding = judged("A2.5", 1.02)
    assert finding.verdict == NOT_JUDGED and "these runs have 4" in finding.reason
    assert finding.measured == pytest.approx(1.02, rel=0.01)


@pytest.mark.parametrize("id_", ["A2.2", "A2.3", "A2.10"])
def test_delay_that_the_device_refuses_is_not_judged(id_: str) -> None:
    claim = LEDGER.claim(id_)
    finding = follow(claim, Made(claim.conditions[0], 1.19, 0.001, "rx_usecs 1 (a veth)"))
    assert finding.verdict == NOT_JUDGED and finding.measured is None
    assert "not possible on this machine: rx_usecs 1 (a veth)" in finding.reason


def test_a_refused_delay_has_its_reason_and_no_latency() -> None:
    """The runs of polling-c1 set no delay; a veth refuses one."""
    runs = stack_runs()
    refused = LAB.results(runs["rx-usecs-1-c1"]).values
    assert refused["refused_rx_usecs"].startswith("rx_usecs 1 (")
    assert refused["delayed_p50_us"] is None
    applied = LAB.results(runs["polling-c1"]).values
    assert applied["refused_rx_usecs"] is None and applied["delayed_p50_us"] == applied["p50_us"]


def test_scaling_of_fewer_threads_than_the_article_is_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads reach 99 % of twice the throughput, the article's eight 48 % of eight times."""
    monkeypatch.setitem(THREADS, "work-queues-2-many", 2)
    finding = judged("A2.6", 1.973)
    assert finding.verdict == NOT_JUDGED and finding.measured == pytest.approx(1.973, rel=0.01)
    assert "48 % of 8" in finding.reason and "99 % of 2" in finding.reason


BASE = [10_000.0, 10_010.0, 9_990.0]


@pytest.mark.parametrize(
    ("id_", "option", "factor", "verdict"),
    [
        ("A2.9", "netfilter", 1.01, HOLDS),
        ("A2.9", "netfilter", 1.001, NOT_JUDGED),
        ("A2.9", "netfilter", 0.99, WRONG),
        ("A2.12", "retpoline", 1.01, HOLDS),
    ],
)
def test_options_of_the_kernel_are_judged_by_the_range_of_instructions(
    monkeypatch: pytest.MonkeyPatch, id_: str, option: str, factor: float, verdict: str
) -> None:
    """What a table in use costs is shown, and not judged."""
    counts = {option: [factor * count for count in BASE], "table": [2 * count for count in BASE]}
    monkeypatch.setattr(claims, "instructions", lambda: {"none": BASE, **counts})
    measured = JUDGES["compiled_in"](LEDGER.claim(id_), Made("", 1.0, 0.0))
    assert measured.verdict == verdict and isinstance(measured.measured, dict)
    assert measured.measured[option] == pytest.approx(factor)
    assert ("table" in measured.measured) == (id_ == "A2.9")


def test_options_of_the_kernel_are_those_that_the_benchmark_counts() -> None:
    """A2.9, A2.12: 85 and 477 instructions more per request, in the committed record."""
    counts = claims.instructions()
    assert set(counts) == set(measure.MACHINES)
    of_options = [claim for claim in LEDGER.claims if claim.judge == "compiled_in"]
    named = [name for claim in of_options for name in claim.arguments["kernels"]]
    assert sorted([*named, "none"]) == sorted(counts)
    more = {name: median(rounds) - median(counts["none"]) for name, rounds in counts.items()}
    assert more["netfilter"] == pytest.approx(85, abs=1)
    assert more["retpoline"] == pytest.approx(477, abs=1)
    for claim in of_options:
        finding = JUDGES["compiled_in"](claim, Made("", 1.0, 0.0))
        assert finding.verdict == HOLDS and finding.witness is not None
        assert finding.witness.testbed == "emulated"


def verdicts_on_disturbed() -> dict[str, Verdict]:
    """The verdicts on the fixture's runs, all of them disturbed."""
    runs = stack_runs()
    every = [run for run in runs.values() for _ in range(5)]
    return {verdict.id: verdict for verdict in verdicts(LAB, runs.values(), every)}


def test_verdicts_on_disturbed_runs_are_not_judged() -> None:
    table = verdicts_on_disturbed()
    of_runs = {
        verdict.verdict for name, verdict in table.items() if name not in ("A2.1", "A2.9", "A2.12")
    }
    assert of_runs == {NOT_JUDGED}
    assert "not possible on this machine" in table["A2.2"].reason
    assert "undisturbed" in table["A2.4"].reason and "undisturbed" in table["A2.7"].reason


def test_machine_without_idle_states_cannot_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "labs.experiments.stack.claims.audit",
        lambda raw: [
            replace(item, unknown="no cpuidle") if item.name == "cpu.idle_states" else item
            for item in audit(raw)
        ],
    )
    finding = judged("A2.8", 3.0)
    assert finding.verdict == HARDWARE and isinstance(finding.measured, dict)
    assert 3.0 not in finding.measured.values() and "unknown" in finding.measured.values()
    assert "needs a machine with idle states" in finding.reason
    asleep = judged("A2.11", 0.6)
    assert asleep.verdict == HARDWARE and isinstance(asleep.measured, dict)
    assert list(asleep.measured.values()) == ["unknown"]
