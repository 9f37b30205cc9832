"""Examinations: a notebook's questions with values drawn for each student, from a list of students.

A copy has no answers and no check. The grader draws again from the list, and refuses a copy whose
questions are not those of its student.
"""

from __future__ import annotations

import csv
import hmac
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import Scalar, plain, unknown
from labs.drive.record.stored_files import read_bytes
from labs.errors import BadInput
from labs.grading.answers import ANSWER
from labs.read.exercises.exercise import Exercise

ID, SEED = "id", "seed"
QUESTIONS = "examination"
"""The tag of the cell with the questions, and the name of the copy's entry in the metadata."""
MOST_LIST_BYTES, MOST_ID, LEAST_SECRET = 1 << 20, 100, 8
MOST_DRAWS = 1000
ADVICE = "Write one row per student with the columns id and seed, or only id and use --secret"


@dataclass(frozen=True)
class Drawn:
    """The values drawn for a student."""

    student: str
    values: Mapping[str, Scalar]

    def questions(self, exercises: Sequence[Exercise]) -> str:
        """The questions, in Markdown."""
        asked = [exercise for exercise in exercises if exercise.question]
        lines = [
            f"{number}. `{exercise.name}`: {exercise.question.format(**self.values)}"
            for number, exercise in enumerate(asked, 1)
        ]
        return "\n".join([f"## Examination of {self.student}", "", *lines])


def read_list(path: Path, secret: Path | None) -> dict[str, str]:
    """The seed of each student by id, in the order of a CSV file: its column `seed`, or computed
    from the id and the content of the file `secret`. BadInput for what cannot be used."""
    text = _text(path).replace("\r\n", "\n").replace("\r", "\n")
    head = text.partition("\n")[0]
    delimiter = ";" if ";" in head and "," not in head else ","
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    heads = [name.strip().lower() for name in rows.fieldnames or ()]
    wanted = [ID] if secret else [ID, SEED]
    if missing := [name for name in wanted if name not in heads]:
        raise BadInput(f"{path} has no column {missing[0]}. {ADVICE}")
    rows.fieldnames = heads
    key = None if secret is None else _text(secret).strip().encode()
    if key is not None and len(key) < LEAST_SECRET:
        raise BadInput(f"{secret} is too short. Write a secret of {LEAST_SECRET} bytes or more")
    seeds: dict[str, str] = {}
    for row in _rows(rows, path):
        student = (row[ID] or "").strip()
        _check_id(student, f"{path}, line {rows.line_num}", seeds)
        seeds[student] = (
            hmac.digest(key, student.encode(), "sha256").hex() if key else (row[SEED] or "").strip()
        )
        if not seeds[student]:
            raise BadInput(f"{path}, line {rows.line_num}: {student} has no seed. {ADVICE}")
    if not seeds:
        raise BadInput(f"{path} has no students. {ADVICE}")
    return seeds


def _rows(rows: csv.DictReader[str], path: Path) -> Iterator[dict[str, str | None]]:
    try:
        yield from rows
    except csv.Error as error:
        raise BadInput(f"{path}, line {rows.line_num}: {error}. {ADVICE}") from None


def _text(path: Path) -> str:
    content = read_bytes(path, most_bytes=MOST_LIST_BYTES, follow=True, next_step=ADVICE)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(
            f"{path} is not UTF-8. Save it as CSV UTF-8 and repeat the command"
        ) from None


def _check_id(student: str, where: str, earlier: Mapping[str, str]) -> None:
    """An id is the name of a folder."""
    folder = student and not student.startswith(".") and not {*"/\\:"} & {*student}
    if not folder or not student.isprintable() or len(student) > MOST_ID:
        raise BadInput(
            f"{where}: {student[:MOST_ID]!r} is not an id. Allowed: 1 to {MOST_ID} printable "
            "characters other than / \\ and :, the first of which is not a dot"
        )
    if student in earlier:
        raise BadInput(f"{where}: {student} is listed twice. Give each student one row")


def draw(seeds: Mapping[str, str], exercises: Sequence[Exercise]) -> dict[str, Drawn]:
    """The values for each student of a list. Two neighbours in the list never have the same ones.

    BadInput for a notebook whose exercises have no questions to draw.
    """
    notebook = exercises[0].notebook
    choices = {
        name: values
        for exercise in exercises
        if exercise.question
        for name, values in exercise.draws.items()
    }
    if not choices:
        raise BadInput(f"{notebook} has no examination questions. Allowed: 00, 01 and 03")
    drawn: dict[str, Drawn] = {}
    before: Mapping[str, Scalar] = {}
    for student, seed in seeds.items():
        for attempt in range(MOST_DRAWS):
            values = {
                name: some[_number(seed, notebook, name, attempt) % len(some)]
                for name, some in choices.items()
            }
            if values != before:
                break
        drawn[student] = Drawn(student, values)
        before = values
    return drawn


def _number(*parts: object) -> int:
    return int.from_bytes(sha256("\0".join(map(str, parts)).encode()).digest()[:8], "big")


def examination_cells(drawn: Drawn, exercises: Sequence[Exercise]) -> list[dict[str, Any]]:
    """The cells of a copy that replace its exercises: the questions, and None for each answer."""
    names = [exercise.name for exercise in exercises if exercise.question]
    source = "\n".join(["# Replace None with your answers.", *(f"{name} = None" for name in names)])
    return [
        {
            "cell_type": "markdown",
            "id": "examination",
            "metadata": {"tags": [QUESTIONS]},
            "source": drawn.questions(exercises).splitlines(keepends=True),
        },
        {
            "cell_type": "code",
            "id": "examination-answers",
            "metadata": {"tags": [ANSWER]},
            "source": source.splitlines(keepends=True),
            "execution_count": None,
            "outputs": [],
        },
    ]


def drawn_for(
    content: Mapping[str, Any], seeds: Mapping[str, str], exercises: Sequence[Exercise]
) -> Drawn:
    """The values of the student whose copy this is, drawn again. BadInput for a copy that is not of
    the list, or whose questions are not those that were drawn."""
    about = content["metadata"].get("labs")
    recorded = about.get(QUESTIONS) if isinstance(about, dict) else None
    if not isinstance(recorded, dict):
        raise BadInput("It is not the copy of an examination. Ask for the copy that was handed out")
    student = str(recorded.get(ID))
    if student not in seeds:
        raise BadInput(f"{unknown(student, seeds, 'student of the list')}. Name another list")
    drawn = draw(seeds, exercises)[student]
    values = recorded.get("drawn")
    for name, value in drawn.values.items():
        other = values.get(name) if isinstance(values, dict) else None
        if other != value:
            raise BadInput(
                f"Its {name} is {plain(other)}, and {plain(value)} was drawn for {student}. "
                "Ask for the copy that was handed out"
            )
    shown = [
        "".join(cell["source"])
        for cell in content["cells"]
        if QUESTIONS in cell["metadata"].get("tags", [])
    ]
    if shown != [drawn.questions(exercises)]:
        raise BadInput(
            f"Its questions are not those drawn for {student}. Ask for the copy that was handed out"
        )
    return drawn
