"""Real runs and studies of tests/fixtures and data/; each test states what it changes in them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from labs.catalog import find
from labs.drive.result_columns import values_of
from labs.experiments.buffers.conditions import Parameters as Buffers
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.read.runs.archive import study_files, unpacked
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.studies.study import Study, study
from tests.run_folders import reseal

FOLDER = Path(__file__).parent / "fixtures" / "runs"
STUDIES = FOLDER.with_name("studies")


@cache
def real(name: str) -> Run:
    """The run of that name."""
    return open_run(FOLDER / f"{name}.tar.xz")


def with_link(run: Run, **asked: Any) -> Run:
    """The run with another requested link; its files are unchanged."""
    record = deepcopy(dict(run.record))
    record["link"]["asked"].update(asked)
    return dataclasses.replace(run, record=record)


def with_condition(
    run: Run,
    *,
    link: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **changed: Any,
) -> Run:
    """The run with another condition; its files are unchanged."""
    inputs = dict(run.inputs)
    condition = {**inputs["condition"], **changed}
    condition["link"] = {**condition["link"], **(link or {})}
    condition["settings"] = {**condition["settings"], **(settings or {})}
    record = {
        **run.record,
        "condition": condition["name"],
        "inputs": {**inputs, "condition": condition},
    }
    return dataclasses.replace(run, record=record)


def with_file(run: Run, folder: Path, name: str, old: str, new: str) -> Run:
    """A copy of the run with one file changed, and a new seal."""
    copy = folder / run.path.name
    shutil.copytree(run.path, copy)
    path = copy / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return open_run(reseal(copy))


def known(figure: float | None) -> float:
    """A figure that a run must have."""
    assert figure is not None
    return figure


def codes(results: Any) -> list[str]:
    """The codes of the notes of a lab's `Results`, in order."""
    return [note.code for note in results.notes()]


def plain(results: Any) -> dict[str, Any]:
    """The values of a lab's `Results` by column, without its notes."""
    return values_of(results)


@cache
def real_study(kernel: str) -> Study:
    """The study of tests/fixtures/studies that was performed on that kernel."""
    lab = find("buffers")
    folder = unpacked(STUDIES / f"{kernel}.tar.xz")
    file = open_study(folder / "studies" / "buffers.json")
    given: dict[str, Any] = {**file.parameters, "runs": str(folder)}
    parameters = lab.Parameters(**given)
    runs = tuple(open_run(path) for path in file.folders())
    return Study(parameters, runs, folder, file.path, True, lab=lab)


@cache
def recorded_buffers(kernel: str, only: str) -> Study:
    """These conditions of the recorded study of the lab `buffers`, as a notebook opens it."""
    return study(Buffers(testbed="recorded", kernel=kernel, only=only, size="full"))


@cache
def recorded_nagle(kernel: str = "6.1", only: str = "", size: str = "small") -> Study:
    """The recorded study of the lab `nagle`, as a notebook opens it."""
    return study(Nagle(testbed="recorded", kernel=kernel, only=only, size=size))


def nagle_run(condition: str) -> Run:
    """The recorded run of a condition of the lab `nagle`."""
    return recorded_nagle().run(condition)


@cache
def study_of(name: str, kernel: str) -> Study:
    """The study of a lab in tests/fixtures/studies on that kernel."""
    lab = find(name)
    folder = unpacked(STUDIES / f"{name}.tar.xz")
    files = [open_study(path) for path in study_files(folder)]
    file = next(study for study in files if study.parameters["kernel"] == kernel)
    given: dict[str, Any] = {**file.parameters, "runs": str(folder)}
    runs = tuple(open_run(path) for path in file.folders())
    return Study(lab.Parameters(**given), runs, folder, file.path, True, lab=lab)


def windows_study(kernel: str = "6.1") -> Study:
    """The study of the lab `windows` on that kernel."""
    return study_of("windows", kernel)


def sweeps_study(kernel: str = "6.1") -> Study:
    """The study of the lab `sweeps` on that kernel."""
    return study_of("sweeps", kernel)


def windows_run(condition: str, kernel: str = "6.1") -> Run:
    """The run of a condition in that study."""
    return windows_study(kernel).run(condition)
