"""What a folder of runs holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from labs.drive.record.stored_files import MOST_JSON_BYTES, read_bytes
from labs.errors import Damaged, LabError
from labs.read.runs.archive import is_run, run_folders, runs_folder, study_files
from labs.read.runs.run import open_run
from labs.read.runs.schemas import open_study


@dataclass(frozen=True)
class Entry:
    """One run or study of a RUNS folder.

    `kind` is "run" or "study"; `problem` says in one line why it cannot be used, and what it could
    not say is then empty. `kernel` is the release that ran. `newest` is for studies: the one that
    `labs.studies` would resume; `runs` is the number of planned runs, `missing` of missing ones.
    """

    kind: str
    name: str
    path: Path
    lab: str = ""
    condition: str = ""
    key: str = ""
    digest: str = ""
    testbed: str = ""
    kernel: str = ""
    ended: str = ""
    link: str = ""
    newest: bool = False
    runs: int = 0
    missing: int = 0
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "path": str(self.path)}


def index(folder: str | Path) -> list[Entry]:
    """List the runs of a RUNS folder (or a packed file), by name, and then its studies.

    Every run is verified; a damaged one is listed with what is wrong. Raises BadInput if there is
    no such folder.
    """
    runs = runs_folder(folder)
    studies = map(_study_entry, study_files(runs))
    return [
        *map(_run_entry, run_folders(runs)),
        *(entry for entry in studies if entry.problem or entry.path.stem != entry.lab),
    ]


def _run_entry(folder: Path) -> Entry:
    try:
        run = open_run(folder)
    except LabError as error:
        return Entry("run", folder.name, folder, problem=str(error))
    return Entry(
        "run",
        run.name,
        folder,
        lab=run.lab,
        condition=run.condition,
        key=run.key,
        digest=run.digest,
        testbed=run.testbed,
        kernel=run.kernel.release,
        ended=run.ended,
        link=run.link.verdict,
    )


def _study_entry(path: Path) -> Entry:
    try:
        study = open_study(path)
    except LabError as error:
        return Entry("study", path.stem, path, problem=str(error))
    newest = _content(path.with_name(f"{study.lab}.json")) == _content(path)
    missing = sum(not is_run(folder) for folder in study.folders())
    return Entry(
        "study",
        study.name,
        path,
        lab=study.lab,
        newest=newest,
        runs=len(study.plan),
        missing=missing,
    )


def _content(path: Path) -> bytes | None:
    try:
        return read_bytes(path, most_bytes=MOST_JSON_BYTES, follow=True)
    except Damaged:
        return None
