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
        found = examined.result()
    from labs.read.display.rich_output import Table  # noqa: PLC0415

    shaped = any(one.link.shaped for one in lab_of(p).conditions(p))
    lacking = [_lacking(one, shaped) for one in found]
    return Table(
        {
            "Testbed": [one.testbed for one in found],
            "What it is": [one.what for one in found],
            "Runs here": ["no" if one else "yes" for one in lacking],
            "Reason if not": [f"{one.name}: {one.finding}" if one else "" for one in lacking],
            "Next step": [one.next_step if one else "" for one in lacking],
        }
    )


def _lacking(one: Diagnosis, shaped: bool) -> Check | None:
    """The first requirement that is not met; those of shaped links count if there are any."""
    lacking = (
        check
        for check in one.checks
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
    own = _sharing(lab, runs, folder, testbed)
    if own:
        return [(one, True) for one in (own if packed else own[:1])]
    places = _recorded(lab.name)
    return [(one, False) for place in places for one in _sharing(lab, runs, place, testbed)]


def _sharing(lab: Lab, runs: Sequence[Run], place: Path, testbed: str) -> list[StudyFile]:
    """The studies of a folder that share conditions with `runs`: those with most first, the newest
    first of several."""
    found = [
        (shared, file.path.stat().st_mtime_ns, file.path.name, file)
        for file in _on(place, lab.name, testbed)
        if (shared := _shared(runs, file))
    ]
    return [file for *_, file in sorted(found, key=lambda one: one[:3], reverse=True)]


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
    known = {one.name for one in fields(cls)}
    given: dict[str, Any] = {
        name: value for name, value in file.parameters.items() if name in known
    }
    return cls(**{**given, "testbed": testbed, "runs": str(file.runs)})


def command_for(
    lab: Lab, parameters: LabParameters, conditions: Sequence[str], testbed: str
) -> str:
    """The command that runs the conditions on another testbed."""
    flags = []
    # A parameter with another default on that testbed is named even if it has its usual value.
    otherwise = parameters.testbed_defaults(testbed, lab.Parameters().size)
    for one in declared(lab.Parameters).values():
        value = getattr(parameters, one.name)
        usual = value == one.default and one.name not in otherwise
        if one.name not in NOT_TOLD and not usual:
            flags += [one.flag, plain(value)] if not isinstance(value, bool) else [one.flag]
    words = ["labs", "run", lab.name, "--testbed", testbed, *flags, "--only", ",".join(conditions)]
    return FIRST[testbed] + shlex.join(words)
