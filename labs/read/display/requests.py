"""Requests and their responses in a capture, in sentences and tables.

All take the exchanges of a capture (`labs.read.flows.exchanges.exchanges`), of a run or a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from labs.read.display.rich_output import Table, Words
from labs.read.flows.exchanges import AND_SO_ON, SILENCE, describe_steps
from labs.read.flows.reasons import explained
from labs.read.readings.responses import following, stalls_in, usual

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_OTHERS = 3


def sequences(requests: Mapping[str, DataFrame]) -> Table:
    """One row per name and sequence of steps: how many requests follow it."""
    rows = []
    for name, table in requests.items():
        followed = usual(table)
        for steps, count in ((followed.steps, followed.follow), *followed.others.items()):
            bare = steps[:-1] if steps[-1:] == (AND_SO_ON,) else steps
            some = table[(table["steps"] == steps) | (table["steps"] == bare)]
            which = "the first on their connection" if _are_first(some) else ""
            share = 100 * count / max(1, followed.requests)
            if count:
                rows.append((name, describe_steps(steps), count, share, which))
    return Table(rows, columns=["Condition", "Steps", "Requests", "Share (%)", "Which"])


def _are_first(requests: DataFrame) -> bool:
    """Whether each of some requests is the first on its connection."""
    return bool(len(requests)) and bool((requests["request"] == 0).all())


def waits(requests: DataFrame) -> Table:
    """One row per reason for a stall: who waited for whom, how long, and the rule."""
    stalled = requests[stalls_in(requests)]
    rows = [
        (
            *(len(some), waiting, waited_for, reason),
            *(some["gap_ms"].min(), some["gap_ms"].median(), some["gap_ms"].max()),
            explained(str(reason)).source,
        )
        for (reason, waiting, waited_for), some in stalled.groupby(
            ["reason", "waiting", "waited_for"], sort=False
        )
    ]
    times = [f"{which} (ms)" for which in ("Minimum", "Median", "Maximum")]
    columns = ["Requests", "Who waits", "For whom", "Reason", *times, "Source"]
    return Table(rows, columns=columns)


def describe_requests(requests: DataFrame) -> Words:
    """The same of any capture, from its exchanges (`labs.read.flows.exchanges.exchanges`)."""
    if requests.empty:
        return Words("This capture contains no request.")
    steps = usual(requests).steps
    follow = requests["steps"] == steps
    sentences = [
        f"**{int(follow.sum())} of {len(requests)} requests** follow this sequence: "
        f"{describe_steps(steps)}.",
        _describe_stalls(requests[stalls_in(requests)]),
    ]
    for other, count in Counter(requests["steps"][~follow]).most_common(MOST_OTHERS):
        are_first = _are_first(requests[requests["steps"] == other])
        where = ", each the first on its connection" if are_first else ""
        sentences.append(f"{count} follow another sequence{where}: {describe_steps(other)}.")
    return Words(" ".join(sentences))


def _describe_stalls(stalled: DataFrame) -> str:
    if stalled.empty:
        return "No request stalls."
    first, gaps = stalled.iloc[0], stalled["gap_ms"]
    return (
        f"In {len(stalled)} requests nothing is sent for {gaps.min():.1f} to {gaps.max():.1f} ms: "
        f"the {first['waiting']} waits for the {first['waited_for']}. "
        f"{explained(str(first['reason'])).words}"
    )


def describe_following(requests: DataFrame, steps: tuple[str, ...]) -> str | None:
    """How many requests follow these steps, how long their silences are, who waits for whom, and
    the steps of the others; None without requests."""
    if requests.empty:
        return None
    followed = following(requests, steps)
    counts = f"{followed.follow} of {followed.requests} requests"
    text = f"{counts} follow this sequence: {describe_steps(followed.steps)}"
    same = requests[requests["steps"] == followed.steps]
    if not same.empty and SILENCE in followed.steps:
        first, silences = same.iloc[0], same["gap_ms"]
        text += (
            f"; the silence takes {silences.min():.1f} to {silences.max():.1f} ms, the "
            f"{first['waiting']} waits for the {first['waited_for']}: {first['reason']}"
        )
    others = ". ".join(
        f"{count}: {describe_steps(steps)}" for steps, count in followed.others.items()
    )
    return f"{text}. The others, {others}" if others else text
