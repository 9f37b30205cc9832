"""The recorded runs that come with the project: a packed study a lab, only read.

In a clone they are in `data/` beside the package, in an installed package in `labs/recorded`.
SHA256SUMS names every file there, for `sha256sum -c SHA256SUMS` as well as for `check`.

    python -m labs.read.runs.recorded RUNS DATA [LAB-NAME]   puts runs into it, writes the sums anew

LAB.tar.xz is what a lab has; LAB-NAME.tar.xz keeps other runs of it beside that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.condition import seed_of, without_group
from labs.drive.kernel.versions import age, read_kernel_spec, release_of
from labs.drive.record.canonical import canonical, digest
from labs.drive.record.owned_path import write_whole
from labs.drive.record.study_file import read_study
from labs.errors import BadInput, Damaged, LabError, Missing
from labs.read.display.format import input_value
from labs.read.runs.listing import run_folders, runs_folder
from labs.read.runs.pack import pack
from labs.read.runs.run import Run, open_run
from labs.read.runs.unpack import is_packed, unpacked

SUMS = "SHA256SUMS"
PROSE = "DATASETS.md"
LIVE = 'TESTBED = "virtual" runs it here'
SHOWN = 3


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


def folder() -> Path:
    """Return the folder of recorded data; Missing if this installation came without."""
    package = Path(__file__).parents[2]
    for found in (package.parent / "data", package / "recorded"):
        if (found / SUMS).is_file():
            return found
    raise Missing(
        f"there is no recorded data beside {package}; install the package with its data, or {LIVE}"
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
    """Find a recorded run for each condition, given as it stands in the inputs of a run.

    Name, link, sysctls, settings, seed (of the draw) and memory must be equal; the kernel is named
    as a user names it ("6.1", "6.1.192-2", a digest). The tools and the driving code of a recorded
    run are its own. BadInput, in one line with what is recorded, for a condition that is not.
    """
    known = [
        run
        for where in places(lab, data)
        for run in map(open_run, run_folders(where))
        if run.lab == lab and run.inputs["kernel"] is not None
    ]
    wish = {"kernel": kernel, "memory_mib": memory_mib}
    return [
        _one(
            lab,
            {"condition": dict(condition), **wish, "seed": seed_of(condition["settings"], seed)},
            known,
        )
        for condition in conditions
    ]


def _one(lab: str, wished: Mapping[str, Any], known: Sequence[Run]) -> Run:
    name = wished["condition"]["name"]
    same_name = [run for run in known if run.condition == name]
    if not same_name:
        there = ", ".join(sorted({run.condition for run in known}))
        raise BadInput(
            f"the recorded data has no run of {lab} {name}"
            f"{f' (it has {there})' if there else ''}; {LIVE}"
        )
    differing = {run: _differences(wished, run) for run in same_name}
    found = [run for run, differences in differing.items() if not differences]
    if found:
        return max(found, key=lambda run: (age(run.inputs["kernel"]["version"]), run.key))
    nearest = min(differing.values(), key=len)
    said = ", ".join(nearest[:SHOWN]) + (", ..." if len(nearest) > SHOWN else "")
    raise BadInput(f"the recorded data has {lab} {name} with {said}; {LIVE}")


def _differences(wished: Mapping[str, Any], run: Run) -> list[str]:
    """What a recorded run has otherwise than wished, in words."""
    inputs = run.inputs
    found = _unequal(without_group(wished["condition"]), without_group(inputs["condition"]))
    for name in ("seed", "memory_mib"):
        if wished[name] != inputs[name]:
            found.append(f"{name} {inputs[name]}, not {wished[name]}")
    kernel = inputs["kernel"]
    if not _is_meant(wished["kernel"], kernel):
        found.append(f"kernel {kernel['version']}, not {wished['kernel']}")
    return found


def _is_meant(wish: str, kernel: Mapping[str, str]) -> bool:
    """Whether a user who names a kernel so means this one, whose package's revision a run may not
    say (6.1.192 for 6.1.192-2)."""
    version, read = kernel["version"], read_kernel_spec(wish)
    return read.matches(version, kernel["digest"]) or (
        read.form == "source" and version == release_of(wish)
    )


def _unequal(wished: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys([*wished, *recorded]):
        mine, other = wished.get(name), recorded.get(name)
        if canonical(mine) == canonical(other):
            continue
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            found += _unequal(mine, other)
        else:
            found.append(f"{name} {input_value(other)}, not {input_value(mine)}")
    return found


def keep(what: Path, data: Path, name: str | None = None) -> list[Path]:
    """Pack a finished study, or all studies of a RUNS folder that keeps one lab, into recorded
    data, in place of what it had of that lab; with a `name` (LAB-WORD), beside that.

    `data` is made if it is not there, SHA256SUMS is written anew; returns the files it names.
    BadInput for a folder with runs of several labs, or a name that is not the lab's.
    """
    labs_kept = (
        {read_study(what).lab}
        if what.is_file()
        else {open_run(folder).lab for folder in run_folders(runs_folder(what))}
    )
    if len(labs_kept) != 1:
        raise BadInput(
            f"{what} keeps runs of {', '.join(sorted(labs_kept)) or 'no lab'}; recorded "
            "data has a file a lab: name a study, or a folder with one lab's runs"
        )
    lab = labs_kept.pop()
    if name is not None and not name.startswith(f"{lab}-"):
        raise BadInput(f"{name} does not name runs of {lab}; begin it with {lab}-")
    data.mkdir(parents=True, exist_ok=True)
    pack(what, data / f"{name or lab}.tar.xz")
    return write_sums(data)


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


def check(data: Path) -> int:
    """Compare recorded data with its SHA256SUMS; return how many files it names.

    Raises Damaged, naming the first file that was changed, is missing, or is not named.
    """
    named: dict[str, str] = {}
    for line in (data / SUMS).read_text("utf-8").splitlines():
        sha256, _, name = line.partition("  ")
        named[name] = sha256
    present = {path.relative_to(data).as_posix(): path for path in _files(data)}
    for name in sorted(named.keys() | present.keys()):
        if name not in present:
            raise Damaged(f"{data / name} is missing; take {data} from the project once more")
        if name not in named or digest(present[name]) != named[name]:
            raise Damaged(
                f"{data / name} is not as {SUMS} says; take {data} from the project once more"
            )
    return len(named)


def _files(data: Path) -> list[Path]:
    return sorted(
        path for path in data.rglob("*") if path.is_file() and path.name not in (SUMS, PROSE)
    )


def main(argv: list[str]) -> int:
    """Keep a study, named by its file, or those of a RUNS folder in a folder of recorded data."""
    if len(argv) not in (2, 3):
        print("usage: python -m labs.read.runs.recorded RUNS DATA [LAB-NAME]", file=sys.stderr)
        return BadInput.exit_code
    data = Path(argv[1])
    try:
        files = keep(Path(argv[0]), data, *argv[2:])
    except LabError as error:
        print(f"labs: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{data}: {len(files)} files, {sum(file.stat().st_size for file in files)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
