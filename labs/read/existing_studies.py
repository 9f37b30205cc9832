"""Studies that exist in folders of runs: those of some conditions on another testbed, and the
message for recorded runs that were requested with parameters that were not recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import LabParameters, declared, plain
from labs.drive.record.seal import canonical
from labs.drive.record.study_file import StudyFile
from labs.drive.testbeds import VIRTUAL
from labs.errors import LabError, Missing
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import is_run, study_files
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.unused_parameters import changes_condition

OF_EVERY_RUN = ("kernel", "seed", "memory_mib")
"""Parameters that are inputs of every run, besides its condition."""


def sharing(
    lab: Lab, runs: Sequence[Run], folder: Path, testbed: str, *, packed: bool = False
) -> list[tuple[StudyFile, bool]]:
    """The study on `testbed` in `folder` that shares most conditions with `runs`, the newest of
    several; if it has none, all recorded ones that share some, those with most first. Each with
    whether it is from `folder`. Of a folder that was `packed`, as recorded ones are, all are taken.
    """
    here = _ranked(lab, runs, folder, testbed)
    if here:
        return [(file, True) for file in (here if packed else here[:1])]
    try:
        places = recorded.places(lab.name)
    except Missing:
        return []
    return [(file, False) for place in places for file in _ranked(lab, runs, place, testbed)]


def _ranked(lab: Lab, runs: Sequence[Run], place: Path, testbed: str) -> list[StudyFile]:
    """The finished studies of a folder that share conditions with `runs`: those with most first,
    the newest first of several."""
    ranked = [
        (shared, file.path.stat().st_mtime_ns, file.path.name, file)
        for file in _on(testbed, lab, place)
        if file.path.stem != lab.name
        and all(map(is_run, file.folders()))
        and (shared := _shared(runs, file))
    ]
    return [file for *_, file in sorted(ranked, key=lambda entry: entry[:3], reverse=True)]


def _on(testbed: str, lab: Lab, folder: Path) -> Iterator[StudyFile]:
    """The studies of a lab on a testbed."""
    for path in study_files(folder):
        try:
            file = open_study(path)
        except LabError:
            continue  # `labs runs list` reports what is wrong with it
        if (file.lab, file.parameters.get("testbed")) == (lab.name, testbed):
            yield file


def _shared(runs: Sequence[Run], file: StudyFile) -> int:
    """The number of conditions that are equal in a study file."""
    names = [planned.condition for planned in file.plan]
    folders = dict(zip(names, file.folders(), strict=True))
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


def refusal(lab: Lab, p: LabParameters, condition: str) -> str | None:
    """Which parameters of a condition have other values in the recorded runs in virtual time, and
    which values; None if no recorded study tells.

    Only parameters that affect the condition are named, as the notebook spells them.
    """
    names_of = {
        other: names
        for other in _recorded_parameters(lab, p, condition)
        if (
            names := [
                name for name in declared(type(p)) if _matters(lab, p, other, name, condition)
            ]
        )
    }
    if not names_of:
        return None
    nearest = min(names_of.values(), key=len)
    alike = [other for other, names in names_of.items() if names == nearest]
    phrases = " and ".join(_describe(p, name, alike) for name in nearest)
    return f"no recorded run of `{condition}` with {phrases}. {recorded.LIVE}"


def _recorded_parameters(lab: Lab, p: LabParameters, condition: str) -> Iterator[LabParameters]:
    """The parameters of the recorded studies in virtual time that have a condition."""
    for folder in recorded.places(lab.name):
        for file in _on(VIRTUAL.name, lab, folder):
            if any(planned.condition == condition for planned in file.plan):
                try:
                    yield parameters_of(file, type(p), VIRTUAL.name)
                except LabError:
                    continue  # values that the lab no longer allows


def _matters(lab: Lab, p: LabParameters, other: LabParameters, name: str, condition: str) -> bool:
    """Whether a parameter has another value there, with another run of the condition."""
    value = getattr(other, name)
    if value == getattr(p, name) or name == "only":
        return False
    changed = replace(p, **{name: value})
    return name in OF_EVERY_RUN or changes_condition(lab, p, changed, condition)


def _describe(p: LabParameters, name: str, alike: Sequence[LabParameters]) -> str:
    """`DELAY_MS = 24 (recorded: 22, 26, 200)`."""
    values = sorted({getattr(other, name) for other in alike})
    spelt = declared(type(p))[name].notebook_name
    return f"{spelt} = {plain(getattr(p, name))} (recorded: {', '.join(map(plain, values))})"
