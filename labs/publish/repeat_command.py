"""The commands that perform the runs of a claim or of a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.drive.parameters.declare import declared, plain, with_testbed_defaults
from labs.read.claims.judged_runs import HOW_MUCH, JudgedRuns
from labs.read.claims.verdict import Verdict
from labs.read.lab import Lab
from labs.read.theory.windows import series

VIRTUAL = "virtual"
NOT_NAMED = HOW_MUCH | {"testbed", "kernel", "runs", "seed"}
FEW = 12
"""So many conditions are named; a study of `--size full` that has more is performed as a whole."""


def of_conditions(lab: Lab, names: Iterable[str]) -> str:
    """The `labs run` for these conditions of the full study, on the testbed that the lab names."""
    return f"{_run(lab)} --size full --only {','.join(names)}"


def commands(lab: Lab, verdict: Verdict) -> list[str]:
    """One `labs run` for each testbed and set of parameters, with all kernels on which the same
    conditions were judged."""
    kernels: dict[str, list[str]] = {}
    for one in verdict.single:
        if one.behind is None or one.witness is None:
            continue
        words = " ".join(
            [
                _run(lab),
                *([] if one.witness.testbed == VIRTUAL else [f"--testbed {one.witness.testbed}"]),
                *_parameters(lab, one.behind, one.witness.testbed),
                _conditions(one.behind),
            ]
        )
        of_series = ".".join(map(str, series(one.witness.kernel)))
        named = kernels.setdefault(words, [])
        if one.witness.testbed == VIRTUAL and of_series not in named:
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
        f"{one.flag} {plain(given[name])}"
        for name, one in declared(lab.Parameters).items()
        if name in given
        and name not in NOT_NAMED
        and given[name] != getattr(defaults, name)
        and one.kind is not bool
    ]
