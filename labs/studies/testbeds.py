"""Testbeds: which can run here, and a study on a second testbed, or the command that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.catalog import lab_of
from labs.drive.parameters.declare import LabParameters, declared, plain
from labs.drive.record.seal import canonical
from labs.drive.record.study_file import StudyFile
from labs.drive.testbed.diagnosis import SHAPING, Check, Diagnosis, examine
from labs.errors import BadInput, LabError, Missing
from labs.read.lab import Lab
from labs.read.loading import load
from labs.read.runs import recorded
from labs.read.runs.archive import is_run, study_files
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study

if TYPE_CHECKING:
    from labs.read.display.rich_output import Table

FIRST = {"vagrant": "make box && vagrant up && ", "namespaces": ""}
# Not repeated in the command: the other testbed has its own values, and the folder of the runs
# depends on where the command is given.
NOT_TOLD = frozenset({"testbed", "kernel", "runs", "size", "only"})


def testbeds(p: LabParameters) -> Table:
    """One row per testbed: what it is, whether these conditions can run on it here, and if not,
    what to do first.

    The virtual testbed is checked for the first kernel that the parameters name.
    """
    # The trials are programs; meanwhile this process imports what shows a table.
    with ThreadPoolExecutor(1) as trials:
        examined = trials.submit(examine, p.kernels[0])
        load("labs.read.display.rich_output")
        diagnoses = examined.result()
    from labs.read.display.rich_output import Table  # noqa: PLC0415

    shaped = any(condition.link.shaped for condition in lab_of(p).conditions(p))
    lacking = [_lacking(diagnosis, shaped) for diagnosis in diagnoses]
    return Table(
        {
            "Testbed": [diagnosis.testbed for diagnosis in diagnoses],
            "What it is": [diagnosis.what for diagnosis in diagnoses],
            "Runs here": ["no" if check else "yes" for check in lacking],
            "Reason if not": [
                f"{check.name}: {check.finding}" if check else "" for check in lacking
            ],
            "Next step": [check.next_step if check else "" for check in lacking],
        }
    )


def _lacking(diagnosis: Diagnosis, shaped: bool) -> Check | None:
    """The first requirement that is not met; those of shaped links count if there are any."""
    lacking = (
        check
        for check in diagnosis.checks
        if not check.ok and (check.needed or (shaped and check.name in SHAPING))
    )
    return next(lacking, None)


def on_testbed(
    lab: Lab, runs: Sequence[Run], folder: Path, testbed: str, *, packed: bool = False
) -> list[tuple[StudyFile, bool]]:
    """The study on `testbed` in `folder` that shares most conditions with `runs`, the newest of
    several; if it has none, all recorded ones that share some, those with most first. Each with
    whether it is from `folder`. Of a folder that was `packed`, as recorded ones are, all are taken.

    BadInput for a testbed that cannot be the second one.
    """
    if testbed not in FIRST:
        raise BadInput(f"{testbed} cannot be the second testbed. Allowed: {', '.join(FIRST)}")
    here = _sharing(lab, runs, folder, testbed)
    if here:
        return [(file, True) for file in (here if packed else here[:1])]
    places = _recorded(lab.name)
    return [(file, False) for place in places for file in _sharing(lab, runs, place, testbed)]


def _sharing(lab: Lab, runs: Sequence[Run], place: Path, testbed: str) -> list[StudyFile]:
    """The studies of a folder that share conditions with `runs`: those with most first, the newest
    first of several."""
    ranked = [
        (shared, file.path.stat().st_mtime_ns, file.path.name, file)
        for file in _on(place, lab.name, testbed)
        if (shared := _shared(runs, file))
    ]
    return [file for *_, file in sorted(ranked, key=lambda entry: entry[:3], reverse=True)]


def _recorded(lab: str) -> list[Path]:
    try:
        return recorded.places(lab)
    except Missing:
        return []


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
            and all(map(is_run, file.folders()))
        ):
            yield file


def _shared(runs: Sequence[Run], file: StudyFile) -> int:
    """The number of conditions that are equal in a study file."""
    folders = {
        planned.condition: folder for planned, folder in zip(file.plan, file.folders(), strict=True)
    }
    return sum(
        _requested(run) == _requested(open_run(folders[run.condition]))
        for run in runs
        if run.condition in folders
    )


def _requested(run: Run) -> bytes:
    return canonical(run.condition_asked.as_json())


def parameters_of(file: StudyFile, cls: type[LabParameters], testbed: str) -> LabParameters:
    """The parameters in a study file that the lab still has."""
    names = {field.name for field in fields(cls)}
    given: dict[str, Any] = {name: file.parameters[name] for name in names & file.parameters.keys()}
    return cls(**{**given, "testbed": testbed, "runs": str(file.runs)})


def command_for(
    lab: Lab, parameters: LabParameters, conditions: Sequence[str], testbed: str
) -> str:
    """The command that runs the conditions on another testbed."""
    flags: list[str] = []
    # A parameter with another default on that testbed is named even if it has its usual value.
    otherwise = parameters.testbed_defaults(testbed, lab.Parameters().size)
    for name, declaration in declared(lab.Parameters).items():
        value = getattr(parameters, name)
        is_usual = value == declaration.default and name not in otherwise
        if name not in NOT_TOLD and not is_usual:
            flags += (
                [declaration.flag] if isinstance(value, bool) else [declaration.flag, plain(value)]
            )
    words = ["labs", "run", lab.name, "--testbed", testbed, *flags, "--only", ",".join(conditions)]
    return FIRST[testbed] + shlex.join(words)
