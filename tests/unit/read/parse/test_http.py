"""The readers of ab, httping, wget, wrk, vegeta and iperf3, on what these tools printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import Damaged
from labs.read.parse.http_clients import Httping, ab, ab_percentiles, httping, wget
from labs.read.parse.http_loads import Hit, intended_us, vegeta, without_added, wrk
from labs.read.parse.reports import (
    iperf3_error,
    marked_packets,
    requests,
    server,
    settings,
    streams,
)

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
MIB = 1 << 20
# What article 1 shows of its own: two digits more than the summary, and a space before short ones.
ARTICLE = """\
PING 192.168.247.129:80 (/):
connected to 192.168.247.129:80 (426 bytes), seq=0 time= 17.37 ms
connected to 192.168.247.129:80 (426 bytes), seq=1 time=  1.22 ms
^CGot signal 2
--- http://192.168.247.129/ ping statistics ---
2 connects, 2 ok, 0.00% failed, time 5480ms
round-trip min/avg/max = 1.2/9.3/17.4 ms
"""


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def httping_of(name: str) -> Httping:
    return httping(read(f"httping-{name}.txt"))


def test_ab_refuses_a_report_without_its_figures() -> None:
    whole = read("ab-keepalive.txt")
    for name in ("Complete requests", "Time per request", "Failed requests", "HTML transferred"):
        with pytest.raises(Damaged, match="a report of ab"):
            ab(whole.replace(name, "Other"))
    with pytest.raises(Damaged, match="a report of ab"):
        ab(read("ab-refused.txt"))
    with pytest.raises(Damaged, match=r"not a whole number: 1\.5"):
        ab(re.sub(r"(Failed requests: +)\d+", r"\g<1>1.5", whole))


def test_ab_percentiles_ignores_rows_past_the_slowest_request() -> None:
    """Of 10 requests ab printed 0.257 ms for 95 to 99 %, less than for any other: its index is
    (int)(0.5 + 10 * 95 / 100) = 10, and its array ends at 9 (httpd, support/ab.c)."""
    written = read("ab-10-requests.csv")
    assert "\n94,6.554\n95,0.257\n" in written and "\n99,0.257\n100,6.554\n" in written
    found = ab_percentiles(written, 10)
    assert list(found) == list(range(101))
    assert list(found.values()) == sorted(found.values())
    assert (found[50], found[94], found[95], found[99], found[100]) == (
        1.724,
        6.554,
        6.554,
        6.554,
        6.554,
    )
    for printed in ("-4611686018427.388", "9223372036854775.807", "-nan"):
        assert ab_percentiles(written.replace("0.257", printed), 10) == found
    with pytest.raises(Damaged, match="no row for 100 %"):
        ab_percentiles(written.replace("100,6.554\n", ""), 10)


def test_ab_percentiles_reads_every_row_of_51_requests() -> None:
    written = read("ab-51-requests.csv")
    rows = [line.split(",") for line in written.splitlines()[1:]]
    assert ab_percentiles(written, 51) == {int(percent): float(ms) for percent, ms in rows}


@pytest.mark.parametrize("reader", [ab, lambda text: ab_percentiles(text, 1000)])
def test_ab_refuses_other_text(reader: object) -> None:
    assert callable(reader)
    for other in (
        "",
        "ab: command not found",
        read("ab-refused.txt")[1:],
        "Percentage served\n1,1",
    ):
        with pytest.raises(Damaged, match="ab"):
            reader(other)


def test_ab_percentiles_names_a_broken_row() -> None:
    with pytest.raises(Damaged, match="line 5 of ab's file"):
        ab_percentiles(read("ab-keepalive.csv").replace("\n3,", "\n3;"), 1000)


def test_httping_summary_agrees_with_its_times() -> None:
    for name in ("200ms", "loopback", "split"):
        found = httping_of(name)
        assert found.answered == len(found.times_ms)
        assert (found.min_ms, found.max_ms) == pytest.approx(
            (min(found.times_ms), max(found.times_ms)), abs=0.06
        )
        assert found.mean_ms == pytest.approx(sum(found.times_ms) / len(found.times_ms), abs=0.06)


def test_httping_reads_the_articles_lines() -> None:
    found = httping(ARTICLE)
    assert found.times_ms == (17.37, 1.22)
    assert found.mean_ms == 9.3


def test_httping_refuses_other_text() -> None:
    for text in ("", "httping: command not found", "round-trip min/avg/max = 1.2/9.3/17.4 ms"):
        with pytest.raises(Damaged, match="not the output of httping"):
            httping(text)


def test_wget_reads_every_unit() -> None:
    assert wget(read("wget-200k.txt")).mean_mib_s == pytest.approx(375 / 1024)
    assert wget(read("wget-no-rows.txt")).mean_mib_s == pytest.approx(5.10 * 1024)
    bits = wget(read("wget-bits.txt"))
    assert bits.mean_mib_s == pytest.approx(14.3e9 / 8 / MIB)
    assert bits.rows[0].rate_mib_s == bits.mean_mib_s


def test_wget_with_default_dots() -> None:
    found = wget(read("wget-default-dots.txt"))
    assert len(found.rows) > 30
    assert found.rows[-1].percent == 100
    assert found.saved_bytes == 2_000_000
    slow = wget(read("wget-limited.txt"))
    assert slow.duration_s == 1.8


def test_wget_that_was_stopped_has_no_summary() -> None:
    found = wget(read("wget-stopped.txt"))
    assert not found.complete
    assert (found.saved_bytes, found.mean_mib_s, found.duration_s) == (None, None, None)
    assert found.length_bytes == 300 * MIB
    assert [row.start_bytes for row in found.rows] == [0, 32 * MIB]


def test_wget_of_a_failed_request() -> None:
    assert wget(read("wget-not-found.txt")).status == 404
    assert wget(read("wget-refused.txt")).status is None


def test_wget_refuses_other_text() -> None:
    with pytest.raises(Damaged, match="not a log of wget"):
        wget("curl: (7) Failed to connect")


RATE_PER_S = 250
"""Of vegeta-open.csv: 50 % of what a server with 2 ms per request can do."""


@pytest.mark.parametrize("name", ["wrk-1.txt", "wrk-100.txt"])
def test_wrk_counts_each_response_once(name: str) -> None:
    text = (FIXTURES / name).read_text()
    found = wrk(text)
    assert found.failed == 0
    assert sum(found.latencies_us.values()) == found.requests
    printed = sum(int(line.split(",")[1]) for line in text.split("count\n")[1].splitlines())
    assert printed > found.requests  # wrk has added some


@pytest.mark.parametrize("name", ["wrk-1.txt", "wrk-100.txt"])
def test_wrk_mean_with_added_requests_is_the_printed_one(name: str) -> None:
    """wrk prints two decimals in us or ms: half of the last digit is its rounding."""
    text = (FIXTURES / name).read_text()
    match = re.search(r"Latency +([\d.]+)(us|ms)", text)
    assert match is not None
    unit = {"us": 1, "ms": 1000}[match[2]]
    assert wrk(text).added_mean_us == pytest.approx(float(match[1]) * unit, abs=0.005 * unit)


def corrected(counts: dict[int, int], interval: int) -> dict[int, int]:
    """What stats_correct of wrk 4.1 (src/stats.c) does to a histogram."""
    found = dict(counts)
    for value in range(2 * interval, max(counts) + 1):
        added = value - interval
        while found.get(value) and added > interval:
            found[added] = found.get(added, 0) + found[value]
            added -= interval
    return found


@given(
    counts=st.dictionaries(st.integers(1, 400), st.integers(1, 50), min_size=1),
    interval=st.integers(1, 300),
)
def test_without_added_inverts_the_correction_of_any_histogram(
    counts: dict[int, int], interval: int
) -> None:
    assert without_added(corrected(counts, interval), interval) == dict(sorted(counts.items()))


def test_without_added_refuses_a_histogram_that_was_not_corrected() -> None:
    with pytest.raises(Damaged, match="not one that wrk corrected"):
        without_added({10: 5, 100: 1}, 10)


@pytest.mark.parametrize("cut", ["requests,", "duration_us,", "latency_us", " connections\n"])
def test_wrk_refuses_an_output_without_a_part(cut: str) -> None:
    text = (FIXTURES / "wrk-1.txt").read_text()
    with pytest.raises(Damaged):
        wrk(text.replace(cut, "", 1))


def test_vegeta_has_every_request_in_order() -> None:
    hits = vegeta((FIXTURES / "vegeta-open.csv").read_text())
    assert [one.sequence for one in hits] == list(range(RATE_PER_S))  # of one second
    assert all(one.status == 200 and one.latency_ns > 0 for one in hits)
    assert sorted(one.began_ns for one in hits) == [one.began_ns for one in hits]


def test_intended_latency_is_never_below_the_one_from_sending() -> None:
    hits = vegeta((FIXTURES / "vegeta-open.csv").read_text())
    intended, sent = intended_us(hits, RATE_PER_S), intended_us(hits, 0)
    assert all(one >= other for one, other in zip(intended, sent, strict=True))
    assert sent == [one.latency_ns // 1000 for one in hits]
    span_ns = hits[-1].began_ns - hits[0].began_ns
    assert span_ns == pytest.approx((len(hits) - 1) * 1e9 / RATE_PER_S, rel=0.05)


def test_intended_latency_counts_the_wait_of_a_late_request() -> None:
    """Intended at 0, 10 and 20 ms, all answered in 1 ms; the second one is sent 7 ms late."""
    hits = [Hit(0, 0, 10**6, 200), Hit(1, 17 * 10**6, 10**6, 200), Hit(2, 20 * 10**6, 10**6, 200)]
    assert intended_us(hits, 100) == [1000, 8000, 1000]


@pytest.mark.parametrize("text", ["", "1,2,3\n", "a,200,1,0,0,,,,0,GET,u,\n"])
def test_vegeta_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged):
        vegeta(text)


def test_vegeta_refuses_a_gap() -> None:
    lines = (FIXTURES / "vegeta-open.csv").read_text().splitlines(keepends=True)
    with pytest.raises(Damaged, match="without a gap"):
        vegeta("".join(lines[:10] + lines[11:]))


STREAM = """{"flows": [{"flow": 0, "role": "receive", "begin_ns": 1790000003940051200,
 "end_ns": 1790000024124634624, "bytes": 119402712, "ended": "stop", "timeline":
 [[1790000004060299776, 49152], [1790000004160659968, 344064]], "sndbuf_bytes": 16384,
 "rcvbuf_bytes": 131072, "control": "cubic"}]}"""
REQUESTS = """{"requests": [{"due_ns": 1790000000900000000, "sent_ns": 1790000000940120576,
 "done_ns": 1790000000980121856, "bytes": 1160},
 {"due_ns": 1790000001000000000, "sent_ns": null, "done_ns": null, "bytes": null}]}"""
FQ_CODEL = """[{"kind": "fq_codel", "handle": "10:", "drops": 12, "maxpacket": 1514,
 "drop_overlimit": 0, "new_flow_count": 33, "ecn_mark": 7}]"""
CAKE = """[{"kind": "cake", "drops": 3, "tins": [{"drops": 1, "ecn_mark": 4, "ack_drops": 0},
 {"drops": 2, "ecn_mark": 5}]}, {"kind": "red", "marked": 2, "early": 1}]"""


def test_streams_have_the_bytes_over_time() -> None:
    (one,) = streams(json.loads(STREAM))
    assert (one.flow, one.role, one.control, one.ended) == (0, "receive", "cubic", "stop")
    assert one.bytes == 119_402_712
    assert one.timeline[-1] == (1_790_000_004_160_659_968, 344_064)


def test_requests_are_timed_from_the_moment_at_which_they_were_due() -> None:
    """Two round trips of 40 ms: a handshake and the request. The second one has no answer."""
    answered, open_ = requests(json.loads(REQUESTS))
    assert answered.latency_ms == pytest.approx(80.12, abs=0.01)
    assert open_.latency_ms is None and open_.sent_ns is None


def test_marked_packets_are_counted_in_every_tin() -> None:
    assert marked_packets(json.loads(FQ_CODEL)) == 7
    assert marked_packets(json.loads(CAKE)) == 11
    assert marked_packets({"server": json.loads(FQ_CODEL), "client": json.loads(CAKE)}) == 18


@pytest.mark.parametrize(
    ("name", "value"),
    [("bytes", -1), ("bytes", None), ("flow", True), ("role", "both"), ("timeline", [[1]])],
)
def test_streams_refuse_values_that_no_program_writes(name: str, value: Any) -> None:
    said = json.loads(STREAM)
    said["flows"][0][name] = value
    with pytest.raises(Damaged):
        streams(said)


@pytest.mark.parametrize("said", [[], {}, {"flows": 1}, {"flows": [1]}, None])
def test_streams_refuse_other_json(said: Any) -> None:
    with pytest.raises(Damaged, match="list of flows"):
        streams(said)


@pytest.mark.parametrize("said", ["text", None, 5])
def test_marked_packets_refuse_other_json(said: Any) -> None:
    with pytest.raises(Damaged, match="list of qdiscs"):
        marked_packets(said)


@pytest.mark.parametrize("said", [None, {}, {"threads": []}, {"user_us": "1"}, [1]])
def test_server_refuses_another_object(said: object) -> None:
    with pytest.raises(Damaged):
        server(said)


@pytest.mark.parametrize("said", [None, [{}], [{"factor": "rules"}], {"effective": True}])
def test_settings_refuses_another_object(said: object) -> None:
    with pytest.raises(Damaged):
        settings(said)


def report(name: str) -> object:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iperf3-interrupted.json", "interrupt - the client has terminated"),
        ("iperf3-refused.json", "socket buffer size not set correctly"),
    ],
)
def test_error_of_a_real_report(name: str, expected: str) -> None:
    assert iperf3_error(report(name)) == expected


def test_error_of_a_report_without_one() -> None:
    assert iperf3_error({"start": {}, "end": {}}) is None


@pytest.mark.parametrize(
    "said",
    [None, [], "iperf3", {}, {"start": []}, {"start": {}, "error": 1}, {"start": {}, "error": ""}],
)
def test_error_of_no_report_is_damaged(said: object) -> None:
    with pytest.raises(Damaged, match=r"report|text"):
        iperf3_error(said)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda one: (
            st.dictionaries(st.sampled_from(["start", "error", "end"]), one) | st.lists(one)
        ),
    )
)
def test_error_of_any_json_is_a_text_or_damaged(said: object) -> None:
    try:
        found = iperf3_error(said)
    except Damaged:
        return
    assert found is None or isinstance(found, str)
