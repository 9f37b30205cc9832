"""Preview a batch: its distinct runs, those that exist, and how long the others will take.

Nothing is started or written.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labs.batches.plan_file import PlanFile
from labs.drive.parameters.declare import LabParameters, Scalar, plain
from labs.drive.testbeds import TESTBEDS, Kind
from labs.errors import BadInput, LabError
from labs.launch.launch import distinct_runs, plan_points
from labs.launch.plan import Planned
from labs.read.lab import Lab
from labs.read.runs.costs import Estimate, kind_of, median_of, samples_of

MOST_ROWS = 200_000
"""Rows of an index, which has to be read again."""
PERFORMED = frozenset(kind.name for kind in TESTBEDS.values() if kind.performs)
RUNS = "RUNS"
SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
Shard = tuple[int, int]
"""The number of a shard, from 1, and the number of shards."""


def shard_of(text: str) -> Shard:
    """The shard that "I/N" names, counted from 1; BadInput for any other text."""
    match = SHARD.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise BadInput(f'"{text}" is not a shard. Allowed: I/N, such as 1/8 to 8/8')
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class PlannedPoint:
    """A point of a plan: its number, the plan's values by notebook name, the lab's parameters, and
    its runs, or the error that prevents planning."""

    number: int
    values: Mapping[str, Scalar]
    parameters: LabParameters
    planned: tuple[Planned, ...] | LabError

    @property
    def runs(self) -> tuple[Planned, ...]:
        return () if isinstance(self.planned, LabError) else self.planned


@dataclass(frozen=True)
class Prospect:
    """The points of a plan with their runs, in the folder `runs`. `varied` names the parameters
    that have several values. Of a `shard`, only its part of the runs is performed."""

    lab: Lab
    varied: tuple[str, ...]
    points: tuple[PlannedPoint, ...]
    runs: Path
    shard: Shard | None = None

    @property
    def where(self) -> Kind:
        """The testbed, which is that of all points."""
        return self.points[0].parameters.where

    @cached_property
    def distinct(self) -> Sequence[Planned]:
        """The runs to perform, each once. A shard has every N-th of them in the order of their
        keys, so shards are disjoint and together complete."""
        every = distinct_runs(point.planned for point in self.points)
        if self.shard is None:
            return every
        number, count = self.shard
        return sorted(every, key=lambda run: run.key)[number - 1 :: count]

    @cached_property
    def impossible(self) -> Mapping[str, int]:
        """The reasons why points cannot be planned, each with the number of these points."""
        outcomes = (point.planned for point in self.points)
        return Counter(str(outcome) for outcome in outcomes if isinstance(outcome, LabError))

    @cached_property
    def unused(self) -> Mapping[str, str]:
        """By key of a run, the axes that it does not use: the points that share it differ in them.

        In words, such as `not used: rate_mbit`.
        """
        sharing: dict[str, list[PlannedPoint]] = defaultdict(list)
        for point in self.points:
            for run in point.runs:
                sharing[run.key].append(point)
        unused = {
            key: [name for name in self.varied if len({point.values[name] for point in points}) > 1]
            for key, points in sharing.items()
        }
        return {
            key: f"not used: {', '.join(names).lower()}" for key, names in unused.items() if names
        }

    def estimate(self, missing: Sequence[Planned], jobs: int, places: Sequence[Path]) -> Estimate:
        """The real seconds and bytes of these runs, `jobs` at a time, from earlier runs of the same
        condition in these folders: those with the same settings, such as the transfer size, or if
        there are none, those with other settings."""
        alike = samples_of(self.lab.name, places, kind_of)
        of_name: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for (name, _), samples in alike.items():
            of_name[name] += samples
        wanted = Counter(kind_of(run.condition.as_json()) for run in missing)
        covered = {kind: count for kind, count in wanted.items() if kind[0] in of_name}
        rough = covered.keys() - alike.keys()
        costs = {kind: median_of(alike.get(kind) or of_name[kind[0]]) for kind in covered}
        rough_names = {name for name, _ in rough}
        used = [kind for kind in alike if kind in wanted or kind[0] in rough_names]
        return Estimate(
            sum(count * costs[kind].real_s for kind, count in covered.items()) / max(1, jobs),
            sum(count * costs[kind].size_bytes for kind, count in covered.items()),
            sum(len(alike[kind]) for kind in used),
            sum(covered.values()),
            sum(covered[kind] for kind in rough),
        )


def prospect_of(plan: PlanFile, runs: Path, shard: Shard | None = None) -> Prospect:
    """The preview of a plan whose runs are in the folder `runs`.

    BadInput for a value that the lab refuses, or a testbed that performs no runs.
    """
    first = next(plan.points)
    if RUNS in first.values:
        raise BadInput(
            f"{plan.path}: {RUNS} cannot be set, because a batch has its own runs. Use --into"
        )
    lab, varied = plan.subject.lab, plan.varied
    try:
        conditions = len(lab.conditions(plan.parameters_of(first)))
    except BadInput as error:
        raise plan.refusal(first, error) from error
    if plan.count * conditions > MOST_ROWS:
        raise BadInput(
            f"{plan.path}: {plan.count:,} points with {conditions} conditions are too many. "
            f"Allowed: {MOST_ROWS:,} rows. Give ONLY, fewer values, or several plans"
        )
    points = tuple(plan.points)
    parameters = [replace(plan.parameters_of(point), runs=str(runs)) for point in points]
    testbeds = {p.testbed for p in parameters}
    if testbeds - PERFORMED or len(testbeds) > 1:
        raise BadInput(
            f"{plan.path}: the testbed is {', '.join(sorted(testbeds))}. "
            f"Allowed in a batch: one of {', '.join(sorted(PERFORMED))}"
        )
    names = [describe_point(point.values, varied) for point in points]
    virtual = parameters[0].where.virtual_time
    planned = plan_points(lab, parameters, names if virtual else ())
    for point, outcome in zip(points, planned, strict=True):
        if isinstance(outcome, BadInput):  # Missing affects only its point
            raise plan.refusal(point, outcome)
    every = (
        PlannedPoint(point.number, point.values, p, outcome)
        for point, p, outcome in zip(points, parameters, planned, strict=True)
    )
    return Prospect(lab, varied, tuple(every), runs, shard)


def describe_point(values: Mapping[str, Scalar], varied: Sequence[str]) -> str:
    """`rate_mbit 100, delay_ms 40`: the values in which a point differs from others."""
    return ", ".join(f"{name.lower()} {plain(values[name])}" for name in varied)
