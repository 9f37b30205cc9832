"""The runs that a verdict looks at, as a user names them, and their results by condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput
from labs.read.claims.ledger import parameter as requested
from labs.read.claims.verdict import Witness
from labs.read.lab import Found, Lab
from labs.read.runs.archive import is_packed, is_run, runs_folder, study_files
from labs.read.runs.compare import side
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import in_the_middle

# What says how much is run, and not how: studies that differ in nothing else belong together.
HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})


class Evidence:
    """Runs of one lab, one a condition; what is computed of a run is computed once."""

    def __init__(self, lab: Lab, runs: Mapping[str, Run]) -> None:
        self.lab = lab
        self.runs = runs

    def matching(self, *patterns: str) -> tuple[str, ...]:
        """The conditions there are that fit any of the patterns, in the order of the runs."""
        return tuple(
            name for name in self.runs if any(fnmatchcase(name, pattern) for pattern in patterns)
        )

    def lacking(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns that no run fits."""
        return tuple(pattern for pattern in patterns if not self.matching(pattern))

    def run(self, name: str) -> Run:
        """The run of a condition that is there."""
        return self.runs[name]

    def found(self, name: str) -> Found:
        """What the lab finds in the run of a condition."""
        return self.lab.results(self.runs[name])

    def row(self, name: str) -> Mapping[str, Any]:
        """The figures that the lab finds in the run of a condition, with what the run was."""
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
        """A parameter of the lab as a run was asked for it; None if the run does not say it."""
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


def bad_link(run: Run) -> str | None:
    """What is wrong with a run's link, or None."""
    return "; ".join(run.link.problems) or None


def runs_of(lab: Lab, where: Path) -> list[Run]:
    """The runs of a lab in a study file, a run, a folder of runs or a packed file.

    Of a folder it is the newest study, and what studies of the same parameters have beyond it:
    the conditions of `--only` count beside those of `--size`. Of repetitions it is the run in the
    middle. BadInput if there are no runs, or
    several of one condition in a folder without a study.
    """
    runs = _of_a_folder(lab.name, where)
    if runs is None:
        runs = [run for run in side(where) if run.lab == lab.name]
    if not runs:
        raise BadInput(
            f"{where} holds no run of {lab.name}; `labs run {lab.name} --into DIR` makes them"
        )
    twice = [
        name
        for name, count in Counter(
            run.condition for run in runs if "repetition" not in run.inputs
        ).items()
        if count > 1
    ]
    if twice:
        raise BadInput(
            f"{where} holds several runs of {', '.join(twice)} and no study that says "
            "which belong together; name a study file"
        )
    return list(in_the_middle(lab, runs))


def labs_of(where: Path) -> frozenset[str]:
    """The labs that have runs in what a user named."""
    return frozenset(run.lab for run in side(where))


def _of_a_folder(lab: str, where: Path) -> list[Run] | None:
    """The runs of the studies of a folder that belong together; None if it has no study."""
    if not is_packed(where) and (not where.is_dir() or is_run(where)):
        return None
    folder = runs_folder(where)
    newest = folder / STUDIES / f"{lab}.json"
    if not newest.is_file():
        return None
    first = open_study(newest)
    others = [
        study
        for study in map(open_study, study_files(folder))
        if study.lab == lab and _how(study) == _how(first)
    ]
    others.sort(key=lambda study: study.path.stat().st_mtime_ns, reverse=True)
    chosen: dict[str, list[Path]] = {}
    for study in (first, *others):
        there: dict[str, list[Path]] = {}
        for planned, path in zip(study.plan, study.folders(), strict=True):
            if is_run(path):
                there.setdefault(planned.condition, []).append(path)
        chosen = {**there, **chosen}
    return [open_run(path) for paths in chosen.values() for path in paths]


def _how(study: StudyFile) -> dict[str, object]:
    return {name: value for name, value in study.parameters.items() if name not in HOW_MUCH}
