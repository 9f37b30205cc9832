"""Write a bundle: executed notebooks, their runs and what describes both, as one RO-Crate zip.

The same notebooks, runs and day give the same bytes: names are sorted, times and modes are fixed.
The day is today's in UTC, or that of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from labs.drive.record.disk import owned_folder, whole_file
from labs.drive.record.seal import digest
from labs.errors import BadInput
from labs.publish import bundle_contents as parts
from labs.publish.bundled_notebook import Executed, executed, is_executed, taken
from labs.publish.crate import (
    CODE,
    METADATA,
    NOTEBOOKS,
    PREVIEW,
    SUMS,
    VERDICTS,
    About,
    metadata,
    sums,
)
from labs.publish.crate_preview import name_of, preview
from labs.publish.page_parameters import Scalar
from labs.read.notebook_file import NotebookFile
from labs.read.runs.archive import BUNDLED, count_runs, pack_contents, run_folders, unpacked
from labs.read.runs.run import open_run
from labs.read.runs.zip_file import ENDING

Tell = Callable[[str], None]
FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can hold."""
MODE = 0o100644
STORED = (".xz",)
EPOCH = "SOURCE_DATE_EPOCH"


@dataclass(frozen=True)
class Bundle:
    """A written bundle: its file, and how many notebooks, runs and files it holds."""

    path: Path
    size_bytes: int
    sha256: str
    notebooks: int
    runs: int
    files: int

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "path": str(self.path)}


def check_out(out: Path) -> None:
    """BadInput for a name that is not that of a zip file."""
    if out.suffix != ENDING:
        raise BadInput(f"{out}: the name of a bundle must end in {ENDING}")


def will_execute(notebook: NotebookFile, values: Mapping[str, Scalar]) -> bool:
    """Whether a notebook is executed for the bundle. One that papermill has executed is included
    as it is, unless parameters are given."""
    return bool(values) or not is_executed(notebook)


def write(
    out: Path,
    notebooks: Sequence[tuple[NotebookFile, Mapping[str, Scalar]]],
    runs: Sequence[Path],
    *,
    tell: Tell,
    progress: bool = False,
) -> Bundle:
    """Execute the notebooks where necessary, and write them to `out` with their runs and `runs`.

    BadInput without any run, for two notebooks with the same name, or for two runs with the same
    name and different bytes. If a notebook stops, its error is raised and `out` is unchanged.
    """
    check_out(out)
    names = [notebook.path.stem for notebook, _ in notebooks]
    if len(set(names)) < len(names):
        raise BadInput(f"two notebooks are named {max(names, key=names.count)}. Rename one")
    published = day()
    with owned_folder("labs-bundle-", Path(tempfile.gettempdir())) as folder:
        done: list[Executed] = []
        for notebook, values in notebooks:
            if will_execute(notebook, values):
                tell(f"executing {notebook.path}")
                done.append(executed(notebook, values, folder, progress=progress))
            else:
                tell(f"{notebook.path} has been executed and is taken as it is")
                done.append(taken(notebook))
        folders = [
            notebook.runs
            for notebook in done
            if notebook.runs is not None and any(notebook.runs.iterdir())
        ]
        contents = parts.every_content([*folders, *runs])
        if not count_runs(contents):
            raise BadInput(
                "the bundle would contain no run. Name the runs of the notebooks: a folder given "
                "to --into, or a packed file"
            )
        tell(f"packing {count_runs(contents)} runs")
        packed = pack_contents(contents, folder / BUNDLED).path
        files = _files(done, packed, published)
        with whole_file(out) as file:
            _write(files, file)
    return Bundle(out, out.stat().st_size, digest(out), len(done), count_runs(contents), len(files))


def day() -> str:
    """The day of publication; BadInput for a SOURCE_DATE_EPOCH that is not a time."""
    given = os.environ.get(EPOCH)
    try:
        moment = time.gmtime(None if given is None else int(given))
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"{EPOCH}={given} is not a time. Give seconds since 1970") from None
    return time.strftime("%Y-%m-%d", moment)


def _files(notebooks: Sequence[Executed], packed: Path, published: str) -> dict[str, bytes]:
    """All files of a bundle by name; the notebooks are described in the order of their names."""
    notebooks = sorted(notebooks, key=lambda notebook: notebook.name)
    folder = unpacked(packed)
    runs = [open_run(path) for path in run_folders(folder)]
    verdicts = parts.as_bytes(parts.verdicts_on(folder, runs))
    code = parts.code()
    files = {
        **{f"{NOTEBOOKS}/{notebook.name}": notebook.content for notebook in notebooks},
        BUNDLED: packed.read_bytes(),
        VERDICTS: verdicts,
        CODE: parts.as_bytes(code),
        **parts.environment(),
        **parts.kernels_of(runs),
        **parts.legal(),
    }
    contents = {notebook.name: json.loads(notebook.content) for notebook in notebooks}
    about = About(name_of(contents, runs), published, code["version"], version("papermill"))
    # The checksums cover the metadata and the page, which therefore cannot contain theirs.
    described = {**files, SUMS: sums(files)}
    page = preview(files, contents, runs, json.loads(verdicts))
    sizes = {name: len(content) for name, content in described.items()}
    graph = parts.as_bytes(metadata(about, sizes, contents, runs))
    listed = {**files, PREVIEW: page, METADATA: graph}
    return {**listed, SUMS: sums(listed)}


def _write(files: Mapping[str, bytes], file: IO[bytes]) -> None:
    """Write a zip file whose first member is the metadata, as RO-Crate recommends."""
    with zipfile.ZipFile(file, "w", allowZip64=False) as parcel:
        for name in sorted(files, key=lambda name: (name != METADATA, name)):
            member = zipfile.ZipInfo(name, FIRST_DAY)
            member.create_system, member.external_attr = 3, MODE << 16
            stored = name.endswith(STORED)
            member.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
            parcel.writestr(member, files[name])
