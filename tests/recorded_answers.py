"""The results of all recorded runs, as answers.jsonl.xz in data/ has them (labs/read/answers.py).

    python -m tests.recorded_answers            compute all, write the file, say what changed
    python -m tests.recorded_answers --check    compute all, only compare
    python -m tests.recorded_answers --stale    only say for which labs the code has changed since

`make answers` writes the file. The code is 1 if --check or --stale finds a difference.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from labs import catalog
from labs.read import answers
from labs.read.answers import computed
from labs.read.run_results import answer, code_of, question
from labs.read.runs import recorded
from labs.read.runs.archive import run_folders
from labs.read.runs.run import Run, open_run

SAME = 1e-9
"""Python and numpy of other versions may give another last digit."""
WRITE = "make answers"


def runs_of(lab: str) -> list[Path]:
    """The folders of a lab's recorded runs."""
    return [run for place in recorded.places(lab) for run in run_folders(place)]


def asked_of(run: Run) -> str:
    """The question for the results of a run."""
    return question(run.lab, run.digest, run.record)


def computed_answer(run: Run) -> str:
    """Its answer with all columns, which nothing that was kept or recorded takes part in."""
    lab = catalog.find(run.lab)
    lab.forget(run)
    with computed():
        results = lab.results(run)
        text = answer(results.values, results.notes)
    lab.forget(run)
    return text


def equal(recorded_text: str | None, text: str) -> bool:
    """Whether an answer is the recorded one, but for a last digit."""
    return recorded_text is not None and _same(json.loads(recorded_text), json.loads(text))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return list(a) == list(b) and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=SAME) or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def stale() -> list[str]:
    """The labs whose results other code computed than the present one."""
    code = answers.read(recorded.folder()).code
    return [lab for lab in catalog.LABS if code.get(lab) != code_of(lab)]


def all_answers(lab: str) -> list[tuple[str, str, str]]:
    """Question, name of the run and answer of every recorded run of a lab."""
    runs = sorted(map(open_run, runs_of(lab)), key=lambda run: run.path.name)
    return [(asked_of(run), run.path.name, computed_answer(run)) for run in runs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stale", action="store_true")
    given = parser.parse_args()
    if given.stale:
        changed = stale()
        if changed:
            print(
                f"the results in {answers.FILE} of {', '.join(changed)} are of other code: {WRITE}"
            )
        return int(bool(changed))
    folder = recorded.folder()
    before = answers.read(folder).answers
    now, differing = {}, []
    with ProcessPoolExecutor() as pool:
        answered = [each for of_lab in pool.map(all_answers, catalog.LABS) for each in of_lab]
    for asked, name, text in answered:
        now[asked] = text
        if not equal(before.get(answers.id_of(asked)), text):
            differing.append(name)
    for name in differing:
        print(f"changed: {name}")
    print(f"{len(now)} runs, {len(differing)} changed or new")
    if given.check:
        return int(bool(differing) or len(before) != len(now))
    code = {lab: code_of(lab) for lab in catalog.LABS}
    (folder / answers.FILE).write_bytes(answers.packed(code, now))
    recorded.write_sums(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
