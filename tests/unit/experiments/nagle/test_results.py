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
from labs.experiments.nagle.figures import describe_requests, findings
from labs.experiments.nagle.results import Results
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, exchanges
from labs.read.readings.latency import latency
from labs.read.readings.responses import (
    answered,
    following,
    own_requests,
    own_table,
    requests_of,
    table_of,
    typical,
)
from labs.read.runs.run import Run
from tests.made_flows import ACK, BEGIN_US, PSH, capture, segment
from tests.real_runs import codes, nagle_run, recorded_nagle, with_condition, with_file, with_link
from tests.repeated_runs import machines, repetition

STALLING = {"off", "write-two", "body-1447", "pieces", "ask", "ask-once"}
DROPPED = {"acks-dropped", "acks-dropped-no-tlp"}
FAR = {"bulk", "bulk-on", "small-writes", "small-writes-on"}
"""Conditions without a prediction: dropped ACKs, several round trips, pauses between writes."""


@cache
def table() -> Any:
    return recorded_nagle().results().set_index("condition")


def test_expected_stall_of_a_machine_has_its_own_ticks(tmp_path: Path) -> None:
    """A machine does not say its HZ; it is counted, and the client's timer is what counts."""
    run = repetition(tmp_path, nagle_run("off"), 1, machines=machines(hz=1000))
    theory = Results(run).prediction
    assert Results(run).hz == 1000 and theory is not None
    assert theory.steady_ms - 2 * run.link.measured.rtt_ms == pytest.approx(41, abs=0.02)


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


def test_findings_include_an_own_capture(tmp_path: Path) -> None:
    study = recorded_nagle()
    path = nagle_run("write-two").file("server/capture.pcap")
    with_capture = dataclasses.replace(
        study, parameters=Nagle(testbed="recorded", capture_file=str(path))
    )
    report = as_json(study.lab, with_capture.parameters, with_capture)
    assert (report["sequence_own"], report["sequence_own_share"]) == (list(ARTICLE_OFF), 0.9)
    assert findings({}, Nagle(testbed="recorded")) == {"remarks": []}


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
