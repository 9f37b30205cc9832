"""Captures as pcapng files with comments on packets, which Wireshark and tshark show.

Source: draft-ietf-opsawg-pcapng, sections 3.1 (blocks), 3.5 (options), 4.1 (section header), 4.2
(interface description) and 4.3 (enhanced packet). All numbers are little-endian.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labs.read.capture.packets import Record, every_record

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER, MAJOR, MINOR, UNKNOWN_LENGTH = 0x1A2B3C4D, 1, 0, -1
END_OF_OPTIONS, COMMENT, TIME_RESOLUTION = 0, 1, 9
NANOSECONDS = 9  # 10^-9 s
LONGEST_COMMENT_BYTES = 1 << 15  # a length of 16 bits, also for readers that take it as signed


def annotated(capture: Path, comments: Mapping[int, Sequence[str]]) -> bytes:
    """The capture as pcapng; `comments` are those of each record, by its offset in the file.

    Raises what `labs.capture.read` raises.
    """
    return pcapng(every_record(capture), comments)


def pcapng(records: Iterable[Record], comments: Mapping[int, Sequence[str]]) -> bytes:
    """The file of these records: one interface per link type, time in nanoseconds."""
    stream = io.BytesIO()
    stream.write(
        _block(SECTION, struct.pack("<IHHq", BYTE_ORDER, MAJOR, MINOR, UNKNOWN_LENGTH), b"")
    )
    interfaces: dict[int, int] = {}
    for record in records:
        if record.link_type not in interfaces:
            interfaces[record.link_type] = len(interfaces)
            resolution = _option(TIME_RESOLUTION, bytes([NANOSECONDS]))
            stream.write(
                _block(INTERFACE, struct.pack("<HHI", record.link_type, 0, 0), _ended(resolution))
            )
        options = [_option(COMMENT, _utf8(text)) for text in comments.get(record.offset, ())]
        high, low = divmod(record.time_ns % (1 << 64), 1 << 32)
        sizes = (len(record.data), record.wire_bytes)
        head = struct.pack("<IIIII", interfaces[record.link_type], high, low, *sizes)
        stream.write(_block(PACKET, head + _padded(record.data), _ended(b"".join(options))))
    return stream.getvalue()


def _block(kind: int, body: bytes, options: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body) + len(options))
    return struct.pack("<I", kind) + length + body + options + length


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _ended(options: bytes) -> bytes:
    return options + _option(END_OF_OPTIONS, b"") if options else b""


def _utf8(text: str) -> bytes:
    return text.encode()[:LONGEST_COMMENT_BYTES].decode("utf-8", "ignore").encode()


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)
