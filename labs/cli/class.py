# ruff: noqa: N999 - the name of the command
"""Show the guesses and runs of a class: each guess next to the prediction and the measurement, and
the runs that were handed in, with their spread across the students' machines.

DIR is a folder of submissions, as for `labs grade`, with notebooks and folders of runs. Nothing is
executed or unpacked. In virtual time all runs of a condition are identical. In real time the
interval of the median is shown, or the range if there are fewer than five runs.

    labs class submissions
    labs class submissions --page class.html

Exit code 2: some files could not be read; the others are shown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from labs.errors import BadInput


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder of submissions")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write one HTML page with charts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def main(args: argparse.Namespace) -> int:
    """Read the notebooks and runs, and print the guesses and results of the class."""
    from labs.drive.record.disk import write_whole
    from labs.grading import class_results
    from labs.grading.grade_sheet import grade_submission
    from labs.grading.gradebook import gradebook
    from labs.grading.submissions import submissions

    if not args.folder.is_dir():
        raise BadInput(f"{args.folder} is not a folder. Name a folder of submissions")
    if args.page is not None and args.page.exists() and not args.force:
        raise BadInput(f"{args.page} exists. Name another file, or replace it with --force")
    runs, problems = class_results.class_runs(args.folder)
    try:
        files = submissions(args.folder)
    except BadInput:
        if not runs:
            raise
        files = []
    book = gradebook([(file, grade_submission(file)) for file in files])
    problems += [
        f"{student.name}: {line}" for student in book.students for line in student.problems
    ]
    guesses = class_results.guessed(book)
    if args.page is not None:
        write_whole(args.page, class_results.class_page(guesses, runs).encode())
    if args.json:
        print(json.dumps({**class_results.as_json(guesses, runs), "problems": problems}))
    else:
        guess_rows, run_rows = class_results.guess_rows(guesses), class_results.run_rows(runs)
        print("\n".join(_columns(class_results.GUESS_HEADS, guess_rows)))
        print("\n".join(["", *_columns(class_results.RUN_HEADS, run_rows), *problems]))
    return BadInput.exit_code if problems else 0


def _columns(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Rows as text in columns."""
    texts = [list(heads), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
