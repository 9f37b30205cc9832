"""Recorded runs on a system that is not Unix and has no extra: read, drawn, judged and graded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from labs.cli.__main__ import main
from tests.without_unix import MODULES, OF_EXTRAS

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOK = ROOT / "notebooks" / "00-start-here.ipynb"
SCRIPT = """
import json, sys
from tests.without_unix import remove
remove()

import labs
from labs.cli.__main__ import main

p = labs.check("buffers", {"TESTBED": "recorded", "ONLY": "default,both"})
assert list(labs.testbeds(p)["Runs here"]) == ["no", "no", "no", "yes"]
study = labs.study(p)
assert labs.charts.buffers.by_condition(study.results()).data
assert labs.charts.buffers.timeline(study.run("default")).data
labs.verdicts(study)
labs.advise(1000, 200)
assert "netem" in study.commands("both")
names = {"TESTBED": "recorded", "bdp_mib": 2.62}
assert list(labs.grade("00-start-here", names)["Result"])[0] == "right"
assert main(["student", sys.argv[1], "--into", sys.argv[2]]) == 0
assert main(["grade", sys.argv[2]]) == 0
assert main(["doctor"]) == 0
print(json.dumps(sorted(name for name, module in sys.modules.items() if module is not None)))
"""


def python(temporary: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_recorded_runs_need_no_unix_and_no_extra(tmp_path: Path) -> None:
    done = python(tmp_path, "-c", SCRIPT, str(NOTEBOOK), str(tmp_path / "student"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 3 right" in done.stdout
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert not loaded & {*MODULES, *OF_EXTRAS}
    assert {"numpy", "pandas", "plotly", "jsonschema"} <= loaded


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


@pytest.mark.parametrize("words", [("publish", "{}", "--out", "P.html"), ("bundle", "P.zip", "{}")])
def test_a_command_names_the_extra_that_it_needs(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = python(tmp_path, "-m", "tests.without_unix", *(one.format(NOTEBOOK) for one in words))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.endswith('pip install "tcp-lab-notebook[publish]"')


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_verify_says_that_it_needs_linux(
    system: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import_module("labs.verify.verify")  # its packages ask for the system as they are imported
    monkeypatch.setattr(sys, "platform", system)
    assert main(["verify", "data"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "need Linux" in line and system in line
