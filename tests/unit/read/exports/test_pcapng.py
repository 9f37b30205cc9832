"""Captures with comments, read by tshark and by the project's own reader."""

from __future__ import annotations

import struct
from pathlib import Path

import pandas
import pytest

from labs.read import capture
from labs.read.capture.packets import Record
from labs.read.exports.pcapng import LONGEST_COMMENT_BYTES, annotated, comments_of, pcapng
from labs.read.flows.reasons import NAGLE_AND_DELAYED_ACK, ZERO_WINDOW
from labs.read.flows.waits import stalls
from tests import tshark
from tests.real_runs import nagle_run, real

needs_tshark = pytest.mark.skipif(not tshark.available(), reason="tshark is not installed")
EXCHANGES = Path(__file__).parents[3] / "fixtures" / "exchanges"
FRAME = ("frame.number", "frame.comment")


def source(condition: str) -> Path:
    path = nagle_run(condition).capture("server")
    assert path is not None
    return path


def comments_by_tshark(path: Path) -> dict[int, str]:
    return {int(number): text for number, text in tshark.printed(path, FRAME, "frame.comment")}


@needs_tshark
def test_annotated_capture_has_the_stalls_and_steps_as_tshark_shows_them(tmp_path: Path) -> None:
    """Article 3's stall: the first packet of the request, the one before the silence, and the ACK
    that ends it."""
    path = source("off")
    table = capture.read(path)
    out = tmp_path / "off.pcapng"
    out.write_bytes(annotated(path, comments_of(table)))
    shown = comments_by_tshark(out)
    found = stalls(table)
    assert set(found["reason"]) == {NAGLE_AND_DELAYED_ACK.name}
    assert len(shown) == 3 * len(found) == 2700
    for stall in found.head(20).to_dict("records"):
        before, after = (shown[int(table["frame"][stall[row]])] for row in ("before", "after"))
        assert f"{stall['gap_ms']:.1f} ms" in before and f"{stall['gap_ms']:.1f} ms" in after
        assert NAGLE_AND_DELAYED_ACK.name in before and "tcp_send_delayed_ack" in after


def test_annotated_capture_has_the_packets_of_its_source(tmp_path: Path) -> None:
    path = source("off")
    out = tmp_path / "off.pcapng"
    out.write_bytes(annotated(path, {}))
    columns = [name for name in capture.read(path) if name != "offset"]
    pandas.testing.assert_frame_equal(capture.read(out)[columns], capture.read(path)[columns])


def test_annotated_truncated_capture_has_its_whole_records(tmp_path: Path) -> None:
    path = real("capture-cut").capture("server") or real("capture-cut").capture("client")
    assert path is not None
    out = tmp_path / "cut.pcapng"
    out.write_bytes(annotated(path, {}))
    assert len(capture.read(out)) == len(capture.read(path))


def record(number: int, data: bytes, **other: int) -> Record:
    said = {"offset": number, "time_ns": 10**18 + number, "link_type": 1, "wire_bytes": len(data)}
    return Record(data=data, **{**said, **other})


def test_pcapng_blocks_have_the_layout_of_the_specification() -> None:
    """Draft-ietf-opsawg-pcapng: blocks and options are padded to 32 bits, lengths are not."""
    content = pcapng([record(1, b"abcde", wire_bytes=9)], {1: ("hi",)})
    blocks, at = [], 0
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        assert length % 4 == 0 and struct.unpack_from("<I", content, at + length - 4) == (length,)
        blocks.append((kind, content[at + 8 : at + length - 4]))
        at += length
    assert [kind for kind, _ in blocks] == [0x0A0D0D0A, 1, 6]
    packet = blocks[2][1]
    interface, high, low, kept, wire = struct.unpack_from("<5I", packet)
    assert (interface, (high << 32) + low, kept, wire) == (0, 10**18 + 1, 5, 9)
    assert packet[20:28] == b"abcde\0\0\0"
    assert packet[28:] == b"\x01\0\x02\0hi\0\0" + bytes(4)


@needs_tshark
def test_pcapng_has_an_interface_per_link_type_and_cuts_long_comments(tmp_path: Path) -> None:
    out = tmp_path / "made.pcapng"
    long = "ä" * LONGEST_COMMENT_BYTES
    records = [record(1, bytes(60)), record(2, bytes(60), link_type=113), record(3, bytes(60))]
    out.write_bytes(pcapng(records, {3: ("one", long)}))
    rows = tshark.printed(out, ("frame.number", "frame.interface_id", "frame.comment"), "frame")
    assert [row[:2] for row in rows] == [["1", "0"], ["2", "1"], ["3", "0"]]
    assert rows[2][2] == "one," + "ä" * (LONGEST_COMMENT_BYTES // 2)


def test_comments_of_a_capture_without_stalls_are_none() -> None:
    assert comments_of(capture.read(source("on"))) == {}


def test_comments_of_a_closed_window_name_who_waited() -> None:
    """A reader that stops: tests/fixtures/exchanges/README.md."""
    table = capture.read(EXCHANGES / "stopped-reader.pcap")
    found = stalls(table)
    (first, *_) = found[found["reason"] == ZERO_WINDOW.name].to_dict("records")
    said = " ".join(comments_of(table)[int(table["offset"][first["after"]])])
    assert f"The {first['waiting']} waited for the {first['waited_for']}." in said
    assert "tcp_probe_timer" in said
