"""Preview a batch: its distinct runs, those that exist, and how long the others will take.

Nothing is started or written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from labs.batches.plan_file import PlanFile
from labs.batches.points import Point
from labs.drive.parameters.declare import LabParameters, plain
from labs.drive.testbeds import TESTBEDS
from labs.errors import BadInput, LabError
from labs.launch.launch import distinct_runs, plan_points
from labs.launch.plan import Planned
from labs.read.lab import Lab
from labs.read.runs.costs import Estimate, kind_of, median_of, samples_of

MOST_ROWS = 200_000
"""Rows of an index, which has to be read again."""
PERFORMED = frozenset(kind.name for kind in TESTBEDS.values() if kind.performs)
RUNS = "RUNS"


@dataclass(frozen=True)
class Prospect:
    """The points of a plan with their parameters and runs, in the folder `runs`.

    `planned` has the runs of each point, or the error that prevents planning. `varied` names the
    parameters that have several values.
    """

    lab: Lab
    varied: tuple[str, ...]
    points: tuple[Point, ...]
    parameters: tuple[LabParameters, ...]
    planned: tuple[tuple[Planned, ...] | LabError, ...]
    runs: Path

    @cached_property
    def distinct(self) -> tuple[Planned, ...]:
        """The runs of all points, each once."""
        return tuple(distinct_runs(self.planned))

    @cached_property
    def impossible(self) -> Mapping[str, int]:
        """The reasons why points cannot be planned, each with the number of these points."""
        return Counter(str(error) for error in self.planned if isinstance(error, LabError))

    @cached_property
    def unused(self) -> Mapping[str, str]:
        """By key of a run, the axes that it does not use: the points that share it differ in them.

        In words, such as `not used: rate_mbit`.
        """
        seen: dict[str, dict[str, set[object]]] = defaultdict(lambda: defaultdict(set))
        for point, planned in zip(self.points, self.planned, strict=True):
            for run in () if isinstance(planned, LabError) else planned:
                for name in self.varied:
                    seen[run.key][name.lower()].add(point.values[name])
        unused = {
            key: [name for name, values in axes.items() if len(values) > 1]
            for key, axes in seen.items()
        }
        return {key: f"not used: {', '.join(names)}" for key, names in unused.items() if names}

    def estimate(self, missing: Sequence[Planned], jobs: int, places: Sequence[Path]) -> Estimate:
        """The real seconds and bytes of these runs, `jobs` at a time, from earlier runs of the same
        condition in these folders: those with the same settings, such as the transfer size, or if
        there are none, those with other settings."""
        alike = samples_of(self.lab.name, places, kind_of)
        of_name: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for (name, _), some in alike.items():
            of_name[name] += some
        wanted = Counter(kind_of(run.condition.as_json()) for run in missing)
        covered = {
            kind: alike.get(kind) or of_name[kind[0]] for kind in wanted if kind[0] in of_name
        }
        each = {kind: median_of(samples) for kind, samples in covered.items()}
        rough = each.keys() - alike.keys()
        rough_names = {name for name, _ in rough}
        used = [kind for kind in alike if kind in wanted or kind[0] in rough_names]
        return Estimate(
            sum(wanted[kind] * kind_cost.real_s for kind, kind_cost in each.items()) / max(1, jobs),
            sum(wanted[kind] * kind_cost.size_bytes for kind, kind_cost in each.items()),
            sum(len(alike[kind]) for kind in used),
            sum(wanted[kind] for kind in each),
            sum(wanted[kind] for kind in rough),
        )


def prospect_of(plan: PlanFile, runs: Path) -> Prospect:
    """The preview of a plan whose runs are in the folder `runs`.

    BadInput for a value that the lab refuses, or a testbed that performs no runs.
    """
    first = next(plan.points)
    try:
        conditions = len(plan.subject.lab.conditions(plan.parameters_of(first)))
    except BadInput as error:
        raise plan.refusal(first, error) from error
    if plan.count * conditions > MOST_ROWS:
        raise BadInput(
            f"{plan.path}: {plan.count:,} points with {conditions} conditions are too many. "
            f"Allowed: {MOST_ROWS:,} rows. Give ONLY, fewer values, or several plans"
        )
    points = tuple(plan.points)
    if RUNS in first.values:
        raise BadInput(
            f"{plan.path}: {RUNS} cannot be set, because a batch has its own runs. Use --into"
        )
    parameters = tuple(replace(plan.parameters_of(point), runs=str(runs)) for point in points)
    testbeds = {parameter.testbed for parameter in parameters}
    if testbeds - PERFORMED or len(testbeds) > 1:
        raise BadInput(
            f"{plan.path}: the testbed is {', '.join(sorted(testbeds))}. "
            f"Allowed in a batch: one of {', '.join(sorted(PERFORMED))}"
        )
    lab, varied = plan.subject.lab, plan.varied
    planned = plan_points(lab, parameters, [describe_point(point, varied) for point in points])
    for point, outcome in zip(points, planned, strict=True):
        if isinstance(outcome, BadInput):  # Missing affects only its point
            raise plan.refusal(point, outcome)
    return Prospect(lab, varied, points, parameters, tuple(planned), runs)


def describe_point(point: Point, varied: Iterable[str]) -> str:
    """`rate_mbit 100, delay_ms 40`: the values in which a point differs from others."""
    return ", ".join(f"{name.lower()} {plain(point.values[name])}" for name in varied)
