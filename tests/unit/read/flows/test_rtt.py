"""How far the ends of a connection are, and how long each segment waited for its ACK."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from labs.read.capture import connections, read
from labs.read.flows.connection_state import connection_state
from labs.read.flows.rtt import UNBOUNDED_NS, distances, time_to_ack
from tests.captures import without_syns
from tests.made_flows import ACK, SYN, capture, segment

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"
# Of nagle-off.pcap.gz: 200 requests on 20 connections.
REQUESTS, CONNECTIONS = 200, 20
PORT = 20_000


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
