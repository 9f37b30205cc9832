"""What runs cost: real seconds and bytes, from earlier runs that have their host.json."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from labs.drive.record.seal import HOST, RUN, canonical
from labs.drive.record.stored_files import read_json
from labs.errors import LabError
from labs.read.runs.archive import run_folders
from labs.read.runs.raw_files import UNEXPECTED

Kind = TypeVar("Kind")
MOST_SAMPLES = 400
"""The maximum number of earlier runs in an estimate, the newest first."""


@dataclass(frozen=True)
class Estimate:
    """An estimate: real seconds and bytes, the number of earlier runs that it is from, and the
    number of planned runs that it `covers`. Of these, `rough` ones have other settings than every
    earlier run of their condition. Runs not covered have no earlier run of their condition.
    """

    real_s: float = 0.0
    size_bytes: float = 0.0
    runs: int = 0
    covers: int = 0
    rough: int = 0


def name_of(condition: Any) -> str:
    """The name of a condition, given in the form of a run's inputs."""
    return str(condition["name"])


def kind_of(condition: Any) -> tuple[str, str]:
    """What makes runs cost alike: the condition's name and settings. Its link may differ."""
    settings = {name: value for name, value in condition["settings"].items() if name != "draw"}
    return name_of(condition), canonical(settings).decode()


def samples_of(
    lab: str, places: Iterable[Path], kind: Callable[[Any], Kind]
) -> dict[Kind, list[tuple[float, int]]]:
    """Seconds and bytes of earlier runs of a lab, by the kind of their conditions."""
    folders = [
        folder
        for place in dict.fromkeys(place.absolute() for place in places)
        if place.is_dir()
        for folder in run_folders(place)
        if folder.name.startswith(f"{lab}-")
    ]
    folders.sort(key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    samples: dict[Kind, list[tuple[float, int]]] = defaultdict(list)
    for folder in folders[:MOST_SAMPLES]:
        try:
            real_s: Any = read_json(folder / HOST)["real_s"]
            inputs: Any = read_json(folder / RUN)["inputs"]
            of_run = kind(inputs["condition"])
        except (LabError, *UNEXPECTED):
            continue  # a run that was packed without its record of the machine, or is damaged
        if isinstance(real_s, int | float):
            samples[of_run].append((float(real_s), _size_bytes(folder)))
    return samples


def _size_bytes(folder: Path) -> int:
    return sum(
        (Path(where) / name).lstat().st_size
        for where, _, names in os.walk(folder)
        for name in names
    )


def median_of(samples: Sequence[tuple[float, int]]) -> Estimate:
    """The median of the seconds, and that of the bytes."""
    if not samples:
        return Estimate()
    return Estimate(
        statistics.median(real_s for real_s, _ in samples),
        statistics.median(size for _, size in samples),
        len(samples),
    )
