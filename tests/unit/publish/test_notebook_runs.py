"""The runs that a notebook opens, and its studies, copied to a folder of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.catalog import find
from labs.publish import notebook_runs
from labs.read.runs import run as run_module
from labs.read.runs.archive import study_files
from labs.read.runs.compare import every_run
from labs.read.runs.run import open_run
from labs.read.runs.schemas import open_study
from labs.studies.study import opened
from tests.run_folders import inputs, make_run, make_study


def test_save_copies_what_was_opened_since_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_opened", {})  # other tests hold runs open
    lab = find("buffers")
    make_run(tmp_path / "unread", inputs("unshaped"))
    made = make_study(tmp_path / "a")
    notebook_runs.begin()
    study = opened(made, lab.Parameters(), lab, live=True)
    open_run(make_run(tmp_path / "b", inputs("wmem")))  # nobody holds it any more
    (tmp_path / "kept").mkdir()
    notebook_runs.save(str(tmp_path / "kept"), {"x": 1, "machines": (study,), "again": [study]})
    assert {run.condition for run in every_run(tmp_path / "kept")} == {"default", "both", "wmem"}
    (newest, named) = sorted(map(open_study, study_files(tmp_path / "kept")), key=str)
    assert newest.plan == named.plan == made.plan
