"""What a folder of runs holds."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from labs.drive.record.run_folder import STUDIES
from labs.drive.record.schema import STUDY_SCHEMA
from labs.drive.record.seal import SEAL
from labs.drive.record.study_file import StudyFile, read_study
from labs.errors import BadInput, LabError
from labs.read.runs.json_schemas import held_to
from labs.read.runs.run import RUN, open_run
from labs.read.runs.schema_1 import upgraded_parameters
from labs.read.runs.unpack import is_packed, unpacked


@dataclass(frozen=True)
class Entry:
    """One run or study of a RUNS folder.

    `kind` is "run" or "study"; `problem` says in one line why it cannot be used, and what it could
    not say is then empty. `kernel` is the release that ran. `newest` is for studies: the one that
    `labs.studies` would go on with; `runs` how many it plans, `missing` how many are not made yet.
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


def runs_folder(folder: str | Path) -> Path:
    """Return the RUNS folder that is meant: a folder itself, or what is in a packed file."""
    path = Path(folder)
    if is_packed(path):
        return unpacked(path)
    if path.is_dir() and os.access(path, os.R_OK | os.X_OK):
        return path
    raise BadInput(
        f"{folder} is no folder of runs that can be read; name the folder that was "
        "given to --into, or a packed file"
    )


def run_folders(runs: Path) -> list[Path]:
    """Return the run folders in a RUNS folder, by name, without opening them."""
    return sorted(
        entry for entry in runs.iterdir() if not entry.name.startswith(".") and is_run(entry)
    )


def study_files(runs: Path) -> list[Path]:
    """Return the study files of a RUNS folder, under their names and as the newest of a lab."""
    return sorted(path for path in (runs / STUDIES).glob("*.json") if not path.name.startswith("."))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, whole or damaged."""
    return (folder / RUN).is_file() or (folder / SEAL).is_file()


def open_study(path: Path) -> StudyFile:
    """Read a study file and hold it to its schema."""
    study = read_study(path)
    held_to(STUDY_SCHEMA, study.as_json(), path)
    return replace(study, parameters=upgraded_parameters(study.parameters))


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
    second = path.with_name(f"{study.lab}.json")
    newest = second.is_file() and second.read_bytes() == path.read_bytes()
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
