"""The small capture reader: real captures, and the same ones in every form of the format."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labs.errors import BadInput, Damaged
from labs.read.parse.pcap import carried

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
LOSS = FIXTURES / "loss.pcap"
NANO = FIXTURES / "nano.pcap"


def records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 24
    while at < len(data):
        seconds, fraction, length, _ = struct.unpack_from("<IIII", data, at)
        yield seconds, fraction, data[at + 16 : at + 16 + length]
        at += 16 + length


def rewritten(
    source: Path,
    target: Path,
    change: Callable[[bytes], bytes] = lambda frame: frame,
    order: str = "<",
    nanoseconds: bool = False,
) -> Path:
    """The capture with another byte order, another clock, or its frames changed."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 1)]
    for seconds, fraction, frame in records(source.read_bytes()):
        kept = change(frame)
        scaled = fraction * 1000 if nanoseconds else fraction
        parts.append(struct.pack(order + "IIII", seconds, scaled, len(kept), len(frame)) + kept)
    target.write_bytes(b"".join(parts))
    return target


def test_a_download_with_losses() -> None:
    found = carried(LOSS, 80)
    # 204,800 bytes of file and 244 of HTTP header; netem dropped before the capture point.
    assert found.payload_bytes == 204_800 + 244
    assert (found.connections, found.skipped, found.truncated) == (1, 0, 0)
    assert found.handshake_ns is not None
    # The first SYN-ACK was dropped: one second until it was sent again, and 40 ms of link.
    assert 1_040_000_000 <= found.handshake_ns < 1_060_000_000
    assert found.first_ns is not None and found.last_ns is not None
    assert found.first_ns < found.last_ns


def test_nanoseconds_and_segments_larger_than_the_mtu() -> None:
    found = carried(NANO, 80)
    assert found.payload_bytes == 307_200 + 244
    assert found.segments < 307_200 / 1448
    assert found.handshake_ns == 20_000_256


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_every_byte_order_and_clock_says_the_same(
    tmp_path: Path, order: str, nanoseconds: bool
) -> None:
    again = rewritten(LOSS, tmp_path / "again.pcap", order=order, nanoseconds=nanoseconds)
    assert carried(again, 80) == carried(LOSS, 80)


def test_the_other_direction_and_another_port() -> None:
    port = int.from_bytes(next(records(LOSS.read_bytes()))[2][34:36], "big")
    assert carried(LOSS, port).payload_bytes in range(100, 200)
    nobody = carried(LOSS, 9)
    assert (nobody.payload_bytes, nobody.segments, nobody.first_ns) == (0, 0, None)
    assert nobody.packets == carried(LOSS, 80).packets


def test_only_the_headers_are_needed(tmp_path: Path) -> None:
    short = rewritten(LOSS, tmp_path / "short.pcap", change=lambda frame: frame[:66])
    assert carried(short, 80) == carried(LOSS, 80)


def test_sequence_numbers_may_wrap(tmp_path: Path) -> None:
    def shift(frame: bytes) -> bytes:
        source = int.from_bytes(frame[34:36], "big")
        at = 38 if source == 80 else 42
        number = (int.from_bytes(frame[at : at + 4], "big") + offset) % 2**32
        return frame[:at] + number.to_bytes(4, "big") + frame[at + 4 :]

    first = next(frame for _, _, frame in records(LOSS.read_bytes()) if frame[47] & 0x12 == 0x12)
    offset = 2**32 - 100_000 - int.from_bytes(first[38:42], "big")
    wrapped = rewritten(LOSS, tmp_path / "wrapped.pcap", change=shift)
    assert carried(wrapped, 80) == carried(LOSS, 80)


def test_retransmissions_are_counted_apart(tmp_path: Path) -> None:
    data = LOSS.read_bytes()
    extra = [record for record in records(data) if record[2][34:36] == b"\0P"][10]
    seconds, fraction, frame = extra
    again = struct.pack("<IIII", seconds, fraction, len(frame), len(frame)) + frame
    target = tmp_path / "again.pcap"
    target.write_bytes(data + again)
    before, after = carried(LOSS, 80), carried(target, 80)
    assert after.payload_bytes == before.payload_bytes
    assert after.repeated_bytes == before.repeated_bytes + 1448


@pytest.mark.parametrize("cut", [1, 50, 110])
def test_a_last_record_that_was_cut_is_counted(tmp_path: Path, cut: int) -> None:
    target = tmp_path / "cut.pcap"
    target.write_bytes(LOSS.read_bytes()[:-cut])
    found = carried(target, 80)
    assert found.truncated == 1
    assert replace(found, truncated=0, packets=0, last_ns=0) == replace(
        carried(LOSS, 80), truncated=0, packets=0, last_ns=0
    )


def test_other_protocols_are_skipped(tmp_path: Path) -> None:
    target = rewritten(
        LOSS, tmp_path / "six.pcap", change=lambda frame: frame[:12] + b"\x86\xdd" + frame[14:]
    )
    found = carried(target, 80)
    assert found.skipped == found.packets > 0


def test_what_is_no_such_capture_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"\x0a\x0d\x0d\x0a" + bytes(100))
    with pytest.raises(BadInput, match="tcpdump -r"):
        carried(target, 80)
    for content in (b"", b"PK\x03\x04" + bytes(100), LOSS.read_bytes()[:20]):
        target.write_bytes(content)
        with pytest.raises(Damaged, match="not a capture"):
            carried(target, 80)
    header = bytearray(LOSS.read_bytes())
    header[20] = 113
    target.write_bytes(header)
    with pytest.raises(BadInput, match="link type 113"):
        carried(target, 80)
    target.write_bytes(LOSS.read_bytes()[:24] + b"\xff" * 16)
    with pytest.raises(Damaged, match="record"):
        carried(target, 80)
