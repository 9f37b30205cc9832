"""The commands that perform the runs of a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from labs.drive.parameters.declare import declared, plain, with_testbed_defaults
from labs.drive.testbeds import VIRTUAL
from labs.read.claims.verdict import HOW_MUCH, JudgedRuns, Verdict
from labs.read.lab import Lab
from labs.read.theory.kernels import series

NOT_NAMED = HOW_MUCH | {"testbed", "kernel", "runs", "seed"}
FEW = 12
"""So many conditions are named; a study of `--size full` that has more is performed as a whole."""


def of_seeds(verdict: Verdict | None) -> list[str]:
    """The flag of the seeds of a verdict on several draws; none for another."""
    draws = None if verdict is None else verdict.draws
    return [] if draws is None else [f"--seed {','.join(map(str, draws.seeds))}"]


def commands(lab: Lab, verdict: Verdict) -> list[str]:
    """One `labs run` for each testbed and set of parameters, with all kernels on which the same
    conditions were judged."""
    kernels: dict[str, list[str]] = {}
    for part in verdict.single:
        if part.behind is None or part.witness is None:
            continue
        words = " ".join(
            [
                _run(lab),
                *(
                    []
                    if part.witness.testbed == VIRTUAL.name
                    else [f"--testbed {part.witness.testbed}"]
                ),
                *_parameters(lab, part.behind, part.witness.testbed),
                _conditions(part.behind),
                *of_seeds(part),
            ]
        )
        of_series = ".".join(map(str, series(part.witness.kernel)))
        named = kernels.setdefault(words, [])
        if part.witness.testbed == VIRTUAL.name and of_series not in named:
            named.append(of_series)
    return [
        f"{words} --kernel {','.join(named)}" if named else words
        for words, named in kernels.items()
    ]


def _run(lab: Lab) -> str:
    return f"labs run {lab.source or lab.name}"


def _conditions(runs: JudgedRuns) -> str:
    names = list(runs.conditions)
    whole = len(names) > FEW and not runs.parameters.get("only")
    return f"--size {runs.parameters.get('size', 'full')}" if whole else f"--only {','.join(names)}"


def _parameters(lab: Lab, runs: JudgedRuns, testbed: str) -> list[str]:
    """The flags of the parameters that are not the defaults."""
    defaults = with_testbed_defaults(lab.Parameters, {"testbed": testbed})
    given: Mapping[str, object] = runs.parameters
    return [
        f"{parameter.flag} {plain(given[name])}"
        for name, parameter in declared(lab.Parameters).items()
        if name in given
        and name not in NOT_NAMED
        and given[name] != getattr(defaults, name)
        and parameter.kind is not bool
    ]
