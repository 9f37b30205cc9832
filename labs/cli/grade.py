"""Grade the answers in notebooks: right, wrong with a hint, missing, or unreadable.

No code of a notebook is executed. Numbers are compared with the theory and with runs: the
student's own, if they are in the notebook's folder, or the recorded ones. No runs are performed.

If a file cannot be graded, it is reported in one line, the others are still graded, and the
exit code is 2. Archives and links are reported, and never opened.

A class: name the folder of all submissions, as Moodle's archive or nbgrader has it. The student is
the first folder in it, or the file's name. Of several copies of a notebook the best counts.

    labs grade submissions --csv grades.csv         one row per student
    labs grade submissions --moodle worksheet.csv   the grading worksheet of an assignment
    labs grade submissions --summary                how many are right, and why not
    labs grade submissions --due "2026-11-30 23:59" --csv -    with remarks on what is late
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


STANDARD_OUTPUT = "-"
WRITTEN = {
    "csv": "write one row per student; - is the standard output",
    "moodle": "write the grading worksheet of an assignment",
    "nbgrader": "write the columns that nbgrader exports",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE|DIR", help="notebooks, or folders of notebooks"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    parser.add_argument(
        "--summary", action="store_true", help="print totals per question and guesses of the class"
    )
    for flag, help in WRITTEN.items():
        parser.add_argument(f"--{flag}", type=Path, metavar="FILE", help=help)
    parser.add_argument(
        "--due", metavar="TIME", help="report files that are later: YYYY-MM-DD HH:MM"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")


def main(args: argparse.Namespace) -> int:
    """Grade the notebooks and print the results. BadInput for a folder without notebooks."""
    from labs.drive.record.disk import write_whole
    from labs.grading.grade_sheet import grade_submission
    from labs.grading.grade_tables import as_csv, as_moodle, as_nbgrader
    from labs.grading.gradebook import gradebook, in_words
    from labs.grading.submissions import due_time, submissions

    tables = {"csv": as_csv, "moodle": as_moodle, "nbgrader": as_nbgrader}
    wanted = [(path, tables[flag]) for flag in WRITTEN if (path := getattr(args, flag))]
    for path, _ in wanted:
        if str(path) != STANDARD_OUTPUT and path.exists() and not args.force:
            raise BadInput(f"{path} exists. Name another file, or replace it with --force")
    due = due_time(args.due) if args.due else None
    graded = [(one, grade_submission(one)) for root in args.paths for one in submissions(root)]
    book = gradebook(graded, due)
    texts = [(path, text_of(book)) for path, text_of in wanted]
    for path, text in texts:
        if str(path) == STANDARD_OUTPUT:
            print(text, end="")
        else:
            write_whole(path, text.encode())
    sheets = [sheet for _, sheet in graded]
    if args.json:
        print(json.dumps([{"student": one.student, **sheet.as_json()} for one, sheet in graded]))
    elif args.summary:
        problems = [as_text(sheet) for sheet in sheets if sheet.problem]
        print("\n".join([*in_words(book), *problems]))
    elif STANDARD_OUTPUT not in [str(path) for path, _ in wanted]:
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
