"""Write the students' copies of notebooks: without solutions and outputs, with cells for answers.

An edited copy is never overwritten; the command reports that it was kept.

    labs student notebooks/*.ipynb --recorded              no kernel is needed
    labs student notebooks/*.ipynb --set KERNEL=6.12 --link 100x40
    labs student notebooks/00-start-here.ipynb --recorded --nbgrader --into source/start

With --nbgrader, the copies are source notebooks for `nbgrader generate_assignment`. The commands
are in docs/jupyterhub.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

DEFAULT_FOLDER = Path("student")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "notebooks", nargs="+", type=Path, metavar="NOTEBOOK", help="notebooks with solutions"
    )
    parser.add_argument(
        "--into",
        type=Path,
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="the folder for the copies (default: %(default)s)",
    )
    parser.add_argument(
        "--recorded", action="store_true", help="copies that show recorded runs and need no kernel"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter in each notebook that has it; may be repeated",
    )
    parser.add_argument(
        "--link", metavar="RATExDELAY", help="set rate (Mbit/s) and delay (ms) of the link: 100x40"
    )
    parser.add_argument(
        "--nbgrader",
        action="store_true",
        help="write nbgrader source notebooks, with a graded cell per question",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def main(args: argparse.Namespace) -> int:
    """Write the copies and print what happened to each. Raises LabError."""
    from labs.grading.student_copy import copy_for_students, read_presets

    recorded = ["TESTBED=recorded"] if args.recorded else []
    presets = read_presets([*recorded, *args.set], args.link, args.notebooks)
    done = [
        copy_for_students(
            notebook, args.into, presets, nbgrader=args.nbgrader, dry_run=args.dry_run
        )
        for notebook in args.notebooks
    ]
    if args.json:
        print(
            json.dumps([{"path": str(copied.path), "outcome": copied.outcome} for copied in done])
        )
    else:
        for copied in done:
            print(copied.words)
    return 0
