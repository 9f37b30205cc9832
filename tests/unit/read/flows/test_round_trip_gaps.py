"""Gaps that a round trip explains: of a download, of requests, at the server and at the client."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from labs.read.capture import read
from labs.read.flows.connection_state import connection_state
from labs.read.flows.round_trip_gaps import ACKS, CLOSE, HANDSHAKE, RESPONSE, round_trips
from tests.captures import without_syns
from tests.made_flows import random_capture

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"


def found(path: Path, min_gap_ms: float = 20.0) -> pandas.DataFrame:
    return round_trips(connection_state(read(path)), min_gap_ms=min_gap_ms)


def test_round_trips_of_a_download() -> None:
    """200 ms: the handshake, the request, five bursts of slow start, of which the last one's next
    burst began before the delayed ACK of the one before; the end."""
    rows = found(FOLDER / "download.pcap.gz")
    assert list(zip(rows["after"], rows["what"], strict=True)) == [
        (1, HANDSHAKE),
        (4, RESPONSE),
        *((row, ACKS) for row in (15, 35, 75, 155, 317, 635)),
        (719, CLOSE),
    ]
    assert rows["gap_ms"][:6].between(199, 200.1).all()
    assert (rows["after"] == rows["before"] + 1).all() and rows["at_ns"].is_monotonic_increasing


def test_round_trips_at_the_server_are_ended_by_acks() -> None:
    """60 ms between ab and nginx: handshakes, and the client's ACKs as the server hears them."""
    rows = found(FOLDER / "nagle-delay.pcap.gz")
    assert set(rows["what"]) <= {HANDSHAKE, ACKS, RESPONSE, CLOSE} and len(rows) > 50
    assert rows["gap_ms"].between(30, 80).all()


@pytest.mark.parametrize("name", ["nagle-off.pcap.gz", "outage.pcap"])
def test_round_trips_of_a_short_path_are_none(name: str) -> None:
    assert found(FOLDER / name).empty


def test_round_trips_of_unknown_rtt_are_none(tmp_path: Path) -> None:
    assert found(without_syns(FOLDER / "download.pcap.gz", tmp_path / "late.pcap")).empty
    assert found(random_capture(tmp_path / "made.pcap", 1), 0.001).columns.size == 6


def test_round_trips_below_the_minimum_are_left_out() -> None:
    assert found(FOLDER / "download.pcap.gz", 190)["gap_ms"].min() > 190
