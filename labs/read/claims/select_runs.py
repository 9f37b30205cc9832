"""The runs that a verdict is to look at, as a user names them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.study_file import StudyFile
from labs.errors import BadInput
from labs.read.lab import Lab
from labs.read.runs.archive import is_packed, is_run, runs_folder, study_files
from labs.read.runs.compare import side
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study
from labs.read.stats.repetitions import in_the_middle

# What says how much is run, and not how: studies that differ in nothing else belong together.
HOW_MUCH = frozenset({"size", "only", "repetitions_min", "repetitions_max", "ci_width_pct"})


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
