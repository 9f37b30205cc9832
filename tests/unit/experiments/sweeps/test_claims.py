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
from labs.guest.units import bytes_carried
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.verdict import (
    BY_SOURCE,
    DIFFERS,
    HARDWARE,
    HOLDS,
    NOT_JUDGED,
    UNDECIDED,
    WRONG,
    Verdict,
)
from labs.read.runs.run import Run
from labs.studies.study import study as open_study
from labs.studies.verdicts import verdicts as verdict_table
from tests.made_verdicts import verdicts
from tests.real_runs import sweeps_study, with_condition, with_file

LAB = find("sweeps")
LEDGER = article()
JUDGES = judges_of(LAB)
# The fixture lacks `setsockopt-raised`, `implied...`, `advised...`, `overflow`: they are recorded.
ON_6_1 = {
    "A5.1": BY_SOURCE,
    "A5.2": HOLDS,
    "A5.3": BY_SOURCE,
    "A5.4a": HOLDS,
    "A5.4b": NOT_JUDGED,
    "A5.5": DIFFERS,
    "A5.6a": NOT_JUDGED,
    "A5.6b": NOT_JUDGED,
    "A5.7a": DIFFERS,
    "A5.7b": HARDWARE,
    "A5.8": HOLDS,
    "A5.9": HARDWARE,
    "A5.10": HARDWARE,
    "A5.11": NOT_JUDGED,
    "A5.12": NOT_JUDGED,
    "A5.13": NOT_JUDGED,
    "A5.14": HOLDS,
}


@cache
def judged(kernel: str = "6.1") -> Mapping[str, Verdict]:
    return {verdict.id: verdict for verdict in verdicts(LAB, sweeps_study(kernel).runs)}


def verdict_on(claim: str, runs: Mapping[str, Run]) -> Verdict:
    return judge(LEDGER.claim(claim), Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def named(*conditions: str) -> Mapping[str, Run]:
    return {name: sweeps_study().run(name) for name in conditions}


def test_verdicts_on_a_kernel() -> None:
    assert {id_: verdict.verdict for id_, verdict in judged().items()} == ON_6_1


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


def test_ledger_has_claims_about_conditions_of_size_small() -> None:
    assert [claim.id for claim in LEDGER.claims] == list(ON_6_1)
    there = {condition.name for condition in LAB.conditions(Sweeps())}
    for claim in LEDGER.claims:
        assert claim.conditions == () or Evidence(
            LAB,
            dict.fromkeys(there),  # type: ignore[arg-type]  # only the names are looked at
        ).matching(*claim.conditions), claim.id
    p = Sweeps()
    bdp_bytes = round(bytes_carried(p.rate_mbit, p.delay_ms))
    parameters = {"write_bytes": p.write_bytes, "bdp_bytes": bdp_bytes}
    assert parameters == dict(LEDGER.parameters)


def test_default_buffers_are_those_of_the_kernel() -> None:
    """tcp_rmem[1] is 128 KiB since 4.20. tcp_sndbuf_expand(): twice ten packets of 4,096 + 256."""
    assert judged()["A5.1"].measured == {"send": 20 * (4096 + 256) / 1024, "receive": 128}
    assert "19,800 bytes, 19.3 KiB" in judged()["A5.1"].reason
    assert "87,380 bytes, 85.3 KiB" in judged()["A5.1"].reason


def test_smallest_buffers_are_one_packet_and_two() -> None:
    """SOCK_MIN_RCVBUF 2,304 and SOCK_MIN_SNDBUF 4,608 bytes, on every kernel here."""
    for kernel in ("6.1", "7.2"):
        assert judged(kernel)["A5.3"].measured == {"send": 4.5, "receive": 2.25}
    assert "2,280 bytes or 2.23 KiB" in judged()["A5.3"].reason


@pytest.mark.parametrize(("kernel", "core_max"), [("6.1", 212_992), ("7.2", 4 << 20)])
def test_largest_buffers_are_twice_the_core_maximum(kernel: str, core_max: int) -> None:
    """net.core.wmem_max and rmem_max: 212,992 bytes until 6.17, 4 MiB since 6.18."""
    verdict = judged(kernel)["A5.4a"]
    assert verdict.measured == dict.fromkeys(("send", "receive"), 2 * core_max / 1024)
    assert "w-1g (socket buffer size too large" in verdict.reason


def test_largest_buffers_beyond_the_core_maximum_are_wrong() -> None:
    """Half of a request of 2^31 - 1 is more than twice 212,992."""
    run = sweeps_study().run("setsockopt")
    buffers = [
        {**row, "granted_bytes": row["requested_bytes"] // 2} for row in run.record["buffers"]
    ]
    half = replace(run, record={**run.record, "buffers": buffers})
    assert verdict_on("A5.4a", {**sweeps_runs(), "setsockopt": half}).verdict == WRONG


def test_rise_ends_at_the_bdp_for_both_buffers() -> None:
    """The BDP is 1 MB: with 1 MiB requested the link is all but full."""
    verdict = judged()["A5.7a"]
    assert isinstance(verdict.measured, float) and verdict.measured > 95


def test_fall_is_shown_without_a_verdict() -> None:
    """No computation takes time, so neither curve can fall."""
    for id_, runs in (("A5.6b", implied()), ("A5.7b", sweeps_runs())):
        verdict = verdict_on(id_, runs)
        assert verdict.verdict == HARDWARE
        assert isinstance(verdict.measured, float) and 0 <= verdict.measured < 1


def test_send_buffer_of_one_bdp_does_not_fill_the_link() -> None:
    """A third of it must be free before its writer is woken (sk_stream_write_space)."""
    verdict = judged()["A5.5"]
    assert isinstance(verdict.measured, float) and 80 < verdict.measured < 95


def test_best_pairs_need_no_more_than_the_receive_window() -> None:
    verdict = judged()["A5.9"]
    assert verdict.measured == {"receiver 256 KB": 256, "receiver 8 MB": 4096}
    assert "0.175 ms" in verdict.reason  # 256 KiB at 12 Gbit/s


def test_smaller_send_buffers_do_not_fill_the_path() -> None:
    """40 Gbit/s times 0.2 ms are computed; 256 KiB reach less than half of the line."""
    verdict = judged()["A5.8"]
    assert verdict.predicted == pytest.approx(1.0)
    assert verdict.measured is None
    assert "0.30 to 0.35 MB are in flight" in verdict.reason
    assert "256 KiB, the largest size below the BDP" in verdict.reason


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


@pytest.mark.parametrize("kernel", ["6.1", "7.2"])
def test_receive_buffer_is_best_from_256_kib_at_two_of_three_rtts(kernel: str) -> None:
    """BDPs of 150, 225 and 300 KB. Windows: three quarters of the granted size on 6.1
    (tcp_adv_win_scale 2), 196 KB for 128 KiB and 393 KB for 256 KiB; about two thirds on 7.2, 178
    and 357 KB."""
    verdict = verdict_on("A5.6a", implied(kernel))
    assert verdict.verdict == UNDECIDED
    assert verdict.measured == {"at 0.1 ms": 128, "at 0.15 ms": 256, "at 0.2 ms": 256}
    assert "links of 150, 225 and 300 Mbit/s and 8 ms" in verdict.reason


def test_receive_buffer_must_be_best_from_the_same_size_at_all_rtts() -> None:
    longest = implied()
    for rtt in ("100", "150"):
        for size in ("64k", "128k", "256k", "4m"):
            name = f"implied{rtt}-{size}"
            longest[name] = with_condition(longest[f"implied200-{size}"], name=name)
    assert verdict_on("A5.6a", longest).verdict == HOLDS
    claim = replace(LEDGER.claim("A5.6a"), expected=64)
    assert judge(claim, Evidence(LAB, longest), JUDGES, LEDGER.parameters).verdict == DIFFERS


@pytest.mark.parametrize("kernel", ["6.1", "7.2"])
def test_equal_choices_are_within_a_percent(kernel: str) -> None:
    """All three windows exceed 300 KB, the largest BDP."""
    verdict = verdict_on("A5.12", advised(kernel))
    measured: Any = verdict.measured
    assert verdict.verdict == HOLDS
    assert set(measured) == {"auto", "256k", "8m"} and min(measured.values()) > 99


def test_full_queue_drops_what_tcp_sends_later() -> None:
    """A device's error leaves a segment in the write queue (tcp_write_xmit())."""
    verdict = verdict_on("A5.13", recorded("overflow"))
    measured: Any = verdict.measured
    assert verdict.verdict == HOLDS
    assert measured["dropped"] > 0 and measured["counted as retransmitted"] == 0
    assert verdict_on("A5.13", {"overflow": sweeps_study().run("both-4m")}).verdict == NOT_JUDGED


def test_full_queue_fails_by_a_hole_or_by_an_error_of_the_program(tmp_path: Path) -> None:
    run = recorded("overflow")["overflow"]
    told = with_file(
        run, tmp_path, "server/iperf3.json", "the client has terminated", "Broken pipe"
    )
    assert verdict_on("A5.13", {"overflow": told}).verdict == WRONG
    short = with_condition(run, settings={"transfer_bytes": 1 << 30})
    assert verdict_on("A5.13", {"overflow": short}).verdict == WRONG


def test_write_returns_before_the_peer_has_the_data() -> None:
    """16 MiB were requested, so 32 MiB granted for payload and its overhead."""
    measured: Any = judged()["A5.14"].measured
    assert 16 < measured < 32
    run = with_condition(sweeps_study().run("both-16m"), settings={"write_bytes": 32 << 20})
    assert (
        verdict_on("A5.14", {"both-16m": run}).verdict == WRONG
    )  # a write that may not have returned


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


def test_beyond_the_largest_gives_twice_half_of_the_largest_int() -> None:
    """No request overflows since the kernel limits it to INT_MAX / 2 before it doubles it."""
    verdict = verdict_on("A5.4b", recorded("setsockopt-raised"))
    assert (verdict.verdict, verdict.factor) == (BY_SOURCE, None)
    assert verdict.measured == dict.fromkeys(("largest", "with -w 1G"), (2**31 - 2) / 1024)
    assert "0.1 and 0.2 ms would be 328 and 164 Mbit/s" in verdict.reason


@pytest.mark.parametrize("claim", ["A5.5", "A5.6a", "A5.7a", "A5.8"])
def test_few_sizes_are_not_judged(claim: str) -> None:
    few = {**named("sender-1m", "both-1m")}
    few |= {f"implied{rtt}-4m": sweeps_study().run("receiver-1m") for rtt in RTTS_US}
    verdict = verdict_on(claim, few)
    assert verdict.verdict == NOT_JUDGED and "fewer than 3 sizes" in verdict.reason


def test_missing_conditions_are_named_with_the_command() -> None:
    verdict = verdict_on("A5.3", {})
    assert verdict.verdict == NOT_JUDGED
    assert "labs run sweeps --only w-1k" in verdict.reason


def test_verdicts_of_two_kernels_are_joined() -> None:
    table = verdict_table(sweeps_study("6.1"), sweeps_study("7.2")).set_index("claim")
    witness: Any = table.loc["A5.3", "testbed"]
    assert "6.1." in witness and "7.2." in witness
    assert str(table.loc["A5.3", "verdict"]).startswith(BY_SOURCE)


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
