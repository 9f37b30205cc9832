"""A study of the lab `nagle` in sentences, as Markdown with the figures in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.requests import requests_of, stalls_in, usual
from labs.read.display.notebook import Words
from labs.read.flows.exchanges import in_words
from labs.read.flows.reasons import explained
from labs.read.readings.latency import SMALLEST_MS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_OTHERS = 3


def milliseconds(value: float) -> str:
    """A time as one reads it: 39.7 ms; what is shorter than a millisecond is only that."""
    return f"{value:.1f} ms" if value >= SMALLEST_MS else "below 1 ms"


def tell(table: DataFrame) -> str:
    """A line a run: what was measured, what was predicted, how many requests stalled."""
    return "\n".join(f"- **{row['condition']}**: {_one(row)}" for row in table.to_dict("records"))


def _one(row: dict[Any, Any]) -> str:
    said = f"{milliseconds(row['mean_ms'])} on average"
    if row["predicted_mean_ms"] == row["predicted_mean_ms"]:
        said += f" (predicted: {milliseconds(row['predicted_mean_ms'])}"
        said += f"; the article: {row['article_ms']:g} ms)" if (
            row["article_ms"] == row["article_ms"]) else ")"
    said += f", {row['stalled_pct']:.3g} % of the requests stall" if row["stalled_pct"] else (
        ", no request stalls")
    said += (f"; {row['segments_per_answer']:.3g} segments and {row['acks_per_answer']:.3g} ACKs "
             "an answer.")
    odd = [note for note in str(row["marks"]).split("; ") if note and not note.startswith("below")]
    return said + (f" Mind: {'; '.join(odd)}." if odd else "")


def tell_run(run: Run) -> str:
    """What one run shows: the usual sequence, its silence and its reason, what the others do."""
    return _told(requests_of(run))


def tell_requests(requests: DataFrame) -> Words:
    """The same of any capture, from its exchanges (`labs.read.flows.exchanges.exchanges`)."""
    return Words(_told(requests))


def _told(requests: DataFrame) -> str:
    if requests.empty:
        return "There is no request in this capture."
    steps = usual(requests).steps
    follow = requests["steps"] == steps
    said = [f"**{int(follow.sum())} of {len(requests)} requests** go so: {in_words(steps)}."]
    stalled = requests[stalls_in(requests)]
    if len(stalled):
        one = stalled.iloc[0]
        said.append(
            f"In {len(stalled)} requests nothing moves for {stalled['silence_ms'].min():.1f} to "
            f"{stalled['silence_ms'].max():.1f} ms: the {one['waiting']} waits for the "
            f"{one['waited_for']}. {explained(str(one['reason'])).words}")
    else:
        said.append("No request stalls.")
    others = Counter(requests["steps"][~follow])
    for other, count in others.most_common(MOST_OTHERS):
        first = bool((requests["request"][requests["steps"] == other] == 0).all())
        where = ", each the first one on its connection" if first else ""
        said.append(f"{count} go otherwise{where}: {in_words(other)}.")
    return " ".join(said)
