"""Article 5 judged by runs on two kernels, and by what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.sweeps.claims import JUDGES
from labs.experiments.sweeps.parameters import Sweeps
from labs.experiments.sweeps.results import article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, verdicts
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, Verdict
from labs.read.runs.run import Run
from labs.studies.verdicts import verdicts as verdict_table
from tests.real_runs import sweeps_study

LAB = find("sweeps")
LEDGER = article()
ON_6_1 = {
    "A5.1": DIFFERS,
    "A5.2": HOLDS,
    "A5.3": DIFFERS,
    "A5.4": HOLDS,
    "A5.5": HARDWARE,
    "A5.6": DIFFERS,
    "A5.7": HARDWARE,
    "A5.8": HOLDS,
    "A5.9": DIFFERS,
}


@cache
def judged(kernel: str = "6.1") -> Mapping[str, Verdict]:
    return {found.id: found for found in verdicts(LAB, sweeps_study(kernel).runs)}


def one(claim: str, runs: Mapping[str, Run]) -> Verdict:
    return judge(LEDGER.claim(claim), Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def named(*conditions: str) -> Mapping[str, Run]:
    return {name: sweeps_study().run(name) for name in conditions}


def test_verdicts_on_a_kernel() -> None:
    assert {id_: found.verdict for id_, found in judged().items()} == ON_6_1


def test_verdicts_have_a_reason_and_a_witness() -> None:
    for found in judged().values():
        assert found.reason and "\n" not in found.reason
        assert found.witness is not None and found.witness.testbed in ("virtual", "arithmetic")


def test_ledger_has_nine_claims_about_conditions_of_size_small() -> None:
    assert [claim.id for claim in LEDGER.claims] == list(ON_6_1)
    there = {condition.name for condition in LAB.conditions(Sweeps())}
    for claim in LEDGER.claims:
        assert claim.conditions == () or Evidence(
            LAB,
            dict.fromkeys(there),  # type: ignore[arg-type]  # only the names are looked at
        ).matching(*claim.conditions), claim.id
    assert {claim.judge for claim in LEDGER.claims} == set(JUDGES)
    own = Sweeps()
    assert {name: getattr(own, name) for name in LEDGER.parameters} == dict(LEDGER.parameters)


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
    found = judged(kernel)["A5.4"]
    assert found.measured == dict.fromkeys(("send", "receive"), 2 * core_max / 1024)
    assert "w-1g (socket buffer size too large" in found.reason


def test_rise_ends_at_the_bdp_for_both_buffers() -> None:
    """The BDP is 1 MB: with 1 MiB requested the link is all but full."""
    found = judged()["A5.7"]
    assert isinstance(found.measured, float) and found.measured > 95
    assert "computation takes no time here" in found.reason


def test_send_buffer_of_one_bdp_does_not_fill_the_link() -> None:
    """A third of it must be free before its writer is woken (sk_stream_write_space)."""
    found = judged()["A5.5"]
    assert isinstance(found.measured, float) and 80 < found.measured < 95


def test_best_pairs_need_no_more_than_the_receive_window() -> None:
    found = judged()["A5.9"]
    assert found.measured == {"receiver 256 KB": 256, "receiver 8 MB": 4096}
    assert (found.judged, found.figures) == (2, 3)
    assert "0.175 ms" in found.reason  # 256 KiB at 12 Gbit/s


def test_bdp_is_arithmetic() -> None:
    found = one("A5.8", {})
    assert (found.verdict, found.measured, str(found.witness)) == (HOLDS, 1.0, "arithmetic")


@pytest.mark.parametrize("claim", ["A5.5", "A5.6", "A5.7", "A5.9"])
def test_few_sizes_are_not_judged(claim: str) -> None:
    few = named("sender-1m", "receiver-1m", "both-1m", "fixed-256k-1m", "fixed-8m-1m")
    found = one(claim, few)
    assert found.verdict == NOT_JUDGED and "fewer than 3 sizes" in found.reason


def test_missing_conditions_are_named_with_the_command() -> None:
    found = one("A5.3", {})
    assert found.verdict == NOT_JUDGED
    assert "labs run sweeps --only w-1k" in found.reason


def test_verdicts_of_two_kernels_are_joined() -> None:
    table = verdict_table(sweeps_study("6.1"), sweeps_study("7.2")).set_index("claim")
    witness: Any = table.loc["A5.3", "testbed"]
    assert "6.1." in witness and "7.2." in witness
    assert str(table.loc["A5.3", "verdict"]).startswith(DIFFERS)
