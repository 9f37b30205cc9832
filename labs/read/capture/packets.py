"""Chosen packets of a capture: opened in scapy or pyshark, and what Wireshark's analysis says."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from labs.errors import BadInput, Missing, RunFailed
from labs.read.capture.headers import Frame
from labs.read.capture.pcap import OF_NO_PACKET
from labs.read.capture.reader import Reader, batches, opened
from labs.read.capture.tcp_marks import MARKS

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
    """A record of the file: `wire_bytes` is the length of the frame, of which `data` may lack the
    end."""

    offset: int
    time_ns: int
    link_type: int
    data: bytes
    wire_bytes: int


class _Records(Reader):
    def every(self) -> Iterator[Record]:
        while self._walk():
            for frame in self._frames[: self._last]:
                if frame.link != OF_NO_PACKET:
                    yield self._record(frame)

    def at(self, offset: int) -> Record | None:
        """The record that begins at this offset in the file."""
        while self._walk():
            places = np.ctypeslib.as_array(self._frames)["at"][: self._last] + self._base
            for place in np.flatnonzero(places == offset).tolist():
                return self._record(self._frames[place])
        return None

    def _record(self, frame: Frame) -> Record:
        data = self._buffer[frame.begin : frame.end].tobytes()
        wire_bytes = frame.wire_end - frame.begin
        return Record(frame.at + self._base, frame.time_ns, frame.link, data, wire_bytes)


def every_record(path: str | Path) -> Iterator[Record]:
    """All packets of a file, in order. Raises what `labs.capture.read` raises."""
    with opened(path, None, _Records) as reader:
        yield from reader.every()


def record_at(path: str | Path, offset: int) -> Record:
    """The record that begins at an offset. Raises what `labs.capture.read` raises, BadInput for an
    offset at which none begins."""
    with opened(path, None, _Records) as reader:
        if (record := reader.at(offset)) is not None:
            return record
    raise BadInput(
        f"{path}: no record begins at byte {offset}. Take offsets from the table that "
        "labs.capture.read returns for this file"
    )


def offset_of(path: str | Path, row: int) -> int:
    """The offset of the record of a row of the table. BadInput for a missing row."""
    have = 0
    for batch in batches(path, rows=ROWS_AT_ONCE):
        if have <= row < have + len(batch):
            return int(batch["offset"].iloc[row - have])
        have += len(batch)
    rows_there = f"rows 0 to {have - 1}" if have else "no rows"
    raise BadInput(f"{path} has no row {row}. Allowed: {rows_there}")


def packet(path: str | Path, row: int | np.integer[Any] | pd.Series[Any]) -> Packet:
    """Open one row of a capture's table in scapy, with the right link layer.

    `row` is its label in the table of `labs.capture.read`, or the row itself (`table.loc[7]`),
    which is faster. The packet's `time` is that of the record, in seconds. Raises what `read`
    raises, and BadInput for a row that the capture does not have.
    """
    if find_spec("scapy") is None:
        raise Missing(needs("opening a packet", "scapy"))
    if isinstance(row, int | np.integer):
        record = record_at(path, offset_of(path, int(row)))
    else:
        record = record_at(path, int(row["offset"]))
    for layer in LAYERS:
        import_module(f"scapy.layers.{layer}")
    conf = import_module("scapy.config").conf
    opened: Packet = conf.l2types.num2layer.get(record.link_type, conf.raw_layer)(record.data)
    opened.time = record.time_ns / 1e9
    return opened


TIMEOUT_S = 60.0
MOST_PACKETS = 200
PREFIX = "tcp.analysis."
EXPERT = "_ws.expert.message"
HEADING = "tcp.analysis.flags"
"""A field of Wireshark without a figure of its own."""


def wireshark_flags(
    path: str | Path, frames: Iterable[int], *, timeout_s: float = TIMEOUT_S
) -> DataFrame:
    """What Wireshark's analysis says of some frames of a capture, one row per frame.

    Columns: `frame` (frame.number), `wireshark` (its tcp.analysis.* flags, separated by commas),
    `expert` (its expert messages, separated by semicolons), and every figure that it calculates,
    under its own name (`tcp.analysis.ack_rtt`; text, or missing). At most 200 frames; tshark reads
    the file up to the last of them, 44,000 packets per second, for at most `timeout_s` seconds.

    Raises Missing without tshark, RunFailed if it takes too long or fails.
    """
    from pandas import DataFrame  # noqa: PLC0415  slow to load

    chosen = sorted(set(frames))
    if not chosen or len(chosen) > MOST_PACKETS:
        raise BadInput(
            f"{len(chosen)} frames were given. Allowed: 1 to {MOST_PACKETS}. Select some, such as "
            'table["frame"][:10]'
        )
    shown = ElementTree.fromstring(_pdml(path, chosen, timeout_s))
    return DataFrame(
        [_line(frame, packet) for frame, packet in zip(chosen, shown.iter("packet"), strict=True)]
    )


def _pdml(path: str | Path, frames: list[int], timeout_s: float) -> str:
    """What tshark prints of these frames as PDML (XML, one element per field)."""
    _need_tshark()
    numbers = ", ".join(map(str, frames))
    chosen = ("-c", str(frames[-1]), "-Y", f"frame.number in {{{numbers}}}")
    try:
        done = subprocess.run(
            ["tshark", "-n", "-r", str(path), *chosen, "-T", "pdml"],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailed(
            f"tshark did not finish within {timeout_s:g} s. Select packets nearer to the "
            "beginning, or set a longer time: wireshark_flags(..., timeout_s=)"
        ) from error
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split())[-200:]
        raise RunFailed(f"tshark could not read {path}: {reason}") from error
    return done.stdout


def _line(frame: int, packet: ElementTree.Element) -> dict[str, object]:
    fields = [(field.get("name", ""), field.get("show", "")) for field in _of_tcp(packet)]
    analysis = dict(reversed([each for each in fields if each[0].startswith(PREFIX)]))
    return {
        "frame": frame,
        "wireshark": ", ".join(name for name in MARKS if f"{PREFIX}{name}" in analysis),
        "expert": "; ".join(text for name, text in fields if name == EXPERT),
        **{
            name: figure
            for name, figure in analysis.items()
            if name != HEADING and name.removeprefix(PREFIX) not in MARKS
        },
    }


def _of_tcp(packet: ElementTree.Element) -> Iterator[ElementTree.Element]:
    tcp = packet.find("proto[@name='tcp']")
    return iter(()) if tcp is None else tcp.iter("field")


def _need_tshark() -> None:
    if which("tshark") is None:
        raise Missing(
            "Wireshark's flags need tshark, which is not installed. "
            "Install it: apt-get install tshark"
        )


def in_pyshark(path: str | Path, frame: int) -> str:
    """The TCP header of one frame in pyshark: a line for each field, as Wireshark shows it.

    pyshark needs an event loop of its own, and a notebook already runs one: hence the thread.
    Raises Missing without pyshark or tshark.
    """
    if find_spec("pyshark") is None:
        raise Missing(needs("a packet as Wireshark shows it", "pyshark"))
    _need_tshark()
    with ThreadPoolExecutor(1, "pyshark") as thread:
        return thread.submit(_opened_in_pyshark, str(path), frame).result()


def _opened_in_pyshark(path: str, frame: int) -> str:
    pyshark = import_module("pyshark")  # starts an event loop when it is imported
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    capture = pyshark.FileCapture(
        path,
        display_filter=f"frame.number == {frame}",
        custom_parameters=["-c", str(frame)],
        eventloop=loop,
    )
    capture.load_packets()
    capture.close()
    loop.close()
    header = capture[0].tcp
    fields = [header.get_field(name) for name in header.field_names]
    return "\n".join(field.showname or field.show for field in fields)
