"""Grade the answers in notebooks: right, wrong with a hint, missing, or unreadable.

No code of a notebook is executed. Numbers are compared with the theory and with runs: the
student's own, if they are in the notebook's folder, or the recorded ones. No runs are performed.

If a notebook cannot be graded, it is reported in one line, the others are still graded, and the
exit code is 2.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.grading.grade_sheet import Sheet
    from labs.read.exercises.graded_answer import Graded


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE|DIR", help="notebooks, or folders of notebooks"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def main(args: argparse.Namespace) -> int:
    """Grade the notebooks and print the results. BadInput for a folder without notebooks."""
    from labs.grading.grade_sheet import grade_file, notebooks_in

    sheets = [grade_file(path) for one in args.paths for path in notebooks_in(one)]
    if args.json:
        print(json.dumps([sheet.as_json() for sheet in sheets]))
    else:
        print("\n\n".join(map(as_text, sheets)))
    return BadInput.exit_code if any(sheet.problem for sheet in sheets) else 0


def as_text(sheet: Sheet) -> str:
    """The grades of one notebook: the points, then one line per answer."""
    if sheet.problem:
        return f"{sheet.path}: not graded. {sheet.problem}"
    if not sheet.grades:
        return f"{sheet.path}: no answer cells"
    head = f"{sheet.path}: {sheet.points} of {len(sheet.grades)} right"
    return "\n".join([head, *(f"  {_line(one)}" for one in sheet.grades)])


def _line(one: Graded) -> str:
    answer = (
        ""
        if one.answer is None
        else f"{one.answer:g}"
        if isinstance(one.answer, float)
        else one.answer
    )
    said = f"{answer} {one.exercise.unit}".strip() if answer else "-"
    return f"{one.verdict:<10}  {one.exercise.name} = {said}. {one.hint}".rstrip()
