"""A study of the lab `stack` in sentences, and its effects as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pandas import DataFrame

from labs.drive.result_columns import values_of
from labs.experiments.stack.conditions import Parameters as Stack
from labs.experiments.stack.conditions import lacking
from labs.experiments.stack.effects import (
    effects,
    in_words,
    interaction_in_words,
    interactions,
    settings_read_back,
)
from labs.experiments.stack.results import Results
from labs.read.display.format import in_digits, in_three_digits, is_known
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Repeated


def describe(table: DataFrame) -> str:
    """One line per condition: latency, throughput, and the work per request."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def describe_run(run: Run) -> str:
    """One run: its latencies, including the largest one, and the work per request."""
    results = Results(run)
    values = values_of(results)
    values["notes"] = "; ".join(note.text for note in results.notes())
    largest = f"The largest latency of {results.requests:,} requests is {_us(results.max_us)}."
    return f"`{run.condition}`: {_one(values)} {largest}"


def _one(row: Mapping[Any, Any]) -> str:
    said = (
        f"median {_us(row['p50_us'])}, 99th percentile {_us(row['p99_us'])}, "
        f"{in_digits(round(row['requests_s']))} responses per s"
    )
    if row["rate_s"]:
        said += f" of {in_digits(row['rate_s'])} intended"
    said += f"; per request {in_three_digits(row['switches'])} context switches"
    said += f" and {in_three_digits(row['interrupts'])} interrupts"
    if is_known(row["cpu_us"]):
        said += f", {_us(row['cpu_us'])} of server CPU time"
    return f"{said}. Note: {row['notes']}." if row.get("notes") else f"{said}."


def _us(value: float | None) -> str:
    return "unknown" if value is None else f"{in_three_digits(value)} µs"


def compared(repeated: Sequence[Repeated]) -> dict[str, Any]:
    """The effects of a study whose conditions were repeated: ratios of medians, interactions, and
    every setting as read back. `remarks` says the same in lines."""
    found, together = effects(repeated), interactions(repeated)
    return {
        "effects": [one.as_json() for one in found],
        "interactions": {one.name: one.as_json() for one in together},
        "settings": list(settings_read_back(repeated)),
        "remarks": [
            *(
                ["", "effects on the latency, as ratios with 95 % bootstrap intervals:"]
                if found
                else []
            ),
            *(f"  {in_words(one)}." for one in found),
            *(["", "interactions of two settings:"] if together else []),
            *(f"  {interaction_in_words(one)}." for one in together),
        ],
    }


def findings(runs: Mapping[str, Run], parameters: Stack) -> dict[str, Any]:
    """One remark per missing program, with the conditions that need it."""
    return {
        "remarks": [
            f"{told}. Left out: {', '.join(names)}" for told, names in lacking(parameters).items()
        ]
    }
