"""A study of the lab `windows` described in sentences, as Markdown with figures."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

import pandas
from pandas import DataFrame

from labs.drive.result_columns import values_of
from labs.experiments.windows.conditions import Parameters as Windows
from labs.experiments.windows.packets import packets, round_trips
from labs.experiments.windows.results import Results
from labs.read.display.format import in_digits, is_known, size_in_words
from labs.read.runs.run import Run


def describe(table: DataFrame) -> str:
    """One line per run: memory, data, window and drops."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def _one(row: Mapping[Any, Any]) -> str:
    said = (
        f"{in_digits(row['recv_q'])} bytes of data in {in_digits(row['skmem_r'])} bytes of memory, "
        f"{_over(row['overshoot_bytes'], row['skmem_rb'])}; the largest window is "
        f"{size_in_words(row['window_max_bytes'])}"
    )
    events = [
        f"{in_digits(row[name])} {what}{'' if row[name] == 1 else 's'} {name}"
        for name, what in (("coalesced", "packet"), ("collapsed", "buffer"), ("dropped", "packet"))
        if is_known(row[name]) and row[name]
    ]
    if events:
        said += f"; {', '.join(events)}"
    if is_known(row["dropped_in_window"]) and row["dropped_in_window"]:
        said += f", {in_digits(row['dropped_in_window'])} of them although the window was open"
    return f"{said}. Note: {row['notes']}." if row.get("notes") else f"{said}."


def _over(overshoot: float | None, buffer: float) -> str:
    if overshoot is None or not is_known(overshoot) or not overshoot:
        return f"of a buffer of {in_digits(buffer)}"
    return f"up to {in_digits(overshoot)} above the buffer of {in_digits(buffer)}"


def describe_run(run: Run) -> str:
    """One run: its state at the end, its events, and the accuracy of the predicted window."""
    found, table = Results(run), packets(run)
    said = f"**{found.packets} packets** with data arrived: {_one(values_of(found))}"
    collapsed = table[table["collapsed"].fillna(0) > 0]
    if len(collapsed):
        said += f" The queue is first collapsed at packet {int(collapsed['packet'].iloc[0])}."
    if found.predicted_equal_pct is not None:
        said += f" The predicted window is {_equal(found.predicted_equal_pct, 'at')}"
        if found.deviation_bytes:
            said += f"; the largest deviation is {in_digits(found.deviation_bytes)} bytes"
        said += "."
    return said


def _equal(share_pct: float, at: str) -> str:
    """The share of packets with the predicted window; one below 100 % is not rounded up to it."""
    if share_pct == 100:
        return "equal to the one on the wire at every packet"
    return f"equal to the one on the wire {at} {floor(10 * share_pct) / 10:g} % of the packets"


def findings(runs: Mapping[str, Run], parameters: Windows) -> dict[str, Any]:
    """The results of a study besides one row per run: the window by round trip for each
    condition. `runs` are the runs of a study by condition."""
    return {"round_trips": {name: _opened(run) for name, run in runs.items()}}


def _opened(run: Run) -> list[dict[str, int | None]]:
    return [
        {str(name): None if pandas.isna(value) else int(value) for name, value in row.items()}
        for row in round_trips(run).to_dict("records")
    ]


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole: the share of packets with the predicted window."""
    known = table[table["predicted_equal_pct"].notna()]
    if known.empty:
        return []
    worst = max(known.to_dict("records"), key=lambda row: row["deviation_bytes"])
    said = f"predicted window: {_equal(known['predicted_equal_pct'].min(), 'at no less than')}"
    if worst["deviation_bytes"]:
        off = in_digits(worst["deviation_bytes"])
        said += f" of each run; largest deviation {off} bytes ({worst['condition']})"
    return [said]
