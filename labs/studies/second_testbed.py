"""The second witness of a study: the same conditions on machines, made before or recorded."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from labs.drive.condition import without_group
from labs.drive.parameters.base import LabParameters
from labs.drive.parameters.declare import declared, plain
from labs.drive.record.canonical import canonical
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput, LabError, Missing
from labs.read.display.notebook import Text
from labs.read.runs import recorded
from labs.read.runs.listing import is_run, open_study, study_files
from labs.read.runs.run import Run, open_run
from labs.studies.study import Study, opened

FIRST = {"vagrant": "make box && vagrant up && ", "namespaces": ""}
# The witness has its own; where runs are kept is said from where the command is given.
NOT_TOLD = frozenset({"testbed", "kernel", "runs", "size"})


def find(study: Study, testbed: str) -> Study:
    """The newest study on `testbed` of conditions that `study` has too; without runs if none.

    Looked for in the folder of the study's own runs, then among the recorded ones. BadInput for a
    testbed that is no other kind of witness.
    """
    if testbed not in FIRST:
        raise BadInput(f"{testbed} is no second witness; allowed: {', '.join(FIRST)}")
    for folder, live in _places(study):
        found = [
            (_shared(study, file), file.path.stat().st_mtime_ns, file.path.name, file)
            for file in _on(folder, study.lab.name, testbed)
        ]
        shared, _, _, file = max(found, key=lambda one: one[:3], default=(0, 0, "", None))
        if shared and file is not None:
            return opened(file, _parameters(study, file, testbed), study.lab, live=live)
    return Study(
        study.parameters,
        (),
        study.folder,
        None,
        study.live,
        lab=study.lab,
        lacks=f"there is no study of these conditions on {testbed}; "
        f"`{how_to_make(study, testbed)}` makes it",
    )


def _places(study: Study) -> Iterator[tuple[Path, bool]]:
    yield study.folder, study.live
    try:
        for folder in recorded.places(study.lab.name):
            yield folder, False
    except Missing:
        return


def _on(folder: Path, lab: str, testbed: str) -> Iterator[StudyFile]:
    """The finished studies of a lab on a testbed."""
    for path in study_files(folder):
        try:
            file = open_study(path)
        except LabError:
            continue  # `labs runs list` says what is wrong with it
        if (
            (file.lab, file.parameters.get("testbed")) == (lab, testbed)
            and path.stem != lab
            and (all(map(is_run, file.folders())))
        ):
            yield file


def _shared(study: Study, file: StudyFile) -> int:
    """How many conditions of the study are the same in a study file."""
    conditions = {
        planned.condition: folder for planned, folder in zip(file.plan, file.folders(), strict=True)
    }
    return sum(
        _asked(run) == _asked(open_run(conditions[run.condition]))
        for run in study.runs
        if run.condition in conditions
    )


def _asked(run: Run) -> bytes:
    return canonical(without_group(run.inputs["condition"]))


def _parameters(study: Study, file: StudyFile, testbed: str) -> LabParameters:
    """What the file says of the parameters that there are today."""
    known = {one.name for one in fields(study.parameters)}
    given: dict[str, Any] = {
        name: value for name, value in file.parameters.items() if name in known
    }
    return type(study.parameters)(**{**given, "testbed": testbed, "runs": str(file.runs)})


def how_to_make(study: Study, testbed: str) -> Text:
    """The command that makes the study's conditions on another testbed."""
    flags = []
    # What the command line would take otherwise there is told, whatever it is.
    otherwise = study.parameters.testbed_defaults(testbed, type(study.parameters)().size)
    for one in declared(type(study.parameters)).values():
        value = getattr(study.parameters, one.name)
        usual = value == one.default and one.name not in otherwise
        if one.name in NOT_TOLD or usual or one.name == "only":
            continue
        flags += [one.flag, plain(value)] if not isinstance(value, bool) else [one.flag]
    words = shlex.join(
        [
            "labs",
            "run",
            study.lab.name,
            "--testbed",
            testbed,
            *flags,
            "--only",
            ",".join(study.conditions),
        ]
    )
    return Text(FIRST[testbed] + words)
