"""Verify complete runs that were performed elsewhere, and keep them in a folder of runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from labs.drive.record.disk import owned_folder, written_to
from labs.drive.record.run_folder import Staging, run_name
from labs.drive.record.seal import HOST, NOT_SEALED, compute
from labs.drive.record.stored_files import read_json
from labs.errors import Damaged
from labs.launch.make import alone
from labs.launch.wanted import Exists, Opened, Outcome, Performed
from labs.read.runs import raw_files
from labs.read.runs.archive import run_folders, unpack
from labs.read.runs.run import Run, open_run

RECEIVED = ".received-"


@contextmanager
def received(packed: bytes, runs: Path) -> Iterator[Run]:
    """Unpack a packed run in a temporary folder of `runs`, and verify it as untrusted input.

    Damaged if it is not exactly one sealed run whose key matches its inputs and whose raw output
    can be read.
    """
    with written_to(runs):
        runs.mkdir(parents=True, exist_ok=True)
        with owned_folder(RECEIVED, runs) as folder:
            file = folder / "run.tar.gz"
            file.write_bytes(packed)
            folders = run_folders(unpack(file, folder / "content"))
            if len(folders) != 1:
                raise Damaged(f"a worker returned {len(folders)} runs instead of one. Run again")
            run = open_run(folders[0])
            raw_files.check(run.path, run.seal.files)
            yield run


def keep(
    run: Run,
    opened: Opened,
    *,
    title: str,
    tell: Callable[[str], None],
    fresh: bool = False,
    move: bool = False,
) -> Outcome:
    """Copy a verified run into a folder of runs, named by its key. `tell` receives what this
    waits for.

    An existing complete run is replaced only if `fresh`. The files of a folder that only this
    process has are moved (`move`), not copied. Damaged if the run changes while it is copied.
    """
    name = run_name(run.lab, run.condition, run.key)
    with alone(name, title, opened.folder, lambda: False, tell):
        if not fresh and opened.complete(name):
            return Exists()
        with Staging(opened.folder, name) as staging:
            if move:
                _move(run.path, staging.folder)
            else:
                _copy(run.path, staging.folder)
            if not move and compute(staging.folder) != run.seal:
                raise Damaged(f"{run.path} was changed while it was copied. Run again")
            staging.seal(_host(run), hashed=run.seal)
            opened.hashed(name, run.seal)
    return Performed()


def _move(run: Path, into: Path) -> None:
    """Move all files of a run except the two that sealing writes."""
    for entry in run.iterdir():
        if entry.name not in NOT_SEALED:
            entry.rename(into / entry.name)


def _copy(run: Path, into: Path) -> None:
    """Copy all files of a run except the two that sealing writes."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        return set(names) & NOT_SEALED if Path(folder) == run else set()

    shutil.copytree(run, into, ignore=left_out, copy_function=shutil.copyfile, dirs_exist_ok=True)


def _host(run: Run) -> dict[str, object]:
    """The run's record of the machine that performed it; empty without a record."""
    try:
        return dict(read_json(run.path / HOST))
    except Damaged:
        return {}
