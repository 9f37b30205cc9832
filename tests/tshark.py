"""What tshark says of a capture's TCP segments, in the columns of labs.read.capture.

The project follows Wireshark in what a connection is, what relative numbers count from and how
windows are scaled, and differs in four things, which are undone here before comparing: fragments
are not put together; relative numbers do not wrap after 4 GiB; a window whose scale is unknown is
-1 and not the number as sent; an option that was not captured whole is not read.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pandas as pd

from labs.drive.record.seal import canonical, digest
from labs.read.capture.tcp_marks import MARKS
from tests.kept_runs import STORE, text

FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "ip.id",
    "ip.ttl",
    "ipv6.hlim",
    "tcp.stream",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.window_size",
    "tcp.window_size_scalefactor",
    "tcp.len",
    "tcp.seq",
    "tcp.ack",
    "tcp.options.mss_val",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack.count",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
    "tcp.srcport",
    "tcp.analysis.initial_rtt",
)
SYN_FIELDS = ("tcp.flags.ack", "tcp.options.wscale.shift", "tcp.options.sack_perm")
ALL = (*FIELDS, *SYN_FIELDS, *(f"tcp.analysis.{name}" for name in MARKS))
SEGMENTS = "tcp && !icmp && !icmpv6"
SETTINGS = ("ip.defragment:FALSE", "ipv6.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE")
WRAP = 1 << 32
_printed: dict[bytes, list[list[str]]] = {}
TWO_SECTIONS = "sections.pcapng"  # of tests.captures


def available() -> bool:
    return shutil.which("tshark") is not None


@cache
def version() -> str:
    """The version, such as 4.0; empty without tshark."""
    if not available():
        return ""
    return ".".join(release().split("Wireshark) ")[-1].split(".")[:2])


@cache
def release() -> str:
    """What tshark says of itself and the libraries that it uses."""
    done = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True)
    return done.stdout


def asked(path: Path, fields: tuple[str, ...]) -> list[list[str]]:
    """Some of the fields in ALL of each TCP segment, as tshark prints them. tshark is started once
    for equal files: a start takes longer than reading a small capture."""
    content = path.read_bytes()
    if content not in _printed:
        _printed[content] = printed(path, ALL)
    places = [ALL.index(field) for field in fields]
    return [[row[place] for place in places] for row in _printed[content]]


def printed(path: Path, fields: tuple[str, ...], chosen: str = SEGMENTS) -> list[list[str]]:
    """The fields of the chosen frames as tshark prints them, now or earlier: most of its CPU time
    is that of starting."""
    options = [
        *("-n", "-Y", chosen, "-T", "fields", "-E", "separator=/t"),
        *(word for setting in SETTINGS for word in ("-o", setting)),
        *(word for field in fields for word in ("-e", field)),
    ]

    def run() -> str:
        # A capture that ends early is an error to tshark, after it has printed what it read.
        argv = ["tshark", "-r", str(path), *options]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300).stdout

    key = digest(canonical([options, digest(path), release()]))
    return [line.split("\t") for line in text(STORE, key, run).splitlines()]


def connection(path: Path, stream: str) -> int:
    """The number of a connection, from tshark's `tcp.stream`.

    tshark 4.0 goes on counting in the second section of a pcapng file, as labs.capture does; 4.4
    begins anew: it takes the two connections of the second section for another two.
    """
    found = int(stream)
    return found % 2 if path.name == TWO_SECTIONS and version() != "4.0" else found


def nanoseconds(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    whole = int(seconds or 0) * 10**9
    rest = int(fraction.ljust(9, "0")[:9] or 0)
    return whole - rest if seconds.startswith("-") else whole + rest


def number(text: str) -> int:
    """A number as tshark prints it; -1 for none. A boolean is 0 or 1 in 4.0, a word in 4.4."""
    if text in ("True", "False"):
        return int(text == "True")
    return int(text, 0) if text else -1


def segments(path: Path, fragments: bool = False) -> pd.DataFrame:
    """One row per segment, with the names and meanings of labs.read.capture if both have them."""
    rows = []
    for words in asked(path, FIELDS):
        found = dict(zip(FIELDS, words, strict=True))
        if not found["tcp.window_size_value"] or not (found["tcp.len"] or fragments):
            continue  # not captured whole, or longer than its packet says it is
        scaled = number(found["tcp.window_size"])
        is_syn = number(found["tcp.flags"]) & 2
        unknown = found["tcp.window_size_scalefactor"] == "-1" and not is_syn
        row = {
            "frame": number(found["frame.number"]),
            "ip_id": number(found["ip.id"].rpartition(",")[2]),  # the innermost
            "ttl": number((found["ip.ttl"] or found["ipv6.hlim"]).rpartition(",")[2]),
            "time_ns": nanoseconds(found["frame.time_epoch"]),
            "connection": connection(path, found["tcp.stream"]),
            "seq": number(found["tcp.seq_raw"]),
            "ack": number(found["tcp.ack_raw"]),
            "flags": number(found["tcp.flags"]) & 0x1FF,
            "window": number(found["tcp.window_size_value"]),
            "window_bytes": -1 if unknown else scaled,
            "payload_bytes": number(found["tcp.len"]),
            "seq_rel": number(found["tcp.seq"]),
            "ack_rel": number(found["tcp.ack"]),
            "mss": max(number(found["tcp.options.mss_val"]), 0),
            # The first half of an option whose second was not captured is no option.
            "tsval": number(
                found["tcp.options.timestamp.tsecr"] and found["tcp.options.timestamp.tsval"]
            ),
            "tsecr": number(found["tcp.options.timestamp.tsecr"]),
            "sack_blocks": max(number(found["tcp.options.sack.count"]), 0),
        }
        edges = [
            list(map(number, found[f"tcp.options.sack_{side}"].split(",")))
            if found[f"tcp.options.sack_{side}"]
            else []
            for side in ("le", "re")
        ]
        for block in range(4):
            for side, of_side in zip(("left", "right"), edges, strict=True):
                of_side = of_side if row["sack_blocks"] else []  # of an option that was cut
                row[f"sack_{side}_{block + 1}_rel"] = of_side[block] if block < len(of_side) else -1
        rows.append(row)
    return pd.DataFrame(rows)


def as_tshark(table: pd.DataFrame) -> pd.DataFrame:
    """A table of labs.read.capture in tshark's terms, for comparison with `segments`: without the
    columns that no field of tshark has."""
    found = table.drop(columns=["direction", "offset", "content"]).astype("int64")
    base = found["ack"] - found["ack_rel"]  # of the numbers that are acknowledged
    for block in range(1, 5):
        for side in ("left", "right"):
            edge = found.pop(f"sack_{side}_{block}")
            there = found["sack_blocks"] >= block
            found[f"sack_{side}_{block}_rel"] = ((edge - base) % WRAP).where(there, -1)
    for name in ("seq_rel", "ack_rel"):
        found[name] %= WRAP
    return found


def marked_by_tshark(path: Path) -> dict[str, list[int]]:
    """The rows, counted over TCP segments from 0, that have each mark of the sequence analysis."""
    lines = asked(path, tuple(f"tcp.analysis.{name}" for name in MARKS))
    found = {
        name: [row for row, values in enumerate(lines) if values[place]]
        for place, name in enumerate(MARKS)
    }
    return {name: rows for name, rows in found.items() if rows}
