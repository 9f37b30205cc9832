"""Tables that show something beside a measurement: guesses and predictions, what an article prints,
and what Wireshark says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pandas import DataFrame

from labs.errors import BadInput, Missing
from labs.read import capture
from labs.read.display.rich_output import Table, Words
from labs.read.flows.reasons import NAMES
from labs.read.runs.run import Run

Guess = float | None
PREDICTED = "Predicted"
TITLES = ("Your guess", PREDICTED, "Measured")
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
    """One row per guess: the guess, the prediction and the measurement; None is left empty, and
    the column of the predictions is left out if there are none. Predictions and measurements below
    `below` are meaningless: they have no figure and no ratio.

    `rows` has these three under the name of what was guessed. BadInput for a guess that is neither
    a number nor None.
    """
    for name, (guess, _, _) in rows.items():
        if guess is not None and (isinstance(guess, bool) or not isinstance(guess, int | float)):
            raise BadInput(
                f"the guess for {name} is not a number. Write a number in {unit}, or None"
            )
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(TITLES)
    shown = {
        f"{title} ({unit})": values
        for title, values in zip(TITLES, columns, strict=True)
        if title != PREDICTED or any(value is not None for value in values)
    }
    table = Table({"Guessed": list(rows), **shown})
    table[RATIO] = [_ratio(guess, measured, below) for guess, _, measured in rows.values()]
    table = table.astype(dict.fromkeys([*shown, RATIO], float))
    for title in list(shown)[1:]:
        short = table[title] < below
        table[title] = table[title].astype(object).mask(short, f"below {below:g}")
    return table


def _ratio(guess: Guess, measured: Guess, below: float) -> float:
    return math.nan if not guess or measured is None or measured < below else measured / guess


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
    """Wireshark's expert information on these rows of a capture, with the marks of this lab; a
    sentence if tshark is not installed. `segments` is the table of the capture. Columns without a
    flag are left out."""
    try:
        flags = capture.wireshark_flags(path, rows)
    except Missing as missing:
        return Words(f"Wireshark's analysis is not available: {missing}.")
    packets = segments.loc[flags["row"]]
    times_ns = packets["time_ns"] - packets["time_ns"].iloc[0]
    remarks = flags.reindex(columns=list(REMARKS)).fillna("").rename(columns=REMARKS)
    return Table(
        {
            "Record": flags["record"],
            "From": [NAMES[side] for side in packets["direction"]],
            "Bytes": packets["payload_bytes"].to_list(),
            "Time (ms)": (times_ns / 1e6).to_list(),
            **{title: column for title, column in remarks.items() if (column != "").any()},
        }
    )
