"""Tables that show something beside a measurement: guesses and predictions, what an article prints,
what Wireshark says, another run, and other kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pandas import DataFrame

from labs.errors import BadInput, Missing
from labs.read import capture
from labs.read.capture.tcp_marks import marks
from labs.read.display.format import SHOWN_DIGITS
from labs.read.display.rich_output import Table, Words
from labs.read.flows.reasons import NAMES
from labs.read.runs.run import Run
from labs.read.study import Study

Guess = float | None
TITLES = ("Your guess", "Predicted", "Measured")
RATIO = "Measured / guess"
REMARKS = {
    "marks": "Marks of this lab",
    "wireshark": "Wireshark's flags",
    "expert": "Wireshark's expert",
    "tcp.analysis.ack_rtt": "Wireshark's ack_rtt (s)",
}


def guesses(
    rows: Mapping[str, tuple[Guess, Guess, Guess]], unit: str, *, below: float = 0.0
) -> Table:
    """One row per guess, prediction and measurement, by the name of what was guessed; None is left
    empty, and without predictions there is no column for them. Predictions and measurements
    below `below` are meaningless: they have no figure and no ratio. BadInput for a guess that is
    neither a number nor None."""
    for name, (value, _, _) in rows.items():
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise BadInput(
                f"the guess for {name} is not a number. Write a number in {unit}, or None"
            )
    heads = [f"{title} ({unit})" for title in TITLES]
    table = Table([(name, *row) for name, row in rows.items()], columns=["Guessed", *heads])
    table[heads] = table[heads].astype(float)
    guess, predicted, measured = (table[head] for head in heads)
    table[RATIO] = (measured / guess).mask((guess == 0) | (measured < below))
    for head in heads[1:]:
        table[head] = table[head].astype(object).mask(table[head] < below, f"below {below:g}")
    return table if predicted.notna().any() else table.drop(columns=heads[1])


class Printed(NamedTuple):
    """A command, the article's output of it (empty if it prints none, or for other parameters), and
    that of a run."""

    command: str
    article: str
    run: str


def last_match(run: Run, file: str, pattern: str) -> str:
    """What the pattern matches last in a raw file of a run, in one line."""
    return " ".join(re.findall(pattern, run.text(file), re.MULTILINE)[-1].split())


def as_printed(lines: Iterable[Printed]) -> Table:
    """One row per command; without the article's column if none of its output can be compared."""
    rows = list(lines)
    table = Table(rows, columns=["Command", "Article", "This run"])
    return table if any(row.article for row in rows) else table.drop(columns="Article")


def beside_wireshark(path: str | Path, segments: DataFrame, rows: Sequence[int]) -> Table | Words:
    """Wireshark's expert information on these rows of a capture (its table is `segments`), with the
    marks of this lab, and without empty columns; a sentence if tshark is not installed."""
    packets = segments.loc[sorted(set(rows))]
    try:
        flags = capture.wireshark_flags(path, packets["frame"].tolist())
    except Missing as missing:
        return Words(f"Wireshark's analysis is not available: {missing}.")
    own = marks(segments).loc[packets.index]
    flags["marks"] = [", ".join(own.columns[row]) for row in own.to_numpy()]
    times_ns = packets["time_ns"] - packets["time_ns"].iloc[0]
    remarks = flags.reindex(columns=list(REMARKS)).fillna("").rename(columns=REMARKS)
    columns = {
        "Record": flags["frame"],
        "From": [NAMES[side] for side in packets["direction"]],
        "Bytes": packets["payload_bytes"].to_list(),
        "Time (ms)": (times_ns / 1e6).to_list(),
    }
    return Table(columns | {name: of for name, of in remarks.items() if (of != "").any()})


ON_THE_WIRE = ("direction", "flags", "seq_rel", "ack_rel", "window", "payload_bytes")
RESOLUTION_NS = 1000
"""Of the times in a capture. A timer that fires one step of the virtual clock late, as one in 256
does, may be written as the next microsecond."""


def same_packets(run: Run, other: Run) -> Table:
    """Whether two runs have the same packets on the wire: how many packets each has, how many of
    them differ, or arrive at times that differ by more than a microsecond, and the digest of each
    capture, which is the server's."""
    name = "server/capture.pcap"
    both = [capture.read(side.file(name)) for side in (run, other)]
    shorter = min(map(len, both))
    mine, others = (side[list(ON_THE_WIRE)][:shorter].to_numpy() for side in both)
    times, other_times = (side["time_ns"][:shorter].to_numpy() for side in both)
    differ = (mine != others).any(axis=1) | (abs(times - other_times) > RESOLUTION_NS)
    return Table(
        {
            "Condition": [run.condition, other.condition],
            "Packets": [len(side) for side in both],
            "Different packets": [int(differ.sum())] * 2,
            "Capture, sha256": [side.seal.files[name][:SHOWN_DIGITS] for side in (run, other)],
        }
    )


def results_of(
    studies: Iterable[Study], heads: Mapping[str, str], conditions: Sequence[str] = ()
) -> Table:
    """Columns of the results of several studies, by the heading of each: one row per run of these
    conditions, or of all. Studies without runs are left out."""
    rows = [
        {head: row[column] for column, head in heads.items()}
        for study in studies
        if study.runs
        for row in study.results().to_dict("records")
        if not conditions or row["condition"] in conditions
    ]
    return Table(rows, columns=list(heads.values()))
