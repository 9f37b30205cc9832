"""What a port sent, by the capture: real captures and the same ones with other numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs.errors import BadInput, Damaged
from labs.read.readings.instruments import Carried, carried

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
LOSS = FIXTURES / "loss.pcap"
NANO = FIXTURES / "nano.pcap"
HTTP_HEADER_BYTES = 244


def records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The header and the frame of each record."""
    at = 24
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        yield data[at : at + 16], data[at + 16 : at + 16 + length]
        at += 16 + length


def rewritten(target: Path, change: Callable[[bytes], bytes]) -> Path:
    """The capture with losses, each frame changed."""
    data = LOSS.read_bytes()
    parts = [data[:24]]
    for header, frame in records(data):
        kept = change(frame)
        parts.append(header[:8] + struct.pack("<I", len(kept)) + header[12:] + kept)
    target.write_bytes(b"".join(parts))
    return target


def test_carried_counts_retransmissions_once() -> None:
    """204,800 bytes of file and the HTTP header; netem dropped before the place of capture."""
    found = carried(LOSS, 80)
    assert found.payload_bytes == 204_800 + HTTP_HEADER_BYTES
    times_ns = [
        seconds * 10**9 + microseconds * 1000
        for header, frame in records(LOSS.read_bytes())
        for seconds, microseconds in [struct.unpack("<II", header[:8])]
        if frame[34:36] == b"\0P" and int.from_bytes(frame[16:18], "big") > 60
    ]
    assert found.took_ns == times_ns[-1] - times_ns[0]


def test_carried_reads_nanoseconds_and_segments_above_the_mtu() -> None:
    assert carried(NANO, 80).payload_bytes == 307_200 + HTTP_HEADER_BYTES


def test_carried_of_the_other_direction() -> None:
    port = int.from_bytes(next(records(LOSS.read_bytes()))[1][34:36], "big")
    assert carried(LOSS, port).payload_bytes in range(100, 200)


def test_carried_of_another_port_is_nothing() -> None:
    assert carried(LOSS, 9) == Carried(0, 0)


def test_carried_needs_headers_only(tmp_path: Path) -> None:
    short = rewritten(tmp_path / "short.pcap", lambda frame: frame[:66])
    assert carried(short, 80) == carried(LOSS, 80)


def test_carried_over_a_wrap_of_sequence_numbers(tmp_path: Path) -> None:
    def shift(frame: bytes) -> bytes:
        at = 38 if frame[34:36] == b"\0P" else 42
        number = (int.from_bytes(frame[at : at + 4], "big") + offset) % 2**32
        return frame[:at] + number.to_bytes(4, "big") + frame[at + 4 :]

    first = next(frame for _, frame in records(LOSS.read_bytes()) if frame[47] & 0x12 == 0x12)
    offset = 2**32 - 100_000 - int.from_bytes(first[38:42], "big")
    assert carried(rewritten(tmp_path / "wrapped.pcap", shift), 80) == carried(LOSS, 80)


def test_carried_without_the_handshake(tmp_path: Path) -> None:
    """Without SYNs the first segment with payload begins the count."""
    data = LOSS.read_bytes()
    kept = [header + frame for header, frame in records(data) if not frame[47] & 2]
    (tmp_path / "late.pcap").write_bytes(data[:24] + b"".join(kept))
    assert carried(tmp_path / "late.pcap", 80) == carried(LOSS, 80)


@pytest.mark.parametrize("cut_bytes", [1, 50, 110])
def test_carried_of_a_cut_capture(tmp_path: Path, cut_bytes: int) -> None:
    target = tmp_path / "cut.pcap"
    target.write_bytes(LOSS.read_bytes()[:-cut_bytes])
    assert replace(carried(target, 80), took_ns=0) == replace(carried(LOSS, 80), took_ns=0)


@given(body=st.binary(max_size=400), cut=st.integers(0, 3000), keep=st.booleans())
@settings(max_examples=60)
def test_carried_of_any_bytes(body: bytes, cut: int, keep: bool) -> None:
    real = LOSS.read_bytes()
    data = real[:24] + body if keep else real[:cut] + body + real[cut + len(body) : 6000]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        path.write_bytes(data)
        try:
            assert carried(path, 80).payload_bytes >= 0
        except (BadInput, Damaged) as refused:
            assert "\n" not in str(refused)
