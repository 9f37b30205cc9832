"""The runs that answers are checked against: the recorded ones. Nothing is run.

A student's own runs do not count. Anybody can change a run and seal it again, and RUNS may name the
folder of somebody else. In virtual time an unchanged run equals the recorded one anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from labs.drive.parameters.declare import LabParameters, Scalar
from labs.errors import BadInput, Missing
from labs.read.exercises.exercise import Evidence
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.run import Run


class RunEvidence(Evidence):
    """The recorded runs of a lab on one kernel."""

    def __init__(self, lab: Lab, kernel: str, drawn: Mapping[str, Scalar] | None = None) -> None:
        super().__init__(kernel, drawn)
        self._lab = lab

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunEvidence) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)

    @property
    def _same(self) -> tuple[object, ...]:
        return self._lab.name, self.kernel, *sorted(self.drawn.items())

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""
        p = dataclasses.replace(self._defaults(), only=condition, **parameters)  # type: ignore[arg-type]
        (wanted,) = self._lab.conditions(p)
        try:
            return recorded.equal_to(
                self._lab.name,
                wanted.as_json(),
                recorded_runs(self._lab.name),
                kernel=self.kernel,
                seed=p.seed,
                memory_mib=p.memory_mib,
            )
        except BadInput:
            return None

    def column(self, run: Run, name: str) -> Any:
        """A column of the lab's results for a run."""
        return self._lab.results(run).values[name]

    def _defaults(self) -> LabParameters:
        return self._lab.Parameters(kernel=self.kernel)


@cache
def recorded_runs(lab: str) -> Sequence[Run]:
    """The recorded runs of a lab in virtual time; none without recorded data."""
    try:
        return recorded.in_virtual_time(lab, recorded.places(lab))
    except Missing:
        return ()
