"""The runs that a verdict is computed from, and their results, by condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from labs.read.claims.ledger import parameter as requested
from labs.read.claims.verdict import Witness
from labs.read.lab import Found, Lab
from labs.read.runs.run import Run


class Evidence:
    """Runs of one lab, one per condition; results are computed once per run."""

    def __init__(self, lab: Lab, runs: Mapping[str, Run]) -> None:
        self.lab = lab
        self.runs = runs

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The existing conditions that match any of the patterns, in the order of the runs."""
        return tuple(
            name for name in self.runs if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def lacking(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns that no run matches."""
        return tuple(pattern for pattern in patterns if not self.matching(pattern))

    def run(self, name: str) -> Run:
        """The run of an existing condition."""
        return self.runs[name]

    def found(self, name: str) -> Found:
        """The lab's results of the run of a condition, with notes."""
        return self.lab.results(self.runs[name])

    def row(self, name: str) -> Mapping[str, Any]:
        """The results of the run of a condition, with its group, kernel and link."""
        run = self.runs[name]
        return {
            "condition": name,
            "group": self.lab.group_of(run),
            "kernel": run.kernel.release,
            "rtt_ms": run.link.measured.rtt_ms,
            "rate_mbit": run.link.measured.rate_mbit,
            **self.found(name).values,
        }

    def hook(self, name: str) -> Callable[..., Any] | None:
        """A function of the lab's claims that shared code calls, or None if it has none."""
        found: Callable[..., Any] | None = getattr(self.lab.part("claims"), name, None)
        return found

    def parameter(self, name: str, parameter: str) -> float | str | None:
        """A parameter of the lab as requested of a run; None if the run does not have it."""
        return requested(self.runs[name], parameter, self.hook("parameter"))

    def witness(self, names: Sequence[str]) -> Witness | None:
        """The testbed and the kernel of these runs; None without runs."""
        runs = [self.runs[name] for name in names]
        if not runs:
            return None
        return Witness(
            ", ".join(dict.fromkeys(run.testbed for run in runs)),
            ", ".join(dict.fromkeys(str(run.kernel.release) for run in runs)),
        )
