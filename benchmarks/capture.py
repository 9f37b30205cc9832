"""How fast captures are read: this project's reader beside pcap-toolkit, tshark, dpkt and others.

    python3 benchmarks/capture.py [--packets N] [--json]

All read one file, made here: downloads side by side, the first 96 bytes of each packet. The slow
ones read its first packets only, as the table says. tshark and dpkt take the same fields from each
packet; tcptrace sums up connections and keeps no packet. The whole processes run in turns, so that
what else the machine does affects all of them; compare their CPU time where it does much else.
pcap-toolkit is a crate: cargo install pcap-toolkit.
Nothing here is a test: a slow machine is no mistake.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.made_capture import write_capture  # noqa: E402

PACKETS = 1_000_000
REPEATS = 15
LEAST_PACKETS_S = 20e6
LEAST_TIMES_TSHARK = 400
TURNS = 5
MOST_PROCESS_S = 1.2
MOST_TIMES_PEER = 0.9
MOST_TABLE_BYTES, MOST_EXPLAIN_BYTES = 150e6, 300e6
MOST_TIMES_TABLE = 3
FIELDS = (
    "frame.time_epoch",
    "tcp.stream",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.window_size_value",
    "tcp.window_size",
    "tcp.len",
    "tcp.seq",
    "tcp.ack",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le",
    "tcp.options.sack_re",
)
# Processes keep their compiled modules, as they do for whoever works here.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
# Not what getrusage says: a process begins with the most that its parent ever had.
MEMORY = """
import re, sys
from labs.read.capture import read
table = read(sys.argv[1])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak[1]) * 1024, table.memory_usage().sum())
"""


def timed(does: Callable[[], object]) -> float:
    begun = time.perf_counter()
    does()
    return time.perf_counter() - begun


def process(*argv: str, **environment: str) -> float:
    """How long a whole process takes."""
    return timed(
        lambda: subprocess.run(
            argv,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT | environment,
        )
    )


def labs(path: Path, out: Path, **environment: str) -> float:
    return process(
        sys.executable,
        "-m",
        "labs.cli",
        "capture",
        "table",
        str(path),
        "--out",
        str(out),
        **environment,
    )


def tshark_argv(path: Path) -> tuple[str, ...]:
    fields = (word for field in FIELDS for word in ("-e", field))
    return ("tshark", "-n", "-r", str(path), "-T", "fields", *fields)


def tshark(path: Path) -> None:
    subprocess.run(
        tshark_argv(path), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def turns(path: Path) -> dict[str, dict[str, float]]:
    """Whole processes in turns, as medians: seconds, CPU seconds, and the most memory. To be
    called before this process is large: a child begins with the most memory its parent ever had."""
    out, labs = path.with_name("out.parquet"), (sys.executable, "-m", "labs.cli")
    commands: dict[str, tuple[str, ...]] = {
        "labs capture table": (*labs, "capture", "table", str(path), "--out", str(out)),
        "pcap-toolkit": (
            "pcap-toolkit",
            "export",
            "--format",
            "parquet",
            "--output",
            str(out),
            str(path),
        ),
        "labs explain": (*labs, "explain", str(path)),
        "labs capture stalls": (*labs, "capture", "stalls", str(path)),
        "tshark": tshark_argv(path),
    }
    by_reader: dict[str, list[tuple[float, float, float]]] = {
        name: [] for name, argv in commands.items() if shutil.which(argv[0])
    }
    for _ in range(TURNS):
        for name, measured in by_reader.items():
            out.unlink(missing_ok=True)
            begun = time.perf_counter()
            with subprocess.Popen(
                commands[name],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
            ) as started:
                _, status, used = os.wait4(started.pid, 0)
                started.returncode = os.waitstatus_to_exitcode(status)
            if started.returncode:
                raise SystemExit(f"{' '.join(commands[name])} failed: {started.returncode}")
            seconds = time.perf_counter() - begun
            measured.append((seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0))
    names = ("seconds", "cpu_s", "bytes")
    return {
        name: dict(zip(names, map(statistics.median, zip(*measured, strict=True)), strict=True))
        for name, measured in by_reader.items()
    }


def dpkt(path: Path) -> int:
    import dpkt

    rows: list[tuple[Any, ...]] = []
    with path.open("rb") as file:
        for at, frame in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(frame).data
            tcp = ip.data
            options = dict(dpkt.tcp.parse_opts(tcp.opts))
            rows.append(
                (
                    at,
                    ip.src,
                    ip.dst,
                    tcp.sport,
                    tcp.dport,
                    tcp.seq,
                    tcp.ack,
                    tcp.flags,
                    tcp.win,
                    ip.len - ip.hl * 4 - tcp.off * 4,
                    options.get(8),
                    options.get(5),
                )
            )
    return len(rows)


def scapy(path: Path) -> int:
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether  # noqa: F401  (what a frame is)
    from scapy.utils import PcapReader

    rows: list[tuple[Any, ...]] = []
    with PcapReader(str(path)) as packets:
        for packet in packets:
            ip, tcp = packet[IP], packet[TCP]
            rows.append(
                (
                    packet.time,
                    ip.src,
                    ip.dst,
                    tcp.sport,
                    tcp.dport,
                    tcp.seq,
                    tcp.ack,
                    int(tcp.flags),
                    tcp.window,
                    ip.len,
                    dict(tcp.options),
                )
            )
    return len(rows)


def pyshark(path: Path) -> int:
    import pyshark

    asyncio.set_event_loop(asyncio.new_event_loop())
    capture = pyshark.FileCapture(str(path), keep_packets=False)
    rows = [
        (
            packet.sniff_time,
            packet.tcp.stream,
            packet.tcp.seq_raw,
            packet.tcp.ack_raw,
            packet.tcp.flags,
            packet.tcp.window_size,
            packet.tcp.len,
        )
        for packet in capture
    ]
    capture.close()
    return len(rows)


def tcptrace(path: Path) -> None:
    subprocess.run(
        ["tcptrace", "-n", str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


# Reader, what it needs beside Python, how many packets it is given at most.
OTHERS: tuple[tuple[str, Callable[[Path], object], str | None, int], ...] = (
    ("tshark", tshark, "tshark", PACKETS),
    ("dpkt", dpkt, None, 100_000),
    ("scapy", scapy, None, 20_000),
    ("pyshark", pyshark, "tshark", 2_000),
    ("tcptrace", tcptrace, "tcptrace", PACKETS),
)


def this_project(path: Path, folder: Path, packets: int) -> dict[str, Any]:
    """The reader's own figures: first use, warm, as a whole process, memory."""
    from labs.read.capture import read

    cold = labs(path, folder / "first.parquet", XDG_CACHE_HOME=str(folder / "cache"))
    read(path)
    warm = [timed(lambda: read(path)) for _ in range(REPEATS)]
    printed = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)],
        check=True,
        text=True,
        capture_output=True,
        env=ENVIRONMENT,
    ).stdout
    peak, table = map(int, printed.split())
    return {
        "packets_s": packets / statistics.median(warm),
        "best_packets_s": packets / min(warm),
        "first_use_process_s": cold,
        "peak_bytes": peak,
        "table_bytes": table,
        "memory_times_table": peak / table,
    }


def compare(packets: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "all.pcap"
        write_capture(path, packets)
        result: dict[str, Any] = {
            "packets": packets,
            "bytes": path.stat().st_size,
            "turns": turns(path),
            "labs": this_project(path, folder, packets),
            "others": [],
        }
        for reader, does, needs, most in OTHERS:
            if needs is not None and shutil.which(needs) is None:
                result["others"].append({"reader": reader, "missing": needs})
                continue
            given = min(packets, most)
            part = folder / f"{given}.pcap"
            if not part.exists():
                write_capture(part, given)
            packets_s = given / timed(lambda does=does, part=part: does(part))  # type: ignore[misc]
            result["others"].append(
                {
                    "reader": reader,
                    "packets": given,
                    "packets_s": packets_s,
                    "ratio": result["labs"]["packets_s"] / packets_s,
                }
            )
        return result


def describe(result: dict[str, Any]) -> str:
    ours = result["labs"]
    lines = [
        f"{result['packets']:,} packets, {result['bytes'] / 1e6:.0f} MB",
        f"labs      {ours['packets_s']:>12,.0f} packets/s warm, median of {REPEATS} (best "
        f"{ours['best_packets_s']:,.0f}; at least {LEAST_PACKETS_S:,.0f})",
        f"          {ours['first_use_process_s']:>12.1f} s for `labs capture table` at first use",
        f"          {ours['memory_times_table']:>12.2f} times the table's memory at most "
        f"(at most {MOST_TIMES_TABLE}; the table takes {ours['table_bytes'] / 1e6:.0f} MB)",
    ]
    lines += describe_turns(result["turns"])
    for other in result["others"]:
        if "missing" in other:
            lines.append(f"{other['reader']:<9} not here: install {other['missing']}")
        else:
            least = f" (at least {LEAST_TIMES_TSHARK})" if other["reader"] == "tshark" else ""
            lines.append(
                f"{other['reader']:<9} {other['packets_s']:>12,.0f} packets/s on "
                f"{other['packets']:,}; labs is {other['ratio']:,.0f} times as "
                f"fast{least}"
            )
    return "\n".join(lines)


def describe_turns(by_name: dict[str, dict[str, float]]) -> list[str]:
    """The whole processes, each beside its goal."""
    table = by_name["labs capture table"]
    peer = by_name.get("pcap-toolkit")
    goals = {
        "labs capture table": (
            f"at most {MOST_PROCESS_S} s and {MOST_TABLE_BYTES / 1e6:.0f} MB"
            + (
                f"; {table['seconds'] / peer['seconds']:.2f} times pcap-toolkit's time, at most "
                f"{MOST_TIMES_PEER}"
                if peer
                else ""
            )
        ),
        "pcap-toolkit": "the peer",
        "tshark": "the same fields as text",
    }
    for name in ("labs explain", "labs capture stalls"):
        goals[name] = (
            f"{by_name[name]['cpu_s'] / table['cpu_s']:.1f} times the table's CPU time, at most "
            f"{MOST_TIMES_TABLE}; at most {MOST_EXPLAIN_BYTES / 1e6:.0f} MB"
        )
    lines = [f"whole processes, medians of {TURNS} in turns:"] + [
        f"{name:<20} {turn['seconds']:>6.2f} s {turn['cpu_s']:>6.2f} s CPU "
        f"{turn['bytes'] / 1e6:>5.0f} MB ({goals[name]})"
        for name, turn in by_name.items()
    ]
    return lines if peer else [*lines, "pcap-toolkit not here: cargo install pcap-toolkit"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = compare(args.packets)
    print(json.dumps(result) if args.json else describe(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
