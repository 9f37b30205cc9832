"""Grade the answers in notebooks: right, wrong with a hint, missing, or unreadable.

No code of a notebook is executed. Numbers are compared with the theory and with runs: the
student's own, if they are in the notebook's folder, or the recorded ones. No runs are performed.

If a notebook cannot be graded, it is reported in one line, the others are still graded, and the
exit code is 2.

A class: name the folder of all submissions. The student is the first folder in it, or the file's
name. Of several copies of a notebook the best counts. `--csv` writes one row per student.
`--moodle` writes the grading worksheet of an assignment (in English) from the archive of all
submissions. `--summary` prints how the class answered each question, and what it guessed.
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
    parser.add_argument(
        "--summary", action="store_true", help="print totals per question and guesses of the class"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row per student")
    parser.add_argument(
        "--moodle", type=Path, metavar="FILE", help="write the grading worksheet of an assignment"
    )
    parser.add_argument(
        "--nbgrader", type=Path, metavar="FILE", help="write the columns that nbgrader exports"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")


def main(args: argparse.Namespace) -> int:
    """Grade the notebooks and print the results. BadInput for a folder without notebooks."""
    from labs.drive.record.disk import write_whole
    from labs.grading import gradebook
    from labs.grading.grade_sheet import grade_file, notebooks_in

    wanted = [
        (path, text_of)
        for path, text_of in (
            (args.csv, gradebook.as_csv),
            (args.moodle, gradebook.as_moodle),
            (args.nbgrader, gradebook.as_nbgrader),
        )
        if path is not None
    ]
    for path, _ in wanted:
        if path.exists() and not args.force:
            raise BadInput(f"{path} exists. Name another file, or replace it with --force")
    handed_in = [(one, path) for one in args.paths for path in notebooks_in(one)]
    submissions = [
        gradebook.Submission(gradebook.student_of(path, root), grade_file(path))
        for root, path in handed_in
    ]
    sheets = [one.sheet for one in submissions]
    best = gradebook.best(submissions)
    for path, text in [(path, text_of(best)) for path, text_of in wanted]:
        write_whole(path, text.encode())
    if args.json:
        print(json.dumps([sheet.as_json() for sheet in sheets]))
    elif args.summary:
        problems = [as_text(sheet) for sheet in sheets if sheet.problem]
        print("\n".join([*gradebook.in_words(best), *problems]))
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
