"""The recorded runs that come with the project: packed files of runs, one or more per lab.

In a clone they are in `data/` next to the package, in an installed package in `labs/recorded`.
SHA256SUMS names every file there, for `sha256sum -c SHA256SUMS` as well as for `check`.
LAB.tar.xz has the runs of a lab, LAB-WORD.tar.xz further runs of it. `labs runs record` writes
both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.kernel.memory_size import guest_memory_mib
from labs.drive.kernel.versions import age, read_kernel_spec, release_of, series_of
from labs.drive.parameters.declare import did_you_mean
from labs.drive.record.disk import write_whole
from labs.drive.record.seal import canonical, digest
from labs.drive.record.stored_files import read_bytes
from labs.drive.record.study_file import read_study
from labs.errors import BadInput, Damaged, Missing
from labs.guest.condition import seed_of
from labs.read.display.format import input_value
from labs.read.runs import kept_content
from labs.read.runs.archive import (
    RUN_FOLDER,
    Packed,
    is_packed,
    origin,
    pack,
    run_folders,
    runs_folder,
    unpacked,
)
from labs.read.runs.run import Run, open_run

SUMS = kept_content.SUMS
PROSE = "DATASETS.md"
LIVE = 'To run it, set TESTBED = "virtual" (on Linux).'
SHOWN = 3
LISTED = 8
"""A line names at most this many conditions; `labs runs list` has them all."""


class NotRecorded(BadInput):
    """There is no recorded run of `condition` with what was requested."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition


def runs_of(lab: str) -> Path:
    """Return the RUNS folder with the recorded runs of a lab; Missing without recorded data."""
    return runs_in(folder(), lab)


def runs_in(data: Path, lab: str) -> Path:
    """Return the RUNS folder of a lab in a folder of recorded data: LAB.tar.xz, or itself."""
    packed = data / f"{lab}.tar.xz"
    return unpacked(packed) if is_packed(packed) else data


def places(lab: str, data: Path | None = None) -> list[Path]:
    """Return every RUNS folder with recorded runs of a lab: that of LAB.tar.xz, and those of
    LAB-NAME.tar.xz; Missing without recorded data."""
    where = folder() if data is None else data
    others = [unpacked(path) for path in sorted(where.glob(f"{lab}-*.tar.xz"))]
    return [runs_in(where, lab), *others]


def is_recorded(run: Path) -> bool:
    """Whether a run is in the folder of recorded data, or was unpacked from a file there."""
    try:
        return origin(run).is_relative_to(folder().resolve())
    except Missing:
        return False


def folder() -> Path:
    """Return the folder of recorded data; Missing if this installation has none."""
    for place in kept_content.FOLDERS:
        if (place / SUMS).is_file():
            return place
    raise Missing(
        f"there is no recorded data in {kept_content.FOLDERS[0]}. Install the package with its "
        f"data. {LIVE}"
    )


def matching(
    lab: str,
    conditions: Iterable[Mapping[str, Any]],
    *,
    kernel: str,
    seed: int,
    memory_mib: int,
    data: Path | None = None,
) -> list[Run]:
    """Find a recorded run for each condition, which is given in the form of a run's inputs.

    Name, link, sysctls, settings, seed (of the draw) and memory (`memory_mib`, or what the kernel
    needs at least) must be equal; the kernel is named
    as a user names it ("6.1", "6.1.192-2", a digest). The tools and the driving code of a recorded
    run are its own. NotRecorded, in one line with what is recorded, for a condition that is not.
    """
    every = _folders(places(lab, data))

    def equal(condition: Mapping[str, Any], runs: Sequence[Run]) -> Run:
        return equal_to(lab, condition, runs, kernel=kernel, seed=seed, memory_mib=memory_mib)

    matches: list[Run] = []
    recorded: list[Run] = []
    for condition in conditions:
        prefix = f"{lab}-{condition['name']}-"
        named = [
            path
            for path in every
            if path.name.startswith(prefix) or not RUN_FOLDER.search(path.name)
        ]
        try:
            matches.append(equal(condition, _in_virtual_time(lab, named)))
        except NotRecorded:  # the message needs all runs; one may have the name of another
            recorded = recorded or _in_virtual_time(lab, every)
            matches.append(equal(condition, recorded))
    return matches


def repetitions(
    lab: str, conditions: Iterable[Mapping[str, Any]], testbed: str, data: Path | None = None
) -> list[Run]:
    """Find every recorded repetition of each condition on a testbed in real time.

    The conditions are given in the form of a run's inputs. NotRecorded, in one line, for a
    condition without a run.
    """
    recorded = [
        run
        for run in map(open_run, _folders(places(lab, data)))
        if (run.lab, run.testbed) == (lab, testbed) and run.repetition is not None
    ]
    by_name: dict[str, list[Run]] = {}
    for run in recorded:
        by_name.setdefault(run.condition, []).append(run)
    matches: list[Run] = []
    for condition in conditions:
        same_name = by_name.get(condition["name"], [])
        equal = [run for run in same_name if not unequal(condition, run.condition_asked.as_json())]
        if not equal:
            raise NotRecorded(condition["name"], _without_equal(condition, recorded, testbed))
        matches += sorted(equal, key=lambda run: run.repetition or 0)
    return matches


def _without_equal(condition: Mapping[str, Any], recorded: Sequence[Run], testbed: str) -> str:
    """The message for a condition without a recorded repetition: what is recorded instead."""
    name = condition["name"]
    live = f'To run it, set TESTBED = "{testbed}" (as root, on Linux).'
    others = [run.condition_asked.as_json() for run in recorded if run.condition == name]
    if others:
        difference = ", ".join(
            min((unequal(condition, other) for other in others), key=len)[:SHOWN]
        )
        return f"no recorded run of `{name}` with {difference}. {live}"
    available = sorted({run.condition for run in recorded}) or ["none"]
    listed = ", ".join(available) if len(available) <= LISTED else f"{len(available)} others"
    hint = did_you_mean(name, available)
    return f"no recorded run of `{name}`{hint} (recorded: {listed}). {live}"


def in_virtual_time(lab: str, folders: Iterable[Path]) -> list[Run]:
    """Open the runs of a lab in virtual time that are in these RUNS folders."""
    return _in_virtual_time(lab, _folders(folders))


def _folders(places: Iterable[Path]) -> list[Path]:
    return [folder for place in places for folder in run_folders(place)]


def _in_virtual_time(lab: str, folders: Iterable[Path]) -> list[Run]:
    runs = map(open_run, folders)
    return [run for run in runs if run.lab == lab and run.inputs["kernel"] is not None]


def equal_to(
    lab: str,
    condition: Mapping[str, Any],
    recorded: Sequence[Run],
    *,
    kernel: str,
    seed: int,
    memory_mib: int,
) -> Run:
    """The run in `recorded` that is equal to a condition as `matching` has it; else NotRecorded."""
    wish = {"kernel": kernel, "memory_mib": memory_mib}
    drawn = seed_of(condition["settings"], seed)
    return _one(lab, {"condition": dict(condition), **wish, "seed": drawn}, recorded)


def _one(lab: str, requested: Mapping[str, Any], recorded: Sequence[Run]) -> Run:
    name = requested["condition"]["name"]
    same_name = [run for run in recorded if run.condition == name]
    if not same_name:
        available = sorted({run.condition for run in recorded}) or ["none"]
        near = did_you_mean(name, available)
        listed = ", ".join(available) if len(available) <= LISTED else f"{len(available)} others"
        raise NotRecorded(name, f"no recorded run of `{name}`{near} (recorded: {listed}). {LIVE}")
    differing = {run: differences(requested, run) for run in same_name}
    equal = [run for run, differences in differing.items() if not differences]
    if equal:
        return max(equal, key=lambda run: (age(run.inputs["kernel"]["version"]), run.key))
    nearest = min(differing.values(), key=len)
    difference = ", ".join(nearest[:SHOWN]) + (", ..." if len(nearest) > SHOWN else "")
    raise NotRecorded(name, f"no recorded run of `{name}` with {difference}. {LIVE}")


def differences(requested: Mapping[str, Any], run: Run) -> list[str]:
    """What was requested and is different in a recorded run, in words."""
    inputs = run.inputs
    differing = unequal(requested["condition"], run.condition_asked.as_json())
    kernel = inputs["kernel"]
    memory_mib = guest_memory_mib(requested["memory_mib"], series_of(kernel["version"]))
    for name, wanted in (("seed", requested["seed"]), ("memory_mib", memory_mib)):
        if wanted != inputs[name]:
            differing.append(f"{name} = {wanted} (recorded: {inputs[name]})")
    if not _is_meant(requested["kernel"], kernel):
        differing.append(f"kernel = {requested['kernel']} (recorded: {kernel['version']})")
    return differing


def _is_meant(wish: str, kernel: Mapping[str, str]) -> bool:
    """Whether the name that a user gave for a kernel means this one; a run may lack the revision
    of its package (6.1.192 for 6.1.192-2)."""
    version, read = kernel["version"], read_kernel_spec(wish)
    return read.matches(version, kernel["digest"]) or (
        read.form == "source" and version == release_of(wish)
    )


def unequal(requested: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """What was requested and is different in a recorded condition, in words."""
    differing: list[str] = []
    for name in dict.fromkeys([*requested, *recorded]):
        mine, other = requested.get(name), recorded.get(name)
        if canonical(mine) == canonical(other):
            continue
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            differing += unequal(mine, other)
        else:
            differing.append(f"{name} = {input_value(mine)} (recorded: {input_value(other)})")
    return differing


def keep(what: Path, data: Path, name: str | None = None) -> Packed:
    """Pack runs into the file that `file_for` names, in place of what it had; write SHA256SUMS.

    `data` is created if it does not exist. Every run is verified first, as `pack` does.
    """
    out = file_for(what, data, name)
    data.mkdir(parents=True, exist_ok=True)
    packed = pack(what, out)
    write_sums(data)
    return packed


def file_for(what: Path, data: Path, name: str | None = None) -> Path:
    """Return the file of recorded data for a study, or for all studies of a RUNS folder with runs
    of one lab: LAB.tar.xz, or with a `name` (LAB-WORD) that file beside it.

    BadInput for runs of several labs, a name that does not begin with the lab's, or a folder with
    files that are not recorded data.
    """
    lab_names = (
        {read_study(what).lab}
        if what.is_file() and not is_packed(what)
        else {open_run(folder).lab for folder in run_folders(runs_folder(what))}
    )
    if len(lab_names) != 1:
        raise BadInput(
            f"{what} has runs of {', '.join(sorted(lab_names)) or 'no lab'}. A file of recorded "
            "data contains runs of one lab. Name a study file, or a folder with runs of one lab"
        )
    lab = lab_names.pop()
    if name is not None and re.fullmatch(rf"{re.escape(lab)}-[\w-]+", name) is None:
        raise BadInput(
            f"{name} cannot name runs of {lab}. "
            f"Allowed: {lab}-WORD, of letters, digits, hyphens and underscores"
        )
    if data.exists() and not (data / SUMS).is_file() and not _is_empty(data):
        raise BadInput(
            f"{data} is not a folder of recorded data: it has no {SUMS}. "
            "Name one that has it, or a new folder"
        )
    return data / f"{name or lab}.tar.xz"


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def write_sums(data: Path) -> list[Path]:
    """Write SHA256SUMS over every file of recorded data but itself and the prose."""
    files = _files(data)
    write_whole(
        data / SUMS,
        "".join(
            f"{digest(path)}  {path.relative_to(data).as_posix()}\n" for path in files
        ).encode(),
    )
    return files


def checksums(data: Path) -> dict[str, str]:
    """The SHA-256 of each file of recorded data, by its name, as SHA256SUMS has it."""
    named: dict[str, str] = {}
    for line in read_bytes(data / SUMS).decode("utf-8", "replace").splitlines():
        sha256, _, name = line.partition("  ")
        named[name] = sha256
    return named


def check(data: Path) -> int:
    """Compare recorded data with its SHA256SUMS; return how many files it names.

    Raises Damaged, naming the first file that was changed, is missing, or is not named.
    """
    named = checksums(data)
    present = {path.relative_to(data).as_posix(): path for path in _files(data)}
    for name in sorted(named.keys() | present.keys()):
        if name not in present:
            raise Damaged(f"{data / name} is missing. Copy {data} from the project again")
        if name not in named or digest(present[name]) != named[name]:
            raise Damaged(
                f"{data / name} does not match {SUMS}. Copy {data} from the project again"
            )
    return len(named)


def _files(data: Path) -> list[Path]:
    return sorted(
        path for path in data.rglob("*") if path.is_file() and path.name not in (SUMS, PROSE)
    )
