"""What `labs run` prints for parameters with several values: one table of all points."""

from __future__ import annotations

import dataclasses
import json
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from labs.cli.run import run_names
from labs.drive.parameters.axes import Axes
from labs.drive.parameters.declare import LabParameters
from labs.errors import LabError, Missing
from labs.read.lab import Lab

if TYPE_CHECKING:
    pass

NEEDS = {"vagrant": "needs the machines first", "virtual": "needs the kernel first"}
COLUMNS = ("condition", "link", "run", "exists", "note")


def main(lab: Lab, p: LabParameters, over: Axes, args: Namespace) -> int:
    if args.dry_run:
        said = preview(lab, p, over)
        print(json.dumps(said) if args.json else preview_as_text(said))
        return 0
    from labs.studies.grid import study

    grid = study(p, over=over, fresh=args.fresh, jobs=args.jobs)
    found = as_json(lab, p, grid)
    print(json.dumps(found) if args.json else as_text(lab, found))
    if grid.errors:
        # A failed run matters more than a point that cannot run here.
        worst = next((one for one in grid.errors if not isinstance(one, Missing)), grid.errors[0])
        raise type(worst)("; ".join(map(str, grid.errors)))
    return 0


def preview(lab: Lab, p: LabParameters, over: Axes) -> dict[str, Any]:
    """The points, and per point the conditions with their links and the names of their runs."""
    from labs.read.display.provenance import asked
    from labs.read.unused_parameters import unused_axes
    from labs.studies.grid import varied_points

    varied, wanted = varied_points(p, over)
    same = unused_axes(lab, wanted, varied)
    points = []
    for one in wanted:
        conditions, lacks = [], ""
        try:
            names = run_names(lab, one)
            conditions = [
                {
                    "condition": condition.name,
                    "link": asked(condition.link),
                    "run": names.get(condition.name),
                    "unused": same.get(condition.name, []),
                }
                for condition in lab.conditions(one)
            ]
        except LabError as error:
            lacks = str(error)
        values = {name: getattr(one, name) for name in varied}
        points.append({"values": values, "conditions": conditions, "lacks": lacks})
    return {
        "lab": lab.name,
        "testbed": p.testbed,
        "into": p.runs,
        "axes": {name: list(values) for name, values in varied.items()},
        "parameters": dataclasses.asdict(p),
        "points": points,
        "runs": len({one["run"] or id(one) for each in points for one in each["conditions"]}),
    }
