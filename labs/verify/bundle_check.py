"""Check an unpacked bundle from somebody else; nothing in it is executed, shown or fetched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.record.seal import digest
from labs.drive.record.stored_files import read_bytes, read_json
from labs.errors import Damaged
from labs.publish.crate import ALLOWED, COPY, METADATA, NOTEBOOKS, PREVIEW, SUMS, VERDICTS
from labs.publish.crate_preview import NOT_LISTED, preview
from labs.read.notebook_file import NotebookFile, read_notebook
from labs.read.runs.raw_files import UNEXPECTED
from labs.read.runs.run import Run

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
ROOT = "./"
MOST_SUMS_BYTES = 16 << 20
MOST_METADATA_BYTES = 64 << 20
"""Of the metadata, with an entity per run, and of the verdicts."""
DATA = frozenset(("File", "Dataset", "MediaObject"))


def check(bundle: Path) -> tuple[int, tuple[NotebookFile, ...]]:
    """The number of files of a bundle, and its notebooks as data.

    Damaged, in one line, for a file that was changed, is missing or does not belong there; for
    metadata that describe other files or point elsewhere; and for an invalid notebook.
    """
    names = check_sums(bundle)
    about = read_json(bundle / METADATA, most_bytes=MOST_METADATA_BYTES, next_step=COPY)
    check_metadata(about, names)
    read_json(bundle / VERDICTS, most_bytes=MOST_METADATA_BYTES, next_step=COPY)
    notebooks = sorted((bundle / NOTEBOOKS).glob("*.ipynb"))
    return len(names) + 1, tuple(read_notebook(path, follow=False) for path in notebooks)


def check_sums(bundle: Path) -> tuple[str, ...]:
    """The names of the files of an unpacked bundle, each compared with SHA256SUMS.

    Damaged, naming the first file that was changed, is missing, is not listed, or that no bundle
    contains, such as a lab of somebody's own.
    """
    present = {}
    for path in sorted(bundle.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise Damaged(f"{path} is a link or a device. Allowed: regular files. {COPY}")
        if path.is_file():
            present[path.relative_to(bundle).as_posix()] = path
    foreign = next((name for name in present if not ALLOWED.fullmatch(name)), None)
    if foreign is not None:
        raise Damaged(
            f"the bundle contains {foreign!r}, and no bundle of this version does. Nothing of it "
            "was executed. Allowed: notebooks, runs, verdicts, kernels and metadata"
        )
    content = read_bytes(bundle / SUMS, most_bytes=MOST_SUMS_BYTES, next_step=COPY)
    lines = content.decode("utf-8", "replace").splitlines()
    listed = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
    if len(listed) != len(lines):
        raise Damaged(f"{SUMS} of the bundle lists a file twice. {COPY}")
    present.pop(SUMS)
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            raise Damaged(f"{name!r} of the bundle is missing. {COPY}")
        if listed.get(name) != digest(present[name]):
            raise Damaged(f"{name!r} of the bundle does not match {SUMS}. {COPY}")
    return tuple(listed)


def check_metadata(metadata: Mapping[str, Any], names: Collection[str]) -> None:
    """Damaged unless the metadata describe exactly these files. Another context, which a program
    would fetch, and parts that are elsewhere are refused."""
    graph = metadata.get("@graph")
    if metadata.get("@context") != CONTEXT or not isinstance(graph, list):
        raise Damaged(f"{METADATA} of the bundle is not an RO-Crate 1.1 of `labs bundle`. {COPY}")
    described = set()
    for entity in graph:
        identifier, kinds = _identified(entity)
        if identifier == ROOT or not DATA & kinds:
            continue
        if identifier not in (*names, SUMS):
            raise Damaged(
                f"{METADATA} of the bundle describes {identifier[:80]!r}, which the bundle does "
                f"not contain. Nothing was fetched. {COPY}"
            )
        described.add(identifier)
    missing = sorted({*names, SUMS} - described - {METADATA, PREVIEW})
    if missing:
        raise Damaged(f"{METADATA} of the bundle does not describe {missing[0]!r}. {COPY}")


def _identified(entity: object) -> tuple[str, frozenset[str]]:
    """The identifier and the types of an entity; Damaged without them."""
    if isinstance(entity, dict) and isinstance(entity.get("@id"), str):
        kinds = entity.get("@type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds):
            return str(entity["@id"]), frozenset(kinds)
    raise Damaged(f"{METADATA} of the bundle has an entity without @id or @type. {COPY}")


def check_preview(bundle: Path, notebooks: Sequence[NotebookFile], runs: Sequence[Run]) -> None:
    """Damaged unless the page of an unpacked bundle is byte-identical to the one generated from its
    other files, which were verified before."""
    files = {
        path.relative_to(bundle).as_posix(): path for path in bundle.rglob("*") if path.is_file()
    }
    verdicts = read_json(bundle / VERDICTS, most_bytes=MOST_METADATA_BYTES, next_step=COPY)
    try:
        genuine = preview(
            {name: path for name, path in files.items() if name not in NOT_LISTED},
            {notebook.path.name: notebook.content for notebook in notebooks},
            runs,
            verdicts,
        )
    except UNEXPECTED as error:
        raise Damaged(
            f"{PREVIEW} of the bundle cannot be compared: {VERDICTS} or the metadata of a notebook "
            f"has an unexpected form ({type(error).__name__}). Do not open it. {COPY}"
        ) from error
    if read_bytes(bundle / PREVIEW, next_step=COPY) != genuine:
        raise Damaged(
            f"{PREVIEW} of the bundle is not the page that this version of labs writes for its "
            f"files, and may run a script. Do not open it. {COPY}"
        )
