"""The runs that answers are checked against: the recorded ones. Nothing is run.

A student's own runs do not count. Anybody can change a run and seal it again, and RUNS may name the
folder of somebody else. In virtual time an unchanged run equals the recorded one anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from labs.drive.parameters.declare import LabParameters, Scalar
from labs.errors import BadInput, Missing
from labs.read.exercises.exercise import Evidence
from labs.read.lab import Lab
from labs.read.runs import recorded
from labs.read.runs.run import Run


@dataclass(frozen=True)
class RunEvidence(Evidence):
    """The recorded runs of a lab on one kernel."""

    lab: Lab

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        """A run with the lab's defaults but for these parameters; None if there is none."""
        defaults: LabParameters = self.lab.Parameters(kernel=self.kernel)
        p = replace(defaults, only=condition, **parameters)  # type: ignore[arg-type]
        (wanted,) = self.lab.conditions(p)
        try:
            return recorded.equal_to(
                self.lab.name,
                wanted.as_json(),
                recorded_runs(self.lab.name),
                kernel=self.kernel,
                seed=p.seed,
                memory_mib=p.memory_mib,
            )
        except BadInput:
            return None

    def column(self, run: Run, name: str) -> Any:
        """A column of the lab's results for a run."""
        return self.lab.results(run).values[name]


@cache
def recorded_runs(lab: str) -> Sequence[Run]:
    """The recorded runs of a lab in virtual time; none without recorded data."""
    try:
        return recorded.in_virtual_time(lab, recorded.places(lab))
    except Missing:
        return ()
