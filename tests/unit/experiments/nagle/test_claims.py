"""Article 3 judged by the recorded runs, and by what they cannot say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from labs.catalog import find
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.results import article
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Verdict
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, SILENCE
from labs.read.runs.run import Run
from labs.studies.study import Study
from labs.studies.study import study as open_study
from tests.made_verdicts import verdicts
from tests.real_runs import recorded_nagle, with_condition

LAB = find("nagle")
LEDGER = article()
JUDGES = judges_of(LAB)
ON_6_1 = {
    "A3.1": HOLDS,
    "A3.2": HARDWARE,
    "A3.3": HOLDS,
    "A3.4": HOLDS,
    "A3.5": HOLDS,
    "A3.6": HOLDS,
    "A3.7a": HOLDS,
    "A3.7b": HOLDS,
    "A3.8": WRONG,
    "A3.9a": WRONG,
    "A3.9b": WRONG,
    "A3.9c": HOLDS,
    "A3.10a": WRONG,
    "A3.10b": HOLDS,
    "A3.10c": HOLDS,
    "A3.11": HOLDS,
    "A3.12": WRONG,
    "A3.13": WRONG,
}


@cache
def study() -> Mapping[str, Run]:
    return {run.condition: run for run in recorded_nagle().runs}


@cache
def judged() -> Mapping[str, Verdict]:
    return {found.id: found for found in verdicts(LAB, study().values())}


def recorded_at(delay_ms: float) -> Study:
    return open_study(Nagle(testbed="recorded", delay_ms=delay_ms))


def one(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def test_verdicts_on_6_1() -> None:
    assert {id_: found.verdict for id_, found in judged().items()} == ON_6_1


def test_ledger_has_the_article_s_figures() -> None:
    assert LEDGER.lab == "nagle"
    assert (LEDGER.claim("A3.1").expected, LEDGER.claim("A3.2").expected) == (44.619, 14.285)
    own = Nagle()
    assert {name: getattr(own, name) for name in LEDGER.parameters} == dict(LEDGER.parameters)
    there = [one.name for one in LAB.conditions(own)]
    for claim in LEDGER.claims:
        assert set(claim.conditions) <= set(there), claim.id
    assert [claim.id for claim in LEDGER.claims if claim.hardware] == ["A3.2"]


def test_steps_are_the_article_s() -> None:
    """Its five arrows with the silence between the second and the third, and its four."""
    off = ("request", "first part", "silence", "client's ACK", "rest", "client's ACK")
    assert off == ARTICLE_OFF
    assert ARTICLE_ON == ("request", "first part", "rest", "client's ACK")


def figures(id_: str) -> Any:
    return judged()[id_].measured


def test_mean_time_with_its_prediction() -> None:
    """Nine stalls of 44 ms in ten requests (tests/unit/read/theory/test_nagle.py)."""
    assert figures("A3.1") == pytest.approx(39.6, abs=0.2)
    assert judged()["A3.1"].predicted == pytest.approx(39.6, abs=0.05)
    assert "11.1 % below" in judged()["A3.1"].reason
    assert "40 to 44 ms at 250 Hz, and 9 of 10 requests" in judged()["A3.1"].reason


def test_on_the_machine_is_not_measured_on_virtual_time() -> None:
    found = judged()["A3.2"]
    assert found.measured is None and "not meaningful in virtual time" in found.reason
    here = {
        "on": dataclasses.replace(
            study()["on"],
            record={
                **study()["on"].record,
                "inputs": {**study()["on"].inputs, "testbed": "namespaces"},
            },
        )
    }
    assert isinstance(one("A3.2", here).measured, float)
    assert "there is no run to compare" in one("A3.2", {}).reason
    far = one("A3.2", {"on": with_condition(here["on"], link={"delay_ms": 20.0})})
    assert far.measured is None and "Other parameters" in far.reason


def test_sequence_names_who_waits_for_whom_in_its_reason() -> None:
    assert (figures("A3.3"), judged()["A3.3"].predicted) == (90, 90)
    assert "the server waits for the client: delayed ACK meets Nagle" in judged()["A3.3"].reason
    assert "900 of 1000 requests follow this sequence: request; first part; rest; client's ACK" in (
        judged()["A3.4"].reason
    )


def test_kept_connections_explain_why_new_ones_do_not_stall() -> None:
    assert figures("A3.5") == {"with -k": 90, "without": 0}
    assert "0 % of the first requests of a connection stall" in judged()["A3.5"].reason
    assert "sends what was held back" in judged()["A3.5"].reason


def test_quick_acks_judge_the_option_set_before_each_read() -> None:
    """The baseline is the same client without the option: 19 of its 20 requests stall."""
    assert figures("A3.6") == {
        "never set": 95,
        "set once": 95,
        "set before each read": 0,
        "by the route": 0,
    }
    assert judged()["A3.6"].predicted == figures("A3.6")
    assert judged()["A3.6"].reason.startswith("holds if repeated")


def test_coalesced_segments_are_those_predicted() -> None:
    """Without the first response of each connection, in which autocorking joined writes."""
    found = judged()["A3.7a"]
    assert (
        figures("A3.7a")
        == found.predicted
        == {
            "two writes, delayed ACK": 2,
            "two writes, quick ACK": 2,
            "10 writes, delayed ACK": 2,
            "10 writes, quick ACK": 10,
        }
    )
    counted = study()["pieces-quickack"].nstat("server")["TcpExtTCPAutoCorking"]
    assert counted > 0 and f"TCPAutoCorking: {counted}" in found.reason


def test_coalesced_is_not_judged_where_acks_return_late() -> None:
    """At 20 ms an ACK returns after all writes, so the claim says nothing about it."""
    far = {run.condition: run for run in recorded_at(20.0).runs}
    found = one("A3.7a", far)
    assert (found.verdict, found.reason) == (NOT_JUDGED, "other parameters: delay_ms 20, not 0")
    assert one("A3.5", far).verdict == one("A3.6", far).verdict == HOLDS


def test_timeout_of_nagle_is_that_of_the_tail_loss_probe() -> None:
    """The ACKs are dropped for 2.5 s. The timeouts are 208 ms (TCP_RTO_MIN and two ticks) and twice
    as long each time: the fourth retransmission, after 3.1 s, is acknowledged. The probe is sent
    200 ms (TCP_RTO_MIN) and up to two ticks of 4 ms after the segment."""
    found = figures("A3.8")
    assert found["tail loss probes off"] == pytest.approx(15 * 208, abs=16)
    assert found["tail loss probes on (default)"] == pytest.approx(204, abs=4)
    reason = judged()["A3.8"].reason
    assert "retransmitted 4 times" in reason and "tail loss probe" in reason


def test_long_delay_gives_bulk_data_no_advantage() -> None:
    """2 MiB at 10 Mbit/s take 1.75 s with headers, and slow start about five round trips."""
    found = figures("A3.9b")
    assert found["off"] == found["on"] == pytest.approx(6.5, abs=0.5)
    assert "1,450 segments and 1,450 with tcp_nodelay on" in judged()["A3.9b"].reason


def test_utilisation_counts_all_packets() -> None:
    """Each packet has 66 bytes of headers. In the article's experiment 850 bytes of response and a
    request of 101 bytes take 5 packets with off, 4 with on."""
    for id_, payload, off, on in (("A3.9a", 951, 5, 4), ("A3.9c", 100_035, 124, 1556)):
        assert figures(id_) == {
            "off": pytest.approx(100 * payload / (payload + off * 66), abs=0.1),
            "on": pytest.approx(100 * payload / (payload + on * 66), abs=0.1),
        }


def test_packets_are_those_of_the_article_s_diagrams() -> None:
    """ARTICLE_OFF and ARTICLE_ON: five arrows and four."""
    packets = {
        name: sum(step != SILENCE for step in steps)
        for name, steps in (("off", ARTICLE_OFF), ("on", ARTICLE_ON))
    }
    assert figures("A3.10a") == figures("A3.11") == packets == {"off": 5, "on": 4}
    assert figures("A3.10c") == {"off": 124, "on": 1556}


def test_times_that_virtual_time_does_not_measure_are_no_figures() -> None:
    off_on = figures("A3.10b")
    assert off_on["on"] == "below 1" and off_on["off"] == pytest.approx(39.7, abs=0.1)


def test_header_first_shows_that_the_first_segment_carries_data() -> None:
    """nginx writes the header, then the page of 612 bytes."""
    assert figures("A3.13") == {"PSH,ACK": NGINX_HEAD_BYTES, "http 200": 612}


# Nothing is typed in: other figures and other runs, other verdicts.


def swapped(**conditions: str) -> dict[str, Run]:
    """The study with the run of one condition in the place of another."""
    return {
        **study(),
        **{name.replace("_", "-"): study()[other] for name, other in conditions.items()},
    }


def test_verdicts_on_another_figure_do_not_hold() -> None:
    claim = dataclasses.replace(LEDGER.claim("A3.1"), expected=80.0)
    found = one(claim, study())
    assert found.verdict == DIFFERS
    assert found.factor == pytest.approx(39.66 / 80, abs=0.01)


@pytest.mark.parametrize(
    ("id_", "runs", "verdict"),
    [
        ("A3.1", {"off": "on"}, DIFFERS),
        ("A3.3", {"off": "on"}, WRONG),
        ("A3.4", {"on": "off"}, WRONG),
        ("A3.5", {"off_no_k": "off"}, WRONG),
        ("A3.5", {"off": "on"}, NOT_JUDGED),
        ("A3.6", {"ask_each": "ask-once"}, WRONG),
        ("A3.6", {"ask": "ask-each"}, NOT_JUDGED),
        ("A3.7a", {"pieces_quickack": "pieces"}, WRONG),
        ("A3.8", {"acks_dropped_no_tlp": "acks-dropped"}, HOLDS),
        ("A3.8", {"acks_dropped_no_tlp": "write-one"}, NOT_JUDGED),
        ("A3.8", {"acks_dropped": "acks-dropped-no-tlp"}, WRONG),
        ("A3.7b", {"pieces_quickack": "pieces"}, WRONG),
        ("A3.9a", {"off": "write-one"}, HOLDS),
        ("A3.9b", {"bulk_on": "small-writes-on"}, HOLDS),
        ("A3.10a", {"on": "pieces-quickack"}, HOLDS),
        ("A3.12", {"small_writes": "small-writes-on", "small_writes_on": "small-writes"}, HOLDS),
        ("A3.13", {"on": "on-no-k"}, HOLDS),
    ],
)
def test_verdicts_of_other_runs_are_others(id_: str, runs: dict[str, str], verdict: str) -> None:
    assert one(id_, swapped(**runs)).verdict == verdict


def test_sequence_that_too_few_follow_differs() -> None:
    """A tolerance that asks for more than there are."""
    claim = dataclasses.replace(LEDGER.claim("A3.4"), tolerance_pct=-1.0)
    found = one(claim, study())
    assert (found.verdict, found.factor) == (DIFFERS, 1.0)


def test_sequence_with_another_silence_differs() -> None:
    claim = LEDGER.claim("A3.3")
    assert claim.rule is not None
    longer = dataclasses.replace(claim.rule, comparisons=("silence_ms >= 60",))
    found = one(dataclasses.replace(claim, rule=longer), study())
    assert found.verdict == DIFFERS
    assert found.factor == pytest.approx(44 / 40, rel=0.01)


def test_sequence_is_the_same_for_any_server_that_writes_twice() -> None:
    for other in ("write-two", "pieces", "ask"):
        assert one("A3.3", swapped(off=other)).verdict == HOLDS


def test_verdicts_without_runs() -> None:
    found = {one.id: one for one in verdicts(LAB, [])}
    assert {id_ for id_, one in found.items() if one.verdict != NOT_JUDGED} == {"A3.2"}
    assert found["A3.1"].reason == "needs the condition off: labs run nagle --only off"


def test_verdicts_under_other_parameters_than_the_article_s() -> None:
    run = study()["off"]
    condition = dict(run.inputs["condition"])
    condition["settings"] = {**condition["settings"], "concurrency": 10}
    other = dataclasses.replace(
        run, record={**run.record, "inputs": {**run.inputs, "condition": condition}}
    )
    assert one("A3.1", {"off": other}).reason == "other parameters: concurrency 10, not 100"
