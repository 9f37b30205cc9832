"""Article 1 judged by real runs of two kernels, and by what they cannot say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.errors import BadInput
from labs.experiments.buffers.claims import JUDGES
from labs.experiments.buffers.results import article, results
from labs.read.claims.evidence import Evidence, runs_of
from labs.read.claims.judge import judge, verdicts
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Verdict, Witness
from labs.read.runs.run import Run
from tests.real_runs import with_link

FOLDER = Path(__file__).parents[3] / "fixtures" / "claims"
LAB = find("buffers")
LEDGER = article()
HELD_6_5 = "held until kernel 6.5"


@cache
def study(kernel: str) -> Mapping[str, Run]:
    """The runs of that kernel by condition."""
    return {run.condition: run for run in runs_of(LAB, FOLDER / f"{kernel}.tar.xz")}


@cache
def judged(kernel: str) -> Mapping[str, Verdict]:
    return {found.id: found for found in verdicts(LAB, study(kernel).values())}


def one(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    """The verdict on one claim from these runs."""
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def only(*names: str, kernel: str = "6.1") -> dict[str, Run]:
    return {name: study(kernel)[name] for name in names}


def said_otherwise(run: Run, **said: Any) -> Run:
    """The run as if its run.json said something else; its files stay as they are."""
    return dataclasses.replace(run, said={**run.said, **said})


# What the article's numbers come to. On 6.1 they are the article's own kernels' physics, without
# a machine in the way: hence the factors of A1.2, A1.8 and A1.9, all at the line's 114.0 MiB/s.
ON_6_1 = {
    "A1.1": HARDWARE,
    "A1.2": DIFFERS,
    "A1.3": HOLDS,
    "A1.4": HOLDS,
    "A1.5": WRONG,
    "A1.6": HOLDS,
    "A1.7": HOLDS,
    "A1.8": DIFFERS,
    "A1.9": DIFFERS,
    "A1.10": WRONG,
    "A1.11": HELD_6_5,
    "A1.12": HOLDS,
    "A1.13": "held until kernel 6.15",
    "A1.14": HOLDS,
    "A1.15": HOLDS,
    "A1.16": HOLDS,
    "A1.17": HOLDS,
    "A1.18": HOLDS,
}
# From 6.6 on more of a receive buffer is window: A1.7 and A1.12 are no longer so.
ON_6_12 = {**ON_6_1, "A1.7": HELD_6_5, "A1.12": HELD_6_5}


def test_verdicts_on_6_1() -> None:
    assert {id_: found.verdict for id_, found in judged("6.1").items()} == ON_6_1


def test_verdicts_on_6_12() -> None:
    found = {
        id_: found.verdict for id_, found in judged("6.12").items() if found.verdict != NOT_JUDGED
    }
    assert found == {id_: ON_6_12[id_] for id_ in found}
    assert {"A1.4", "A1.5", "A1.7", "A1.10", "A1.11", "A1.12", "A1.13"} <= set(found)


@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_verdicts_have_a_reason_and_a_witness(kernel: str) -> None:
    for found in judged(kernel).values():
        assert found.reason and "\n" not in found.reason
        if found.id == "A1.18":
            assert str(found.witness) == "arithmetic"
        elif found.verdict != NOT_JUDGED and (found.id != "A1.1" or kernel == "6.1"):
            assert found.witness is not None
            assert found.witness.testbed == "virtual"
            assert found.witness.kernel.startswith(f"{kernel}.")


# The figures, each with where it is from.


def figures(id_: str, kernel: str = "6.1") -> Any:
    return judged(kernel)[id_].measured


def test_explain_names_the_rate_of_the_link_on_virtual_time() -> None:
    """1448 of every 1514 bytes of 1000 Mbit/s: 114.0 MiB/s (labs.read.theory.bdp)."""
    assert figures("A1.2") == pytest.approx(114.0, abs=0.1)
    assert figures("A1.8")["end"] == pytest.approx(114.0, abs=0.1)
    assert judged("6.1")["A1.2"].factor == pytest.approx(114.0 / 91.6, rel=0.001)
    assert "no machine limits it" in judged("6.1")["A1.2"].reason
    # The mean with slow start in it: 1 GiB in 10.93 s from the first byte on.
    assert figures("A1.9")["mean"] == pytest.approx(93.66, abs=0.05)
    assert judged("6.1")["A1.9"].factor == pytest.approx(114.0 / 89.2, rel=0.001)


def test_no_effect_without_delay() -> None:
    assert figures("A1.3") < 0.1


def test_httping_times_two_round_trips() -> None:
    for kernel in ("6.1", "6.12"):
        assert figures("A1.4", kernel)["mean"] == pytest.approx(400.2, abs=0.1)
        assert figures("A1.5", kernel) == pytest.approx(200.0, abs=0.01)
        reason = judged(kernel)["A1.5"].reason
        assert "a handshake through the same class takes 200.0 ms" in reason
        assert "2.00 of them" in reason and "two round trips" in reason


def test_column_claims_on_the_speeds_that_buffers_allow() -> None:
    """The tolerances are the ledger's: 3 % and 5 %."""
    assert figures("A1.6") == pytest.approx(13.4, rel=0.03)
    assert figures("A1.7") == pytest.approx(14.9, rel=0.05)
    # 3/4 of 6 MiB over 200 ms (tests/unit/test_theory.py): 22.5 MiB/s.
    assert figures("A1.7", "6.12") == pytest.approx(22.5, rel=0.02)
    assert "14.99 MiB/s up to 6.5" in judged("6.12")["A1.7"].reason


def test_buffer_needed_from_a_sweep() -> None:
    """Twice the BDP on 6.1, where half of a buffer is window; one and a half on 6.12, where the
    send buffer, of which two thirds are under way, is what holds."""
    assert figures("A1.10") == pytest.approx(50.0, abs=0.01)
    assert figures("A1.10", "6.12") == pytest.approx(37.5, abs=0.01)
    reason = judged("6.1")["A1.10"].reason
    for said in (
        "BDP is 25.0 MB",
        "95 % of the line rate is 50.0 MB, 2.00 times",
        "50 % of a receive buffer becomes window",
        "right number for a wrong reason",
    ):
        assert said in reason
    assert "50 MB is not the right number either" in judged("6.12")["A1.10"].reason


def test_window_share_by_kernel() -> None:
    """include/net/tcp.h tcp_win_from_space() up to 6.5; 192 of 256 from 6.6 on."""
    assert figures("A1.11") == pytest.approx({"-2": 0.25, "2": 0.75}, abs=0.001)
    assert figures("A1.11", "6.12") == pytest.approx({"-2": 0.75, "2": 0.75}, abs=0.001)
    assert "does nothing" in judged("6.12")["A1.11"].reason


def test_growth_of_the_article_s_first_look_to_the_byte() -> None:
    """448,880 bytes received: the fifth round trip of slow start, then as in the article."""
    found = figures("A1.12")
    assert (found["rcv_space 1"], found["rcv_ssthresh 1"]) == (115840, 963295)
    assert found["rcv_ssthresh 3"] == 52427352  # half of 100 MiB less one segment
    # 192 of 256 of 100 MiB, less what one packet takes (labs.read.theory.windows).
    assert figures("A1.12", "6.12")["rcv_ssthresh 3"] == pytest.approx(78641394, rel=0.001)


def test_doubling_and_cap() -> None:
    assert (figures("A1.14"), figures("A1.15")) == (2, 2)
    assert "2,304 (receive) and 4,608 (send)" in judged("6.1")["A1.14"].reason
    assert "50 MiB is granted 425,984" in judged("6.1")["A1.15"].reason
    assert "raised to 64 MiB it is granted 100 MiB" in judged("6.1")["A1.15"].reason


def test_by_hand_stays() -> None:
    assert figures("A1.16") == {"set by hand": 1, "automatic": 6291456 / 131072}


def test_loss_and_control_of_bbr() -> None:
    found = figures("A1.17")
    assert found["1 % loss, bbr over cubic"] > 10
    assert found["no loss, fastest over slowest"] == pytest.approx(1, abs=0.05)
    assert "2 draws" in judged("6.1")["A1.17"].reason


def test_stop_and_wait_as_arithmetic() -> None:
    """10 of 410 ms; at 200 ms 10 of 210."""
    found = judged("6.1")["A1.18"]
    assert found.predicted == pytest.approx(100 * 10 / 410)
    assert "4.76 % (10 of 210 ms), 5 % as the article computes it" in found.reason


# Nothing is typed in: other figures, other verdicts.


@pytest.mark.parametrize(
    "id_",
    [
        id_
        for id_, verdict in ON_6_1.items()
        if verdict == HOLDS and id_ not in ("A1.3", "A1.16", "A1.17")
    ],
)
def test_verdicts_on_another_figure_do_not_hold(id_: str) -> None:
    claim = LEDGER.claim(id_)
    values = claim.expected
    other: Any = (
        {name: 1.5 * float(value) for name, value in values.items()}
        if isinstance(values, Mapping)
        else 1.5 * float(str(values))
    )
    found = one(dataclasses.replace(claim, expected=other), study("6.1"))
    assert found.verdict == DIFFERS
    assert found.factor is not None and abs(found.factor - 1) > 0.3


@pytest.mark.parametrize(("id_", "true"), [("A1.2", 114.0), ("A1.5", 200.0)])
def test_verdicts_on_the_right_figure_hold(id_: str, true: float) -> None:
    assert one(dataclasses.replace(LEDGER.claim(id_), expected=true), study("6.1")).verdict == HOLDS


def test_verdicts_of_other_runs_are_others() -> None:
    six_one = study("6.1")
    swapped = {
        **six_one,
        "shaped-256k": six_one["default"],
        "by-hand": six_one["default"],
        "wmem": six_one["both"],
    }
    assert one("A1.3", swapped).verdict == WRONG
    assert one("A1.16", swapped).verdict == WRONG
    assert one("A1.16", {**swapped, "default": six_one["by-hand"]}).verdict == NOT_JUDGED
    assert one("A1.7", swapped).factor == pytest.approx(114.0 / 14.9, rel=0.001)


def test_window_share_is_judged_by_the_kernel_of_the_runs() -> None:
    """6.1's shares on a kernel that should not know the rule any more, and the other way round."""
    new = {
        name: said_otherwise(study("6.1")[name], kernel={"release": "6.12.0", "hz": 250})
        for name in ("adv-m2", "adv-2")
    }
    assert one("A1.11", new).verdict == HOLDS
    old = {
        name: said_otherwise(study("6.12")[name], kernel={"release": "6.1.0", "hz": 250})
        for name in ("adv-m2", "adv-2")
    }
    assert one("A1.11", old).verdict == WRONG
    assert one("A1.11", only("adv-2")).verdict == NOT_JUDGED


def test_defaults_that_differ() -> None:
    run = study("6.1")["default"]

    def with_sysctl(value: str, release: str) -> dict[str, Run]:
        hosts = {
            host: {
                "before": {**values["before"], "net.core.rmem_max": value},
                "after": values["after"],
            }
            for host, values in run.sysctls.items()
        }
        return {
            "default": said_otherwise(run, sysctls=hosts, kernel={"release": release, "hz": 250})
        }

    assert one("A1.13", with_sysctl("4194304", "6.1.0")).verdict == WRONG
    newer = one("A1.13", with_sysctl("4194304", "6.18.0"))
    assert newer.verdict == "held until kernel 6.15"
    assert "net.core.rmem_max is not" in newer.reason
    assert one("A1.13", with_sysctl("212992", "6.18.0")).verdict == HOLDS
    assert one("A1.13", {}).verdict == NOT_JUDGED


def test_defaults_are_read_where_the_condition_set_nothing() -> None:
    """wmem sets the server's tcp_wmem, so the client's is read."""
    measured = one("A1.13", only("wmem")).measured
    assert isinstance(measured, Mapping)
    assert measured["net.ipv4.tcp_wmem"] == "4096 16384 4194304"
    assert one("A1.13", only("both")).verdict == "held until kernel 6.15"


def test_buffer_needed_from_a_small_sweep() -> None:
    few = one("A1.10", only("sweep-12207k", "sweep-24414k"))
    assert (few.verdict, few.reason) == (
        NOT_JUDGED,
        "no buffer of the sweep reaches 95 % of the line rate",
    )
    enough = one("A1.10", only("sweep-48828k"))
    assert "there is no smaller one in the sweep" in enough.reason


# What the runs cannot say, and why.


def test_verdicts_without_runs_are_arithmetic_alone() -> None:
    found = {one.id: one for one in verdicts(LAB, [])}
    assert {id_ for id_, one in found.items() if one.verdict != NOT_JUDGED} == {"A1.1", "A1.18"}
    assert found["A1.6"].reason == "needs the condition default: labs run buffers --only default"
    assert found["A1.16"].reason == (
        "needs the conditions by-hand, default: labs run buffers --only by-hand,default"
    )
    assert found["A1.17"].reason == (
        "needs the conditions loss-0-*, loss-1-*: labs run buffers --size full"
    )
    assert found["A1.6"].witness is None
    assert "nothing was run here" in found["A1.1"].reason


def test_loss_and_control_needs_every_loss() -> None:
    found = one(
        "A1.17",
        {
            name: run
            for name, run in study("6.1").items()
            if name.startswith("loss-") and "reno" not in name
        },
    )
    assert found.verdict == NOT_JUDGED
    assert "reno at 1 % loss, reno at 0 % loss" in found.reason


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rate_mbit": 100.0}, "rate_mbit 100, not 1000"),
        (
            {"delay_ms": 50.0, "shaped_at": "router"},
            "delay_ms 50, not 200, shaped_at router, not server",
        ),
    ],
)
def test_verdicts_under_other_parameters_than_the_article_s(
    asked: dict[str, Any], said: str
) -> None:
    run = study("6.1")["default"]
    inputs = dict(run.inputs)
    condition = dict(inputs["condition"])
    condition["link"] = {**condition["link"], **asked}
    other = said_otherwise(run, inputs={**inputs, "condition": condition})
    found = one("A1.6", {"default": other})
    assert (found.verdict, found.reason) == (NOT_JUDGED, f"other parameters: {said}")
    assert found.witness == Witness("virtual", run.kernel.release)


def test_verdicts_on_a_link_off_its_target_are_not_judged() -> None:
    run = study("6.1")["default"]
    broken = said_otherwise(run, link={**run.said["link"], "problems": ["rate 11828 Mbit/s"]})
    found = one("A1.6", {"default": broken})
    assert found.verdict == NOT_JUDGED
    assert found.reason == "the link of default is not as asked: rate 11828 Mbit/s"


def test_column_claims_of_a_run_without_steady_state_or_figure() -> None:
    claim = dataclasses.replace(LEDGER.claim("A1.6"), parameters=())
    restless = [
        name
        for name in study("6.1")
        if name.startswith("loss-1-cubic") and results(study("6.1")[name]).settled is False
    ]
    found = one(dataclasses.replace(claim, conditions=(restless[0],)), study("6.1"))
    assert found.reason == f"{restless[0]} had not settled when it ended"
    found = one(dataclasses.replace(claim, conditions=("httping",)), study("6.1"))
    assert (found.verdict, found.reason) == (NOT_JUDGED, "the run of httping gives no steady_mib_s")


@pytest.mark.parametrize(
    ("reduction", "expected"), [("median", 11.3), ("mean", 11.2), ("min", 11.1), ("max", 11.3)]
)
def test_column_claims_reduce_several_draws(reduction: str, expected: float) -> None:
    """cubic at 11.31 and bbr at 11.13 to 11.16 MiB/s where nothing is lost."""
    claim = Claim(
        id="A1.1",
        statement="x",
        expected=expected,
        unit="MiB/s",
        tolerance_pct=1.0,
        tolerance_reason="x",
        conditions=("loss-0-cubic-*", "loss-0-bbr-*"),
        column="goodput_mib_s",
        reduction=reduction,
    )
    assert one(claim, study("6.1")).verdict == HOLDS


def test_verdicts_show_the_speed_of_a_machine_unjudged() -> None:
    run = study("6.1")["unshaped"]
    virtual = one("A1.1", {"unshaped": run})
    assert (virtual.verdict, virtual.measured) == (HARDWARE, None)
    here = said_otherwise(run, inputs={**run.inputs, "testbed": "namespaces"})
    found = one("A1.1", {"unshaped": here})
    assert found.verdict == HARDWARE and isinstance(found.measured, float)
    other = with_link(here, rate_mbit=None)
    assert one("A1.1", {"unshaped": other}).verdict == HARDWARE


def test_verdicts_refuse_an_unknown_judging_function() -> None:
    claim = dataclasses.replace(LEDGER.claim("A1.18"), judge="stop_and_weight")
    with pytest.raises(BadInput, match="did you mean stop_and_wait"):
        one(claim, {})
