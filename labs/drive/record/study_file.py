"""The study file: which runs make one study, under which parameters.

`RUNS/studies/LAB-PLAN12.json`, where PLAN12 are the first 12 digits of the sha256 of its content
in canonical JSON, and `RUNS/studies/LAB.json`, the same content for the newest study of a lab.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.disk import clear_unfinished, write_whole
from labs.drive.record.run_folder import STUDIES, checked_name, run_name
from labs.drive.record.seal import key, pretty
from labs.drive.record.stored_files import MOST_JSON_BYTES, STUDY_VERSION, check_version, read_json
from labs.errors import BadInput, Damaged

# Where a study is kept is not part of it: a copy in another folder is the same study.
KEPT_ELSEWHERE = frozenset({"runs"})
PLAN_DIGITS = 12
AGAIN = "Copy it from its source again, or make the study again with `labs run`"


@dataclass(frozen=True)
class Planned:
    """One run of a plan."""

    condition: str
    key: str


@dataclass(frozen=True)
class StudyFile:
    """What a study file says; `path` is where it was read or written."""

    path: Path
    lab: str
    parameters: Mapping[str, object]
    plan: tuple[Planned, ...]

    @property
    def runs(self) -> Path:
        """The RUNS folder that keeps the study."""
        return self.path.parent.parent

    @property
    def name(self) -> str:
        """LAB-PLAN12, also when it was read as the newest study of its lab."""
        return f"{self.lab}-{key(self.as_json())[:PLAN_DIGITS]}"

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of the planned runs, made already or not."""
        return tuple(self.runs / run_name(self.lab, run.condition, run.key) for run in self.plan)

    def as_json(self) -> dict[str, object]:
        return {
            "schema": STUDY_VERSION,
            "lab": self.lab,
            "parameters": dict(self.parameters),
            "plan": [{"condition": run.condition, "key": run.key} for run in self.plan],
        }


def write_study(
    runs: Path, lab: str, parameters: Mapping[str, object], plan: Iterable[Planned]
) -> StudyFile:
    """Write a study under its own name and as the newest of its lab; return it.

    The parameter `runs` is left out. Raises BadInput or Missing if RUNS cannot be written.
    """
    kept = {name: value for name, value in parameters.items() if name not in KEPT_ELSEWHERE}
    study = StudyFile(Path(runs) / STUDIES / f"{lab}.json", lab, kept, tuple(plan))
    named = study.path.with_name(f"{study.name}.json")
    content = pretty(study.as_json())
    if len(content) > MOST_JSON_BYTES:
        raise BadInput(f"a study of {len(study.plan)} runs is too large. Divide it into several")
    if named.parent.is_symlink():  # whoever may write to RUNS could make one
        raise BadInput(f"{named.parent} is a link. Remove it, or write elsewhere with --into DIR")
    clear_unfinished(named.parent, "*.json")
    # The newest is written last: its named file always exists.
    for path in (named, study.path):
        write_whole(path, content)
    return StudyFile(named, lab, kept, study.plan)


def read_study(path: Path) -> StudyFile:
    """Read a study file.

    Raises BadInput if there is none or it has another schema, Damaged if it does not say what a
    study says, or no longer what its name was computed from.
    """
    if not path.exists() or path.is_dir():
        raise BadInput(
            f"{path} is not a study file; a study is RUNS/{STUDIES}/LAB.json: "
            "`labs runs list` shows those you have"
        )
    content = read_json(path, follow=True, next_step=AGAIN)
    check_version(content.get("schema"), str(path), STUDY_VERSION)
    study = _study(path, content)
    if path.stem != study.name and not path.with_name(f"{study.name}.json").exists():
        raise _broken(path, "was changed after it was written")
    return study


def _study(path: Path, content: Mapping[str, object]) -> StudyFile:
    lab, parameters, plan = content.get("lab"), content.get("parameters"), content.get("plan")
    if not (isinstance(lab, str) and isinstance(parameters, dict) and isinstance(plan, list)):
        raise _broken(path, "has no lab, parameters or plan")
    study = StudyFile(path, lab, parameters, tuple(_planned(path, run) for run in plan))
    try:
        checked_name(lab)
        study.folders()
    except BadInput as error:
        raise _broken(path, f"does not name a lab and its runs ({error})") from error
    return study


def _planned(path: Path, run: object) -> Planned:
    match run:
        case {"condition": str(condition), "key": str(key)}:
            return Planned(condition, key)
    raise _broken(path, "plans a run without condition and key")


def _broken(path: Path, what: str) -> Damaged:
    return Damaged(f"{path} {what}. {AGAIN}")
