"""The stalls of a capture file: every gap in which nothing was sent, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from labs.read.capture.connection_tracking import number_of
from labs.read.capture.parts import whole_connections
from labs.read.capture.segment_table import Remarks, Table, remarks
from labs.read.display.format import terminal_table
from labs.read.flows.path import facts_of
from labs.read.flows.reasons import explained
from labs.read.flows.verdict import Judge, Verdict
from labs.read.flows.waits import COLUMNS, Stalls, explained_waits, find_stalls, together

ENDS = ("client", "server")
OF_REASON = ("reason", "stalls", "longest_ms", "together_ms")
OF_STALL = (
    *("connection", "at_s", "gap_ms", "rtt_ms", "reason"),
    *("waiting", "waited_for", "frames", "client", "server"),
)
LONGEST = 10
WIDTH = 100


@dataclass(frozen=True)
class FileStalls:
    """The stalls of a file, one row each, of `segments` packets; `counts` has those undecided."""

    file: Path
    remarks: Remarks
    segments: int
    verdict: Verdict
    rows: Sequence[Mapping[str, Any]]
    counts: Stalls

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """One row per reason with its meaning, in descending order of total time."""
        lengths: dict[str, list[float]] = {}
        for row in self.rows:
            lengths.setdefault(row["reason"], []).append(row["gap_ms"])
        return [
            {
                "reason": reason,
                "stalls": len(ms),
                "longest_ms": max(ms),
                "together_ms": sum(ms),
                "words": explained(reason).words,
                "source": explained(reason).source,
            }
            for reason, ms in sorted(lengths.items(), key=lambda pair: -sum(pair[1]))
        ]

    @property
    def lines(self) -> tuple[str, ...]:
        """What the capture lacks, and the gaps that are not listed because the RTT is unknown."""
        counts = self.counts
        undecided = (
            f"not listed, because they may be no longer than an RTT: {counts.undecided:,} gaps of "
            f"connections of unknown RTT, the longest of {counts.longest_undecided_ms:.3f} ms"
        )
        judged = self.verdict.lines if self.remarks.segments else ()
        return (*self.remarks.lines, *judged, *([undecided] if counts.undecided else []))

    def as_json(self) -> dict[str, Any]:
        counts = ("acks_of_missing", "rtt_unknown", "undecided", "longest_undecided_ms")
        return {
            "file": str(self.file),
            "segments": self.segments,
            "verdict": self.verdict.as_json(),
            "reasons": self.reasons,
            "stalls": self.rows,
            **{name: getattr(self.counts, name) for name in counts},
            **self.remarks.as_json(),
        }

    def describe(self) -> str:
        """The stalls by reason, the longest of them, and what the reasons mean."""
        if not self.rows:
            return f"{self.file}: no stall: no gap is certain to be longer than an RTT"
        longest = sorted(self.rows, key=lambda row: -row["gap_ms"])[:LONGEST]
        return "\n\n".join(
            [
                terminal_table(self.reasons, OF_REASON),
                f"the longest {len(longest)}:",
                terminal_table(longest, OF_STALL),
                *map(_meaning, self.reasons),
            ]
        )


def _meaning(reason: Mapping[str, Any]) -> str:
    lines = ((f"{reason['reason']}: {reason['words']}", ""), (reason["source"], "  "))
    return "\n".join(
        textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent="  ")
        for text, indent in lines
    )


def stalls_of(file: Path, connection: str | None, min_gap_ms: float) -> FileStalls:
    """The gaps of a capture, or of one connection of it, that exceed the RTT by `min_gap_ms`.

    BadInput for a connection that it does not have.
    """
    judge = Judge()

    def of_part(table: Table) -> tuple[Stalls, int]:
        waited = explained_waits(table, facts)
        judge.add(waited)
        return find_stalls(waited, min_gap_ms=min_gap_ms), len(waited.state)

    with whole_connections(file, connection) as capture:
        held, facts = remarks(capture.reader.counts), facts_of(capture.reader.connections)
        # As a function, so that each part is freed before the next one is read.
        parts = [*map(of_part, capture.tables)]
    ends = capture.connections
    chosen = ends if connection is None else [ends[number_of(ends, connection)]]
    begin_ns = min((int(of["first_ns"]) for of in chosen), default=0)
    stalls = together([part for part, _ in parts])
    rows = [_stall(dict(zip(COLUMNS, row, strict=True)), begin_ns, ends) for row in stalls.rows]
    return FileStalls(file, held, sum(count for _, count in parts), judge.verdict(), rows, stalls)


def _stall(
    row: dict[str, Any], begin_ns: int, connections: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A stall with the ends of its connection; None for an unknown RTT."""
    addresses = connections[row["connection"]]
    return {
        **row,
        "rtt_ms": None if isnan(row["rtt_ms"]) else row["rtt_ms"],
        "at_s": (row["at_ns"] - begin_ns) / 1e9,
        "frames": f"{row['frame_before']}-{row['frame_after']}",
        **{end: f"{addresses[end]}:{addresses[f'{end}_port']}" for end in ENDS},
    }
