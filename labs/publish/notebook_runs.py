"""The runs that a notebook opens while it is executed, copied before its process ends.

The two functions are called in the process of the notebook: `begin` before its first cell, `save`
after its last. Runs that were unpacked from a file exist only as long as that process.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from labs.read.runs.run import Run, keep_opened
from labs.studies.grid import Grid
from labs.studies.study import Study

BEGIN = "from labs.publish import notebook_runs; notebook_runs.begin()"
_opened: Collection[Run] = ()


def begin() -> None:
    """Keep every run that this process opens."""
    global _opened
    _opened = keep_opened()


def save(folder: str, names: Mapping[str, Any]) -> None:
    """Copy the opened runs to a folder of runs, and write the studies among the notebook's names;
    the first study of a lab is then its newest."""
    runs = Path(folder)
    for run in _opened:
        if not (runs / run.name).exists():
            shutil.copytree(run.path, runs / run.name)
    for study in reversed([study for study in _studies(names.values()) if study.runs]):
        study.write(runs)


def _studies(values: Iterable[Any]) -> Iterator[Study]:
    """The studies among values, in grids, lists and tuples, too, of every kernel."""
    for value in values:
        if isinstance(value, Study):
            yield from value.kernels
        elif isinstance(value, Grid):
            yield from _studies(value.studies.values())
        elif isinstance(value, list | tuple):
            yield from _studies(value)
