"""Wireshark's own opinion on chosen packets, by pyshark, beside the marks of this package.

pyshark starts tshark and reads what it prints with an event loop of its own, which cannot be the
one that a notebook is running in: so it works in a thread that has a loop to itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from labs.errors import BadInput, Missing, RunFailed
from labs.read.capture.reader import batches
from labs.read.capture.scapy_packet import ROWS_AT_ONCE, Record, records
from labs.read.capture.tcp_marks import MARKS, Marker

if TYPE_CHECKING:
    from pandas import DataFrame

LIMIT_S = 60.0
MOST_PACKETS = 200
PREFIX = "analysis_"
# Of what Wireshark calculates: text without a figure of its own.
HEADINGS = ("analysis_flags",)


def opinion(path: str | Path, rows: Sequence[int], *, limit_s: float = LIMIT_S) -> DataFrame:
    """What Wireshark says of some rows of a capture's table, and what is marked here: a row each.

    Columns: `row`, `record` (Wireshark's frame.number), `marks` (ours, see `tcp_marks`)
    and `wireshark` (its tcp.analysis.* flags) as texts with commas, `expert` (the messages of its
    expert, with semicolons), and every figure that it calculates, by its own name
    (`tcp.analysis.ack_rtt`; text, missing where it has none). At most 200 rows; tshark reads the
    file up to the last of them, 44,000 packets a second, for at most `limit_s` seconds.

    Raises Missing without tshark, BadInput for rows that the capture does not have, RunFailed if
    tshark takes too long or fails.
    """
    from pandas import DataFrame

    chosen = sorted(set(rows))
    if not chosen or len(chosen) > MOST_PACKETS:
        raise BadInput(
            f"{len(chosen)} rows: Wireshark is asked about 1 to {MOST_PACKETS} packets "
            "at a time; choose some, such as table.index[:10]"
        )
    if which("tshark") is None:
        raise Missing(
            "Wireshark's opinion needs tshark, which is not here; "
            "install it: apt-get install tshark"
        )
    own, offsets = _marked(path, chosen)
    found = records(path, offsets)
    told = _ask(Path(path), [record.number for record in found], limit_s)
    lines = [
        _line(row, record, own[row], told.get(record.number, {}))
        for row, record in zip(chosen, found, strict=True)
    ]
    table = DataFrame(lines)
    named = ["row", "record", "marks", "wireshark", "expert"]
    return table[named + sorted(set(table.columns) - set(named))]


def _marked(path: str | Path, rows: list[int]) -> tuple[dict[int, str], list[int]]:
    """Our marks of these rows, in words, and the offsets of their records."""
    marker, have, words, offsets = Marker(), 0, {}, []
    for batch in batches(path, rows=ROWS_AT_ONCE):
        bits = marker.bits(batch)
        for row in (row for row in rows if have <= row < have + len(batch)):
            words[row] = ", ".join(name for name, bit in MARKS.items() if bits[row - have] & bit)
            offsets.append(int(batch["offset"].iloc[row - have]))
        have += len(batch)
    if len(words) < len(rows):
        there = f"rows 0 to {have - 1}" if have else "no rows"
        raise BadInput(f"{path} has no row {min(set(rows) - set(words))}; its table has {there}")
    return words, offsets


def _line(row: int, record: Record, marked: str, told: dict[str, str]) -> dict[str, object]:
    flags = [name for name in told if name in MARKS]
    figures = {
        f"tcp.analysis.{name}": value
        for name, value in told.items()
        if name not in MARKS and name != "expert"
    }
    return {
        "row": row,
        "record": record.number,
        "marks": marked,
        "wireshark": ", ".join(name for name in MARKS if name in flags),
        "expert": told.get("expert", ""),
        **figures,
    }


def _ask(path: Path, numbers: list[int], limit_s: float) -> dict[int, dict[str, str]]:
    """Wireshark's fields of these records, from a thread that has an event loop to itself."""
    found: dict[int, dict[str, str]] = {}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            _read(path, numbers, limit_s, found)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="pyshark", daemon=True)
    thread.start()
    thread.join(limit_s + 10)
    if thread.is_alive() or (failed and isinstance(failed[0], TimeoutError)):
        raise RunFailed(
            f"tshark had not answered after {limit_s:g} s; ask about packets nearer to "
            "the beginning, or give it more time: opinion(..., limit_s=)"
        )
    if failed:
        raise RunFailed(
            f"tshark could not read {path}: {' '.join(str(failed[0]).split())[:200]}"
        ) from failed[0]
    return found


def _read(path: Path, numbers: list[int], limit_s: float, found: dict[int, dict[str, str]]) -> None:
    import pyshark

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
        found[int(packet.number)] = _fields(packet.tcp) if "TCP" in packet else {}

    try:
        capture.apply_on_packets(take, timeout=limit_s)
    finally:
        capture.close()
        loop.close()


def _fields(tcp: Any) -> dict[str, str]:
    told = {
        name.removeprefix(PREFIX): str(tcp.get_field_value(name))
        for name in tcp.field_names
        if name.startswith(PREFIX) and name not in HEADINGS
    }
    messages = tcp.get_field("_ws_expert_message")
    if messages is not None:
        told["expert"] = "; ".join(one.get_default_value() for one in messages.all_fields)
    return told
