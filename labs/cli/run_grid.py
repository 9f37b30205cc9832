"""`labs run` for parameters with several values: all points together."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    conditions = [attempted(lab.conditions, parameters) for parameters in wanted]
    errors = [error for error in conditions if isinstance(error, LabError)]
    if len(errors) == len(wanted):
        raise errors[0]
    names: dict[tuple[LabParameters, str], str] = {}
    lacks = {
        parameters: error
        for parameters, error in zip(wanted, conditions, strict=True)
        if isinstance(error, LabError)
    }
    runs = {}
    if p.where.performs:
        planned = plan_points(lab, wanted)
        opened = Opened(Path(p.runs))
        runs = {run.name: opened.complete(run.name) for run in distinct_runs(planned)}
        for parameters, of_point in zip(wanted, planned, strict=True):
            if isinstance(of_point, LabError):
                lacks[parameters] = of_point
            else:
                names |= {(parameters, run.condition.name): run.name for run in of_point}
    points = [
        {
            "values": {name: getattr(parameters, name) for name in varied},
            "lacks": str(lacks[parameters]) if parameters in lacks else None,
            "conditions": [
                {
                    "condition": condition.name,
                    "link": asked(condition.link),
                    "run": names.get((parameters, condition.name)),
                    "unused": same.get(condition.name, []),
                }
                for condition in (() if isinstance(of_point, LabError) else of_point)
            ],
        }
        for parameters, of_point in zip(wanted, conditions, strict=True)
    ]
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in varied.items()},
        "parameters": dataclasses.asdict(p),
        "points": points,
        "runs": len(runs),
        "existing": sum(runs.values()),
    }


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
