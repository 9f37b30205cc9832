"""A study of the lab `sweeps` described in sentences, as Markdown with figures."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from labs.drive.result_columns import values_of
from labs.drive.units import KIB
from labs.experiments.sweeps.curves import SERIES, curves
from labs.experiments.sweeps.results import Results, expected, grants, transferred
from labs.experiments.sweeps.settings import Settings
from labs.read.display.format import in_three_digits, is_known, size_in_words

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.experiments.sweeps.conditions import Parameters as Sweeps
    from labs.read.runs.run import Run

MOST_REQUESTS = 4
"""About the number of granted sizes that one sentence names."""


def describe(table: DataFrame) -> str:
    """One line per run: buffers, window, goodput and limit."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def _one(row: Mapping[Any, Any]) -> str:
    if not is_known(row["steady_mib_s"]):
        return f"no transfer. Note: {row['notes']}." if row.get("notes") else "no transfer."
    said = (
        f"send buffer {_buffer(row, 'send')}, receive buffer {_buffer(row, 'receive')}, window of "
        f"at most {_size(row['advertised_kib'])}; {in_three_digits(row['steady_mib_s'])} MiB/s in "
        f"steady state with {_size(row['in_flight_kib'])} in flight"
    )
    if is_known(row["predicted_mib_s"]):
        said += (
            f" (predicted: {in_three_digits(row['predicted_mib_s'])}{_between(row)}, limited by: "
            f"{row['bound']})"
        )
    return f"{said}. Note: {row['notes']}." if row.get("notes") else f"{said}."


def _between(row: Mapping[Any, Any]) -> str:
    """The interval of a prediction that depends on single packets."""
    low, high = row["predicted_low_mib_s"], row["predicted_high_mib_s"]
    if not (is_known(low) and is_known(high)):
        return ""
    return f", between {in_three_digits(low)} and {in_three_digits(high)}"


def _buffer(row: Mapping[Any, Any], end: str) -> str:
    used = _size(row[f"used_{end}_kib"])
    requested = row[f"requested_{end}_kib"]
    return f"{used} ({_size(requested)} requested)" if is_known(requested) else f"{used}, automatic"


def _size(size_kib: float | None) -> str:
    if size_kib is None or not is_known(size_kib):
        return "unknown"
    return size_in_words(size_kib * KIB)


def describe_run(run: Run) -> str:
    """One run: its figures, and the predicted shares of idle time of the link, by reason."""
    if not transferred(run):
        return _granted(run)
    results = Results(run)
    notes = "; ".join(note.text for note in results.notes())
    said = f"{_one({**values_of(results), 'notes': notes})} Writes of {results.write_bytes:,} bytes"
    said += " with TCP_NODELAY." if results.nodelay else "."
    waits = sorted(expected(run).waits.items(), key=lambda item: -item[1])
    idle = [f"{100 * share:.0f} % {reason}" for reason, share in waits if share >= 0.005]
    if idle:
        said += f" Predicted idle time of the link in steady state: {', '.join(idle)}."
    return said


def _granted(run: Run) -> str:
    """What a run that only requests buffers was granted, or why iperf3 refused the size."""
    found = grants(run)
    if not run.settings_as(Settings).grants:
        return "; ".join(note.text for note in Results(run).notes()) or "no transfer"
    names = list(found)
    step = max(1, len(names) // MOST_REQUESTS)
    said = [
        f"a request of {size:,} bytes gives {found[size]['send']:,} for sending and "
        f"{found[size]['receive']:,} for receiving"
        for size in names[::step]
    ]
    return f"{'; '.join(said)}."


def findings(runs: Mapping[str, Run], parameters: Sweeps) -> dict[str, Any]:
    """What setsockopt grants, by request: a result that does not fit into one row per run. `runs`
    are the runs of a study by condition."""
    return {
        "grants": {
            name: grants(run) for name, run in runs.items() if run.settings_as(Settings).grants
        }
    }


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole: each series, and the model's error."""
    rows = [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    said = [f"{SERIES[name]}: {curve.in_words}" for name, curve in curves(rows).items()]
    errors = {
        row["condition"]: 100 * abs(row["predicted_mib_s"] / row["steady_mib_s"] - 1)
        for row in rows
        if is_known(row["predicted_mib_s"]) and is_known(row["steady_mib_s"])
    }
    if errors:
        worst = max(errors, key=lambda name: errors[name])
        said.append(
            f"predicted steady goodput: median error {median(errors.values()):.1f} %, largest "
            f"{errors[worst]:.1f} % ({worst})"
        )
    return said
