"""Bundles that somebody might send, each wrong in one way: as a zip file, or in what it contains.

`made` writes a bundle as `labs bundle` does; `HOSTILE` has one function per bundle, from the files
of a good one to the bytes of a bad one.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from labs.catalog import find
from labs.publish import bundle
from labs.publish.crate import CODE, LOCK, METADATA, PREVIEW, SUMS, VERDICTS, sums
from labs.publish.crate_preview import NOT_LISTED, POLICY, preview
from labs.read.claims.sources import Source, verdicts_from
from labs.read.display.rich_output import Table
from labs.read.notebook_file import read_notebook
from labs.read.runs import recorded
from labs.read.runs.archive import BUNDLED, run_folders
from labs.read.runs.run import open_run
from labs.verify.verify import subject_of
from tests.run_folders import make_run, make_study, reseal

Files = Mapping[str, bytes]
NOTEBOOK = "notebooks/book.ipynb"
MARKUP = "<script>alert(1)</script><img src=http://example.org/x onerror=alert(2)>"


def notebook(folder: Path, title: str = "A title", output: str = "42") -> Path:
    """An executed notebook, as papermill leaves one."""
    cell = new_code_cell("6 * 7", outputs=[new_output("execute_result", {"text/plain": output})])
    cell.metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    first = new_code_cell("RATE_MBIT = 10\nRUNS = 'runs'", metadata={"tags": ["parameters"]})
    book = new_notebook(cells=[new_markdown_cell(f"# {title}"), first, cell])
    for at, book_cell in enumerate(book.cells):
        book_cell["id"] = f"cell-{at}"
    given = {"RATE_MBIT": 10, "NOTE": MARKUP}
    lines = "\n".join(f"{name} = {value!r}" for name, value in given.items())
    book.cells.insert(2, new_code_cell(lines, metadata={"tags": ["injected-parameters"]}))
    book.cells[2]["id"] = "injected"
    book.metadata["papermill"] = {"parameters": given, "start_time": "2026-01-01T00:00:00"}
    path = folder / "book.ipynb"
    nbformat.write(book, path)
    return path


def made(folder: Path, title: str = "A title") -> Path:
    """A bundle of a notebook that was executed before, and of a study of two runs."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = folder / "runs"
    if not runs.exists():
        make_study(runs)
    book = read_notebook(notebook(folder, title))
    out = folder / "good.zip"
    bundle.write(out, [(book, {})], [runs], tell=lambda line: None)
    return out


def files_of(packed: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(packed) as parcel:
        return {name: parcel.read(name) for name in parcel.namelist()}


def summed(files: Files) -> dict[str, bytes]:
    """The files with the checksums that they should have."""
    listed = {name: content for name, content in files.items() if name != SUMS}
    return {**listed, SUMS: sums(listed)}


def with_page(good: Path, files: Files) -> dict[str, bytes]:
    """Files of a forged bundle with the page that follows from them, and their checksums."""
    listed = {name: content for name, content in files.items() if name not in NOT_LISTED}
    books = {Path(name).name: json.loads(files[name]) for name in listed if ".ipynb" in name}
    page = preview(listed, books, subject_of(good).runs, json.loads(files[VERDICTS]))
    return summed({**files, PREVIEW: page})


def zipped(files: Files, *further: tuple[zipfile.ZipInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as parcel:
        for name, content in files.items():
            parcel.writestr(name, content)
        for member, content in further:
            parcel.writestr(member, content)
    return stream.getvalue()


def with_file(name: str, content: bytes = b"x") -> Callable[[Files], bytes]:
    """One more file, summed and described."""

    def change(files: Files) -> bytes:
        about = json.loads(files[METADATA])
        about["@graph"].append({"@id": name, "@type": "File"})
        return zipped(summed({**files, METADATA: json.dumps(about).encode(), name: content}))

    return change


def with_member(name: str, mode: int = 0, **fields: Any) -> Callable[[Files], bytes]:
    """One more member of the zip file, with a mode and other fields."""

    def change(files: Files) -> bytes:
        member = zipfile.ZipInfo(name)
        member.create_system, member.external_attr = 3, mode << 16
        for field, value in fields.items():
            setattr(member, field, value)
        return zipped(files, (member, b"/etc/passwd"))

    return change


def changed(name: str, content: Callable[[bytes], bytes], *, resum: bool = True) -> Any:
    """One file with other content."""

    def change(files: Files) -> bytes:
        changed = {**files, name: content(files[name])}
        return zipped(summed(changed) if resum else changed)

    return change


def described(change: Callable[[dict[str, Any]], None]) -> Any:
    """Other metadata."""

    def content(old: bytes) -> bytes:
        about = json.loads(old)
        change(about)
        return json.dumps(about).encode()

    return changed(METADATA, content)


def page(markup: str) -> Any:
    """Further markup in the preview."""
    return changed(PREVIEW, lambda old: old.replace(b"<h1>", markup.encode() + b"<h1>"))


def without_policy(markup: str) -> Any:
    """A page without a policy, which has the text of one in a paragraph, and further markup."""

    def content(old: bytes) -> bytes:
        text = old.decode().replace("http-equiv", "name")
        return text.replace("<h1>", f'<p>content="{POLICY}"</p>{markup}<h1>').encode()

    return changed(PREVIEW, content)


def patched(at: int, format: str, *values: int) -> Callable[[Files], bytes]:
    """Other numbers in the end of the zip directory (APPNOTE 4.3.16)."""

    def change(files: Files) -> bytes:
        content = bytearray(zipped(files))
        struct.pack_into(format, content, len(content) - 22 + at, *values)
        return bytes(content)

    return change


def first_entry(at: int, format: str, *values: int) -> Callable[[Files], bytes]:
    """Other numbers in the first entry of the zip directory (APPNOTE 4.3.12)."""

    def change(files: Files) -> bytes:
        content = bytearray(zipped(files))
        struct.pack_into(format, content, content.index(b"PK\1\2") + at, *values)
        return bytes(content)

    return change


def flipped(files: Files) -> bytes:
    """One byte of a stored member."""
    member = zipfile.ZipInfo("notebooks/y.ipynb")
    content = zipped(files, (member, b"abcdefgh" * 9))
    return content.replace(b"abcdefgh", b"abcdefgX", 1)


def overlapping(files: Files) -> bytes:
    """Two entries with the content of one."""
    content = zipped({**files, "notebooks/y.ipynb": b"y", "notebooks/z.ipynb": b"y"})
    archive = bytearray(content)
    first = archive.index(b"PK\1\2")
    entries = []
    while archive[first : first + 4] == b"PK\1\2":
        entries.append(first)
        name, extra, comment = struct.unpack_from("<3H", archive, first + 28)
        first += 46 + name + extra + comment
    struct.pack_into(
        "<L", archive, entries[-1] + 42, *struct.unpack_from("<L", archive, entries[-2] + 42)
    )
    return bytes(archive)


def bomb(files: Files) -> bytes:
    return zipped({**files, "notebooks/y.ipynb": bytes(400 << 20)})


def zip64(files: Files) -> bytes:
    """A zip64 end in front of the end of the directory."""
    content = zipped(files)
    end = content[-22:]
    return content[:-22] + struct.pack("<4sLQL", b"PK\6\7", 0, len(content) - 22, 1) + end


def packed_runs(change: Callable[[tarfile.TarFile], None]) -> Any:
    """Further members in the packed runs."""

    def content(old: bytes) -> bytes:
        stream = io.BytesIO(lzma.decompress(old))
        with tarfile.open(fileobj=stream, mode="a") as parcel:
            change(parcel)
        return lzma.compress(stream.getvalue())

    return changed(BUNDLED, content)


def amplified(files: Files) -> bytes:
    """A small file: its runs are packed with padding, which packs to nothing and would allow a
    hundred times as much content, and with 256 MiB of zeros."""
    runs = lzma.decompress(files[BUNDLED]).rstrip(b"\0")
    runs += bytes(-len(runs) % tarfile.BLOCKSIZE)
    member = tarfile.TarInfo("zzz/0")
    member.size = 256 << 20
    streams = (runs, member.tobuf(), bytes(member.size), bytes(2 * tarfile.BLOCKSIZE))
    packed = b"".join(lzma.compress(stream, preset=0) for stream in streams) + bytes(4 << 20)
    return zipped(summed({**files, BUNDLED: packed}))


def tar_member(name: str, kind: bytes, target: str = "") -> Any:
    def change(parcel: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        parcel.addfile(member)

    return packed_runs(change)


def other_runs(make: Callable[[Path], Path]) -> Callable[[Files, Path], bytes]:
    """A bundle with other runs, made in a folder."""

    def change(files: Files, folder: Path) -> bytes:
        runs = make(folder / "other")
        out = folder / BUNDLED
        with tarfile.open(out, "w:xz") as parcel:
            for path in sorted(runs.rglob("*")):
                parcel.add(path, path.relative_to(runs).as_posix(), recursive=False)
        return zipped(summed({**files, BUNDLED: out.read_bytes()}))

    return change


def _changed_run(runs: Path) -> Path:
    run = make_run(runs)
    (run / "server/nginx.conf").write_bytes(b"changed")
    return runs


def _other_key(runs: Path) -> Path:
    run = make_run(runs)
    record = json.loads((run / "run.json").read_text())
    record["inputs"]["seed"] = 7
    (run / "run.json").write_text(json.dumps(record))
    reseal(run)
    return runs


def _without_runs(runs: Path) -> Path:
    runs.mkdir(parents=True)
    (runs / "readme.txt").write_text("nothing")
    return runs


def _drop(name: str) -> Callable[[Files], bytes]:
    return lambda files: zipped(
        {kept_name: files[kept_name] for kept_name in files if kept_name != name}
    )


def _nest(about: dict[str, Any]) -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    about["deep"] = value


def _part(identifier: str) -> Any:
    return described(lambda about: about["@graph"].append({"@id": identifier, "@type": "File"}))


def _context(value: Any) -> Any:
    return described(lambda about: about.update({"@context": value}))


RUN_BY_BROWSERS = {
    "title in the body": "<title><!--</title><script>alert(1)</script>-->",
    "comment that is empty": "<!--><script>alert(1)</script>-->",
    "comment that ends otherwise": "<!-- --!><script>alert(1)</script> -->",
    "section of characters": "<![CDATA[><script>alert(1)</script>]]>",
}
"""Markup that Python's parser takes for text, and of which browsers run the script."""

OF_ZIP: dict[str, Any] = {
    "climbs": with_member("../x"),
    "climbs from inside": with_member("notebooks/../../x"),
    "absolute": with_member("/tmp/x"),
    "backslash": with_member("..\\x"),
    "drive": with_member("notebooks/C:\\x.ipynb"),
    "link": with_member("notebooks/y.ipynb", stat.S_IFLNK | 0o777),
    "device": with_member("notebooks/y.ipynb", stat.S_IFCHR | 0o666),
    "block device": with_member("notebooks/y.ipynb", stat.S_IFBLK | 0o666),
    "pipe": with_member("notebooks/y.ipynb", stat.S_IFIFO | 0o666),
    "socket": with_member("notebooks/y.ipynb", stat.S_IFSOCK | 0o666),
    "file that is a folder": with_member("notebooks/y.ipynb", stat.S_IFDIR | 0o777),
    "twice": with_member(VERDICTS),
    "below a file": with_member(f"{VERDICTS}/x"),
    "long name": with_member("notebooks/" + "x" * 300),
    "deep": with_member("x/" * 20 + "x"),
    "bzip2": with_member("notebooks/y.ipynb", compress_type=zipfile.ZIP_BZIP2),
    "lzma": with_member("notebooks/y.ipynb", compress_type=zipfile.ZIP_LZMA),
    "zip64 member": with_member("notebooks/y.ipynb", extra=struct.pack("<2HQ", 1, 8, 11)),
    "encrypted": first_entry(8, "<H", 1),
    "strongly encrypted": first_entry(8, "<H", 0x41),
    "patched": first_entry(8, "<H", 0x20),
    "unknown method": first_entry(10, "<H", 99),
    "says 4 GiB": first_entry(24, "<L", 0xFFFFFFF0),
    "says less": first_entry(24, "<L", 1),
    "member elsewhere": first_entry(42, "<L", 7),
    "a million members": patched(8, "<2H", 0xFFFF, 0xFFFF),
    "other number of members": patched(8, "<2H", 3, 3),
    "several disks": patched(4, "<2H", 1, 1),
    "directory elsewhere": patched(16, "<L", 5),
    "directory of 4 GiB": patched(12, "<L", 0xFFFFFFFF),
    "zip64": zip64,
    "flipped": flipped,
    "overlapping": overlapping,
    "bomb": bomb,
    "content in front": lambda files: b"#!/bin/sh\n" + zipped(files),
    "content behind": lambda files: zipped(files) + b"x",
    "cut": lambda files: zipped(files)[:-30],
    "cut in the middle": lambda files: zipped(files)[:5000],
    "empty": lambda files: b"",
    "no zip file": lambda files: bz2.compress(b"x"),
}
OF_BUNDLE: dict[str, Any] = {
    "own lab": with_file("mylab.py", b"import os; os.system('touch /tmp/labs-executed')"),
    "lab of the package": with_file("labs/experiments/evil/conditions.py"),
    "module for Python": with_file("sitecustomize.py"),
    "folder of runs": with_file("runs/x/run.json"),
    "notebook elsewhere": with_file("x.ipynb"),
    "page elsewhere": with_file("notebooks/x.html"),
    "kernel to boot": with_file("kernels/6.1-0123456789ab/linux"),
    "not listed": lambda files: zipped({**files, "LICENSE": b"x", "notebooks/y.ipynb": b"{}"}),
    "missing": _drop(VERDICTS),
    "without checksums": _drop(SUMS),
    "without page": lambda files: zipped(
        summed({name: files[name] for name in files if name != PREVIEW})
    ),
    "listed twice": changed(SUMS, lambda old: old + old.splitlines(True)[0], resum=False),
    "changed": changed("LICENSE", lambda old: old + b"x", resum=False),
    "metadata no JSON": changed(METADATA, lambda old: b"{"),
    "metadata no object": changed(METADATA, lambda old: b"[]"),
    "metadata with a name twice": changed(METADATA, lambda old: b'{"a": 1, "a": 2}'),
    "metadata with NaN": changed(METADATA, lambda old: old.replace(b"{", b'{"x": NaN,', 1)),
    "metadata nested": described(_nest),
    "context on the network": _context("http://example.org/context"),
    "own context": _context(["https://w3id.org/ro/crate/1.1/context", {"x": "http://example.org"}]),
    "part on the network": _part("http://example.org/runs.tar.xz"),
    "part of the machine": _part("file:///etc/passwd"),
    "part outside": _part("../x"),
    "part that is missing": _part("notebooks/missing.ipynb"),
    "entity without a type": described(lambda about: about["@graph"].append({"@id": "x"})),
    "graph of text": described(lambda about: about.update({"@graph": ["x"]})),
    "not described": described(lambda about: about.update({"@graph": about["@graph"][:3]})),
    "script": page("<script>alert(1)</script>"),
    "handler": page("<p onclick='alert(1)'>x</p>"),
    "frame": page("<iframe src='http://example.org'></iframe>"),
    "image": page("<img src='http://example.org/x.png'>"),
    "script as an address": page("<a href='javascript:alert(1)'>x</a>"),
    "address elsewhere": page("<a href='//example.org'>x</a>"),
    "refresh": page("<meta http-equiv='refresh' content='0;url=http://example.org'>"),
    "base": page("<base href='http://example.org'>"),
    "form": page("<form action='http://example.org'></form>"),
    "page without policy": changed(PREVIEW, lambda old: old.replace(b"default-src", b"x")),
    **{name: without_policy(markup) for name, markup in RUN_BY_BROWSERS.items()},
    "style that loads": without_policy("<style>@import url(http://example.org/x.css)</style>"),
    "verdicts without articles": changed(VERDICTS, lambda old: b'{"schema": 1}'),
    "verdicts no JSON": changed(VERDICTS, lambda old: b"<html>"),
    "notebook no JSON": changed(NOTEBOOK, lambda old: b"x"),
    "notebook of format 3": changed(NOTEBOOK, lambda old: b'{"nbformat": 3, "cells": []}'),
    "notebook with odd outputs": changed(
        NOTEBOOK, lambda old: old.replace(b'"outputs": []', b'"outputs": ["x"]')
    ),
    "runs with a link": tar_member("x/y", tarfile.SYMTYPE, "/etc/passwd"),
    "runs with a hard link": tar_member("x/y", tarfile.LNKTYPE, "run.json"),
    "runs that climb": tar_member("../x", tarfile.REGTYPE),
    "runs with a device": tar_member("x/y", tarfile.CHRTYPE),
    "runs cut": changed(BUNDLED, lambda old: old[:-40]),
    "runs no file of runs": changed(BUNDLED, lambda old: b"x"),
    "runs in a zip file": changed(BUNDLED, lambda old: zipped({"x/run.json": b"{}"})),
    "a changed run": other_runs(_changed_run),
    "a run with another key": other_runs(_other_key),
    "no run": other_runs(_without_runs),
    "a folder that is no run": tar_member("zzz/0", tarfile.REGTYPE),
    "a file that is no study": tar_member("studies/x.bin", tarfile.REGTYPE),
    "amplified": amplified,
}
HOSTILE = {**OF_ZIP, **OF_BUNDLE}


def measured(folder: Path) -> Path:
    """A bundle of two recorded runs of `nagle`, and of a notebook that shows their results."""
    lab = find("nagle")
    runs = [
        run
        for run in map(open_run, run_folders(recorded.runs_of(lab.name)))
        if run.condition in ("off", "on") and run.inputs["kernel"]["version"].startswith("6.1.")
    ]
    columns = ("mean_ms", "p50_ms")
    rows = [{name: lab.results(run).values[name] for name in columns} for run in runs]
    results = Table(
        [{"condition": run.condition, **row} for run, row in zip(runs, rows, strict=True)]
    )
    judged = verdicts_from(lab, [Source("", tuple(runs), tuple(runs))])
    claims = Table([{"claim": verdict.id, "verdict": verdict.words} for verdict in judged])
    given = {"ONLY": "off,on", "REQUESTS": 1000}
    lines = "\n".join(f"{name} = {value!r}" for name, value in given.items())
    printed = new_output("stream", name="stdout", text=f"mean {rows[0]['mean_ms']:.4g} ms\n")
    cells = [
        new_markdown_cell("# Measured"),
        new_code_cell("TESTBED = 'recorded'\nREQUESTS = 10", metadata={"tags": ["parameters"]}),
        new_code_cell(lines, metadata={"tags": ["injected-parameters"]}),
        new_code_cell("p = labs.check('nagle', globals())", metadata={"tags": ["check"]}),
        *(_showing(table) for table in (results, claims)),
        new_code_cell("print(mean)", outputs=[printed]),
    ]
    book = new_notebook(cells=cells)
    for at, cell in enumerate(book.cells):
        cell["id"] = f"cell-{at}"
    book.metadata["papermill"] = {"parameters": given}
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, folder / "book.ipynb")
    out = folder / "measured.zip"
    paths = [run.path for run in runs]
    bundle.write(out, [(read_notebook(folder / "book.ipynb"), {})], paths, tell=lambda line: None)
    return out


def _showing(table: Table) -> Any:
    data = {"text/html": table._repr_html_(), "text/plain": repr(table)}
    return new_code_cell("table", outputs=[new_output("execute_result", data)])


def forged(good: Path, out: Path, *texts: tuple[str, str, str]) -> Path:
    """A bundle in which a forger replaced texts of files (name, before, after)."""
    files = files_of(good)
    for name, before, after in texts:
        assert before.encode() in files[name], f"{name} has no {before}"
        files[name] = files[name].replace(before.encode(), after.encode())
    return rewritten(good, out, files)


def rewritten(good: Path, out: Path, files: dict[str, bytes]) -> Path:
    """A bundle with other files, whose sizes, checksums and page a forger wrote anew."""
    old = files_of(good)
    for name in sorted(name for name in old if files[name] != old[name]):
        if name not in NOT_LISTED:
            at = files[METADATA].index(f'"@id": "{name}",\n   "@type"'.encode())
            size, new_size = (
                f'"contentSize": "{len(contents[name])}"'.encode() for contents in (old, files)
            )
            entity = files[METADATA][at:].replace(size, new_size, 1)
            files[METADATA] = files[METADATA][:at] + entity
    out.write_bytes(zipped(with_page(good, files)))
    return out


MEAN, METADATA_GIVEN = "39.68", '\\"REQUESTS\\":1000'
STATEMENT = "With tcp_nodelay off a request takes"
FORGED: dict[str, tuple[int, tuple[tuple[str, str, str], ...]]] = {
    "figure in a table": (5, ((NOTEBOOK, f">{MEAN}<", ">3.968<"),)),
    "verdict in a table": (5, ((NOTEBOOK, ">holds", ">false"),)),
    "printed figure": (8, ((NOTEBOOK, f"mean {MEAN} ms", "mean 3.968 ms"),)),
    "parameter in the metadata": (5, ((METADATA, METADATA_GIVEN, '\\"REQUESTS\\":400'),)),
    "parameter in the notebook": (5, ((NOTEBOOK, "REQUESTS = 1000", "REQUESTS = 400"),)),
    "parameter everywhere": (
        5,
        (
            (METADATA, METADATA_GIVEN, '\\"REQUESTS\\":400'),
            (NOTEBOOK, "REQUESTS = 1000", "REQUESTS = 400"),
            (NOTEBOOK, '"REQUESTS": 1000', '"REQUESTS": 400'),
        ),
    ),
    "commit": (8, ((CODE, '"commit": "', '"commit": "0'),)),
    "lock": (8, ((LOCK, "numpy==", "evil==1\nnumpy=="),)),
    "heading": (5, ((NOTEBOOK, "# Measured", "# Forged"),)),
    "texts of a verdict": (5, ((VERDICTS, STATEMENT, f"FORGED {STATEMENT}"),)),
    "reason of a verdict": (5, ((VERDICTS, '"reason": "', '"reason": "FORGED '),)),
}
"""Parts that a forger may replace besides the runs, with the exit code of `labs verify` without
--execute if every run repeats. Before these were compared, it was 0 for each."""
NEEDS_A_FOLDER = ("a changed run", "a run with another key", "no run")


def hostile(name: str, good: Path, folder: Path) -> Path:
    """Write one of the hostile bundles, made from a good one, and return its path."""
    change = HOSTILE[name]
    folder.mkdir(parents=True, exist_ok=True)
    files = files_of(good)
    content = change(files, folder) if name in NEEDS_A_FOLDER else change(files)
    out = folder / "bundle.zip"
    out.write_bytes(content)
    return out
