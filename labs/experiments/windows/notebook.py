"""The functions that a notebook calls as `labs.windows.NAME`: tables of dropped packets, of the
parts of a buffer, of round trips, of kernels, and of what ss and nstat print."""

from __future__ import annotations

from labs.errors import BadInput
from labs.experiments.windows.charts.budget import budget
from labs.experiments.windows.packets import DROPS, RECEIVER, packets, printed_drops, round_trips
from labs.experiments.windows.results import article
from labs.read import capture
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import Printed, last_match
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import SHOWN_DIGITS
from labs.read.display.rich_output import Table
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.windows import granted_bytes, series

__all__ = [
    "as_printed",
    "budget_at",
    "by_kernel",
    "drops",
    "granted_bytes",
    "rounds",
    "same_packets",
]

KERNEL_COLUMNS = {
    "condition": "Condition",
    "kernel": "Linux",
    "recv_q": "Data queued (bytes)",
    "payload_pct": "Payload share of the buffer (%)",
    "metadata_bytes": "Metadata per packet (bytes)",
    "overshoot_bytes": "Above the buffer (bytes)",
    "beyond_window": "Sent beyond the window",
    "dropped_in_window": "Dropped with an open window",
    "window_max_bytes": "Largest window (bytes)",
}


PART_COLUMNS = {
    "payload_bytes": "Payload (bytes)",
    "structures_bytes": "Structures (bytes)",
    "unused_bytes": "Unused (bytes)",
    "promised_bytes": "Promised window (bytes)",
    "free_bytes": "Free (bytes)",
}


def by_kernel(*studies: Study, conditions: tuple[str, ...] = ()) -> Table:
    """One row per condition and kernel: memory per packet, payload share, window and drops.

    Studies without runs are left out.
    """
    rows = [
        {KERNEL_COLUMNS[name]: row[name] for name in KERNEL_COLUMNS}
        for study in studies
        if study.runs
        for row in study.results().to_dict("records")
        if not conditions or row["condition"] in conditions
    ]
    rows.sort(key=lambda row: (row["Condition"], series(str(row["Linux"]))))
    return Table(rows, columns=list(KERNEL_COLUMNS.values()))


def budget_at(run: Run, *numbers: int) -> Table:
    """The parts of the receive buffer after the packets with these numbers, in bytes; negative
    numbers count from the end. BadInput for a number that no packet has."""
    table = budget(run)
    count = len(table)
    for number in numbers:
        if not (-count <= number < 0 or 1 <= number <= count):
            raise BadInput(f"there is no packet {number}. Allowed: 1 to {count}, or -{count} to -1")
    chosen = table.iloc[[number - 1 if number > 0 else count + number for number in numbers]]
    return Table(
        {
            "Packet": chosen["packet"].tolist(),
            **{name: chosen[column].tolist() for column, name in PART_COLUMNS.items()},
            "Buffer (bytes)": chosen["rcvbuf_bytes"].tolist(),
        }
    )


def drops(run: Run) -> Table:
    """One row per dropped packet: its time, its first byte, and the window left before it."""
    table = packets(run)
    before = table["window_left_bytes"].shift(1)
    dropped = table[table["dropped"].fillna(0) > 0]
    since_s = dropped["time_s"] - dropped["time_s"].min()
    return Table(
        {
            "Packet": dropped["packet"].tolist(),
            "After the first drop (s)": [round(value, 3) for value in since_s],
            "First byte": dropped["seq"].tolist(),
            "Window left before (bytes)": before[dropped.index].astype(int).tolist(),
        }
    )


def rounds(run: Run) -> Table:
    """One row per round trip: packets, payload, the largest window offered, and window updates."""
    found = round_trips(run)
    return Table(
        {
            "Round trip": found["round_trip"].tolist(),
            "Packets": found["packets"].tolist(),
            "Payload accepted (bytes)": found["payload_bytes"].tolist(),
            "Largest window (bytes)": found["window_bytes"].tolist(),
            "rcv_ssthresh (bytes)": found["rcv_ssthresh_bytes"].tolist(),
            "Window updates": found["updates"].tolist(),
        }
    )


def as_printed(run: Run) -> Table:
    """What `ss -m` and `nstat -az` print about the receiver at the end of a run, next to what the
    article prints if the run has its parameters."""
    used, budget, queued, dropped = (
        int(article().claim(id_).figures[name])
        for id_, name in (("A4.2", "in use"), ("A4.1", ""), ("A4.3", "Recv-Q"), ("A4.4", "dropped"))
    )
    local = rf"^ESTAB +\d+ +\d+ +\S+:{run.condition_asked.link.port} .*\n\s+skmem:\(\S+\)"
    printed = [f"ESTAB {queued} 0 ... skmem:(r{used},rb{budget},...)", f"{DROPS} {dropped} 0.0"]
    own = printed if has_articles_parameters(article(), run, "A4.4") else ["", ""]
    return lines_as_printed(
        (
            Printed("ss -m", own[0], last_match(run, f"{RECEIVER}/ss.txt", local)),
            Printed(f"nstat -az {DROPS}", own[1], printed_drops(run)),
        )
    )


ON_THE_WIRE = ("direction", "flags", "seq_rel", "ack_rel", "window", "payload_bytes")
RESOLUTION_NS = 1000
"""Of the times in a capture. A timer that fires one step of the virtual clock late, as one in 256
does, may be written as the next microsecond."""


def same_packets(one: Run, other: Run) -> Table:
    """Whether two runs have the same packets on the wire: how many packets each has, how many of
    them differ, or arrive at times that differ by more than a microsecond, and the digest of each
    capture."""
    name = f"{RECEIVER}/capture.pcap"
    first, second = (capture.read(run.file(name)) for run in (one, other))
    shorter = min(len(first), len(second))
    mine, others = (side[list(ON_THE_WIRE)][:shorter].to_numpy() for side in (first, second))
    late_ns = (first["time_ns"][:shorter] - second["time_ns"][:shorter]).abs().to_numpy()
    differ = (mine != others).any(axis=1) | (late_ns > RESOLUTION_NS)
    return Table(
        {
            "Condition": [one.condition, other.condition],
            "Packets": [len(first), len(second)],
            "Different packets": [int(differ.sum())] * 2,
            "Capture, sha256": [run.seal.files[name][:SHOWN_DIGITS] for run in (one, other)],
        }
    )
