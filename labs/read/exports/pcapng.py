"""Captures as pcapng files with comments on packets, which Wireshark and tshark show: what ended a
stall, and the steps of requests.

Source: draft-ietf-opsawg-pcapng, sections 3.1 (blocks), 3.5 (options), 4.1 (section header), 4.2
(interface description) and 4.3 (enhanced packet). All numbers are little-endian.
"""

from __future__ import annotations

import io
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pandas import DataFrame

from labs.read.capture.packets import Record, every_record
from labs.read.flows.account import Account
from labs.read.flows.exchanges import describe_steps, exchanges
from labs.read.flows.path import Facts
from labs.read.flows.reasons import NOBODY, explained
from labs.read.flows.waits import stalls

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER, MAJOR, MINOR, UNKNOWN_LENGTH = 0x1A2B3C4D, 1, 0, -1
END_OF_OPTIONS, COMMENT, TIME_RESOLUTION = 0, 1, 9
NANOSECONDS = 9  # 10^-9 s
LONGEST_COMMENT_BYTES = 1 << 15  # a length of 16 bits, also for readers that take it as signed


def comments_of(
    segments: DataFrame, accounts: Sequence[Account] = (), errors: Mapping[int, Facts] | None = None
) -> Mapping[int, Sequence[str]]:
    """Comments by the offset of a record, for a table of segments (`labs.capture.read`).

    A stall has one on the packet before it and one, with the reason, on the packet that ends it. A
    request that met a stall has its latency and its steps on its first packet. Each finding of
    `accounts` that is trouble has its sentence on the packet that ends its longest wait. `errors`
    are as in `stalls`.
    """
    comments: defaultdict[int, list[str]] = defaultdict(list)
    offset_of = segments["offset"].astype("int64").to_dict()
    stalled = stalls(segments, errors=errors)
    for stall in stalled.to_dict("records"):
        length, reason = f"{stall['gap_ms']:.1f} ms", stall["reason"]
        comments[offset_of[stall["before"]]].append(f"Nothing is sent for {length}: {reason}.")
        comments[offset_of[stall["after"]]].append(
            f"Ends a stall of {length}: {reason}. {_describe_wait(stall)}"
        )
    ended = set(stalled["after"])
    for asked in exchanges(segments).to_dict("records"):
        if asked["gap_before"] in ended:
            comments[offset_of[asked["first_row"]]].append(
                f"Request answered after {asked['latency_ms']:.1f} ms: "
                f"{describe_steps(asked['steps'])}."
            )
    offsets = dict(zip(segments["frame"].tolist(), segments["offset"].tolist(), strict=True))
    for account in accounts:
        for finding in account.findings:
            if finding.is_trouble and finding.frames:
                comments[offsets[finding.frames[0][1]]].append(finding.sentence)
    return comments


def _describe_wait(stall: Mapping[Any, Any]) -> str:
    """Who waited for whom, and the meaning of the reason with its source."""
    meant, waiting = explained(stall["reason"]), stall["waiting"]
    waits = "" if waiting == NOBODY else f"The {waiting} waited for the {stall['waited_for']}. "
    return f"{waits}{meant.words} Source: {meant.source}."


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
