"""Students' notebooks with answers, for tests."""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.grading.student_copy import copy_for_students

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"


def with_answers(stem: str, into: Path, answers: Mapping[str, str]) -> Path:
    """A student's copy of a notebook in which these answers, as source text, replace None."""
    path = copy_for_students(NOTEBOOKS / f"{stem}.ipynb", into).path
    notebook = json.loads(path.read_text("utf-8"))
    for cell in notebook["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            given = [f"{name} = {value}\n" for name, value in answers.items()]
            cell["source"] = [*cell["source"], "\n", *given]
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] = [
                line.replace('TESTBED = "virtual" ', 'TESTBED = "recorded"')
                for line in cell["source"]
            ]
    write(path, notebook)
    return path


def write(path: Path, notebook: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(notebook), "utf-8")


RIGHT = {"bdp_mib": "2.75e6 / 2**20", "limit": '"link"', "longest_rtt_ms": "24"}
"""Of notebook 00; `tests/unit/grading/test_grade_sheet.py` says where they come from."""
WRONG = {
    "bdp_mib": ("2.75", "5.245", "20.98", "1", "2,62", "bdp", "None"),
    "limit": ('"send buffer"', "link", "the link", '"receive window"', '"the cable"', "1", "None"),
    "longest_rtt_ms": ("0.024", "24 ms", "35", "200", '"24"', "None", "9 ** 9 ** 9 ** 9"),
}
HOSTILE = (
    "__import__('os').system('touch hacked')",
    "open('hacked', 'w')",
    "[0] * 10**12",
    "(" * 5000,
    "'=HYPERLINK(\"x\")'",
)
NAMES = ("Ada {}", "{}, Bob", "=HELP({})", "+{}", "@SUM({})", "Zoë {}", "\u202e{}", "-{}", "{}\n,x")


def class_of(count: int, root: Path, seed: int) -> dict[str, int | None]:
    """The submissions of a class to notebook 00, as Moodle's archive has them: right, wrong, empty
    and hostile, drawn from the seed. The points by the number of the participant; None for what
    cannot be graded."""
    draw = random.Random(seed)
    template = root.parent / "template"
    content = json.loads(with_answers("00-start-here", template, {}).read_text("utf-8"))
    (cell,) = [cell for cell in content["cells"] if "answer" in cell["metadata"].get("tags", [])]
    points: dict[str, int | None] = {}
    for number in range(count):
        name = draw.choice(NAMES).format(number)
        folder = root / f"{name}_{number}_assignsubmission_file_"
        folder.mkdir(parents=True)
        path = folder / draw.choice(("00-start-here.ipynb", "homework (1).ipynb"))
        answers, kind = dict(RIGHT), draw.choice(("right", "wrong", "empty", "hostile", "no file"))
        if kind == "wrong":
            for question in draw.sample(sorted(WRONG), draw.randint(1, 3)):
                answers[question] = draw.choice(WRONG[question])
        elif kind == "empty":
            answers = {}
        elif kind == "hostile":
            answers[draw.choice(sorted(WRONG))] = draw.choice(HOSTILE)
        right = sum(RIGHT[question] == value for question, value in answers.items())
        cell["source"] = [f"{question} = {value}\n" for question, value in answers.items()]
        points[str(number)] = right
        if kind == "no file":
            no_notebook(path, draw)
            points[str(number)] = None
        else:
            write(path, content)
    return points


def no_notebook(path: Path, draw: random.Random) -> None:
    """What is not a notebook: an archive that expands to 100 MB, a file of 50 MB, a link, text."""
    kind = draw.choice(("archive", "large", "link", "pipe", "text"))
    if kind == "archive":
        with zipfile.ZipFile(path.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(path.name, bytes(100 << 20 if draw.random() < 0.1 else 1 << 20))
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(50 << 20)
    elif kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text(draw.choice(("", "{", "[]", '{"cells": 1}', "\0" * 100)))
