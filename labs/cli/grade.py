"""Grade the answers in notebooks: right, wrong with a hint, missing, or unreadable.

No code of a notebook is executed. Numbers are compared with the theory and with the recorded runs.
Runs that were handed in give no points. No runs are performed.

If a file cannot be graded, it is reported in one line, the others are still graded, and the
exit code is 2. An output that cannot be written does not prevent the others. Archives and links
are reported and never opened.

For a class, name the folder of all submissions, in the layout of Moodle's archive or of nbgrader.
The student's name is that of the first folder in it, or of the file. If there are several copies
of a notebook, the best one counts.

    labs grade submissions                          every answer, with its hint
    labs grade submissions --csv grades.csv         one row per student
    labs grade submissions --summary                how many are right, and why not; the guesses
    labs grade submissions --page class.html        the same with charts, for a lecture
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from labs.cli.command import Answer, arg
from labs.errors import BadInput, LabError, Missing, one_line

if TYPE_CHECKING:
    from labs.grading.grade_sheet import Sheet
    from labs.read.exercises.graded_answer import Graded

STANDARD_OUTPUT = "-"
SPREADSHEET = "utf-8-sig"
"""With a byte-order mark, so that spreadsheets recognise UTF-8."""
WRITTEN = {
    "csv": "write one row per student; - means standard output",
    "nbgrader": "write the columns that nbgrader exports",
    "page": "write one HTML page: points, hardest questions, reasons for wrong answers, guesses",
}
ARGUMENTS = (
    arg("FILE|DIR...", "notebooks, or folders of notebooks", Path, dest="paths"),
    arg("--summary", "print totals per question and guesses of the class"),
    *(arg(f"--{flag} FILE", does, Path) for flag, does in WRITTEN.items()),
    arg("--force", "replace existing files"),
)


def main(args: Namespace) -> Answer:
    """Grade the notebooks. BadInput for a folder without notebooks."""
    from labs.grading.class_report import describe as describe_class
    from labs.grading.class_report import grade_page
    from labs.grading.grade_sheet import grade_submission
    from labs.grading.gradebook import as_csv, as_nbgrader, gradebook
    from labs.grading.submissions import submissions

    tables = {"csv": as_csv, "nbgrader": as_nbgrader, "page": grade_page}
    wanted = {flag: path for flag in tables if (path := getattr(args, flag))}
    _check_combination(args, wanted)
    files = [submission for root in args.paths for submission in submissions(root)]
    graded = [(file, grade_submission(file)) for file in files]
    book = gradebook(graded)
    failed: dict[str, LabError] = {}
    for flag, path in wanted.items():
        try:
            _write(path, tables[flag](book), "utf-8" if flag == "page" else SPREADSHEET)
        except LabError as error:
            failed[flag] = error
    problems = [describe(sheet) for _, sheet in graded if sheet.problem]
    if args.summary:
        text = "\n".join([*describe_class(book), *problems])
    elif not wanted:
        text = "\n\n".join(describe(sheet) for _, sheet in graded)
    elif STANDARD_OUTPUT in map(str, wanted.values()):
        text = ""
    else:
        written = [path for flag, path in wanted.items() if flag not in failed]
        lines = (f"{path}: {len(book.students)} students" for path in written)
        text = "\n".join([*problems, *lines])
    return Answer(
        [{"student": file.student, **sheet.as_json()} for file, sheet in graded],
        text,
        exit_code=BadInput.exit_code if problems else 0,
        error=_not_written(failed, wanted) if failed else None,
    )


def _not_written(failed: Mapping[str, LabError], wanted: Mapping[str, Path]) -> LabError:
    """The first error of the outputs that failed, with the reason of each and what was written."""
    reasons = "; ".join(f"--{flag}: {error}" for flag, error in failed.items())
    written = ", ".join(str(path) for flag, path in wanted.items() if flag not in failed)
    return type(next(iter(failed.values())))(f"{reasons}. Written: {written or 'nothing'}")


def _check_combination(args: Namespace, wanted: Mapping[str, Path]) -> None:
    """BadInput for two outputs to one place, and for existing files."""
    printed = [flag for flag in ("summary", "json") if getattr(args, flag)]
    places = [*map(str, wanted.values()), *(STANDARD_OUTPUT for _ in printed)]
    if twice := next((place for place in places if places.count(place) > 1), ""):
        where = "standard output" if twice == STANDARD_OUTPUT else twice
        raise BadInput(f"{where} is named for two outputs. Name a separate file for each")
    for path in wanted.values():
        if str(path) != STANDARD_OUTPUT and path.exists() and not args.force:
            raise BadInput(f"{path} exists. Name another file, or replace it with --force")


def _write(path: Path, text: str, encoding: str = "utf-8") -> None:
    from labs.drive.record.disk import write_whole

    if str(path) == STANDARD_OUTPUT:
        print(text, end="")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode(encoding))
    except OSError as error:
        raise Missing(f"{path} cannot be written ({error.strerror}). Name another file") from None


def describe(sheet: Sheet) -> str:
    """The grades of one notebook: the points, then one line per answer."""
    path = one_line(str(sheet.path))
    if sheet.problem:
        return f"{path}: not graded. {sheet.problem}"
    if not sheet.grades:
        return f"{path}: no answer cells"
    head = f"{path}: {sheet.points} of {len(sheet.grades)} right"
    return "\n".join([head, *(f"  {_line(grade)}" for grade in sheet.grades)])


def _line(grade: Graded) -> str:
    answer = (
        ""
        if grade.answer is None
        else f"{grade.answer:g}"
        if isinstance(grade.answer, float)
        else grade.answer
    )
    shown = f"{answer} {grade.exercise.unit}".strip() if answer else "-"
    return f"{grade.verdict:<10}  {grade.exercise.name} = {shown}. {grade.hint}".rstrip()
