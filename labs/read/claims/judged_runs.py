"""The runs that a verdict was computed from, in a form that two verdicts can be compared by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labs.drive.record.seal import canonical, digest
from labs.read.runs.archive import origin
from labs.read.runs.run import Run

HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})
"""Parameters that say how much is run, and not how: studies that differ in nothing else belong
together."""
PERFORMED_BY = ("kernels", "code", "tools")
DIGITS = 12
"""Of a digest: as many as the name of a run has of its key."""


@dataclass(frozen=True)
class JudgedRuns:
    """The runs of one testbed and one kernel series.

    `conditions` has, by condition, the digest of its runs; two sides with equal digests have runs
    that are the same byte for byte. `kernels`, `code` and `tools` are the digests of what performed
    them, `parameters` those of their study, `files` the packed files that contain them.
    """

    lab: str
    count: int
    conditions: Mapping[str, str]
    parameters: Mapping[str, object]
    kernels: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The identity of the runs as plain data; where they are kept is not part of it."""
        plain = {"count": self.count, "conditions": dict(self.conditions)}
        return plain | {name: list(getattr(self, name)) for name in PERFORMED_BY}


def judged_runs(runs: Iterable[Run], parameters: Mapping[str, object]) -> JudgedRuns | None:
    """What identifies these runs of one study; None without runs."""
    every = list(runs)
    if not every:
        return None
    by_condition: dict[str, list[str]] = {}
    for run in every:
        by_condition.setdefault(run.condition, []).append(run.digest)
    inputs = [run.inputs for run in every]
    return replace(
        of_digests(every[0].lab, by_condition, parameters, ""),
        kernels=_distinct(of_run["kernel"] for of_run in inputs),
        code=_distinct(of_run.get("code") for of_run in inputs),
        tools=_distinct((of_run.get("tools"), of_run.get("libraries")) for of_run in inputs),
        files=tuple(dict.fromkeys(origin(run.path).name for run in every)),
    )


def of_digests(
    lab: str, digests: Mapping[str, Sequence[str]], parameters: Mapping[str, object], file: str
) -> JudgedRuns:
    """What identifies runs of which only the digests are kept, in a file."""
    conditions = {name: _digest(sorted(some)) for name, some in digests.items()}
    count = sum(map(len, digests.values()))
    return JudgedRuns(lab, count, conditions, parameters, files=(file,))


def of_several(every: Sequence[JudgedRuns]) -> JudgedRuns:
    """What identifies the runs of several draws on one kernel."""
    if len(every) == 1:
        return every[0]
    names = dict.fromkeys(name for judged in every for name in judged.conditions)
    conditions = {
        name: _digest(sorted(some.conditions[name] for some in every if name in some.conditions))
        for name in names
    }
    joined: dict[str, Any] = {
        part: tuple(sorted({name for judged in every for name in getattr(judged, part)}))
        for part in (*PERFORMED_BY, "files")
    }
    count = sum(judged.count for judged in every)
    return replace(every[0], count=count, conditions=conditions, **joined)


def but_how_much(parameters: Mapping[str, object]) -> dict[str, object]:
    """The parameters that are equal in studies whose runs are judged together."""
    return {name: value for name, value in parameters.items() if name not in HOW_MUCH}


def _digest(of: object) -> str:
    return digest(canonical(of))[:DIGITS]


def _distinct(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({_digest(value) for value in values}))
