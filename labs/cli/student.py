"""Write the students' copies of notebooks: without solutions and outputs, with cells for answers.

An edited copy is never overwritten; the command reports that it was kept.
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
        help="the folder of the copies (default: %(default)s)",
    )
    parser.add_argument(
        "--recorded", action="store_true", help="copies that show recorded runs and need no kernel"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def main(args: argparse.Namespace) -> int:
    """Write the copies and print what happened to each. Raises LabError."""
    from labs.grading.student_copy import copy_for_students

    done = [
        copy_for_students(one, args.into, recorded=args.recorded, dry_run=args.dry_run)
        for one in args.notebooks
    ]
    if args.json:
        print(json.dumps([{"path": str(one.path), "outcome": one.outcome} for one in done]))
    else:
        for one in done:
            print(one.words)
    return 0
