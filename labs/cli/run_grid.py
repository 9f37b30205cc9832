"""What `labs run` prints for parameters with several values: one table of all points."""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.cli.run import of_one_kernel, plain, repetitions, shown_columns
from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters, Scalar
from labs.drive.parameters.declare import plain as spelt
from labs.errors import LabError, Missing
from labs.read.display.format import in_runs, terminal_table
from labs.read.lab import Lab
from labs.read.unused_parameters import same_run

if TYPE_CHECKING:
    from labs.studies.grid import Grid

NAMED = 3
"""The maximum number of points that a line names."""
LACKING = "no results at "


def main(lab: Lab, p: LabParameters, over: Axes, args: Namespace) -> int:
    if args.dry_run:
        said = preview(lab, p, over)
        print(json.dumps(said) if args.json else preview_as_text(said))
        return 0
    from labs.studies.grid import study

    grid = study(p, over=over, fresh=args.fresh, jobs=args.jobs)
    found = as_json(lab, p, grid)
    print(json.dumps(found) if args.json else as_text(lab, found))
    raise_worst(grid)
    return 0


def raise_worst(grid: Grid) -> None:
    """The errors of the points, if any: a failed run matters more than one that cannot run here."""
    if grid.errors:
        worst = next((one for one in grid.errors if not isinstance(one, Missing)), grid.errors[0])
        raise type(worst)("; ".join(map(str, grid.errors)))


def preview(lab: Lab, p: LabParameters, over: Axes) -> dict[str, Any]:
    """The points, each with its conditions, their links, and the names of their runs."""
    from labs.launch.launch import distinct_runs, plan_points
    from labs.launch.make import Opened
    from labs.read.display.provenance import RECORDED, asked
    from labs.read.unused_parameters import unused_axes
    from labs.studies.grid import attempted, varied_points

    varied, wanted = varied_points(p, over)
    same = unused_axes(lab, wanted, varied)
    conditions = [attempted(lab.conditions, one) for one in wanted]
    errors = [one for one in conditions if isinstance(one, LabError)]
    if len(errors) == len(wanted):
        raise errors[0]
    names: dict[tuple[LabParameters, str], str] = {}
    lacks = {
        one: found
        for one, found in zip(wanted, conditions, strict=True)
        if isinstance(found, LabError)
    }
    runs = {}
    if p.testbed != RECORDED:
        planned = plan_points(lab, wanted)
        opened = Opened(Path(p.runs))
        runs = {one.name: opened.complete(one.name) for one in distinct_runs(planned)}
        for one, found in zip(wanted, planned, strict=True):
            if isinstance(found, LabError):
                lacks[one] = found
            else:
                names |= {(one, run.condition.name): run.name for run in found}
    points = [
        {
            "values": {name: getattr(one, name) for name in varied},
            "lacks": str(lacks[one]) if one in lacks else None,
            "conditions": [
                {
                    "condition": condition.name,
                    "link": asked(condition.link),
                    "run": names.get((one, condition.name)),
                    "unused": same.get(condition.name, []),
                }
                for condition in (() if isinstance(found, LabError) else found)
            ],
        }
        for one, found in zip(wanted, conditions, strict=True)
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


def preview_as_text(said: Mapping[str, Any]) -> str:
    """One line per point and condition, then the number of runs."""
    rows = [
        {**point["values"], **one, "run": one["run"] or "-", "note": same_run(one["unused"])}
        for point in said["points"]
        for one in point["conditions"]
    ]
    with_notes = any(row["note"] for row in rows)
    columns = [*said["axes"], "condition", "link", "run", *(["note"] if with_notes else [])]
    runs = f"{in_runs(said['runs'])}, {said['existing']} of which exist"
    return "\n".join(
        [
            terminal_table(rows, columns),
            "",
            f"{len(said['points'])} points; {runs}; on the testbed {said['testbed']}, "
            f"in {said['into']}",
            *by_point(
                [(one["values"], one["lacks"]) for one in said["points"] if one["lacks"]], LACKING
            ),
        ]
    )


def by_point(said: Sequence[tuple[Mapping[str, Scalar], str]], about: str = "") -> list[str]:
    """One line per text, with the points to which it applies; each line begins with `about`."""
    points: dict[str, list[str]] = {}
    for values, text in said:
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
    readable = [one for one in grid.points if grid.error_at(one) is None]
    links = [run.link.as_json() for one in readable for run in one.study.runs]
    for row, link in zip(rows, links, strict=True):
        row["link"] = link
    points = []
    for one in readable:
        found = of_one_kernel(lab, one.study)
        found.pop("results")
        points.append({"values": dict(one.values), **found})
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in grid.over.items()},
        "results": rows,
        "repeated": [
            {**one.values, **found.as_json()} for one in readable for found in one.study.repeated
        ],
        "runs": len(grid.keys),
        "points": points,
        "lacking": [
            {"values": dict(one.values), "lacks": str(error)}
            for one in grid.points
            if (error := grid.error_at(one)) is not None
        ],
    }


def as_text(lab: Lab, said: Mapping[str, Any]) -> str:
    """The results as one table, the varied parameters first, with the origin of the runs below."""
    rows: list[dict[str, Any]] = said["results"]
    first = [*said["axes"], "condition"]
    columns = [*first, *(name for name in shown_columns(lab, rows) if name not in first)]
    kernels = dict.fromkeys(one["kernel"] for one in said["points"] if one["kernel"])
    kernel = f", Linux {', '.join(kernels)}" if kernels else ""
    return "\n".join(
        [
            terminal_table(rows, columns),
            "",
            f"{len(said['points'])} points, {in_runs(said['runs'])}; "
            f"testbed {said['testbed']}{kernel}; the runs are in {said['into']}",
            *(
                f"{' '.join(str(row[name]) for name in first)}: the link is not as requested: "
                f"{'; '.join(row['link']['problems'])}"
                for row in rows
                if not row["link"]["ok"]
            ),
            *repetitions(said["repeated"], tuple(said["axes"])),
            *by_point([(one["values"], text) for one in said["points"] for text in one["remarks"]]),
            *by_point([(one["values"], one["lacks"]) for one in said["lacking"]], LACKING),
        ]
    )
