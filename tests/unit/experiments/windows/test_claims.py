"""Article 4 judged by runs on two kernels, and by what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas
import pytest

from labs.catalog import find
from labs.experiments.windows.claims import JUDGES
from labs.experiments.windows.claims.window import growth_segments, longest_pause
from labs.experiments.windows.parameters import Windows
from labs.experiments.windows.results import article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, verdicts
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED, RIGHT_NUMBER, WRONG, Verdict
from labs.read.runs.archive import run_folders, unpacked
from labs.read.runs.recorded import folder as data_folder
from labs.read.runs.run import Run, open_run
from labs.studies.verdicts import verdicts as verdict_table
from tests.real_runs import windows_run, windows_study, with_condition

LAB = find("windows")
LEDGER = article()
ON_6_1 = {f"A4.{number}": HOLDS for number in range(1, 16)} | {"A4.13": DIFFERS}
ON_6_12 = ON_6_1 | {
    "A4.2": DIFFERS,
    "A4.3": DIFFERS,
    "A4.4": WRONG,
    "A4.6": DIFFERS,
    "A4.8": WRONG,
    "A4.10": DIFFERS,
    "A4.11": DIFFERS,
    "A4.12": DIFFERS,
    "A4.15": WRONG,
}


@cache
def judged(kernel: str = "6.1") -> Mapping[str, Verdict]:
    return {found.id: found for found in verdicts(LAB, windows_study(kernel).runs)}


def one(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def measured(id_: str, kernel: str = "6.1") -> Any:
    return judged(kernel)[id_].measured


@pytest.mark.parametrize(("kernel", "expected"), [("6.1", ON_6_1), ("6.12", ON_6_12)])
def test_verdicts_on_a_kernel(kernel: str, expected: Mapping[str, str]) -> None:
    assert {id_: found.verdict for id_, found in judged(kernel).items()} == expected


def test_verdicts_on_a_machine_need_no_sample_of_each_packet() -> None:
    """In real time packets arrive together: what is queued is judged, each packet is not."""
    folder = unpacked(data_folder() / "windows-witnesses.tar.xz")
    runs = {run.condition: run for run in map(open_run, run_folders(folder))}
    found = {id_: one(id_, runs) for id_ in ON_6_1}
    holding = {id_ for id_, verdict in found.items() if verdict.verdict == HOLDS}
    assert holding == {"A4.1", "A4.2", "A4.3", "A4.15"}
    assert "have no sample of their own" in found["A4.8"].reason


def test_verdicts_have_a_reason_and_a_witness() -> None:
    for kernel in ("6.1", "6.12"):
        for found in judged(kernel).values():
            assert found.reason and "\n" not in found.reason
            assert found.witness is not None and found.witness.testbed == "virtual"
            assert found.witness.kernel.startswith(f"{kernel}.")


def test_ledger_has_fifteen_claims_about_conditions_of_size_small() -> None:
    assert [claim.id for claim in LEDGER.claims] == list(ON_6_1)
    there = {condition.name for condition in LAB.conditions(Windows())}
    for claim in LEDGER.claims:
        assert set(claim.conditions) <= there, claim.id
    assert {claim.judge for claim in LEDGER.claims if claim.judge} == set(JUDGES)
    own = Windows()
    assert {name: getattr(own, name) for name in LEDGER.parameters} == dict(LEDGER.parameters)


def test_verdicts_of_two_kernels_say_what_holds_on_which() -> None:
    table = verdict_table(windows_study("6.1"), windows_study("6.12")).set_index("claim")
    assert table.loc["A4.2", "verdict"] == "holds on Linux 6.1, not on 6.12"
    assert "Since 6.6 tcp_adv_win_scale has no effect" in str(table.loc["A4.2", "because"])
    assert "dfa2f0483360" in str(table.loc["A4.2", "because"])
    assert table.loc["A4.1", "verdict"] == HOLDS
    witness = str(table.loc["A4.1", "testbed"])
    assert "6.1." in witness and "6.12." in witness


def test_columns_equal_the_article_to_the_byte() -> None:
    """Its ss: r73984, rb65536, Recv-Q 62464; 113 KiB in a buffer of 128 KiB."""
    assert measured("A4.1") == 65536
    assert measured("A4.2") == {"in use": 73984, "above the budget": 8448}
    assert measured("A4.3")["Recv-Q"] == 62464
    assert measured("A4.12") == 113 * 1024


def test_drops_in_open_window_judge_the_window_and_show_the_count() -> None:
    found = judged()["A4.4"]
    assert measured("A4.4") == {"dropped": 13, "window left": 3072}
    assert (found.judged, found.figures) == (1, 2)
    assert "the first drop is packet 62" in found.reason
    assert "so that 13 is reached after 645 s" in found.reason
    short = one("A4.4", {"article-scale0-700s": windows_run("article-scale0")})
    assert short.verdict == HOLDS and "so that 13 takes a longer run" in short.reason
    assert "nothing is dropped: at most 62,208 of 65,536 bytes are in use" in (
        judged("6.12")["A4.4"].reason
    )


def test_half_of_the_free_buffer_is_never_exceeded() -> None:
    for kernel in ("6.1", "6.12"):
        assert measured("A4.5", kernel)["window"] == 32768
        assert 45 < measured("A4.5", kernel)["share of the free buffer"] <= 50


def test_half_of_the_free_buffer_exceeded_by_the_whole_buffer() -> None:
    """With tcp_adv_win_scale = 0 up to all of the free buffer is promised."""
    found = one("A4.5", {"article-scale1": windows_run("article-scale0")})
    assert found.verdict == DIFFERS and found.factor is not None and found.factor > 1.5


def test_filled_through_half_pauses_and_resumes_where_the_article_says() -> None:
    assert measured("A4.6") == {
        "Recv-Q": 57344,
        "largest window": 32768,
        "dropped": 0,
        "collapsed": 0,
        "pause at": 17,
        "resume at": 32,
    }


def test_filled_through_half_is_not_right_with_a_larger_window() -> None:
    claim = LEDGER.claim("A4.6")
    figures = {**claim.figures, "largest window": 16384.0}
    narrow = Claim(**{**vars(claim), "expected": figures})
    found = one(narrow, {run.condition: run for run in windows_study().runs})
    assert found.verdict == RIGHT_NUMBER and "not the window through which" in found.reason


def test_saw_tooth_needs_more_acks_with_the_route_option() -> None:
    assert measured("A4.7")["quickack 1"] == pytest.approx(1, abs=0.05)
    assert measured("A4.7")["delayed ACKs"] > 2
    plain = windows_run("article-scale1")
    assert one("A4.7", {"article-scale1": plain, "quickack": plain}).verdict == WRONG


def test_collapses_begin_when_the_budget_is_reached() -> None:
    assert measured("A4.8") == {"first collapse at": 62}
    assert measured("A4.9") == {"collapses": 2, "rcv_ssthresh falls": 2}
    small = one("A4.9", {"chunks": windows_run("article-scale1")})
    assert small.verdict == WRONG and "collapsed 0 times" in small.reason


def test_linear_opening_grows_by_two_segments_per_packet() -> None:
    assert measured("A4.10")["growth per packet"] == pytest.approx(2, abs=0.05)
    assert measured("A4.10")["largest window"] == pytest.approx(800 * 1024, rel=0.05)
    assert measured("A4.10", "6.12")["first window"] > 1_000_000


def test_first_round_trip_is_limited_to_64_kib_before_6_10() -> None:
    assert set(measured("A4.11").values()) == {67584}
    assert "the route option initrwnd has no effect" in judged()["A4.11"].reason
    assert min(measured("A4.11", "6.12").values()) > 1_000_000


def test_smaller_batches_fill_the_default_buffer_in_fewer_round_trips() -> None:
    assert measured("A4.13") == {"round trips": 4, "window updates": 3, "first batch": 64512}
    assert "4 batches of 64,512, 30,720, 14,080, 6,400 bytes" in judged()["A4.13"].reason


def test_metadata_per_packet_has_the_two_structures() -> None:
    """sizeof(struct sk_buff), rounded up to 256, and of skb_shared_info, 320, on x86-64."""
    assert measured("A4.14") == 576
    assert "1,280 bytes besides its payload" in judged()["A4.14"].reason
    assert "by the source, which no run shows" in judged()["A4.14"].reason
    assert "704 of its buffer that stay unused" in judged()["A4.14"].reason


def test_judge_of_other_parameters_or_missing_runs_says_so() -> None:
    run = windows_run("article-scale0")
    other = {"article-scale0": with_condition(run, settings={"mss_bytes": 512})}
    found = one("A4.2", other)
    assert found.verdict == NOT_JUDGED and "mss_bytes 512, not 1024" in found.reason
    assert "needs the condition chunks" in one("A4.9", {}).reason


def packets_of(edges: list[int], ssthresh: list[int]) -> pandas.DataFrame:
    """A table of packets of 1,000 bytes with these right edges."""
    count = len(edges)
    return pandas.DataFrame(
        {
            "packet": range(1, count + 1),
            "seq": [1 + 1000 * place for place in range(count)],
            "payload_bytes": [1000] * count,
            "window_left_bytes": [edge - 1000 * (place + 1) for place, edge in enumerate(edges)],
            "rcv_ssthresh_bytes": ssthresh,
        }
    )


def test_longest_pause_is_between_two_updates() -> None:
    edges = [8000, 9000, 9000, 9000, 9000, 9500, 9500, 9500]
    assert longest_pause(packets_of(edges, [0] * 8)) == (3, 6)
    assert longest_pause(packets_of([8000] * 4, [0] * 4)) == (0, 0)


def test_growth_segments_per_packet() -> None:
    grows = packets_of([9000] * 4, [2000, 4000, 6000, 6000])
    assert growth_segments(grows, 1000.0) == 2.0
    assert growth_segments(packets_of([9000] * 2, [5000, 4000]), 1000.0) == 0.0
