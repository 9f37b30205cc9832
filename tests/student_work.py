"""Students' notebooks with answers, for tests."""

from __future__ import annotations

import json
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
