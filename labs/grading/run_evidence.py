"""The runs that answers are checked against: the student's own, then the recorded ones. Nothing is
run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from labs.drive.parameters.declare import LabParameters, Scalar
from labs.errors import BadInput, LabError, Missing
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.archive import run_folders
from labs.read.runs.run import Run, open_run


class RunEvidence:
    """The runs of a lab on one kernel, in `folders` or in the recorded data. Two without runs in
    `folders` are equal."""

    def __init__(
        self,
        lab: Lab,
        kernel: str,
        folders: Sequence[Path],
        drawn: Mapping[str, Scalar] | None = None,
    ) -> None:
        self.drawn = {} if drawn is None else drawn
        self.kernel = str(self.drawn.get("kernel", kernel))
        self._lab = lab
        self._own = [run for folder in folders for run in own_runs(lab.name, folder)]

    @property
    def has_own(self) -> bool:
        return bool(self._own)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunEvidence) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)

    @property
    def _same(self) -> tuple[object, ...]:
        return self._lab.name, self.kernel, *sorted(self.drawn.items()), *self._own

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""
        p = dataclasses.replace(self._defaults(), only=condition, **parameters)  # type: ignore[arg-type]
        (wanted,) = self._lab.conditions(p)
        for known in (self._own, recorded_runs(self._lab.name)):
            try:
                return recorded.equal_to(
                    self._lab.name,
                    wanted.as_json(),
                    known,
                    kernel=self.kernel,
                    seed=p.seed,
                    memory_mib=p.memory_mib,
                )
            except BadInput:
                continue
        return None

    def _defaults(self) -> LabParameters:
        return self._lab.Parameters(kernel=self.kernel)


def own_runs(lab: str, folder: Path) -> list[Run]:
    """The runs of a lab in virtual time in a folder; damaged ones are omitted."""
    found = []
    for path in run_folders(folder) if folder.is_dir() else ():
        try:
            run = open_run(path)
        except LabError:
            continue
        if run.lab == lab and run.inputs["kernel"] is not None:
            found.append(run)
    return found


@cache
def recorded_runs(lab: str) -> Sequence[Run]:
    """The recorded runs of a lab in virtual time; none without recorded data."""
    try:
        return recorded.in_virtual_time(lab, recorded.places(lab))
    except Missing:
        return ()
