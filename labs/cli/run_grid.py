"""`labs run` for parameters with several values: all points together."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from labs.cli.command import Answer
from labs.cli.run_report import LACKING, describe, describe_points, grid_as_json
from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters
from labs.errors import LabError, Missing
from labs.read.display.format import in_runs, terminal_table
from labs.read.lab import Lab
from labs.read.unused_parameters import same_run

if TYPE_CHECKING:
    from labs.studies.grid import Grid

T = TypeVar("T")


def main(lab: Lab, p: LabParameters, over: Axes, args: Namespace) -> Answer:
    """Perform the missing runs of all points, or show the points."""
    if args.dry_run:
        outline = preview(lab, p, over)
        return Answer(outline, describe_preview(outline))
    from labs.launch.wanted import Wanted
    from labs.studies.grid import grid_of

    grid = grid_of(p, over, Wanted(args.fresh, args.jobs))
    report = grid_as_json(lab, p, grid)
    return Answer(report, lambda: describe(lab, report), error=worst(grid))


def worst(grid: Grid) -> LabError | None:
    """The errors of the points as one: a failed run matters more than one that cannot run here."""
    failed = [error for error in grid.errors if not isinstance(error, Missing)]
    for error in (*failed, *grid.errors):
        return type(error)("; ".join(map(str, grid.errors)))
    return None


def preview(lab: Lab, p: LabParameters, over: Axes) -> dict[str, Any]:
    """The points, each with its conditions, their links, and the names of their runs."""
    from labs.launch.launch import distinct_runs, plan_points
    from labs.launch.wanted import Opened
    from labs.read.display.provenance import asked
    from labs.read.unused_parameters import unused_axes
    from labs.studies.grid import attempted, varied_points

    varied, wanted = varied_points(p, over)
    same = unused_axes(lab, wanted, varied)
    conditions = [attempted(lab.conditions, at) for at in wanted]
    errors = [error for error in conditions if isinstance(error, LabError)]
    if len(errors) == len(wanted):
        raise errors[0]
    planned = plan_points(lab, wanted) if p.where.performs else [()] * len(wanted)
    points = []
    for at, of_point, runs in zip(wanted, conditions, planned, strict=True):
        lacks = next((str(why) for why in (runs, of_point) if isinstance(why, LabError)), None)
        names = {run.condition.name: run.name for run in _those(runs)}
        shown = [
            {
                "condition": condition.name,
                "link": asked(condition.link),
                "run": names.get(condition.name),
                "unused": same.get(condition.name, []),
            }
            for condition in _those(of_point)
        ]
        values = {name: getattr(at, name) for name in varied}
        points.append({"values": values, "lacks": lacks, "conditions": shown})
    opened = Opened(Path(p.runs))
    distinct = distinct_runs(planned)
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in varied.items()},
        "parameters": dataclasses.asdict(p),
        "points": points,
        "runs": len(distinct),
        "existing": sum(opened.complete(run.name) for run in distinct),
    }


def _those(outcome: Sequence[T] | LabError) -> Sequence[T]:
    return () if isinstance(outcome, LabError) else outcome


def describe_preview(outline: Mapping[str, Any]) -> str:
    """One line per point and condition, then the number of runs."""
    rows = [
        {
            **point["values"],
            **condition,
            "run": condition["run"] or "-",
            "note": same_run(condition["unused"]),
        }
        for point in outline["points"]
        for condition in point["conditions"]
    ]
    with_notes = any(row["note"] for row in rows)
    columns = [*outline["axes"], "condition", "link", "run", *(["note"] if with_notes else [])]
    runs = f"{in_runs(outline['runs'])}, {outline['existing']} of which exist"
    return "\n".join(
        [
            terminal_table(rows, columns),
            "",
            f"{len(outline['points'])} points; {runs}; on the testbed {outline['testbed']}, "
            f"in {outline['into']}",
            *describe_points(
                [
                    (point["values"], point["lacks"])
                    for point in outline["points"]
                    if point["lacks"]
                ],
                LACKING,
            ),
        ]
    )
