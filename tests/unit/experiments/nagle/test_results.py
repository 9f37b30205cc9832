"""What runs of the lab `nagle` show, on its recorded study: times, stalls, segments, sequences."""

from __future__ import annotations

import dataclasses
import os
from functools import cache
from pathlib import Path
from typing import Any

import pandas
import pytest

from labs.catalog import find
from labs.cli.run_report import as_json
from labs.errors import BadInput
from labs.experiments.nagle.conditions import MARGIN
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.figures import (
    by_ab,
    describe_requests,
    exchanged,
    findings,
    held_segments,
)
from labs.experiments.nagle.results import Results
from labs.experiments.nagle.settings import Settings
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, exchanges
from labs.read.readings.latency import latency
from labs.read.readings.responses import (
    answered,
    autocorked,
    following,
    held_segment,
    own_requests,
    own_table,
    requests_of,
    table_of,
    typical,
)
from labs.read.runs.run import Run
from labs.studies.study import study as open_study
from tests.made_flows import ACK, BEGIN_US, PSH, capture, segment
from tests.real_runs import codes, nagle_run, recorded_nagle, with_condition, with_file, with_link
from tests.repeated_runs import machines, repetition

STALLING = {"off", "write-two", "body-1447", "pieces", "ask", "ask-once"}
# HZ 250: ten ticks of 4 ms and the current one (tests/unit/read/theory/test_nagle.py).
STALL_MS = (40.0, 44.0)
DROPPED = {"acks-dropped", "acks-dropped-no-tlp"}
FAR = {"bulk", "bulk-on", "small-writes", "small-writes-on"}
"""Conditions without a prediction: dropped ACKs, several round trips, pauses between writes."""


@cache
def table() -> Any:
    return recorded_nagle().results().set_index("condition")


def test_results_show_the_article_s_stall() -> None:
    """39.6 ms with a stall in nine of ten requests; without one next to nothing."""
    assert table().loc["off", "mean_ms"] == pytest.approx(39.6, abs=0.2)
    assert table().loc["off", "p50_ms"] == pytest.approx(44, abs=0.2)
    for name in ("on", "off-no-k", "quickack"):
        assert table().loc[name, "p99_ms"] < 2
    assert table().loc["off", "article_ms"] == 44.619


def test_expected_stall_of_a_machine_has_its_own_ticks(tmp_path: Path) -> None:
    """A machine does not say its HZ; it is counted, and the client's timer is what counts."""
    run = repetition(tmp_path, nagle_run("off"), 1, machines=machines(hz=1000))
    theory = Results(run).prediction
    assert Results(run).hz == 1000 and theory is not None
    assert theory.steady_ms - 2 * run.link.measured.rtt_ms == pytest.approx(41, abs=0.02)


def test_results_on_another_kernel_are_the_same() -> None:
    rows = recorded_nagle("6.12", "off,on,quickack").results().set_index("condition")
    assert set(rows["kernel"].str[:5]) == {"6.12."}
    assert dict(rows["stalled_pct"]) == {"off": 90, "on": 0, "quickack": 0}
    assert rows.loc["off", "mean_ms"] == pytest.approx(table().loc["off", "mean_ms"], abs=0.1)
    # Below 1 ms the virtual clock says nothing.
    assert rows.loc[["on", "quickack"], "mean_ms"].max() < 1


def test_results_around_full_segments_match_the_theory() -> None:
    """Behind a head a body stalls that lacks a byte of a full segment; a whole answer never does,
    nor a body with a small end behind a full segment: that one is acknowledged at once."""
    rows = recorded_nagle(size="full").results().set_index("condition")
    sizes = rows[rows.index.str.match("body-|whole-")]
    assert len(sizes) == 10
    assert list(sizes.index[sizes["stalled_pct"] > 0]) == ["body-1447"]
    assert (sizes["segments_per_answer"] == sizes["predicted_segments"]).all()


def test_expected_stalls_are_those_measured() -> None:
    assert set(table().index[table()["stalled_pct"] > 0]) == STALLING
    predicted = {name: Results(nagle_run(name)).prediction for name in recorded_nagle().conditions}
    assert {name for name, theory in predicted.items() if theory is None} == DROPPED | FAR
    assert {name for name, theory in predicted.items() if theory and theory.stalls} == STALLING


def predicted_conditions() -> set[str]:
    return set(recorded_nagle().conditions) - DROPPED - FAR


def test_expected_mean_within_a_tick_of_the_first_stall() -> None:
    """The first stall begins anywhere in a tick: up to 4 ms of ten requests; then ab's own time."""
    for name in predicted_conditions():
        row = table().loc[name]
        assert row["mean_ms"] == pytest.approx(row["predicted_mean_ms"], abs=1.0), name


def test_expected_segments_are_those_measured() -> None:
    """All but the first response of a connection, which the kernel may join by autocorking."""
    for name in predicted_conditions():
        row = table().loc[name]
        assert row["segments_per_answer"] == row["predicted_segments"], name


def test_expected_bulk_segments_are_those_measured() -> None:
    """A header of 245 bytes, since Content-Length has more digits and nginx keeps the connection
    without saying so, and 2 MiB in full segments and a rest."""
    for name in ("bulk", "bulk-on"):
        assert table().loc[name, "segments_per_answer"] == 1 + -(-2 * 2**20 // 1448)


def test_autocorked_writes_are_those_of_first_responses() -> None:
    """In most of the 100 first responses; the others have one segment per write."""
    run = nagle_run("pieces-quickack")
    requests = requests_of(run)
    first = answered(table_of(run), requests[requests["request"] == 0])
    assert first.requests == 100
    # Whether a write meets one that is still queued depends on the order of the programs.
    assert 75 < autocorked(run) <= 100
    assert first.segments == pytest.approx(10 - 8 * autocorked(run) / 100, abs=0.2)
    assert autocorked(nagle_run("off")) == 0


def test_held_segment_waits_for_the_ack_or_for_the_probe() -> None:
    without, by_default = (
        held_segment(table_of(nagle_run(name))) for name in ("acks-dropped-no-tlp", "acks-dropped")
    )
    assert without is not None and by_default is not None
    assert (without.acknowledged, without.retransmissions) == (True, 4)
    assert (by_default.acknowledged, by_default.retransmissions) == (False, 0)
    assert held_segment(table_of(nagle_run("write-one"))) is None


def test_held_segments_has_a_row_per_condition() -> None:
    rows = held_segments(recorded_nagle(), "acks-dropped", "acks-dropped-no-tlp", "write-one")
    assert list(rows["Condition"]) == ["acks-dropped", "acks-dropped-no-tlp"]
    assert list(rows["Released by"]) == ["no ACK", "an ACK"]
    assert list(rows["Retransmissions meanwhile"]) == [0, 4]


def test_exchanged_has_a_row_per_condition() -> None:
    rows = exchanged(recorded_nagle(), "bulk", "small-writes-on")
    assert list(rows["Condition"]) == ["bulk", "small-writes-on"]
    assert list(rows["Segments of the response"]) == [1450, 781]


def test_goodput_of_bulk_data_does_not_depend_on_nagle() -> None:
    off, on = (nagle_run(name) for name in ("bulk", "bulk-on"))
    assert Results(off).body_mbit == Results(on).body_mbit
    assert Results(off).captured == Results(on).captured


def test_by_ab_is_what_the_article_prints() -> None:
    """The article's line, and the mean that the results have of the same run."""
    rows = by_ab(recorded_nagle(), "off", "on")
    assert list(rows["Article"]) == [
        "Time per request: 44.619 [ms] (mean)",
        "Time per request: 14.285 [ms] (mean)",
    ]
    for line, name in zip(rows["This run"], ("off", "on"), strict=True):
        assert line == f"Time per request: {table().loc[name, 'mean_ms']:.3f} [ms] (mean)"
    far = by_ab(open_study(Nagle(testbed="recorded", delay_ms=20.0)), "off")
    assert "Article" not in far


def test_results_have_acks_per_response() -> None:
    """One for both parts, two where each waits for its own, none where the next request carries it;
    the last response of each of the 100 connections is acknowledged without one."""
    acks = table()["acks_per_answer"]
    assert acks["off"] == acks["quickack"] == 2
    assert acks["on"] == 1
    assert acks["write-one"] == pytest.approx(0, abs=100 / 900)


def test_requests_of_a_run_stall_for_one_timer() -> None:
    for name in STALLING:
        rows = requests_of(nagle_run(name))
        gaps = rows[rows["steps"] == ARTICLE_OFF]["gap_ms"]
        assert gaps.between(STALL_MS[0] - 0.1, STALL_MS[1] + 0.1).all()


def test_usual_sequences_are_the_article_s() -> None:
    off, on = (requests_of(nagle_run(name)) for name in ("off", "on"))
    followed = following(off, ARTICLE_OFF)
    assert (followed.follow, followed.requests) == (900, 1000)
    assert (
        off[off["steps"] == ARTICLE_OFF][["waiting", "waited_for"]]
        .drop_duplicates()
        .to_numpy()
        .tolist()
    ) == [["server", "client"]]
    assert following(on, ARTICLE_ON).share == 0.9
    # Those that go otherwise are the first on their connection: it begins with quick ACKs.
    assert (off[off["steps"] != ARTICLE_OFF]["request"] == 0).all()
    assert following(on, ARTICLE_OFF).follow == following(off, ARTICLE_ON).follow == 0


def test_following_counts_a_second_ack_as_another_sequence() -> None:
    rows = requests_of(nagle_run("on"))
    more = rows.assign(segments=rows["segments"] + (rows["request"] == 1))
    followed = following(more, ARTICLE_ON)
    assert followed.follow == 800
    assert followed.others[(*ARTICLE_ON, "and so on")] == 100


def test_results_of_three_instruments_agree() -> None:
    for name in recorded_nagle().conditions:
        row = table().loc[name]
        assert row["requests"] == row["captured_requests"]
        if row["server"] == "nginx":
            assert row["served_requests"] == row["requests"]
        assert "instruments" not in row["note_codes"].split()


def test_notes_on_instruments_that_disagree(tmp_path: Path) -> None:
    run = nagle_run("off")
    lines = run.text("server/access.log").splitlines(keepends=True)
    other = with_file(run, tmp_path, "server/access.log", "".join(lines), "".join(lines[3:]))
    (note,) = Results(other).notes()
    assert note.code == "instruments"
    assert "the client 1000, the capture 1000, nginx 997" in note.text


def test_headline_is_a_mean_that_is_meaningful() -> None:
    """44.6 ms, the article's, is within the margin of virtual time; half or twice of it is not."""
    lab = find("nagle")
    assert lab.headline(nagle_run("off")) == ("mean_ms", latency(nagle_run("off")).mean_ms)
    assert lab.headline(nagle_run("on")) is None
    virtual = latency(nagle_run("off")).mean_ms
    assert MARGIN.low < 44.619 / virtual < MARGIN.high
    assert not MARGIN.low < 44.619 / 2 / virtual < MARGIN.high


def test_notes_on_failed_requests(tmp_path: Path) -> None:
    run = nagle_run("off")
    other = with_file(
        run, tmp_path, "client/ab.txt", "Failed requests:        0", "Failed requests:        7"
    )
    assert "failed" in codes(Results(other))


def test_expected_wait_for_the_small_segment_before_a_full_one() -> None:
    """A head, full segments and one that is not: the client acknowledges at once, and the last
    segment of all answers but the first on each of 100 connections leaves only when all before it
    is acknowledged (net/ipv4/tcp_output.c tcp_nagle_check; labs.read.theory.nagle.sent)."""
    study = recorded_nagle(size="full")
    for name, last_bytes in (("body-1449", 1449 - 1448), ("body-2895", 2895 - 1448)):
        segments = table_of(study.run(name))
        before = segments.groupby("connection")[["direction", "ack_rel"]].shift()
        last = (segments["direction"] == 1) & (segments["payload_bytes"] == last_bytes)
        held = last & (before["direction"] == 0) & (before["ack_rel"] == segments["seq_rel"])
        assert (last.sum(), held.sum()) == (1000, 900)


def test_results_have_the_percentiles_of_ab() -> None:
    """The lines of its file for 50 and 99 %."""
    run = nagle_run("off")
    lines = dict(line.split(",") for line in run.text("client/ab.csv").splitlines()[1:])
    times = latency(run)
    assert (times.p50_ms, times.p99_ms) == (float(lines["50"]), float(lines["99"]))
    assert times.p99_ms != float(lines["98"])


def test_results_have_the_times_of_our_client() -> None:
    times = latency(nagle_run("ask"))
    assert (times.requests, times.failed) == (20, 0)
    assert times.mean_ms < times.p50_ms == pytest.approx(44, abs=0.1)
    assert times.p50_ms <= times.p99_ms


def test_results_have_the_article_s_figure_under_its_load_alone() -> None:
    published = [
        (results.article_ms, results.article_claim)
        for results in map(
            Results,
            (
                nagle_run("off"),
                nagle_run("on"),
                with_condition(nagle_run("off"), link={"delay_ms": 20}),
                with_condition(nagle_run("on"), settings={"concurrency": 10}),
            ),
        )
    ]
    assert published == [(44.619, "A3.1"), (14.285, "A3.2"), (None, None), (None, None)]
    assert Results(nagle_run("off-no-k")).article_ms is None


def with_rtt(run: Run, rtt_ms: float) -> Run:
    """The run with another measured RTT."""
    link = run.record["link"]
    far = {**run.record, "link": {**link, "measured": {**link["measured"], "rtt_ms": rtt_ms}}}
    return Run(run.path, run.seal, far)


@pytest.mark.parametrize(
    ("rtt_ms", "measured"),
    [
        # Measured in virtual time, Linux 6.1, requests 1000, concurrency 100: ab's mean.
        (20, {"off": 85.26, "on": 26.05, "quickack": 46.04, "off-no-k": 44.05, "pieces": 87.26}),
        (45, {"off": 141.36, "on": 58.55, "quickack": 103.55}),
        (200, {"off": 499.26, "on": 260.05, "quickack": 460.04, "off-no-k": 440.05}),
    ],
)
def test_expected_mean_on_a_link_with_delay(rtt_ms: float, measured: dict[str, float]) -> None:
    """The prediction has no time of ab's own (0.05 ms), and the first stall is up to 4 ms shorter
    on each connection of ten requests. tests/virtual/test_nagle.py measures it again."""
    for name, mean_ms in measured.items():
        theory = Results(with_rtt(nagle_run(name), rtt_ms)).prediction
        assert theory is not None
        assert theory.mean_ms == pytest.approx(mean_ms, abs=0.4), name


def test_expected_mean_without_other_connections() -> None:
    """With one connection ab waits for nothing before it opens others."""
    run = with_rtt(nagle_run("on"), 20)
    answer = Results(with_condition(run, settings={"concurrency": 1, "requests": 10})).prediction
    assert answer is not None and answer.mean_ms == pytest.approx((40 + 9 * 20) / 10)


def test_header_ms_is_longer_for_a_header_in_several_writes() -> None:
    for name, trips in (("off", 2), ("pieces", 3), ("pieces-on", 2)):
        run = recorded_nagle(size="full").run(name)
        assert Results(with_rtt(run, 20)).header_ms == trips * 20


def test_median_ms_of_connections_with_one_request_is_that_of_the_first() -> None:
    assert Results(with_rtt(nagle_run("off-no-k"), 20)).predicted_p50_ms == 40
    assert Results(with_rtt(nagle_run("off"), 20)).predicted_p50_ms == pytest.approx(84)
    assert Results(nagle_run("bulk")).predicted_p50_ms is None


def test_expected_is_nothing_for_what_the_theory_does_not_cover() -> None:
    for other in (
        with_link(nagle_run("off"), loss_pct=1.0),
        with_link(nagle_run("off"), jitter_ms=1.0),
        with_rtt(with_condition(nagle_run("off"), settings={"page_bytes": 20_000}), 20),
    ):
        assert Results(other).prediction is None
    assert (
        Results(with_condition(nagle_run("off"), settings={"page_bytes": 20_000})).prediction
        is not None
    )


def test_findings_have_the_sequences_and_their_shares() -> None:
    study = recorded_nagle()
    report = as_json(study.lab, study.parameters, study)
    assert report["sequence_off"] == list(ARTICLE_OFF)
    assert report["sequence_on"] == list(ARTICLE_ON)
    assert report["sequence_off_share"] == report["sequence_on_share"] == 0.9
    assert sum(other["requests"] for other in report["sequence_on_others"]) == 100
    assert {"condition", "mean_ms", "p50_ms", "p99_ms"} <= set(report["results"][0])
    assert any("closed-loop" in remark for remark in report["remarks"])
    assert "on: 900 of 1000 requests: request; first part; rest; client's ACK" in report["remarks"]


def test_findings_include_an_own_capture(tmp_path: Path) -> None:
    study = recorded_nagle()
    path = nagle_run("write-two").file("server/capture.pcap")
    with_capture = dataclasses.replace(
        study, parameters=Nagle(testbed="recorded", capture_file=str(path))
    )
    report = as_json(study.lab, with_capture.parameters, with_capture)
    assert (report["sequence_own"], report["sequence_own_share"]) == (list(ARTICLE_OFF), 0.9)
    assert findings({}, Nagle(testbed="recorded")) == {"remarks": []}


def test_describe_run_says_who_waits_for_whom() -> None:
    text = recorded_nagle().describe("off")
    assert text.startswith(
        "**900 of 1000 requests** follow this sequence: request; first part; silence;"
    )
    assert "the server waits for the client" in text
    assert "100 follow another sequence, each the first on its connection" in text
    assert "No request stalls." in recorded_nagle().describe("on")
    assert "**off**: mean 39.7 ms; predicted 39.6 ms, article 44.619 ms" in (
        recorded_nagle().describe()
    )


def test_own_requests_are_read_as_those_of_a_run() -> None:
    segments = table_of(nagle_run("off"))
    rows = exchanges(segments)
    assert answered(segments, rows) == Results(nagle_run("off")).captured
    assert "the server waits for the client" in describe_requests(rows)


def test_own_requests_of_a_capture_without_any() -> None:
    nothing = table_of(nagle_run("ask")).iloc[:0]
    rows = exchanges(nothing)
    assert answered(nothing, rows).requests == 0
    assert describe_requests(rows) == "This capture contains no request."
    with pytest.raises(BadInput, match="no request"):
        typical(rows)


def test_figures_count_tso_pieces_as_their_segments() -> None:
    """With the MSS that the handshake agrees on, less the timestamps."""
    requests = pandas.DataFrame(
        {
            "connection": [0],
            "request": [0],
            "first_row": [2],
            "last_row": [4],
            "steps": [("request",)],
            "reason": [""],
        }
    )
    for mss, count in ((1460, 2), (1461, 1), (500, 3)):
        segments = pandas.DataFrame(
            {
                "connection": [0] * 5,
                "direction": [0, 1, 0, 1, 0],
                "mss": [9000, mss, 0, 0, 0],
                "payload_bytes": [0, 0, 100, 1449, 0],
                "flags": [0x02, 0x12, 0x18, 0x18, 0x10],
                "tsval": [7] * 5,
                "ack_rel": [0, 1, 1, 101, 1450],
            }
        )
        captured = answered(segments, requests)
        assert (captured.segments, captured.acks) == (count, 1)


def test_settings_of_a_run() -> None:
    told = nagle_run("pieces-quickack").settings_as(Settings)
    assert (told.quickack, told.pieces, told.on_a_connection) == ("route", 10, 10)
    assert sum(told.written_bytes) == 160 + 612 and len(told.written_bytes) == 10
    assert nagle_run("off-no-k").settings_as(Settings).on_a_connection == 1
    assert nagle_run("ask").settings_as(Settings).on_a_connection == 20


def test_own_table_of_a_file_written_again(tmp_path: Path) -> None:
    """The reader's own file keeps its name: first 30 ms to the answer, then 70 ms, then two."""

    def recorded(*capturedus: int) -> Path:
        at, packets = BEGIN_US, []
        for number, took in enumerate(capturedus):
            seq, ack = 1000 + 50 * number, 2000 + 60 * number
            packets += [
                (at, segment(20_000, 0, seq, ack, ACK | PSH, length=50)),
                (at + took, segment(20_000, 1, ack, seq + 50, ACK | PSH, length=60)),
            ]
            at += 1_000_000
        return capture(tmp_path / "own.pcap", packets)

    for capturedus in ((30_000,), (70_000,), (70_000, 90_000)):
        path = recorded(*capturedus)
        os.utime(path, ns=(0, sum(capturedus)))  # however coarse the file system's clock is
        assert list(own_requests(path)["latency_ms"]) == [us / 1e3 for us in capturedus]
        assert len(own_table(path)) == 2 * len(capturedus)
