"""Article 4 judged by runs on two kernels, and by what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pytest

from labs.catalog import find
from labs.experiments.windows.conditions import PATCHED
from labs.experiments.windows.conditions import Parameters as Windows
from labs.experiments.windows.results import Results, article
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import judge, judges_of
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, NOT_JUDGED, RIGHT_NUMBER, WRONG, Verdict
from labs.read.runs.archive import run_folders, unpacked
from labs.read.runs.recorded import folder as data_folder
from labs.read.runs.run import Run, open_run
from labs.studies.verdicts import verdicts as verdict_table
from tests.made_verdicts import verdicts
from tests.real_runs import windows_run, windows_study, with_condition, with_file

LAB = find("windows")
LEDGER = article()
JUDGES = judges_of(LAB)
IDS = [
    *(f"A4.{number}" for number in range(1, 9)),
    *("A4.9a", "A4.9b", "A4.10"),
    *("A4.11a", "A4.11b", "A4.12", "A4.13a", "A4.13b", "A4.14", "A4.15", "A4.16"),
    *("A4.17a", "A4.17b", "A4.18"),
]
ON_6_1 = dict.fromkeys(IDS, HOLDS) | dict.fromkeys(("A4.9b", "A4.11b", "A4.13b"), NOT_JUDGED)
ON_6_12 = ON_6_1 | {
    "A4.2": DIFFERS,
    "A4.3": DIFFERS,
    "A4.4": WRONG,
    "A4.5": DIFFERS,
    "A4.6": DIFFERS,
    "A4.8": WRONG,
    "A4.9a": DIFFERS,
    "A4.10": DIFFERS,
    "A4.11a": DIFFERS,
    "A4.12": DIFFERS,
    "A4.15": WRONG,
    "A4.16": WRONG,
    "A4.17a": WRONG,
}


@cache
def judged(kernel: str = "6.1") -> Mapping[str, Verdict]:
    return {verdict.id: verdict for verdict in verdicts(LAB, windows_study(kernel).runs)}


def verdict_of(claim: str | Claim, runs: Mapping[str, Run]) -> Verdict:
    chosen = LEDGER.claim(claim) if isinstance(claim, str) else claim
    return judge(chosen, Evidence(LAB, runs), JUDGES, LEDGER.parameters)


def measured(id_: str, kernel: str = "6.1") -> Any:
    return judged(kernel)[id_].measured


@pytest.mark.parametrize(("kernel", "expected"), [("6.1", ON_6_1), ("6.12", ON_6_12)])
def test_verdicts_on_a_kernel(kernel: str, expected: Mapping[str, str]) -> None:
    assert {id_: verdict.verdict for id_, verdict in judged(kernel).items()} == expected


def test_judged_thereon_a_machine_need_no_sample_of_each_packet() -> None:
    """In real time packets arrive together: what is queued is judged, each packet is not."""
    folder = unpacked(data_folder() / "windows-witnesses.tar.xz")
    runs = {run.condition: run for run in map(open_run, run_folders(folder))}
    judged_there = {id_: verdict_of(id_, runs) for id_ in ON_6_1}
    holding = {id_ for id_, verdict in judged_there.items() if verdict.verdict == HOLDS}
    assert holding == {"A4.1", "A4.2", "A4.3", "A4.15", "A4.17a"}
    assert "have no sample of their own" in judged_there["A4.8"].reason


def test_claims_are_about_conditions_of_size_small() -> None:
    assert [claim.id for claim in LEDGER.claims] == list(ON_6_1)
    there = {condition.name for condition in LAB.conditions(Windows())} | {PATCHED}
    for claim in LEDGER.claims:
        assert set(claim.conditions) <= there, claim.id
    usual = Windows()
    assert {name: getattr(usual, name) for name in LEDGER.parameters} == dict(LEDGER.parameters)


def test_verdicts_of_two_kernels_say_what_holds_on_which() -> None:
    table = verdict_table(windows_study("6.1"), windows_study("6.12")).set_index("claim")
    old, new = table.loc[["A4.2"]].to_dict("records")  # a row per kernel where they differ
    assert (old["verdict"], old["testbed"]) == ("holds on Linux 6.1", "virtual · Linux 6.1.192")
    assert new["verdict"].startswith("differs") and new["verdict"].endswith("on Linux 6.12")
    assert "Since 6.6 tcp_adv_win_scale has no effect" in new["because"]
    assert table.loc["A4.1", "verdict"] == HOLDS
    witness = str(table.loc["A4.1", "testbed"])
    assert "6.1." in witness and "6.12." in witness


def test_columns_equal_the_article_to_the_byte() -> None:
    """Its ss: r73984, rb65536, Recv-Q 62464; 113 KiB in a buffer of 128 KiB."""
    assert measured("A4.1") == 65536
    assert measured("A4.2") == {"in use": 73984, "above the budget": 8448}
    assert measured("A4.3")["Recv-Q"] == 62464
    assert measured("A4.12") == 113 * 1024


def test_budget_is_not_exceeded_since_6_6() -> None:
    """62,208 of 65,536 bytes, as measured for the check of the kernel."""
    verdict = judged("6.12")["A4.2"]
    assert verdict.measured == {"in use": 62208, "above the budget": -3328}
    assert verdict.factor == pytest.approx(62208 / 73984)
    assert "62,208 of 65,536" in verdict.reason and "3,328 below" in verdict.reason


def test_drops_in_open_window_judge_the_window_and_show_the_count() -> None:
    """The author's program prints the counter 5 s after its first write. The first drop is then
    0.2 s after the first arrival; its third retransmission follows after 5.15 s."""
    verdict = judged()["A4.4"]
    assert measured("A4.4") == {"dropped": 3, "window left": 3072}
    assert (verdict.judged, verdict.figures) == (1, 2)
    for part in (
        "packet 62",
        "counts 3 in its 5 s",
        "next after 5.15 s",
        "12 after 4",
        "least 4 runs",
    ):
        assert part in verdict.reason
    assert "nothing is dropped: at most 62,208 of 65,536 bytes are in use" in (
        judged("6.12")["A4.4"].reason
    )


def test_drop_times_are_since_the_first_write() -> None:
    times = Results(windows_run("article-scale0")).drop_times
    assert times == pytest.approx([0.10, 1.41, 2.65, 5.15], abs=0.02)
    assert Results(windows_run("article-scale1")).drop_times == []


def test_half_of_the_free_buffer_is_exceeded_since_6_6() -> None:
    """A large buffer shows it: 6.12 offers 1,074,016 of 2,097,152 bytes."""
    for kernel in ("6.1", "6.12"):
        assert measured("A4.5", kernel)["window"] == 32768
    assert 49 < measured("A4.5")["share of the free buffer"] <= 50
    assert measured("A4.5", "6.12")["share of the free buffer"] == pytest.approx(51.5, abs=0.1)
    assert "article-1m 51.5 %" in judged("6.12")["A4.5"].reason


def test_half_of_the_free_buffer_exceeded_by_the_whole_buffer() -> None:
    """With tcp_adv_win_scale = 0 up to all of the free buffer is promised."""
    runs = {
        "article-scale1": windows_run("article-scale0"),
        "article-1m": windows_run("article-1m"),
    }
    verdict = verdict_of("A4.5", runs)
    assert verdict.verdict == DIFFERS and verdict.factor is not None and verdict.factor > 1.5


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
    verdict = verdict_of(narrow, {run.condition: run for run in windows_study().runs})
    assert verdict.verdict == RIGHT_NUMBER


def test_saw_tooth_has_teeth_only_with_delayed_acks() -> None:
    assert measured("A4.7") == {
        "teeth": 3,
        "teeth, quickack 1": 0,
        "packets per ACK": pytest.approx(2.95, abs=0.01),
        "packets per ACK, quickack 1": pytest.approx(1, abs=0.05),
    }
    assert "by 6,144, 6,144, 2,048 bytes" in judged()["A4.7"].reason


def test_teeth_are_rises_of_at_least_two_packets_after_a_fall() -> None:
    # The window left falls by 1,000 per packet, and rises by 3,000, 1,000 and 4,000.
    edges = [8000, 8000, 12000, 12000, 14000, 14000, 19000, 21000]
    assert results_of(edges, [0] * 8).teeth == [3000, 4000]
    assert results_of([8000] * 5, [0] * 5).teeth == []


def test_collapses_begin_when_the_budget_is_reached() -> None:
    assert measured("A4.8") == {"first collapse at": 62}


def test_small_packets_collapse_the_queue_unless_they_are_coalesced() -> None:
    """The program's chunks arrive in bursts, and none of them is collapsed."""
    assert measured("A4.9a") == {"collapses": 3, "rcv_ssthresh falls": 3}
    assert "31,744 to 4,096, 18,944 to 4,096, 9,600 to 2,688" in judged()["A4.9a"].reason
    assert measured("A4.9a", "6.12") == {"collapses": 2, "rcv_ssthresh falls": 2}
    assert measured("A4.9b") == {"collapses": 0, "coalesced": 44}
    spread = verdict_of("A4.9b", {"chunks": windows_run("chunks-spread")})
    assert spread.measured == {"collapses": 3, "coalesced": 40}


def test_collapses_without_a_fall_each_time_are_not_what_the_article_says() -> None:
    """With tcp_adv_win_scale = 0 rcv_ssthresh falls at the first of seven collapses."""
    verdict = verdict_of("A4.9a", {"chunks-spread": windows_run("article-scale0")})
    assert verdict.verdict == WRONG and "falls at 1 of 7 collapses" in verdict.reason


def test_messages_that_are_read_slowly_collapse_the_queue() -> None:
    """The bytes copied are the sum of the queues after each collapse."""
    results = Results(windows_run("messages"))
    assert measured("A4.18") == {
        "collapses": 13,
        "bytes copied": results.collapses["recv_q_bytes"].sum(),
    }
    assert results.collapse_falls == results.collapse_count


def test_linear_opening_grows_by_two_segments_per_packet() -> None:
    assert measured("A4.10")["growth per packet"] == pytest.approx(2, abs=0.05)
    assert measured("A4.10")["largest window"] == pytest.approx(800 * 1024, rel=0.05)
    assert measured("A4.10", "6.12")["first window"] > 1_000_000


def test_first_round_trip_is_limited_to_64_kib_before_6_10() -> None:
    assert set(measured("A4.11a").values()) == {67584}
    assert "67,584 with the route option initrwnd" in judged()["A4.11a"].reason
    assert min(measured("A4.11a", "6.12").values()) > 1_000_000


def patched_run() -> Run:
    """The recorded run with the patched kernel."""
    folder = unpacked(data_folder() / "windows-patched.tar.xz")
    (run,) = map(open_run, run_folders(folder))
    return run


def test_patched_kernel_opens_the_window_at_once() -> None:
    """About 1 MiB and 1,800 packets; only the digest tells that a kernel has the patch."""
    verdict = verdict_of("A4.11b", {PATCHED: patched_run()})
    assert verdict.verdict == HOLDS
    assert verdict.measured == {"first window": 1_026_048, "packets": 1825}
    plain = verdict_of("A4.11b", {PATCHED: windows_run("initrwnd")})
    assert plain.verdict == NOT_JUDGED and "9d7d74783700" in plain.reason
    digest = windows_run("initrwnd").inputs["kernel"]["digest"]
    patched = {PATCHED: {"kernel_digest": [digest[:12]]}}
    claim = replace(LEDGER.claim("A4.11b"), requires=patched)
    assert verdict_of(claim, {PATCHED: windows_run("initrwnd")}).verdict == DIFFERS


def test_batches_become_smaller_on_every_kernel() -> None:
    assert measured("A4.13a") == measured("A4.13a", "6.12") == 64512
    assert "atches of 64,512, 30,720, 14,080, 6,400 bytes" in judged()["A4.13a"].reason
    opening = verdict_of("A4.13a", {"automatic": windows_run("article-1m")})
    assert opening.verdict == WRONG, opening.reason


def test_window_updates_and_round_trips_are_counted_alike() -> None:
    """Updates after the SYN-ACK, round trips with the handshake: 6.12 has the article's figures."""
    assert measured("A4.13b") == {"window updates": 4, "round trips": 5}
    assert "the wire shows 4 windows: 30,720, 14,080, 6,400, 0" in judged()["A4.13b"].reason
    assert measured("A4.13b", "6.12") == LEDGER.claim("A4.13b").figures


def test_default_buffer_holds_about_the_same_with_other_segments() -> None:
    runs = {name: windows_run("automatic") for name in ("automatic", "automatic-1448")}
    assert "With an MSS of 1,024 bytes: 115,712" in verdict_of("A4.12", runs).reason


def test_metadata_per_packet_is_measured_on_the_booted_kernel(tmp_path: Path) -> None:
    """sizeof(struct sk_buff), rounded up to 256, and of skb_shared_info, 320, on x86-64; here 64
    more, as a larger structure would have."""
    run = windows_run("article-scale1")
    assert measured("A4.14") == 576
    assert "1,280, of which 704 are room" in judged()["A4.14"].reason
    name = "server/truesizes.csv"
    text = run.text(name)
    header, *rows = text.splitlines()
    pairs = [tuple(map(int, row.split(","))) for row in rows]
    larger = "\n".join([header, *(f"{payload},{memory + 64}" for payload, memory in pairs), ""])
    verdict = verdict_of("A4.14", {"article-scale1": with_file(run, tmp_path, name, text, larger)})
    assert verdict.verdict == DIFFERS and verdict.measured == 640


def test_clamp_limits_the_window_until_6_10() -> None:
    assert measured("A4.16") == {"with the clamp": 16384, "without": 32768}
    assert measured("A4.16", "6.12") == {"with the clamp": 28672, "without": 32768}


def test_open_window_overflows_in_the_articles_rig_until_6_5() -> None:
    """And on every kernel if the buffer is reduced after accept. The sender never exceeds the
    window."""
    for id_, kernel, dropped in (
        ("A4.17a", "6.1", 7),
        ("A4.17a", "6.12", 0),
        ("A4.17b", "6.1", 36),
        ("A4.17b", "6.12", 1),
    ):
        assert measured(id_, kernel) == {
            "dropped in an open window": dropped,
            "beyond the window": 0,
        }


def test_judge_of_other_parameters_or_missing_runs_says_so() -> None:
    run = windows_run("article-scale0")
    other = {"article-scale0": with_condition(run, settings={"mss_bytes": 512})}
    verdict = verdict_of("A4.2", other)
    assert verdict.verdict == NOT_JUDGED and "mss_bytes 512, not 1024" in verdict.reason
    assert "needs the condition chunks-spread" in verdict_of("A4.9a", {}).reason


def results_of(edges: list[int], ssthresh: list[int]) -> Results:
    """The results of packets of 1,000 bytes with these right edges."""
    count = len(edges)
    results = Results(windows_run("article-scale1"))
    results.table = pandas.DataFrame(
        {
            "packet": range(1, count + 1),
            "seq": [1 + 1000 * place for place in range(count)],
            "payload_bytes": [1000] * count,
            "end": [1001 + 1000 * place for place in range(count)],
            "window_left_bytes": [edge - 1000 * (place + 1) for place, edge in enumerate(edges)],
            "rcv_ssthresh_bytes": ssthresh,
        }
    )
    return results


def test_longest_pause_is_between_two_updates() -> None:
    edges = [8000, 9000, 9000, 9000, 9000, 9500, 9500, 9500]
    assert results_of(edges, [0] * 8).pause == (3, 6)
    assert results_of([8000] * 4, [0] * 4).pause == (0, 0)


def test_growth_segments_per_packet() -> None:
    """Of 1,024 bytes, the MSS of the run."""
    assert results_of([9000] * 4, [1024, 3072, 5120, 5120]).growth_segments == 2.0
    assert results_of([9000] * 2, [5000, 4000]).growth_segments == 0.0
