"""Runs that workers performed: verify them, and keep them in a folder of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labs.drive.record.disk import owned_folder, written_to
from labs.drive.record.run_folder import Staging
from labs.drive.record.seal import HOST, NOT_SEALED
from labs.drive.record.stored_files import read_json
from labs.errors import Damaged
from labs.launch.make import alone
from labs.launch.wanted import Exists, Job, Outcome, Performed, Say, Waiting
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


def keep(packed: bytes, job: Job, say: Say) -> Outcome:
    """Verify the packed run of a job, and keep it in the job's folder, named by its key.

    An existing complete run is replaced only if the job wants it fresh. Damaged for any other run
    than the job's.
    """
    planned, opened = job.planned, job.opened
    with (
        received(packed, opened.folder) as run,
        alone(
            *(planned.name, planned.title, opened.folder),
            cancelled=lambda: False,
            tell=lambda what: say(Waiting(what)),
        ),
    ):
        if run.key != planned.key:
            raise Damaged(
                f"{planned.lab} {planned.title}: a worker returned the run {run.name}. Run again"
            )
        if not job.wanted.fresh and opened.complete(planned.name):
            return Exists()
        with Staging(opened.folder, planned.name) as staging:
            for path in run.path.iterdir():
                if path.name not in NOT_SEALED:
                    path.rename(staging.folder / path.name)
            staging.seal(_host(run), hashed=run.seal)
            opened.hashed(planned.name, run.seal)
    return Performed()


def _host(run: Run) -> dict[str, object]:
    """The run's record of the machine that performed it; empty without a record."""
    try:
        return dict(read_json(run.path / HOST))
    except Damaged:
        return {}
