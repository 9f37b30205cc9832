"""What the programs of a run and iperf3 3.12 report, in excerpts of real runs, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import Damaged
from labs.read.parse.reports import (
    iperf3_error,
    marked_packets,
    requests,
    server,
    settings,
    streams,
)

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
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
