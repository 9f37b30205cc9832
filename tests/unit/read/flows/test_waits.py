"""Waits of connections: states, distances, stalls."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

from labs.errors import BadInput
from labs.read.capture import connections, read
from labs.read.figures.ladder import ladder
from labs.read.figures.time_sequence import time_sequence
from labs.read.flows import connection_state as states
from labs.read.flows import limits, reasons, rtt
from labs.read.flows.connection_state import connection_state
from labs.read.flows.exchanges import exchanges
from labs.read.flows.rtt import UNBOUNDED_NS, distances, time_to_ack
from labs.read.flows.waits import explained_waits, find_stalls, stalls
from tests.captures import without_syns
from tests.made_flows import ACK, PSH, SYN, capture, random_capture, segment

PORT = 20_000
PASSES = ((states, "write_states"), (states, "find_first_acks"), (rtt, "_find_distances"))


def performed_by_python(function: Any) -> Callable[..., Any]:
    """A native function as it is performed without a compiler."""

    def call(*given: Any) -> Any:
        plain = [one.data if isinstance(one, numpy.ndarray) else one for one in given]
        return function.__wrapped__(*plain)

    return call


@pytest.fixture
def dialogue(tmp_path: Path) -> Any:
    """A request of 500 bytes, a response of two segments, and an ACK that closes the window."""
    mss = b"\2\4\5\xb4"  # 1460
    frames = [
        segment(PORT, 0, 1000, 0, SYN, window=8000, options=mss),
        segment(PORT, 1, 5000, 1001, SYN | ACK, window=9000, options=mss),
        segment(PORT, 0, 1001, 5001, ACK, window=8000),
        segment(PORT, 0, 1001, 5001, ACK | PSH, window=8000, length=500),
        segment(PORT, 1, 5001, 1501, ACK, window=9000, length=1460),
        segment(PORT, 1, 6461, 1501, ACK | PSH, window=9000, length=100),
        segment(PORT, 0, 1501, 6561, ACK, window=0),
        segment(PORT, 1, 6561, 1501, ACK, window=9000, length=1),
    ]
    return read(capture(tmp_path / "made.pcap", [*enumerate(frames)]))


def test_state_is_what_was_seen_before_each_segment(dialogue: Any) -> None:
    """RFC 9293 3.4 and 3.8.6; SYNs count as one. Nothing is known before a side's first segment."""
    known = connection_state(dialogue)
    assert known.sent[0].tolist() == [-1, 1, 1, 1, 501, 501, 501, 501]
    assert known.sent[1].tolist() == [-1, -1, 1, 1, 1, 1461, 1561, 1561]
    assert known.acked[0].tolist() == [-1, -1, 1, 1, 1, 501, 501, 501]
    assert known.acked[1].tolist() == [-1, -1, -1, 1, 1, 1, 1, 1561]
    assert known.edge[0].tolist() == [-1, -1, 9001, 9001, 9001, 9501, 9501, 9501]
    assert known.edge[1].tolist() == [-1, -1, -1, 8001, 8001, 8001, 8001, 1561]
    assert known.window[0].tolist() == [-1, 8000, 8000, 8000, 8000, 8000, 8000, 0]
    assert known.shut[0].tolist() == [-1, -1, -1, 0, 0, 0, 0, 1]
    assert known.small[0].tolist() == [-1, -1, -1, -1, 501, 501, 501, 501]
    assert known.small[1].tolist() == [-1, -1, -1, -1, -1, -1, 1561, 1561]


@pytest.mark.parametrize("seed", range(3))
def test_passes_give_the_same_in_c_and_in_python(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = read(random_capture(tmp_path / "random.pcap", seed))
    one_sided = segments[segments["direction"] == 0]
    tables = (segments, one_sided, segments[:0])

    def found(table: Any) -> list[Any]:
        known = connection_state(table)
        pairs = (known.sent, known.acked, known.edge, known.window, known.shut, known.small)
        arrays = (*(side for pair in pairs for side in pair), known.acked_by)
        return [*(one.tolist() for one in arrays), rtt.distances(known)]

    in_c = [found(table) for table in tables]
    for module, name in PASSES:
        monkeypatch.setattr(module, name, performed_by_python(getattr(module, name)))
    assert [found(table) for table in tables] == in_c


def test_chain_ends_with_the_last_place() -> None:
    assert limits._chain(numpy.array([2, 2, 3, 5, 5])).tolist() == [0, 2, 3]


def test_other_directions_are_refused(dialogue: Any) -> None:
    dialogue.loc[3, "direction"] = 2
    with pytest.raises(BadInput, match=r"a direction of 0 or 2\. Allowed: 0"):
        connection_state(dialogue)


FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"
# Of nagle-off.pcap.gz: 200 requests on 20 connections.
REQUESTS, CONNECTIONS = 200, 20


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.pcap*")))
def test_distances_rtt_is_at_most_that_of_the_handshake(name: str) -> None:
    """It is the shortest that the connection shows; a handshake waits for a program to wake up."""
    far = distances(connection_state(read(FOLDER / name)))
    expected = connections(FOLDER / name).set_index("connection")["handshake_rtt_ns"]
    found = pandas.Series([each.rtt_ns if each.is_measured else -1 for each in far])
    whole = expected >= 0
    assert (found[whole] >= 0).all() and (found[whole] <= expected[whole]).all()
    assert (found[expected > 1e6] > 0.9 * expected[expected > 1e6]).all()


@pytest.mark.parametrize(("name", "rtt_ms"), [("lossy.pcap.gz", 40), ("nagle-delay.pcap.gz", 60)])
def test_distances_are_bounded_by_the_fastest_ack(name: str, rtt_ms: float, tmp_path: Path) -> None:
    """By the delay of netem that these were recorded with (tests/fixtures/exchanges)."""
    late = read(without_syns(FOLDER / name, tmp_path / "late.pcap"))
    for far in distances(connection_state(late)):
        assert far.far_ns[1] / 1e6 == pytest.approx(rtt_ms, abs=0.01) and far.far_ns[0] == 0


def test_distances_of_one_sided_data_are_unbounded() -> None:
    """Nobody sends the server anything to acknowledge: how far it is cannot be known."""
    segments = read(FOLDER / "lossy.pcap.gz")
    segments = segments[
        (segments["flags"] & 2 == 0)
        & ((segments["direction"] == 1) | (segments["payload_bytes"] == 0))
    ]
    (far,) = distances(connection_state(segments))
    assert far.far_ns[1] == far.rtt_ns == UNBOUNDED_NS and far.far_ns[0] < 1_000_000


def flow(path: Path, sent: list[tuple[int, int, int]], acked: int) -> Path:
    """What the client sends, (ms, relative number, length) each, and the ACK of all, 1 ms later."""
    made = [
        (1000 * at, segment(PORT, 0, 1000 + seq, 5001, ACK, length=length))
        for at, seq, length in sent
    ]
    at = 1000 * (sent[-1][0] + 1)
    return capture(
        path,
        [
            (0, segment(PORT, 0, 1000, 0, SYN)),
            (0, segment(PORT, 1, 5000, 1001, SYN | ACK)),
            *made,
            (at, segment(PORT, 1, 5001, 1000 + acked, ACK)),
        ],
    )


def test_time_to_ack_of_every_segment_with_data() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    acks = time_to_ack(segments)
    answers = acks[acks["direction"] == 1]
    assert len(acks) == 3 * REQUESTS and acks["ms"].notna().all()
    assert acks["direction"].dtype == "int64"
    # The first part waits for the delayed ACK, the rest for none.
    assert (answers["ms"] > 40).sum() == REQUESTS - CONNECTIONS
    one = answers[answers["ms"] > 40].iloc[0]
    covers = segments.loc[one["acked_by"]]
    sent = segments.loc[one["row"]]
    assert covers["ack_rel"] >= sent["seq_rel"] + sent["payload_bytes"]
    assert (covers["time_ns"] - sent["time_ns"]) / 1e6 == pytest.approx(one["ms"])


def test_time_to_ack_leaves_out_retransmitted_segments() -> None:
    """Karn's algorithm: one of the twelve answers and one of the requests came twice."""
    acks = time_to_ack(read(FOLDER / "outage.pcap"))
    assert acks.groupby("direction").size().to_dict() == {0: 11, 1: 11}
    assert acks["ms"].max() < 1


@pytest.mark.parametrize(
    "sent",
    [
        [(1, 1, 100), (2, 101, 100), (300, 1, 200)],  # two of them, joined
        [(1, 1, 2896), (300, 1449, 1448)],  # the second half of what was one for TSO
        [(1, 1, 100), (300, 51, 150)],  # with new data behind it
    ],
)
def test_time_to_ack_leaves_out_data_repeated_in_other_pieces(
    sent: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    last = max(begin + length for _, begin, length in sent)
    assert time_to_ack(read(flow(tmp_path / "again.pcap", sent, last))).empty
    fresh = [*sent, (400, last, 10)]
    acks = time_to_ack(read(flow(tmp_path / "fresh.pcap", fresh, last + 10)))
    assert acks["payload_bytes"].tolist() == [10] and acks["ms"].tolist() == [1.0]


def test_time_to_ack_without_an_ack_is_missing() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    acks = time_to_ack(segments[: len(segments) // 2])
    assert acks["ms"].isna().any()
    assert (acks["ms"].isna() == acks["acked_by"].isna()).all()
    assert time_to_ack(segments[:0]).empty


def found(name: str) -> pandas.DataFrame:
    return stalls(read(FOLDER / name))


@pytest.mark.parametrize(
    "name", ["nagle-on.pcap.gz", "nagle-no-k.pcapng.gz", "lossy.pcap.gz", "reordered.pcap.gz"]
)
def test_stalls_of_runs_without_one_are_empty(name: str) -> None:
    assert found(name).empty


def test_stalls_before_and_after_are_the_rows_around() -> None:
    segments = read(FOLDER / "outage.pcap")
    for _, row in stalls(segments).iterrows():
        before, after = segments.loc[row["before"]], segments.loc[row["after"]]
        assert (after["time_ns"] - before["time_ns"]) / 1e6 == pytest.approx(row["gap_ms"])
        assert before["time_ns"] == row["at_ns"]
        assert ("client", "server")[after["direction"]] == row["ended_by"]


def test_stalls_min_gap_ms() -> None:
    segments = read(FOLDER / "outage.pcap")
    assert (stalls(segments, min_gap_ms=100)["gap_ms"] > 100).all()
    assert len(stalls(segments, min_gap_ms=100)) < len(stalls(segments))
    assert stalls(segments[:0]).empty


# The reasons that are told without the handshake. lossy, reordered and nagle-delay have long RTTs.
LATE = (
    "lossy.pcap.gz",
    "reordered.pcap.gz",
    "nagle-on.pcap.gz",
    "nagle-delay.pcap.gz",
    "nagle-off.pcap.gz",
    "outage.pcap",
    "stopped-reader.pcap",
)


@pytest.mark.parametrize("name", LATE)
def test_find_stalls_without_the_handshake_invents_none(name: str, tmp_path: Path) -> None:
    """Each one is found with the handshake too, for the same reason or for one that is not told."""
    path = without_syns(FOLDER / name, tmp_path / "late.pcap")
    late, whole = find_stalls(explained_waits(read(path))), found(name)
    known = {(row["at_ns"], row["gap_ms"]): row["reason"] for _, row in whole.iterrows()}
    for _, row in late.table.iterrows():
        at = row["at_ns"], row["gap_ms"]
        assert row["reason"] == reasons.UNTOLD.name or row["reason"] == known[at], row
    if len(whole) > 100:
        assert (late.table["reason"] == reasons.NAGLE_AND_DELAYED_ACK.name).sum() == 180


def test_explained_has_words_and_source_for_every_reason() -> None:
    for name, reason in reasons.REASONS.items():
        assert reasons.explained(name) is reason
        assert reason.words.endswith(".") and reason.source
    nagle = reasons.NAGLE_AND_DELAYED_ACK
    for name in ("tcp_nagle_check", "__tcp_ack_snd_check", "tcp_send_delayed_ack", "HZ/25"):
        assert name in nagle.words + nagle.source


@pytest.mark.parametrize("seed", range(3))
def test_stalls_and_exchanges_of_random_flows(seed: int, tmp_path: Path) -> None:
    """Time that runs backwards, windows of unknown scale, connections without a beginning."""
    segments = read(random_capture(tmp_path / "made.pcap", seed))
    silent, rows, acks = stalls(segments), exchanges(segments), time_to_ack(segments)
    assert set(silent["reason"]) <= set(reasons.REASONS) and len(silent) > 100
    assert set(rows["reason"]) <= set(reasons.REASONS) and len(rows) > 50
    assert rows["segments"].sum() <= len(segments) and (rows["answer_bytes"] >= 0).all()
    carried = (segments["payload_bytes"] > 0).sum()
    assert 0 < len(acks) <= carried
    for number in segments["connection"].unique()[:5]:
        ladder(segments, int(number))
        time_sequence(segments, int(number))


def test_stalls_of_jumping_times_stay_fast() -> None:
    """Each second of these segments ends a silence, and nothing behind it has any payload."""
    count = 16_000
    real = read(FOLDER / "outage.pcap")
    segments = pandas.concat([real[:3], *[real[-1:]] * count], ignore_index=True)
    segments["time_ns"] = [0, 0, 0, *[0, 100_000_000] * (count // 2)]
    segments.loc[3:, "payload_bytes"], segments.loc[3:, "flags"] = 0, 16
    segments["ip_id"] = range(count + 3)  # no two are copies of one packet
    for name in ("payload_bytes", "flags", "time_ns"):
        segments[name] = segments[name].astype(real[name].dtype)
    begun = time.process_time()
    assert len(stalls(segments)) == count // 2
    assert time.process_time() - begun < 5
