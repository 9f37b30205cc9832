"""The parts of a bundle other than its runs, compared with the runs, with this package and with the
kernels that are built here. Nothing is executed.

A part that contradicts them differs. A part that nothing here can confirm, such as the environment
of another version of the project, is listed as not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.kernel import store
from labs.drive.record.stored_files import read_json
from labs.publish import bundle_contents as parts
from labs.publish.crate import (
    CITATION,
    CODE,
    COPY,
    ENVIRONMENT,
    KERNELS,
    LICENCES,
    METADATA,
    PAPERMILL,
    PREVIEW,
    ROOT,
    SUMS,
    VALUE,
    VERDICTS,
    About,
    metadata,
    sums,
)
from labs.publish.crate_preview import name_of
from labs.read.claims.moved import Comparison, PlainVerdict, rounded
from labs.read.display.format import few
from labs.read.notebook_file import NotebookFile
from labs.read.runs.run import Run
from labs.verify.bundle_check import MOST_METADATA_BYTES
from labs.verify.notebook_claims import Objection, of_parameters, of_tables
from labs.verify.recorded_verdicts import of_bundle

SHOWN = 4
NO_SUCH_KERNEL = "no kernel with this digest and such a file is built here"


def objections(
    bundle: Path,
    runs: Sequence[Run],
    notebooks: Sequence[NotebookFile],
    judged: PlainVerdict,
    compared: Comparison,
) -> Iterator[Objection]:
    """The parts of an unpacked bundle that differ or were not compared, apart from outputs that
    only executing its notebooks can check. Its checksums match. `judged` is what its verdicts.json
    would contain here; `compared` is the comparison of the words and figures of the verdicts."""
    ours = parts.code()
    stated = read_json(bundle / CODE, next_step=COPY)
    same_version = stated.get("version") == ours["version"]
    names = [name for name in sorted({*ours, *stated}) if ours.get(name) != stated.get(name)]
    if names:
        yield Objection(CODE, f"{few(names, SHOWN)} not as in the verifying code")
    here = {**parts.environment(), **parts.legal()}
    for path in _files(bundle, ENVIRONMENT, *LICENCES, CITATION):
        name = path.relative_to(bundle).as_posix()
        if here.get(name) != path.read_bytes():
            yield Objection(name, "not the file of the verifying installation")
    yield from _of_kernels(bundle, runs)
    yield from _of_metadata(bundle, runs, notebooks, str(stated.get("version")), same_version)
    verdicts = [verdict for each in judged["articles"] for verdict in each["verdicts"]]
    yield from _of_verdicts(of_bundle(bundle), verdicts, compared, same_version)
    theirs = read_json(bundle / VERDICTS, most_bytes=MOST_METADATA_BYTES, next_step=COPY)
    if _without_verdicts(theirs) != _without_verdicts(judged):
        yield Objection(VERDICTS, "articles or intervals not as judged here", same_version)
    words = {
        str(verdict["id"]): [each["verdict"] for each in (verdict, *verdict["witnesses"])]
        for verdict in verdicts
    }
    for notebook in notebooks:
        yield from of_parameters(notebook, runs)
        yield from of_tables(notebook, runs, words if len(notebooks) == 1 else {})


def _files(bundle: Path, *names: str) -> Iterator[Path]:
    """The files of these names, and those in folders of these names."""
    for name in names:
        path = bundle / name
        yield from (
            [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        )


def _of_kernels(bundle: Path, runs: Sequence[Run]) -> Iterator[Objection]:
    """The build recipes against the digests and versions that the runs name, and against the files
    of the kernels with these digests that are built here."""
    given = {path.relative_to(bundle).as_posix(): path for path in _files(bundle, KERNELS)}
    ours = parts.kernels_of(runs)
    named = {name.rpartition("/")[0] for name in ours if name.endswith(f"/{store.RECORD}")}
    for name in sorted({*given, *ours}):
        folder = "/".join(name.split("/")[:2])
        if folder not in named:
            yield Objection(name, "no run names this kernel", True)
        elif name == f"{folder}/{store.RECORD}":
            yield from _of_record(name, given.get(name), json.loads(ours[name]))
        elif name in given and given[name].read_bytes() != ours.get(name):
            yield Objection(name, NO_SUCH_KERNEL)


def _of_record(name: str, path: Path | None, ours: Mapping[str, Any]) -> Iterator[Objection]:
    """A kernel.json compared with ours or, if the kernel is not built on one side, with the digest
    and the version that the runs name. Patches with different comments build equal kernels."""
    theirs: Mapping[str, Any] = {} if path is None else read_json(path, next_step=COPY)
    both_built = "source" in theirs and "source" in ours
    versions = [
        {str(record[field]) for field in ("version", "source") if field in record}
        for record in (theirs, ours)
    ]
    same = versions[0] == versions[1] if both_built else versions[0] & versions[1]
    if theirs.get("sha256") != ours["sha256"] or not same:
        yield Objection(name, "its digest or its version is not that of the runs", True)
    if (both_built and theirs != ours) or theirs.keys() - ours.keys() - {"source", "built"}:
        yield Objection(name, NO_SUCH_KERNEL)


def _of_metadata(
    bundle: Path,
    runs: Sequence[Run],
    notebooks: Sequence[NotebookFile],
    version: str,
    same_version: bool,
) -> Iterator[Objection]:
    """The metadata, entity by entity, compared with those that this package writes for the same
    files, runs and notebooks. Those of another version may be worded differently, but must have the
    same conditions and parameters. The date of publication and the version of papermill are not
    checked."""
    graph: Any = read_json(bundle / METADATA, most_bytes=MOST_METADATA_BYTES, next_step=COPY)[
        "@graph"
    ]
    their_entities = {entity["@id"]: entity for entity in graph}
    files = [path.relative_to(bundle).as_posix() for path in _files(bundle, ".")]
    listed = [name for name in files if name not in (METADATA, PREVIEW, SUMS)]
    sizes = {name: (bundle / name).stat().st_size for name in listed}
    # The list of checksums covers the metadata, which therefore state its size without them.
    sizes[SUMS] = len(sums(dict.fromkeys(listed, b"")))
    contents = {notebook.path.name: notebook.content for notebook in notebooks}
    about = About(
        name_of(contents, runs),
        str(their_entities.get(ROOT, {}).get("datePublished")),
        version,
        str(their_entities.get(PAPERMILL, {}).get("softwareVersion")),
    )
    written = json.loads(parts.as_bytes(metadata(about, sizes, contents, runs)))
    ours = {entity["@id"]: entity for entity in written["@graph"]}
    if len(graph) != len(their_entities):
        yield Objection(METADATA, "an entity is described twice", True)
    for name in sorted({*their_entities, *ours}):
        theirs, mine = their_entities.get(name, {}), ours.get(name, {})
        if theirs != mine:
            is_value = VALUE in (theirs.get("@type"), mine.get("@type"))
            fields = [field for field in {**mine, **theirs} if theirs.get(field) != mine.get(field)]
            why = f"{few(fields, SHOWN)} of {name[:80]} not as in the files that it describes"
            if "value" in fields:
                why += f": {str(theirs.get('value'))[:80]} for {str(mine.get('value'))[:80]}"
            yield Objection(METADATA, why, is_value or same_version)


def _without_verdicts(judged: PlainVerdict) -> PlainVerdict:
    """A verdicts.json without its verdicts and intervals: the articles and their labs."""
    articles = [{**article, "verdicts": None} for article in judged["articles"]]
    return {**judged, "articles": articles, "intervals": isinstance(judged.get("intervals"), list)}


def _of_verdicts(
    theirs: Sequence[PlainVerdict],
    now: Sequence[PlainVerdict],
    compared: Comparison,
    same_version: bool,
) -> Iterator[Objection]:
    """Statements, reasons and other fields of a bundle's verdicts, compared with those computed
    from its runs here. `compared` is the comparison of the words and figures."""
    reported = {verdict.id for verdict in compared.moved} | set(compared.other_figures)
    ours = {str(verdict["id"]): verdict for verdict in now}
    other: dict[str, list[str]] = {}
    for verdict in theirs:
        mine = ours.get(str(verdict["id"]), {})
        for name in {**mine, **verdict}:
            if verdict["id"] not in reported and rounded(verdict.get(name)) != rounded(
                mine.get(name)
            ):
                other.setdefault(name, []).append(str(verdict["id"]))
    for name, claims in other.items():
        why = f"{name[:40]} of {few(claims, SHOWN)} not as judged here"
        yield Objection(VERDICTS, why, same_version)
