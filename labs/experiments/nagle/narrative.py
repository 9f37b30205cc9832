"""A study of the lab `nagle` in sentences, as Markdown that contains the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.requests import own_requests, requests_of, stalls_in, usual
from labs.experiments.nagle.results import BELOW_1_MS
from labs.read.display.format import in_digits, milliseconds
from labs.read.display.rich_output import Words
from labs.read.flows.exchanges import describe_steps
from labs.read.flows.reasons import explained
from labs.read.readings.latency import SMALLEST_MS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.experiments.nagle.conditions import Parameters as Nagle

MOST_OTHERS = 3
CLOSED_LOOP = (
    "ab is a closed-loop client: while a request stalls it sends no others, so its "
    "percentiles count requests, not time (coordinated omission)"
)
SEQUENCES = {"sequence_off": "off", "sequence_on": "on"}


def describe(table: DataFrame) -> str:
    """One line per run: measured, predicted, and how many requests stalled."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def _one(row: dict[Any, Any]) -> str:
    said = f"mean {milliseconds(row['mean_ms'], SMALLEST_MS)}"
    if row["predicted_mean_ms"] == row["predicted_mean_ms"]:
        said += f" (predicted: {milliseconds(row['predicted_mean_ms'], SMALLEST_MS)}"
        said += (
            f"; article: {row['article_ms']:g} ms)"
            if (row["article_ms"] == row["article_ms"])
            else ")"
        )
    said += (
        f", {row['stalled_pct']:.3g} % of requests wait for a delayed ACK"
        if row["stalled_pct"]
        else ", no request waits for a delayed ACK"
    )
    said += (
        f"; {_counted(row['segments_per_answer'], 'segment')} and "
        f"{_counted(row['acks_per_answer'], 'ACK')} per response."
    )
    if row["notes"] and row["note_codes"] != BELOW_1_MS:
        said += f" Note: {row['notes']}."
    return said


def _counted(value: float, noun: str) -> str:
    return f"{in_digits(value)} {noun}{'' if value == 1 else 's'}"


def describe_run(run: Run) -> str:
    """One run: the most frequent sequence, its stall and the reason, and the other sequences."""
    return _told(requests_of(run))


def describe_requests(requests: DataFrame) -> Words:
    """The same of any capture, from its exchanges (`labs.read.flows.exchanges.exchanges`)."""
    return Words(_told(requests))


def _told(requests: DataFrame) -> str:
    if requests.empty:
        return "This capture contains no request."
    steps = usual(requests).steps
    follow = requests["steps"] == steps
    said = [
        f"**{int(follow.sum())} of {len(requests)} requests** follow this sequence: "
        f"{describe_steps(steps)}."
    ]
    stalled = requests[stalls_in(requests)]
    if len(stalled):
        one = stalled.iloc[0]
        said.append(
            f"In {len(stalled)} requests nothing is sent for {stalled['gap_ms'].min():.1f} to "
            f"{stalled['gap_ms'].max():.1f} ms: the {one['waiting']} waits for the "
            f"{one['waited_for']}. {explained(str(one['reason'])).words}"
        )
    else:
        said.append("No request stalls.")
    others = Counter(requests["steps"][~follow])
    for other, count in others.most_common(MOST_OTHERS):
        first = bool((requests["request"][requests["steps"] == other] == 0).all())
        where = ", each the first on its connection" if first else ""
        said.append(f"{count} follow another sequence{where}: {describe_steps(other)}.")
    return " ".join(said)


def findings(runs: Mapping[str, Run], parameters: Nagle) -> dict[str, Any]:
    """The results of a study beyond one row per run: the sequence of steps with Nagle's algorithm
    (`off`) and without (`on`), and the share of requests that follow it; the same for the capture
    that the parameters name, if any. `remarks` repeats each in one line.

    `runs` are those of a study by condition.
    """
    seen = {
        name: (condition, requests_of(runs[condition]))
        for name, condition in SEQUENCES.items()
        if condition in runs
    }
    own = parameters.capture_file
    if own:
        seen["sequence_own"] = (str(own), own_requests(str(own)))
    found: dict[str, Any] = {"remarks": []}
    for name, (what, requests) in seen.items():
        most = usual(requests)
        found |= {
            name: list(most.steps),
            f"{name}_share": most.share if most.requests else None,
            f"{name}_others": [
                {"steps": list(steps), "requests": count} for steps, count in most.others.items()
            ],
        }
        found["remarks"].append(
            f"{what}: {most.follow} of {most.requests} requests: {describe_steps(most.steps)}"
        )
    return found


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole."""
    return [CLOSED_LOOP] if (table["requests"] > 0).any() else []
