"""The runs that a verdict looks at, by condition, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from labs.catalog import Lab
from labs.read.claims.verdict import Witness
from labs.read.runs.run import Run

AS_ASKED = "as asked"


class Evidence:
    """Runs of one lab, one a condition; what is computed of a run is computed once."""

    def __init__(self, lab: Lab, runs: Mapping[str, Run]) -> None:
        self.lab = lab
        self.runs = runs
        self._rows: dict[str, Mapping[str, Any]] = {}

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The conditions there are that fit any of the patterns, in the order of the runs."""
        return tuple(name for name in self.runs
                     if any(fnmatchcase(name, pattern) for pattern in patterns))

    def lacking(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns that no run fits."""
        return tuple(pattern for pattern in patterns if not self.matching(pattern))

    def run(self, name: str) -> Run:
        """The run of a condition that is there."""
        return self.runs[name]

    def row(self, name: str) -> Mapping[str, Any]:
        """What the lab's `results` find in the run of a condition."""
        if name not in self._rows:
            self._rows[name] = self.lab.analysis_module().results(self.runs[name])
        return self._rows[name]

    def witness(self, names: Sequence[str]) -> Witness | None:
        """The testbed and the kernel of these runs; None without runs."""
        runs = [self.runs[name] for name in names]
        if not runs:
            return None
        return Witness(", ".join(dict.fromkeys(run.testbed for run in runs)),
                       ", ".join(dict.fromkeys(str(run.kernel["release"]) for run in runs)))


def bad_link(run: Run) -> str | None:
    """What is wrong with a run's link, or None."""
    said = str(run.link["verdict"])
    return None if said == AS_ASKED else said.removeprefix("not as asked: ")


def as_on(run: Run, kernel: str) -> Run:
    """The run as if it had been made on another kernel: for what the theory says of it there."""
    return replace(run, said={**run.said, "kernel": {**run.kernel, "release": kernel}})
