"""Runs in real time: the interval of each condition, and whether it covers new repetitions.

Such runs do not repeat to the byte. What repeats is the median of a condition, within its interval
if the machine is the recorded one, and within the margin of the lab otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from labs.catalog import find
from labs.drive.record.seal import canonical
from labs.errors import LabError
from labs.launch.launch import perform, prepare
from labs.launch.make import Opened
from labs.launch.plan import Planned, Planner
from labs.launch.progress import Bar
from labs.publish.rerun import BEYOND, COVERED, WITHIN, NotRepeated
from labs.read.runs.run import Run
from labs.read.stats.repetitions import FEWEST, Repeated, repeated


def conditions(runs: Iterable[Run]) -> list[Repeated]:
    """The conditions of runs in real time that have an interval, each on one testbed and kernel."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        asked = canonical(run.condition_asked.as_json()).decode()
        groups.setdefault((run.lab, run.testbed, run.kernel.release, asked), []).append(run)
    every = [
        condition for key in sorted(groups) for condition in repeated(find(key[0]), groups[key])
    ]
    return [condition for condition in every if condition.interval is not None]


def name_of(condition: Repeated) -> str:
    """What identifies a condition and where it was run."""
    run = condition.runs[0]
    return f"{run.lab} {run.condition} on {run.testbed}, Linux {run.kernel.release}"


def as_json(condition: Repeated) -> dict[str, Any]:
    """A condition with its interval as plain data."""
    run = condition.runs[0]
    where = {"lab": run.lab, "testbed": run.testbed, "kernel": run.kernel.release}
    return {**where, **condition.as_json()}


@dataclass(frozen=True)
class Again:
    """A recorded condition, and its new repetitions on this machine, `values` of undisturbed ones,
    in the unit of its figure."""

    recorded: Repeated
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def grade(self) -> str:
        """Covered by the recorded interval; otherwise within the margin of the lab, or not."""
        interval = self.recorded.interval
        assert interval is not None
        if interval.low <= self.median <= interval.high:
            return COVERED
        margin = self.recorded.lab.margin
        ratio = self.median / interval.middle if interval.middle else float("inf")
        return WITHIN if margin.low <= ratio <= margin.high else BEYOND

    def as_json(self) -> dict[str, Any]:
        return {**as_json(self.recorded), "again": list(self.values), "grade": self.grade}

    def line(self) -> str:
        interval = self.recorded.interval
        assert interval is not None
        return (
            f"{name_of(self.recorded)}: {self.grade}: {self.recorded.figure} {interval.middle:.4g} "
            f"({interval.low:.4g} to {interval.high:.4g}) -> {self.median:.4g} "
            f"(median of {len(self.values)})"
        )


def repeat_conditions(
    wanted: Sequence[Repeated], into: Path
) -> tuple[list[Again], list[NotRepeated]]:
    """Perform FEWEST runs of each condition on its testbed here, one at a time, into the folder
    `into`."""
    measured_again: list[Again] = []
    lacking: list[NotRepeated] = []
    for _, group in groupby(
        wanted, key=lambda condition: (condition.lab.name, condition.runs[0].testbed)
    ):
        some = list(group)
        try:
            again = _repeat_on_one_testbed(some, into)
        except LabError as error:
            lacking += [
                NotRepeated(run, str(error)) for condition in some for run in condition.runs
            ]
            continue
        for condition, runs in zip(some, again, strict=True):
            (now,) = repeated(condition.lab, runs)
            if now.values and now.figure == condition.figure:
                measured_again.append(Again(condition, now.values))
            else:
                disturbed = f"all new runs were disturbed ({now.why[0]})" if now.why else ""
                why = disturbed or f"the new runs have no {condition.figure}"
                lacking += [NotRepeated(run, why) for run in condition.runs]
    return measured_again, lacking


def _repeat_on_one_testbed(wanted: Sequence[Repeated], into: Path) -> list[list[Run]]:
    """The new runs of each condition, which all are of one lab and one testbed."""
    planner = Planner(wanted[0].lab, wanted[0].runs[0].testbed)
    first = [
        planner.again(condition.runs[0].inputs, condition.runs[0].name) for condition in wanted
    ]
    # In rounds, so that a disturbance of the machine affects all conditions alike.
    rounds: list[list[Planned]] = [
        [run.repeated(number) for run in first] for number in range(1, FEWEST + 1)
    ]
    every = [run for some in rounds for run in some]
    prepare(into)
    opened = Opened(into)
    with Bar(wanted[0].lab.name, len(every)) as bar:
        perform(every, opened, tell=bar.tell)
    return [[opened[some[at].name] for some in rounds] for at in range(len(wanted))]
