"""Runs that a worker performed with its own programs, in place of the planned ones.

With --any-inputs, the key of such a run differs from the planned one. `DIR/substitutes.json` has
its key by planned key, so that a batch that is resumed does not perform it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from labs.batches.index_writer import PlannedRow
from labs.drive.record.disk import write_whole
from labs.drive.record.run_folder import run_name
from labs.drive.record.seal import pretty
from labs.drive.record.stored_files import read_json
from labs.errors import Damaged
from labs.read.runs.archive import is_run, run_folders

FILE = "substitutes.json"
KEY = re.compile(r"[0-9a-f]{64}")


def read_substitutes(folder: Path) -> dict[str, str]:
    """Keys of substitutes by planned key; none without the file. Damaged for any other content."""
    path = folder / FILE
    if not path.exists():
        return {}
    content = read_json(path)
    pairs = {str(planned): str(kept) for planned, kept in content.items()}
    if not all(KEY.fullmatch(key) for pair in pairs.items() for key in pair):
        raise Damaged(f"{path} has content other than keys of runs. Remove it")
    return pairs


def write_substitutes(folder: Path, substitutes: Mapping[str, str]) -> None:
    """Write the file atomically; do nothing without substitutes."""
    if substitutes:
        write_whole(folder / FILE, pretty(dict(substitutes)))


def in_use(
    substitutes: Mapping[str, str], rows: Iterable[PlannedRow], runs: Path
) -> dict[str, str]:
    """The substitutes that exist, of planned runs that do not."""
    folders = {row.key: row.folder for row in rows}
    kept = (
        {folder.name.rpartition("-")[2] for folder in run_folders(runs)} if runs.is_dir() else set()
    )
    return {
        planned: key
        for planned, key in substitutes.items()
        if planned in folders and not is_run(folders[planned]) and key[:12] in kept
    }


def substituted(
    rows: Iterable[PlannedRow], lab: str, runs: Path, substitutes: Mapping[str, str]
) -> list[PlannedRow]:
    """The rows, with the keys and folders of substitutes in place of the planned ones."""
    return [
        replace(
            row,
            key=substitutes[row.key],
            folder=runs / run_name(lab, row.condition, substitutes[row.key]),
        )
        if row.key in substitutes
        else row
        for row in rows
    ]
