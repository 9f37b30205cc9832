"""Article 5 judged by runs on two kernels, and by what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.sweeps.conditions import Parameters as Sweeps
from labs.experiments.sweeps.results import article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED, WRONG, Verdict
from labs.read.runs.run import Run
from labs.studies.study import study as open_study
from tests.real_runs import sweeps_study, with_condition, with_file

LAB = find("sweeps")
LEDGER = article()
JUDGES = judges_of(LAB)


def verdict_on(claim: str, runs: Mapping[str, Run]) -> Verdict:
    return judge(LEDGER.claim(claim), Evidence(LAB, runs), JUDGES, LEDGER.parameters)


@pytest.mark.parametrize("id_", ["A5.5", "A5.7a", "A5.8"])
def test_verdicts_on_another_bdp_are_not_given(id_: str) -> None:
    """30 Mbit per RTT are 3,750,000 bytes; the article's BDP is 1,000,000."""
    runs = {
        name: with_condition(run, link={"rate_mbit": 300, "delay_ms": 100})
        for name, run in ((run.condition, run) for run in sweeps_study().runs)
    }
    verdict = verdict_on(id_, runs)
    assert (verdict.verdict, verdict.measured) == (NOT_JUDGED, None)
    assert verdict.reason.endswith("bdp_bytes 3750000, not 1000000")


def test_largest_buffers_beyond_the_core_maximum_are_wrong() -> None:
    """Half of a request of 2^31 - 1 is more than twice 212,992."""
    run = sweeps_study().run("setsockopt")
    buffers = [
        {**row, "granted_bytes": row["requested_bytes"] // 2} for row in run.record["buffers"]
    ]
    half = replace(run, record={**run.record, "buffers": buffers})
    assert verdict_on("A5.4a", {**sweeps_runs(), "setsockopt": half}).verdict == WRONG


RTTS_US = ("100", "150", "200")


def sweeps_runs() -> dict[str, Run]:
    return {run.condition: run for run in sweeps_study().runs}


def implied(kernel: str = "6.1") -> dict[str, Run]:
    """The runs at the BDPs of the article's best goodput."""
    sizes = [f"implied{rtt}-{size}" for rtt in RTTS_US for size in ("64k", "128k", "256k", "4m")]
    return dict(recorded(*sizes, kernel=kernel))


def advised(kernel: str = "6.1") -> dict[str, Run]:
    sizes = [f"advised{rtt}-{size}" for rtt in RTTS_US for size in ("auto", "256k", "8m")]
    return dict(recorded(*sizes, kernel=kernel))


@cache
def recorded(*conditions: str, kernel: str = "6.1") -> Mapping[str, Run]:
    study = open_study(Sweeps(testbed="recorded", kernel=kernel, only=",".join(conditions)))
    return {run.condition: run for run in study.runs}


def test_receive_buffer_must_be_best_from_the_same_size_at_all_rtts() -> None:
    longest = implied()
    for rtt in ("100", "150"):
        for size in ("64k", "128k", "256k", "4m"):
            name = f"implied{rtt}-{size}"
            longest[name] = with_condition(longest[f"implied200-{size}"], name=name)
    assert verdict_on("A5.6a", longest).verdict == HOLDS
    claim = replace(LEDGER.claim("A5.6a"), expected=64)
    assert judge(claim, Evidence(LAB, longest), JUDGES, LEDGER.parameters).verdict == DIFFERS


def test_full_queue_fails_by_a_hole_or_by_an_error_of_the_program(tmp_path: Path) -> None:
    run = recorded("overflow")["overflow"]
    told = with_file(
        run, tmp_path, "server/iperf3.json", "the client has terminated", "Broken pipe"
    )
    assert verdict_on("A5.13", {"overflow": told}).verdict == WRONG
    short = with_condition(run, settings={"transfer_bytes": 1 << 30})
    assert verdict_on("A5.13", {"overflow": short}).verdict == WRONG


def test_by_source_needs_every_digit_of_the_article() -> None:
    for id_, name in (("A5.1", "receive"), ("A5.3", "send")):
        claim = LEDGER.claim(id_)
        expected = {**claim.figures, name: claim.figures[name] + 0.1}
        verdict = judge(
            replace(claim, expected=expected),
            Evidence(LAB, sweeps_runs()),
            JUDGES,
            LEDGER.parameters,
        )
        assert (claim.judge, verdict.verdict) == (claim.judge, DIFFERS)


def whole_study() -> dict[str, Run]:
    """The runs of size small."""
    every = {run.condition: run for run in sweeps_study().runs}
    every |= {**implied(), **advised(), **recorded("setsockopt-raised", "overflow")}
    return every


@pytest.mark.parametrize(("claim", "series"), [("A5.5", "sender"), ("A5.7a", "both")])
def test_claims_on_a_slow_rise_can_hold(claim: str, series: str) -> None:
    """The sizes up to the BDP with the goodput of the smallest one."""
    runs = whole_study()
    slow = runs["both-16k"]
    sizes = {"64k": 64, "256k": 256, "1m": 1024}
    made = {
        f"{series}-{size}": with_condition(
            slow, name=f"{series}-{size}", settings={"window_kib": 0, "sndbuf_kib": kib}
        )
        for size, kib in sizes.items()
    }
    assert verdict_on(claim, {**runs, **made}).verdict == HOLDS


def test_claim_on_an_overflow_can_hold() -> None:
    """1 GiB that was granted the minimum, as in the article's kernel."""
    run = recorded("setsockopt-raised")["setsockopt-raised"]
    buffers = [
        {**row, "granted_bytes": 2048} if row["requested_bytes"] == 1 << 30 else row
        for row in run.record["buffers"]
    ]
    old = replace(run, record={**run.record, "buffers": buffers})
    verdict = verdict_on("A5.4b", {"setsockopt-raised": old})
    measured: Any = verdict.measured
    assert verdict.verdict == HOLDS and measured["with -w 1G"] == 2
