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
        (other, names)
        for other in _recorded_parameters(lab, p, condition)
        if (
            names := [
                name for name in declared(type(p)) if _matters(lab, p, other, name, condition)
            ]
        )
    ]
    if not differing:
        return None
    nearest = min((names for _, names in differing), key=len)
    alike = [other for other, names in differing if names == nearest]
    phrases = " and ".join(_described(p, name, alike) for name in nearest)
    return f"no recorded run of `{condition}` with {phrases}. {recorded.LIVE}"


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


def _matters(lab: Lab, p: LabParameters, other: LabParameters, name: str, condition: str) -> bool:
    """Whether a parameter has another value there, with another run of the condition."""
    value = getattr(other, name)
    if value == getattr(p, name) or name == "only":
        return False
    changed = dataclasses.replace(p, **{name: value})
    return name in OF_EVERY_RUN or changes_condition(lab, p, changed, condition)


def _described(p: LabParameters, name: str, alike: list[LabParameters]) -> str:
    """`DELAY_MS = 24 (recorded: 22, 26, 200)`."""
    values = sorted({getattr(other, name) for other in alike})
    there = ", ".join(map(plain, values))
    spelt = declared(type(p))[name].notebook_name
    return f"{spelt} = {plain(getattr(p, name))} (recorded: {there})"
