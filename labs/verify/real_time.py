"""Runs in real time: the interval of each condition, and whether it covers new repetitions.

Such runs do not repeat to the byte. What repeats is the median of a condition, within its interval
if the machine is the recorded one, and within the margin of the lab otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from labs.errors import LabError
from labs.launch.launch import perform, prepare
from labs.launch.plan import Planned, Planner
from labs.launch.progress import Bar
from labs.launch.wanted import Opened, Wanted
from labs.publish.bundle_contents import interval_of
from labs.read.runs.run import Run
from labs.read.stats.repetitions import FEWEST, Repeated, repeated
from labs.verify.rerun import BEYOND, COVERED, WITHIN, NotRepeated


def name_of(condition: Repeated) -> str:
    """What identifies a condition and where it was run."""
    run = condition.runs[0]
    return f"{run.lab} {run.condition} on {run.testbed}, Linux {run.kernel.release}"


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
        return {**interval_of(self.recorded), "again": list(self.values), "grade": self.grade}

    def line(self) -> str:
        interval = self.recorded.interval
        assert interval is not None
        return (
            f"{name_of(self.recorded)}: {self.grade}: {self.recorded.figure} {interval.middle:.4g} "
            f"({interval.low:.4g} to {interval.high:.4g}) -> {self.median:.4g} "
            f"(median of {len(self.values)})"
        )


def repeat_conditions(
    conditions: Sequence[Repeated], into: Path
) -> tuple[list[Again], list[NotRepeated]]:
    """Perform FEWEST runs of each condition on its testbed here, one at a time, into the folder
    `into`."""
    measured_again: list[Again] = []
    lacking: list[NotRepeated] = []
    for _, group in groupby(
        conditions, key=lambda condition: (condition.lab.name, condition.runs[0].testbed)
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


def _repeat_on_one_testbed(conditions: Sequence[Repeated], into: Path) -> list[list[Run]]:
    """The new runs of each condition, which all are of one lab and one testbed."""
    lab = conditions[0].lab
    planner = Planner(lab, conditions[0].runs[0].where)
    first = [
        planner.again(condition.runs[0].inputs, condition.runs[0].name) for condition in conditions
    ]
    # In rounds, so that a disturbance of the machine affects all conditions alike.
    rounds: list[list[Planned]] = [
        [run.repeated(number) for run in first] for number in range(1, FEWEST + 1)
    ]
    every = [run for some in rounds for run in some]
    prepare(into)
    opened = Opened(into)
    with Bar(lab.name, len(every)) as bar:
        perform(every, opened, Wanted(tell=bar.tell))
    return [[opened[some[at].name] for some in rounds] for at in range(len(conditions))]
