"""Recorded runs are read, judged and drawn without Unix's modules and without any extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.without_unix import MODULES, OF_EXTRAS

ROOT = Path(__file__).parents[3]

NOTEBOOK = """
from tests.without_unix import remove
remove()
import json, sys
import labs
p = labs.check("buffers", {"TESTBED": "recorded", "ONLY": "default,both"})
study = labs.study(p)
figure = labs.charts.buffers.by_condition(study.results())
print(json.dumps({
    "runs": len(study.results()),
    "traces": len(figure.data),
    "verdicts": len(labs.verdicts(study)),
    "advice": type(labs.advise(1000, 200)).__name__,
    "loaded": sorted(name for name, module in sys.modules.items() if module is not None),
}))
"""


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the clone. Its temporary folder is its own: a process without file locks
    must not share one with processes that clear what is not locked."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_study_of_recorded_runs_needs_no_unix_and_no_extra(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", NOTEBOOK)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["runs"] and found["traces"] and found["verdicts"] and found["advice"]
    tops = {name.partition(".")[0] for name in found["loaded"]}
    assert not tops & {*MODULES, *OF_EXTRAS}
    assert {"numpy", "pandas", "plotly"} <= tops


def test_claims_have_the_verdicts_of_a_machine_with_everything(tmp_path: Path) -> None:
    """docs/claims.json is written on Linux with every extra. Article 4's figures are exact, and
    two of these come from captures."""
    ids = ("A4.1", "A4.2", "A4.6")
    done = python(tmp_path, "-m", "tests.without_unix", "claims", "--id", ",".join(ids), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    kept = {one["id"]: one for one in json.loads((ROOT / "docs" / "claims.json").read_text())}
    judged = {one["id"]: one for one in json.loads(done.stdout)}
    assert tuple(judged) == ids
    for id_, one in judged.items():
        for name in ("expected", "predicted", "measured", "verdict", "tolerance_pct"):
            assert one[name] == kept[id_][name], (id_, name)


@pytest.mark.parametrize(
    "words", [("publish", "{}", "--out", "P.html"), ("bundle", "P.zip", "{}"), ("verify", "data")]
)
def test_a_command_names_the_extra_that_it_needs(tmp_path: Path, words: tuple[str, ...]) -> None:
    notebook = str(ROOT / "notebooks" / "00-start-here.ipynb")
    done = python(tmp_path, "-m", "tests.without_unix", *(one.format(notebook) for one in words))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.endswith('pip install "tcp-lab-notebook[publish]"')
