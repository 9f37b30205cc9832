"""Shards of a batch: select the runs of one of N jobs, and merge the folders of all jobs by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labs.batches.keep import keep
from labs.drive.record.run_folder import run_name
from labs.errors import BadInput, LabError, ResultsDiffer
from labs.launch.launch import prepare
from labs.launch.plan import Planned
from labs.launch.wanted import Exists, Opened
from labs.read.runs.archive import run_folders, runs_folder
from labs.read.runs.run import open_run

SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
NUMBER = re.compile(r"[0-9]{1,9}")
SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT")
STEP = "SLURM_ARRAY_TASK_STEP"
KUBERNETES = ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS")
Shard = tuple[int, int]
"""The number of a shard, from 1, and the number of shards."""


def parse(text: str) -> Shard:
    """The shard that "I/N" names, counted from 1."""
    match = SHARD.fullmatch(text)
    if match is None:
        raise BadInput(f'"{text}" is not a shard. Allowed: I/N, such as 1/8 to 8/8')
    return _checked(int(match[1]), int(match[2]), f'"{text}"')


def from_environment(env: Mapping[str, str]) -> Shard | None:
    """The shard of this job in a Slurm job array or a Kubernetes indexed job; None elsewhere.

    Kubernetes does not pass the number of completions to its pods, so JOB_COMPLETIONS must be set.
    The numbers of a Slurm array must have equal steps.
    """
    if SLURM[0] in env:
        number, first, jobs = (_number(env, name) for name in SLURM)
        place, rest = divmod(number - first, max(1, _number({STEP: "1", **env}, STEP)))
        return _checked(0 if rest else place + 1, jobs, SLURM[0])
    if KUBERNETES[0] in env:
        return _checked(_number(env, KUBERNETES[0]) + 1, _number(env, KUBERNETES[1]), KUBERNETES[0])
    return None


def _number(env: Mapping[str, str], name: str) -> int:
    text = env.get(name)
    if text is None:
        raise BadInput(f"{name} is not set, so the number of shards is unknown. Use --shard I/N")
    if NUMBER.fullmatch(text) is None:
        raise BadInput(f'{name} is "{text}". Allowed: a whole number')
    return int(text)


def _checked(index: int, count: int, source: str) -> Shard:
    if not 1 <= index <= count:
        raise BadInput(
            f"{source} means shard {index} of {count}. Allowed: 1 to N of N, without gaps"
        )
    return index, count


def shard(planned: Sequence[Planned], index: int, count: int) -> list[Planned]:
    """The runs of shard `index` (from 1) of `count`, each key once, sorted by key.

    A shard has every count-th key, so shards are disjoint and together complete, independent of the
    order of `planned`.
    """
    by_key = {run.key: run for run in planned}
    return [by_key[key] for key in sorted(by_key)[index - 1 :: count]]


@dataclass(frozen=True)
class Merged:
    """The numbers of runs that were copied and that existed, and a one-line error for each run that
    cannot be read."""

    copied: int
    existing: int
    damaged: tuple[str, ...]


def merge(
    folders: Iterable[Path], into: Path, say: Callable[[str], None] = lambda line: None
) -> Merged:
    """Verify the runs of several folders (or packed files) and copy them into one, each key once.

    Damaged runs are skipped; a damaged run in `into` is replaced by an intact one. ResultsDiffer,
    after all others were copied, if runs with equal keys differ. BadInput, before anything is
    copied, for a path that is not a folder of runs.
    """
    places = [runs_folder(folder) for folder in folders]
    prepare(into)
    opened = Opened(into)
    copied = existing = 0
    damaged: list[str] = []
    differing: list[str] = []
    for folder in (run for place in places for run in run_folders(place)):
        try:
            run = open_run(folder)
        except LabError as error:
            damaged.append(str(error))
            say(f"left out: {error}")
            continue
        outcome = keep(run, opened, title=run.condition, tell=lambda what: say(f"waiting {what}"))
        other = opened[run_name(run.lab, run.condition, run.key)]
        if other.digest != run.digest:
            differing.append(f"{other.path} and {run.path}")
        elif isinstance(outcome, Exists):
            existing += 1
        else:
            copied += 1
    if differing:
        raise ResultsDiffer(
            f"runs with equal inputs have different results: {'; '.join(differing)}. Compare them "
            "with `labs runs compare`, and repeat both with --fresh"
        )
    return Merged(copied, existing, tuple(damaged))
