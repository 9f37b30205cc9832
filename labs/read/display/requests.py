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
WAITING = {"waiting": "Who waits", "waited_for": "For whom", "reason": "Reason"}
GAPS = {"size": "Requests", "min": "Minimum (ms)", "median": "Median (ms)", "max": "Maximum (ms)"}


def sequences(requests: Mapping[str, DataFrame]) -> Table:
    """One row per name and sequence of steps: how many requests follow it."""
    rows = []
    for name, table in requests.items():
        followed = usual(table)
        for steps, count in {followed.steps: followed.follow, **followed.others}.items():
            bare = steps[:-1] if steps[-1:] == (AND_SO_ON,) else steps
            which = "the first on their connection" * _are_first(table, steps, bare)
            share = 100 * count / max(1, followed.requests)
            rows += [(name, describe_steps(steps), count, share, which)] * bool(count)
    return Table(rows, columns=["Condition", "Steps", "Requests", "Share (%)", "Which"])


def _are_first(requests: DataFrame, *steps: tuple[str, ...]) -> bool:
    """Whether each request with one of these sequences is the first on its connection."""
    places = requests["request"][requests["steps"].isin(steps)]
    return bool(len(places)) and not places.any()


def waits(requests: DataFrame) -> Table:
    """One row per reason for a stall: who waited for whom, how long, and the rule."""
    stalled = requests[stalls_in(requests)]
    gaps = stalled.groupby(list(WAITING), sort=False)["gap_ms"]
    table = Table(gaps.agg(list(GAPS)).reset_index().rename(columns=WAITING | GAPS))
    table.insert(0, "Requests", table.pop("Requests"))
    return table.assign(Source=[explained(str(reason)).source for reason in table["Reason"]])


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
        where = ", each the first on its connection" * _are_first(requests, other)
        sentences.append(f"{count} follow another sequence{where}: {describe_steps(other)}.")
    return Words(" ".join(sentences))


def _describe_stalls(stalled: DataFrame) -> str:
    if stalled.empty:
        return "No request stalls."
    words = explained(str(stalled["reason"].iloc[0])).words
    return f"In {len(stalled)} requests nothing is sent for {_silence(stalled, ':')}. {words}"


def _silence(requests: DataFrame, mark: str) -> str:
    """How long, and who waits for whom: that of the first."""
    first, gaps = requests.iloc[0], requests["gap_ms"]
    waiting = f"the {first['waiting']} waits for the {first['waited_for']}"
    return f"{gaps.min():.1f} to {gaps.max():.1f} ms{mark} {waiting}"


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
        text += f"; the silence takes {_silence(same, ',')}: {same['reason'].iloc[0]}"
    if followed.others:
        others = [f"{count}: {describe_steps(other)}" for other, count in followed.others.items()]
        text += f". The others, {'. '.join(others)}"
    return text
