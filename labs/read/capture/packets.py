"""Chosen packets of a capture: opened in scapy, and compared with Wireshark's flags by pyshark.

pyshark starts tshark and reads its output in an event loop. A notebook already runs one, so pyshark
runs in a thread with another loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.errors import BadInput, Missing, RunFailed
from labs.read.capture.pcap import OF_NO_PACKET
from labs.read.capture.reader import Array, Reader, batches, opened
from labs.read.capture.tcp_marks import MARKS, Marker

if TYPE_CHECKING:
    import pandas as pd
    from pandas import DataFrame
    from scapy.packet import Packet


ROWS_AT_ONCE = 1 << 16
# The modules of scapy that define the link types of the reader.
LAYERS = ("l2", "inet", "inet6", "ppp")


def needs(what: str, package: str) -> str:
    return (
        f"{what} needs the package {package}, which is not installed. "
        'Install it: pip install "tcp-lab-notebook[packets]"'
    )


@dataclass(frozen=True)
class Record:
    """A record of the file; `number` is Wireshark's frame.number, from 1.

    `wire_bytes` is the length of the frame, of which `data` may lack the end.
    """

    number: int
    offset: int
    time_ns: int
    link_type: int
    data: bytes
    wire_bytes: int


class _Records(Reader):
    def pieces(self) -> Iterator[tuple[int, Array]]:
        """The number of earlier records, and some records, with the fields of a `Frame`."""
        before = 0
        while self._walk():
            yield before, np.ctypeslib.as_array(self._frames)[: self._last]
            before += self._last

    def offsets(self, frames: Array) -> Array:
        """The offsets in the file of some records."""
        offsets: Array = frames["at"] + self._base
        return offsets

    def record(self, number: int, frame: Array) -> Record:
        begin, end, wire_end, time_ns, link, at = frame.tolist()
        data = self._buffer[begin:end].tobytes()
        return Record(number, at + self._base, time_ns, link, data, wire_end - begin)


def every_record(path: str | Path) -> Iterator[Record]:
    """All packets of a file, in order. Raises what `labs.capture.read` raises."""
    with opened(path, None, _Records) as reader:
        for before, frames in reader.pieces():
            for place, frame in enumerate(frames):
                if frame["link"] != OF_NO_PACKET:
                    yield reader.record(before + place + 1, frame)


def records(path: str | Path, offsets: list[int]) -> list[Record]:
    """The records that begin at these offsets, in their order in the file.

    Raises what `labs.capture.read` raises for a file that cannot be read, BadInput for an offset
    at which no record begins.
    """
    wanted = np.unique(np.array(offsets, np.int64))
    chosen: list[Record] = []
    with opened(path, None, _Records) as reader:
        for before, frames in reader.pieces():
            for place in np.flatnonzero(np.isin(reader.offsets(frames), wanted)).tolist():
                chosen.append(reader.record(before + place + 1, frames[place]))
            if len(chosen) == len(wanted):
                return chosen
    missing = sorted(set(wanted.tolist()) - {record.offset for record in chosen})
    raise BadInput(
        f"{path}: no record begins at byte {missing[0]}. Take offsets from the table "
        "that labs.capture.read returns for this file"
    )


def offsets_of(path: str | Path, rows: list[int]) -> list[int]:
    """The offsets of the records of these rows of the table. BadInput for a missing row."""
    left, offsets, have = set(rows), {}, 0
    for batch in batches(path, rows=ROWS_AT_ONCE):
        for row in sorted(row for row in left if have <= row < have + len(batch)):
            offsets[row] = int(batch["offset"].iloc[row - have])
        left -= set(offsets)
        have += len(batch)
        if not left:
            return [offsets[row] for row in rows]
    rows_there = f"rows 0 to {have - 1}" if have else "no rows"
    raise BadInput(f"{path} has no row {min(left)}. Allowed: {rows_there}")


def packet(path: str | Path, row: int | np.integer[Any] | pd.Series[Any]) -> Packet:
    """Open one row of a capture's table in scapy, with the right link layer.

    `row` is its label in the table of `labs.capture.read`, or the row itself (`table.loc[7]`),
    which is faster. The packet's `time` is that of the record, in seconds. Raises what `read`
    raises, and BadInput for a row that the capture does not have.
    """
    if find_spec("scapy") is None:
        raise Missing(needs("opening a packet", "scapy"))
    if isinstance(row, int | np.integer):
        offset = offsets_of(path, [int(row)])[0]
    else:
        offset = int(row["offset"])
    record = records(path, [offset])[0]
    for layer in LAYERS:
        import_module(f"scapy.layers.{layer}")
    conf = import_module("scapy.config").conf
    opened: Packet = conf.l2types.num2layer.get(record.link_type, conf.raw_layer)(record.data)
    opened.time = record.time_ns / 1e9
    return opened


TIMEOUT_S = 60.0
MOST_PACKETS = 200
PREFIX = "analysis_"
# Fields of Wireshark without a figure of their own.
HEADINGS = ("analysis_flags",)


def wireshark_flags(
    path: str | Path, rows: Sequence[int], *, timeout_s: float = TIMEOUT_S
) -> DataFrame:
    """Wireshark's flags of some rows of a capture's table, with the marks of this package.

    Columns: `row`, `record` (Wireshark's frame.number), `marks` (ours, see `tcp_marks`)
    and `wireshark` (its tcp.analysis.* flags) as texts with commas, `expert` (its expert messages,
    separated by semicolons), and every figure that it calculates, under its own name
    (`tcp.analysis.ack_rtt`; text, or missing). At most 200 rows; tshark reads the file up to the
    last of them, 44,000 packets per second, for at most `timeout_s` seconds.

    Raises Missing without tshark, BadInput for rows that the capture does not have, RunFailed if
    tshark takes too long or fails.
    """
    from pandas import DataFrame  # noqa: PLC0415  slow to load

    chosen = sorted(set(rows))
    if not chosen or len(chosen) > MOST_PACKETS:
        raise BadInput(
            f"{len(chosen)} rows were given. Allowed: 1 to {MOST_PACKETS}. Select some, such as "
            "table.index[:10]"
        )
    if find_spec("pyshark") is None:
        raise Missing(needs("Wireshark's flags", "pyshark"))
    if which("tshark") is None:
        raise Missing(
            "Wireshark's flags need tshark, which is not installed. "
            "Install it: apt-get install tshark"
        )
    marks, offsets = _marked(path, chosen)
    packets = records(path, offsets)
    fields = _ask(Path(path), [record.number for record in packets], timeout_s)
    lines = [
        _line(row, record, marks[row], fields.get(record.number, {}))
        for row, record in zip(chosen, packets, strict=True)
    ]
    table = DataFrame(lines)
    named = ["row", "record", "marks", "wireshark", "expert"]
    return table[named + sorted(set(table.columns) - set(named))]


def _marked(path: str | Path, rows: list[int]) -> tuple[dict[int, str], list[int]]:
    """The marks of these rows as words, and the offsets of their records."""
    marker, have, words, offsets = Marker(), 0, {}, []
    for batch in batches(path, rows=ROWS_AT_ONCE):
        bits = marker.bits(batch)
        for row in (row for row in rows if have <= row < have + len(batch)):
            words[row] = ", ".join(name for name, bit in MARKS.items() if bits[row - have] & bit)
            offsets.append(int(batch["offset"].iloc[row - have]))
        have += len(batch)
    if len(words) < len(rows):
        there = f"rows 0 to {have - 1}" if have else "no rows"
        raise BadInput(f"{path} has no row {min(set(rows) - set(words))}. Allowed: {there}")
    return words, offsets


def _line(row: int, record: Record, marked: str, fields: dict[str, str]) -> dict[str, object]:
    flags = [name for name in fields if name in MARKS]
    figures = {
        f"tcp.analysis.{name}": value
        for name, value in fields.items()
        if name not in MARKS and name != "expert"
    }
    return {
        "row": row,
        "record": record.number,
        "marks": marked,
        "wireshark": ", ".join(name for name in MARKS if name in flags),
        "expert": fields.get("expert", ""),
        **figures,
    }


def _ask(path: Path, numbers: list[int], timeout_s: float) -> dict[int, dict[str, str]]:
    """Wireshark's fields of these records, from a thread with its own event loop."""
    answers: dict[int, dict[str, str]] = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _read(path, numbers, timeout_s, answers)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="pyshark", daemon=True)
    thread.start()
    thread.join(timeout_s + 10)
    if thread.is_alive() or (failed and isinstance(failed[0], TimeoutError)):
        raise RunFailed(
            f"tshark did not finish within {timeout_s:g} s. Select packets nearer to the "
            "beginning, or set a longer time: wireshark_flags(..., timeout_s=)"
        )
    if failed:
        raise RunFailed(
            f"tshark could not read {path}: {' '.join(str(failed[0]).split())[:200]}"
        ) from failed[0]
    return answers


def _read(
    path: Path, numbers: list[int], timeout_s: float, answers: dict[int, dict[str, str]]
) -> None:
    pyshark = import_module("pyshark")  # starts its own event loop when imported
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    wanted = ", ".join(map(str, numbers))
    capture = pyshark.FileCapture(
        str(path),
        display_filter=f"frame.number in {{{wanted}}}",
        keep_packets=False,
        custom_parameters=["-c", str(max(numbers))],
        eventloop=loop,
    )

    def take(packet: Any) -> None:
        answers[int(packet.number)] = _fields(packet.tcp) if "TCP" in packet else {}

    async def take_all() -> None:
        await capture.packets_from_tshark(take, close_tshark=False)
        # Closing kills, and for that polls: whoever asks first learns how the process ended.
        for process in capture._running_processes:
            await process.wait()

    try:
        loop.run_until_complete(asyncio.wait_for(take_all(), timeout_s))
    finally:
        capture.close()
        loop.close()


def _fields(tcp: Any) -> dict[str, str]:
    fields = {
        name.removeprefix(PREFIX): str(tcp.get_field_value(name))
        for name in tcp.field_names
        if name.startswith(PREFIX) and name not in HEADINGS
    }
    messages = tcp.get_field("_ws_expert_message")
    if messages is not None:
        fields["expert"] = "; ".join(message.get_default_value() for message in messages.all_fields)
    return fields
