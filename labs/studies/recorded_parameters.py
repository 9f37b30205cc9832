"""The message for recorded runs that were requested with parameters that were not recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from labs.drive.parameters.declare import LabParameters, declared, plain
from labs.drive.record.study_file import StudyFile
from labs.errors import LabError
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import study_files
from labs.read.runs.schemas import open_study
from labs.read.unused_parameters import changes_condition
from labs.studies.testbeds import parameters_of

VIRTUAL = "virtual"
# They are inputs of every run, besides its condition.
OF_EVERY_RUN = ("kernel", "seed", "memory_mib")


def refusal(lab: Lab, p: LabParameters, condition: str) -> str | None:
    """Which parameters of a condition have other values in the recorded runs, and which values;
    None if no recorded study tells.

    Only parameters that affect the condition are named, as the notebook spells them.
    """
    differing = [
        (found, [name for name in _differing(p, found) if _matters(lab, p, found, name, condition)])
        for found in _recorded_parameters(lab, p, condition)
    ]
    differing = [(found, names) for found, names in differing if names]
    if not differing:
        return None
    nearest = min((names for _, names in differing), key=len)
    alike = [found for found, names in differing if names == nearest]
    said = " and ".join(_told(p, name, alike) for name in nearest)
    return f"no recorded run of `{condition}` with {said}. {recorded.LIVE}"


def _recorded_parameters(lab: Lab, p: LabParameters, condition: str) -> Iterator[LabParameters]:
    """The parameters of the recorded studies in virtual time that have a condition."""
    for folder in recorded.places(lab.name):
        for path in study_files(folder):
            try:
                file = open_study(path)
                if _has(file, lab, condition):
                    yield parameters_of(file, type(p), VIRTUAL)
            except LabError:
                continue  # `labs runs list` reports what is wrong with it


def _has(file: StudyFile, lab: Lab, condition: str) -> bool:
    """Whether a study file is of a lab in virtual time, and has a condition."""
    return (file.lab, file.parameters.get("testbed")) == (lab.name, VIRTUAL) and any(
        planned.condition == condition for planned in file.plan
    )


def _differing(p: LabParameters, found: LabParameters) -> list[str]:
    return [name for name in declared(type(p)) if getattr(p, name) != getattr(found, name)]


def _matters(lab: Lab, p: LabParameters, found: LabParameters, name: str, condition: str) -> bool:
    """Whether the recorded value of a parameter results in another run of the condition."""
    if name in OF_EVERY_RUN:
        return True
    if name == "only":
        return False
    changed = dataclasses.replace(p, **{name: getattr(found, name)})
    return changes_condition(lab, p, changed, condition)


def _told(p: LabParameters, name: str, alike: list[LabParameters]) -> str:
    """`DELAY_MS = 24 (recorded: 22, 26, 200)`."""
    one = declared(type(p))[name]
    values = sorted({getattr(found, name) for found in alike})
    there = ", ".join(map(plain, values))
    return f"{one.notebook_name} = {plain(getattr(p, name))} (recorded: {there})"
