"""Requests, their steps and find_stalls, from captures of real servers."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy
import pandas
import pytest

from labs.read.capture import read
from labs.read.flows.connection_state import connection_state, mss_bytes
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, exchanges, followed
from labs.read.flows.reasons import NAGLE_AND_DELAYED_ACK
from labs.read.flows.waits import stalls
from tests.made_flows import ACK, BEGIN_US, PSH, SYN, Segment, capture, segment

FOLDER = Path(__file__).parents[3] / "fixtures" / "exchanges"
# ab's report of the run that is recorded: 200 requests on 20 connections, 615 bytes of page and
# 238 of head, 101 bytes of request.
REQUESTS, CONNECTIONS = 200, 20
PORT = 20_000


@cache
def table(name: str) -> pandas.DataFrame:
    return exchanges(read(next(FOLDER.glob(f"{name}.pcap*"))))


def test_exchanges_gap_is_that_of_the_segments() -> None:
    segments = read(FOLDER / "nagle-off.pcap.gz")
    row = table("nagle-off").query("request == 3").iloc[0]
    packets = segments[segments["connection"] == row["connection"]].loc[
        row["first_row"] : row["last_row"]
    ]
    gaps = packets["time_ns"].diff()
    assert gaps.idxmax() == row["gap_before"]
    assert gaps.max() / 1e6 == pytest.approx(row["gap_ms"])
    assert len(packets) == row["segments"]


def test_exchanges_of_no_request_is_empty() -> None:
    segments = read(FOLDER / "nagle-on.pcap.gz")
    for none in (segments[:0], segments[segments["payload_bytes"] == 0]):
        rows = exchanges(none)
        assert rows.empty and list(rows) == list(table("nagle-on"))
        assert numpy.isnan(followed(rows, ARTICLE_ON).share)


def offer(mss: int, timestamps: bool = True) -> bytes:
    """The options of a SYN."""
    return struct.pack(">BBH", 2, 4, mss) + (b"\x08\x0a" + bytes(8) if timestamps else b"")


def asked(
    gap_us: int,
    parts: list[int],
    to_client_us: int = 50,
    to_server_us: int = 50,
    offers: tuple[bytes, bytes] = (b"", b""),
) -> list[Segment]:
    """A request and the parts of its answer, which wait for an ACK that comes `gap_us` later;
    seen from a place that lies so far from both, there and back."""
    at, sent = BEGIN_US, 5000
    made = [
        (at, segment(PORT, 0, 999, 0, SYN, options=offers[0])),
        (at + to_server_us, segment(PORT, 1, 4999, 1000, SYN | ACK, options=offers[1])),
        (at + to_server_us + to_client_us, segment(PORT, 0, 1000, 5000, ACK)),
    ]
    at += to_server_us + to_client_us
    made.append((at, segment(PORT, 0, 1000, 5000, PSH | ACK, length=10)))
    at += to_server_us
    for length in parts:
        made.append((at, segment(PORT, 1, sent, 1010, PSH | ACK, length=length)))
        sent += length
        at += gap_us
        made.append((at, segment(PORT, 0, 1010, sent, ACK)))
    return made


@pytest.mark.parametrize(
    ("gap_us", "parts", "reason", "waiting"),
    [
        (40_000, [200, 200], NAGLE_AND_DELAYED_ACK.name, "server"),
        (40_000, [200], "delayed ACK", "nobody"),
        # Nagle holds back no full segment, and none behind a full one (tcp_minshall_check).
        (40_000, [200, 1448], "cannot be told", "server"),
        (40_000, [1448, 200], "cannot be told", "server"),
        (400_000, [200, 200], "cannot be told", "server"),  # beyond TCP_DELACK_MAX
        (4_000, [200, 200], "Nagle waits a round trip", "server"),
    ],
)
def test_exchanges_reasons_of_made_answers(
    gap_us: int, parts: list[int], reason: str, waiting: str, tmp_path: Path
) -> None:
    rows = exchanges(read(capture(tmp_path / "made.pcap", asked(gap_us, parts))))
    assert (rows["reason"].iloc[0], rows["waiting"].iloc[0]) == (reason, waiting)


@pytest.mark.parametrize(
    ("client", "server", "full"),
    [
        (offer(1360), offer(1360), 1348),
        (offer(1460), offer(1360), 1348),
        (offer(1360), offer(1460), 1348),
        (offer(1360, timestamps=False), offer(1460), 1360),
        (offer(8960), offer(8960), 8948),
        (b"", b"", 1448),
        (offer(1460), b"", 1448),
    ],
)
def test_mss_bytes_from_the_handshake(
    client: bytes, server: bytes, full: int, tmp_path: Path
) -> None:
    """Nagle holds back no full segment, and one that lacks a byte (test_theory_nagle)."""
    path = tmp_path / "made.pcap"
    for parts, reason in (
        ([full] * 4, "cannot be told"),
        ([full - 1] * 2, NAGLE_AND_DELAYED_ACK.name),
        ([200, full], "cannot be told"),
        ([200, full - 1], NAGLE_AND_DELAYED_ACK.name),
    ):
        segments = read(capture(path, asked(44_000, parts, offers=(client, server))))
        silent = stalls(segments)["reason"].tolist()
        assert silent == [reason] * (len(parts) - 1) + ["delayed ACK"], parts
        assert set(exchanges(segments)["reason"]) == {reason}
        assert set(connection_state(segments).mss_bytes) == {full}


@pytest.mark.parametrize(
    ("sizes", "flags", "full"),
    [
        ([1348, 1348], ACK, 1348),
        ([2696, 2696, 1348, 1348], ACK, 1348),
        ([8948, 8948], ACK, 8948),
        ([1348, 1348], ACK | PSH, 1448),  # each ends a write: no sign of a full one
        ([1348], ACK, 1448),
        ([100, 100], ACK, 1448),
    ],
)
def test_mss_bytes_without_a_handshake(
    sizes: list[int], flags: int, full: int, tmp_path: Path
) -> None:
    made, at = [], 1
    for number, size in enumerate(sizes):
        made.append((number, segment(PORT, 1, at, 1, flags, length=size)))
        at += size
    assert set(mss_bytes(read(capture(tmp_path / "middle.pcap", made)))) == {full}


@pytest.mark.parametrize(
    "first",
    [
        [160, 1448],  # labs.read.theory.nagle.sent((160, 2895), 1448) holds 1447
        [2060],
    ],
)  # 1448 and 612, which the device cuts up (TSO)
def test_exchanges_nagle_goes_by_the_last_small_segment(first: list[int], tmp_path: Path) -> None:
    """Minshall's form: full segments behind a small one, or in one frame with it, hide nothing."""
    offers = (offer(1460), offer(1460))
    for gap_us, reason in (
        (4_000, "Nagle waits a round trip"),
        (44_000, NAGLE_AND_DELAYED_ACK.name),
    ):
        made, sent = asked(gap_us, [], offers=offers), 5000
        at = made[-1][0] + 50
        for length in first:
            made.append((at, segment(PORT, 1, sent, 1010, ACK, length=length)))
            sent += length
        made += [
            (at + gap_us, segment(PORT, 0, 1010, sent, ACK)),
            (at + gap_us + 10, segment(PORT, 1, sent, 1010, PSH | ACK, length=200)),
            (at + gap_us + 20, segment(PORT, 0, 1010, sent + 200, ACK)),
        ]
        rows = exchanges(read(capture(tmp_path / "made.pcap", made)))
        assert (rows["reason"].iloc[0], rows["waiting"].iloc[0]) == (reason, "server")


def test_exchanges_unacknowledged_small_segment_cannot_be_told(tmp_path: Path) -> None:
    """An ACK of the full one before it frees nothing; what then leaves was not held by Nagle."""
    made = asked(44_000, [], offers=(offer(1460), offer(1460)))
    at = made[-1][0] + 50
    made += [
        (at, segment(PORT, 1, 5000, 1010, ACK, length=1448)),
        (at + 10, segment(PORT, 1, 6448, 1010, ACK, length=200)),
        (at + 44_010, segment(PORT, 0, 1010, 6448, ACK)),
        (at + 44_020, segment(PORT, 1, 6648, 1010, PSH | ACK, length=200)),
    ]
    rows = exchanges(read(capture(tmp_path / "made.pcap", made)))
    assert rows["reason"].iloc[0] == "cannot be told"


def test_exchanges_distinguish_a_far_receiver_from_a_delayed_ack(tmp_path: Path) -> None:
    """An ACK after 205 ms from a client at a distance of 200 is prompt."""
    rows = exchanges(read(capture(tmp_path / "far.pcap", asked(205_000, [200, 200], 200_000, 50))))
    assert rows["reason"].iloc[0] == "Nagle waits a round trip"
    assert "silence" not in rows["steps"].iloc[0]


def test_exchanges_delayed_ack_counts_before_a_longer_path() -> None:
    """The link of this run delays what the server sends by 60 ms, before its tcpdump sees it: the
    way is longer than the 40 ms that the client holds its ACK back."""
    rows = table("nagle-delay")
    stalled = rows[rows["steps"] == ARTICLE_OFF]
    assert len(rows) == 60 and len(stalled) == 56
    assert set(stalled["reason"]) == {NAGLE_AND_DELAYED_ACK.name}
    assert stalled["gap_ms"].between(40, 48).all()
    assert (stalled["latency_ms"] > 2 * 60 + 40).all()
