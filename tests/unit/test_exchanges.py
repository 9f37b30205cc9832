"""Requests, their steps and silences, from captures of real servers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy
import pandas
import pytest

from labs.analysis.acks import time_to_ack
from labs.analysis.exchanges import (
    ARTICLE_OFF,
    ARTICLE_ON,
    CLIENT_ACK,
    FIRST,
    MOST_STEPS,
    REQUEST,
    REST,
    SERVER_ACK,
    WHOLE,
    WINDOW,
    exchanges,
    followed,
    in_words,
)
from labs.analysis.explained import APPLICATION, NAGLE_AND_DELAYED_ACK
from labs.capture import read
from tests.made_flows import ACK, BEGIN_US, PSH, SYN, Segment, capture, segment

FOLDER = Path(__file__).parents[1] / "fixtures" / "exchanges"
# ab's report of the run that is recorded: 200 requests on 20 connections, 615 bytes of page and
# 238 of head, 101 bytes of request.
REQUESTS, CONNECTIONS = 200, 20
QUICK = (REQUEST, SERVER_ACK, FIRST, CLIENT_ACK, REST, CLIENT_ACK)
PORT = 20_000
# What nginx writes before a file of 2 MiB.
HEAD_BYTES = 241


@cache
def table(name: str) -> pandas.DataFrame:
    return exchanges(read(next(FOLDER.glob(f"{name}.pcap*"))))


def test_with_nagle_nine_of_ten_requests_follow_the_article() -> None:
    """The first request of a connection meets a client that still acknowledges at once."""
    found = followed(table("nagle-off"), ARTICLE_OFF)
    assert (found.requests, found.follow) == (REQUESTS, REQUESTS - CONNECTIONS)
    assert found.share == pytest.approx(0.9)
    assert found.others == {QUICK: CONNECTIONS}
    first = table("nagle-off")["request"] == 0
    assert set(table("nagle-off").loc[first, "steps"]) == {QUICK}


def test_without_nagle_they_follow_the_other_sequence() -> None:
    found = followed(table("nagle-on"), ARTICLE_ON)
    assert (found.requests, found.follow) == (REQUESTS, REQUESTS - CONNECTIONS)
    assert followed(table("nagle-on"), ARTICLE_OFF).follow == 0


def test_a_new_connection_for_each_request_has_no_silence() -> None:
    """A3.5. The 600 packets that are kept end before the last connections are answered."""
    rows = table("nagle-no-k")
    assert (rows["request"] == 0).all() and rows["silence_ms"].max() < 20
    found = followed(rows, QUICK)
    assert found.follow > 40 and set(found.others) == {(REQUEST, SERVER_ACK)}


def test_the_sequences_are_those_of_the_article() -> None:
    assert in_words(ARTICLE_OFF) == (
        "request; first part; silence; client's ACK; rest; client's ACK")
    assert in_words(ARTICLE_ON) == "request; first part; rest; client's ACK"


def test_sizes_and_silences_of_the_stalled() -> None:
    rows = table("nagle-off")
    rows = rows[rows["steps"] == ARTICLE_OFF]
    assert set(rows["request_bytes"]) == {101} and set(rows["answer_bytes"]) == {238 + 615}
    assert set(rows["segments"]) == {5}
    assert set(rows["reason"]) == {NAGLE_AND_DELAYED_ACK}
    assert set(rows["waiting"]) == {"server"} and set(rows["waited_for"]) == {"client"}
    # TCP_ATO_MIN is HZ/25 = 40 ms; this kernel's HZ is 250, so that a timer may be a tick late.
    assert rows["silence_ms"].between(40, 48).all()
    # The answer comes in two parts, the second one at once when the silence ends.
    assert (rows["latency_ms"] - rows["silence_ms"] - rows["first_byte_ms"]).between(0, 1).all()


def test_a_silence_is_found_again_in_the_segments() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    row = table("nagle-off").query("request == 3").iloc[0]
    own = segments[segments["connection"] == row["connection"]].loc[
        row["first_row"]:row["last_row"]]
    gaps = own["time_ns"].diff()
    assert gaps.idxmax() == row["silence_before"]
    assert gaps.max() / 1e6 == pytest.approx(row["silence_ms"])
    assert len(own) == row["segments"]


def test_without_a_stall_the_longest_gap_is_the_servers_work() -> None:
    rows = table("nagle-on")
    assert rows["reason"].value_counts(normalize=True)[APPLICATION] > 0.9
    assert rows["latency_ms"].median() < 5


def test_a_request_that_is_never_answered_has_no_latency() -> None:
    rows = table("stopped-reader")
    assert rows["latency_ms"].isna().all() and (rows["answer_bytes"] == 0).all()
    # The probes of the closed window belong to it, the keep-alives after it do not.
    assert rows["silence_ms"].iloc[0] == pytest.approx(863.973)


def test_what_is_sent_again_counts_once() -> None:
    rows = table("outage")
    assert (rows["answer_bytes"] == 3000).all() and len(rows) == 12
    assert set(rows["request_bytes"]) == {5, 6}     # ask 0 to ask 11
    again = rows[rows["steps"].map(lambda steps: "sent again" in steps)]
    assert len(again) == 1 and again["silence_ms"].iloc[0] == pytest.approx(639.9, abs=0.1)
    others = followed(rows, (REQUEST, WHOLE, CLIENT_ACK))
    assert (others.follow, others.others[REQUEST, SERVER_ACK, WHOLE, CLIENT_ACK]) == (9, 2)


def test_a_download_is_one_exchange_told_shortly() -> None:
    rows = table("lossy")
    assert rows["answer_bytes"].tolist() == [(2 << 20) + HEAD_BYTES]
    steps = rows["steps"].iloc[0]
    # Part and ACK in turn, again and again, are told once.
    assert steps[:7] == (*QUICK, WINDOW) and len(steps) == MOST_STEPS + 1


def test_no_request_no_row() -> None:
    segments = read(FOLDER / "nagle-on.pcap.gz")
    for none in (segments[:0], segments[segments["payload_bytes"] == 0]):
        rows = exchanges(none)
        assert rows.empty and list(rows) == list(table("nagle-on"))
        assert numpy.isnan(followed(rows, ARTICLE_ON).share)


def asked(gap_us: int, parts: list[int], to_client_us: int = 50, to_server_us: int = 50
          ) -> list[Segment]:
    """A request and the parts of its answer, which wait for an ACK that comes `gap_us` later;
    seen from a place that lies so far from both, there and back."""
    at, sent = BEGIN_US, 5000
    made = [(at, segment(PORT, 0, 999, 0, SYN)),
            (at + to_server_us, segment(PORT, 1, 4999, 1000, SYN | ACK)),
            (at + to_server_us + to_client_us, segment(PORT, 0, 1000, 5000, ACK))]
    at += to_server_us + to_client_us
    made.append((at, segment(PORT, 0, 1000, 5000, PSH | ACK, length=10)))
    at += to_server_us
    for length in parts:
        made.append((at, segment(PORT, 1, sent, 1010, PSH | ACK, length=length)))
        sent += length
        at += gap_us
        made.append((at, segment(PORT, 0, 1010, sent, ACK)))
    return made


@pytest.mark.parametrize(("gap_us", "parts", "reason", "waiting"), [
    (40_000, [200, 200], NAGLE_AND_DELAYED_ACK, "server"),
    (40_000, [200], "delayed ACK", "nobody"),
    # Nagle holds back no full segment, and none behind a full one (tcp_minshall_check).
    (40_000, [200, 1448], "unexplained", "server"),
    (40_000, [1448, 200], "unexplained", "server"),
    (400_000, [200, 200], "unexplained", "server"),     # beyond TCP_DELACK_MAX
    (4_000, [200, 200], "Nagle waits a round trip", "server"),
])
def test_reasons_of_made_answers(gap_us: int, parts: list[int], reason: str, waiting: str,
                                 tmp_path: Path) -> None:
    rows = exchanges(read(capture(tmp_path / "made.pcap", asked(gap_us, parts))))
    assert (rows["reason"].iloc[0], rows["waiting"].iloc[0]) == (reason, waiting)


@pytest.mark.parametrize(("far", "reason", "silent"), [
    ("client", "Nagle waits a round trip", False), ("server", NAGLE_AND_DELAYED_ACK, True)])
def test_a_far_receiver_is_no_slow_one(far: str, reason: str, silent: bool,
                                       tmp_path: Path) -> None:
    """An ACK after 205 ms from a client at a distance of 200 is prompt; beside the client it was
    held back."""
    near = {"client": {"to_client_us": 200_000}, "server": {"to_server_us": 200_000}}[far]
    rows = exchanges(read(capture(tmp_path / "far.pcap", asked(205_000, [200, 200], **near))))
    assert rows["reason"].iloc[0] == reason
    assert ("silence" in rows["steps"].iloc[0]) is silent


def test_a_held_back_ack_counts_before_a_longer_way() -> None:
    """The link of this run delays what the server sends by 60 ms, before its tcpdump sees it: the
    way is longer than the 40 ms that the client holds its ACK back."""
    rows = table("nagle-delay")
    stalled = rows[rows["steps"] == ARTICLE_OFF]
    assert len(rows) == 60 and len(stalled) == 56
    assert set(stalled["reason"]) == {NAGLE_AND_DELAYED_ACK}
    assert stalled["silence_ms"].between(40, 48).all()
    assert (stalled["latency_ms"] > 2 * 60 + 40).all()


def test_every_segment_with_data_has_its_ack() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    acks = time_to_ack(segments)
    answers = acks[acks["direction"] == 1]
    assert len(acks) == 3 * REQUESTS and acks["ms"].notna().all()
    # The first part waits for the delayed ACK, the rest for none.
    assert (answers["ms"] > 40).sum() == REQUESTS - CONNECTIONS
    one = answers[answers["ms"] > 40].iloc[0]
    covers = segments.loc[one["acked_by"]]
    sent = segments.loc[one["row"]]
    assert covers["ack_rel"] >= sent["seq_rel"] + sent["payload_bytes"]
    assert (covers["time_ns"] - sent["time_ns"]) / 1e6 == pytest.approx(one["ms"])


def test_segments_that_were_sent_again_have_no_time_to_their_ack() -> None:
    """Karn's algorithm: one of the twelve answers and one of the requests came twice."""
    acks = time_to_ack(read(FOLDER / "outage.pcap"))
    assert acks.groupby("direction").size().to_dict() == {0: 11, 1: 11}
    assert acks["ms"].max() < 1


def flow(path: Path, sent: list[tuple[int, int, int]], acked: int) -> Path:
    """What the opener sends, (ms, relative number, length) each, and the ACK of all, 1 ms later."""
    made = [(1000 * at, segment(PORT, 0, 1000 + seq, 5001, ACK, length=length))
            for at, seq, length in sent]
    at = 1000 * (sent[-1][0] + 1)
    return capture(path, [(0, segment(PORT, 0, 1000, 0, SYN)),
                          (0, segment(PORT, 1, 5000, 1001, SYN | ACK)),
                          *made, (at, segment(PORT, 1, 5001, 1000 + acked, ACK))])


@pytest.mark.parametrize("sent", [
    [(1, 1, 100), (2, 101, 100), (300, 1, 200)],        # two of them, joined
    [(1, 1, 2896), (300, 1449, 1448)],                  # the second half of what was one for TSO
    [(1, 1, 100), (300, 51, 150)],                      # with new data behind it
])
def test_what_was_sent_again_in_other_pieces_has_no_time_either(
        sent: list[tuple[int, int, int]], tmp_path: Path) -> None:
    last = max(begin + length for _, begin, length in sent)
    assert time_to_ack(read(flow(tmp_path / "again.pcap", sent, last))).empty
    fresh = [*sent, (400, last, 10)]
    acks = time_to_ack(read(flow(tmp_path / "fresh.pcap", fresh, last + 10)))
    assert acks["payload_bytes"].tolist() == [10] and acks["ms"].tolist() == [1.0]


def test_what_was_never_acknowledged_is_missing() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    acks = time_to_ack(segments[:len(segments) // 2])
    assert acks["ms"].isna().any()
    assert (acks["ms"].isna() == acks["acked_by"].isna()).all()
    assert time_to_ack(segments[:0]).empty
