"""What `labs run` prints for parameters with several values: one table of all points."""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.cli.run_report import of_one_kernel, plain, repetitions, shown_columns
from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters, Scalar
from labs.drive.parameters.declare import plain as spelt
from labs.errors import LabError, Missing
from labs.read.display.format import in_runs, terminal_table
from labs.read.lab import Lab
from labs.read.unused_parameters import same_run

if TYPE_CHECKING:
    from labs.launch.wanted import Wanted
    from labs.studies.grid import Grid

NAMED = 3
"""The maximum number of points that a line names."""
LACKING = "no results at "


def main(lab: Lab, p: LabParameters, over: Axes, args: Namespace, wanted: Wanted) -> int:
    if args.dry_run:
        outline = preview(lab, p, over)
        print(json.dumps(outline) if args.json else describe_preview(outline))
        return 0
    from labs.studies.grid import grid_of

    grid = grid_of(p, over, wanted)
    report = as_json(lab, p, grid)
    print(json.dumps(report) if args.json else describe(lab, report))
    raise_worst(grid)
    return 0


def raise_worst(grid: Grid) -> None:
    """The errors of the points, if any: a failed run matters more than one that cannot run here."""
    if grid.errors:
        worst = next(
            (error for error in grid.errors if not isinstance(error, Missing)), grid.errors[0]
        )
        raise type(worst)("; ".join(map(str, grid.errors)))


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


def describe_points(
    texts: Sequence[tuple[Mapping[str, Scalar], str]], about: str = ""
) -> list[str]:
    """One line per text, with the points to which it applies; each line begins with `about`."""
    points: dict[str, list[str]] = {}
    for values, text in texts:
        words = " ".join(f"{name} {spelt(value)}" for name, value in values.items())
        points.setdefault(text, []).append(words)
    return [
        f"{about}{'; '.join(where[:NAMED])}"
        f"{f' and {len(where) - NAMED} more points' if len(where) > NAMED else ''}: {text}"
        for text, where in points.items()
    ]


def as_json(lab: Lab, p: LabParameters, grid: Grid) -> dict[str, Any]:
    """The grid and its results as plain data; missing numbers are null.

    `points` has, for each point, what the lab computes from all runs of its study together.
    """
    rows = [
        {str(name): plain(value) for name, value in row.items()}
        for row in grid.results().to_dict("records")
    ]
    readable = [point for point in grid.points if point.lacks is None]
    links = [run.link.as_json() for point in readable for run in point.study.runs]
    for row, link in zip(rows, links, strict=True):
        row["link"] = link
    points = []
    for point in readable:
        summary = of_one_kernel(lab, point.study)
        summary.pop("results")
        points.append({"values": dict(point.values), **summary})
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in grid.over.items()},
        "results": rows,
        "repeated": [
            {**point.values, **condition.as_json()}
            for point in readable
            for condition in point.study.repeated
        ],
        "runs": len(grid.keys),
        "points": points,
        "lacking": [
            {"values": dict(point.values), "lacks": str(point.lacks)}
            for point in grid.points
            if point.lacks
        ],
    }


def describe(lab: Lab, report: Mapping[str, Any]) -> str:
    """The results as one table, the varied parameters first, with the origin of the runs below."""
    rows: list[dict[str, Any]] = report["results"]
    first = [*report["axes"], "condition"]
    columns = [*first, *(name for name in shown_columns(lab, rows) if name not in first)]
    kernels = dict.fromkeys(point["kernel"] for point in report["points"] if point["kernel"])
    kernel = f", Linux {', '.join(kernels)}" if kernels else ""
    return "\n".join(
        [
            terminal_table(rows, columns),
            "",
            f"{len(report['points'])} points, {in_runs(report['runs'])}; "
            f"testbed {report['testbed']}{kernel}; the runs are in {report['into']}",
            *(
                f"{' '.join(str(row[name]) for name in first)}: the link is not as requested: "
                f"{'; '.join(row['link']['problems'])}"
                for row in rows
                if not row["link"]["ok"]
            ),
            *repetitions(report["repeated"], tuple(report["axes"])),
            *describe_points(
                [(point["values"], text) for point in report["points"] for text in point["remarks"]]
            ),
            *describe_points(
                [(point["values"], point["lacks"]) for point in report["lacking"]], LACKING
            ),
        ]
    )
