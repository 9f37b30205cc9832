"""What runs cost: real seconds and bytes, from earlier runs that have their host.json."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.seal import HOST
from labs.drive.record.stored_files import read_json
from labs.errors import LabError
from labs.read.runs.archive import run_folders

MOST_SAMPLES = 400
"""The maximum number of earlier runs in an estimate, the newest first."""


@dataclass(frozen=True)
class Estimate:
    """An estimate from earlier runs: real seconds and bytes, and the number of these runs.

    If `runs` is 0, there is no earlier run of the lab, and the other values have no meaning.
    """

    real_s: float = 0.0
    size_bytes: float = 0.0
    runs: int = 0


def samples_of(lab: str, places: Iterable[Path]) -> dict[str, list[tuple[float, int]]]:
    """Seconds and bytes of earlier runs of a lab, by condition."""
    folders = [
        folder
        for place in dict.fromkeys(place.absolute() for place in places)
        if place.is_dir()
        for folder in run_folders(place)
        if folder.name.startswith(f"{lab}-")
    ]
    folders.sort(key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for folder in folders[:MOST_SAMPLES]:
        condition = folder.name.removeprefix(f"{lab}-").rpartition("-")[0]
        try:
            real_s = read_json(folder / HOST)["real_s"]
        except (LabError, KeyError):
            continue  # a run that was packed without its record of the machine
        if isinstance(real_s, int | float):
            found[condition].append((float(real_s), _size_bytes(folder)))
    return found


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
