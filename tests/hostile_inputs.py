"""What `tests/fuzz_runs.py` changes and reads: the real inputs, and the readers, by kind.

Every input is one piece of bytes. That of a run names a real run and the new contents of some of
its files; reading it writes them into a copy and computes the seal anew.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import lzma
import os
import random
import shutil
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import papermill
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from labs.catalog import find
from labs.drive.record.run_folder import STUDIES
from labs.drive.record.seal import HOST, RUN, SEAL, canonical, digest, key, read_seal
from labs.drive.record.stored_files import VERSION, parse
from labs.errors import BadInput, Damaged, LabError
from labs.experiments.buffers.figures import timeline
from labs.experiments.buffers.tables import buffer_rows
from labs.experiments.nagle.figures import ladder
from labs.grading.grade_sheet import grade_file
from labs.grading.student_copy import copy_for_students
from labs.publish.execute import open_notebook
from labs.publish.html import page
from labs.publish.page_parameters import checked_lab, declared, settle
from labs.read.claims.ledger import read as read_ledger
from labs.read.display.rich_output import Table
from labs.read.notebook_file import read_notebook
from labs.read.runs import archive, raw_files
from labs.read.runs.archive import pack, unpacked
from labs.read.runs.compare import compare, every_run
from labs.read.runs.listing import index
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study, upgraded
from labs.read.stats.machines import disturbances
from labs.studies.run_access import flat_table, results_of
from tests.made_verdicts import verdicts
from tests.mutations import changed_bytes, changed_json, changed_text, changed_value
from tests.run_folders import make_study
from tests.student_work import with_answers

ROOT = Path(__file__).parents[1]
FIXTURES, DATA = ROOT / "tests" / "fixtures", ROOT / "data"
FIXED_RUNS = ("both-1mib", "captured", "limit", "loss", "unshaped", "wget", "wget-limit")
RECORDED = {"nagle": ("nagle-off-*", "nagle-ask-*"), "buffers-witnesses": ("*-both-*", "*-rmem*")}
CAPTURE_BYTES = 40_000
SAMPLES_BYTES = 20_000
# The raw files, and which recorded output of tools each parser gets.
RAW = {
    "ss.txt": "ss-6*.txt",
    "samples.bin": "samples-*.bin",
    "samples.csv": "socket-samples-*.csv",
    "tc-after.txt": "tc-*.txt",
    "nstat-after.txt": "nstat-*.txt",
    "ab.txt": "ab-*.txt",
    "ab.csv": "ab-*.csv",
    "httping.txt": "httping-*.txt",
    "wget.txt": "wget-*.txt",
    "fetch.json": "",
    "ask.json": "",
    "machines.json": "",
    "sampler.json": "",
}
OFTEN = {"ss.txt": 8, "tc-after.txt": 8, "samples.bin": 5, "fetch.json": 6}
METADATA = ("labs", "papermill", "tags", "tags", "kernelspec", "language_info", "title", "jupyter")
# Names of the answers of several notebooks, and what cannot be one.
ANSWERS = {
    "bdp_mib": "2.75e6 / 2**20",
    "limit": '"link"',
    "httping_ms": "[404]",
    "granted_kib": "2 * 128",
    "far_off_ms": "20 +",
}
KINDS = (
    *("run",) * 8,
    *("gz",) * 5,
    *("xz",) * 4,
    *("study",) * 10,
    *("ledger",) * 8,
    *("notebook",) * 10,
    *("page",) * 2,
    *(name for name in RAW for _ in range(OFTEN.get(name, 4))),
)
SPECIAL = ("pipe", "folder", "link", "zeros", "large", "gone")
NAMES = (
    *("run/run.json", "run/seal.json", "studies/x.json", "x" * 300, "a/" * 40 + "x", "../x"),
    *("/etc/x", "run", "run/../x", ".", "", "run/\x1b[31m", "run/\udcff", "run/é" * 30),
)
# Of a tar header: name, mode, size, type, target, prefix.
FIELDS = ((0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (345, 155))
PUT = (
    *(b"S", b"x", b"g", b"L", b"K", b"0", b"1", b"2", b"3", b"5"),
    *(b"7" * 11 + b"\0", b"\x80" + b"\xff" * 11, b"\xff" + b"\x80" * 11, b"../" * 33, b"/etc/x\0"),
)
# The parts of run.json, each with the path to it.
PARTS = (
    *(("settings", "inputs", "condition"),) * 8,
    *(("link", "inputs", "condition"), ("measured", "link")) * 2,
    *(("sysctls", "inputs", "condition"), ("condition", "inputs"), ("asked", "link")),
    *(("inputs",), ("link",), ("marks",), ("sysctls",), ("buffers",), ("kernel",), ("commands",)),
    *(("tools",), ("ended",), ("lab",)),
)
PORTION = 20
"""One in so many runs is also compared, tabulated and described."""


def collect(folder: Path) -> None:
    """Copy the real inputs into `folder`, by kind; large ones are cut to what is worth changing."""
    runs = folder / "run"
    runs.mkdir(parents=True)
    for name in FIXED_RUNS:
        shutil.copytree(open_run(FIXTURES / "runs" / f"{name}.tar.xz").path, runs / name)
    for name, patterns in RECORDED.items():
        for place in [unpacked(DATA / f"{name}.tar.xz")] if DATA.is_dir() else []:
            for pattern in patterns:
                recorded = min(place.glob(pattern))
                shutil.copytree(recorded, runs / recorded.name)
    for number, run in enumerate(sorted(runs.iterdir())):
        if number % 2:
            _to_schema_2(run / RUN)
        _shorten(run)
    for name, pattern in RAW.items():
        found = [*sorted((FIXTURES / "parse").glob(pattern or "none")), *sorted(runs.rglob(name))]
        _copy_all(folder / name, found)
        for one in (folder / name).iterdir() if name == "samples.bin" else ():
            one.write_bytes(_records(one.read_bytes()))
    study = make_study(folder / "made")
    _copy_all(folder / "study", sorted((folder / "made" / STUDIES).iterdir()))
    for kind in ("gz", "xz"):
        (folder / kind).mkdir()
        pack(folder / "made", folder / kind / f"all.tar.{kind}")
        pack(study.folders()[0], folder / kind / f"one.tar.{kind}")
    _copy_all(folder / "ledger", sorted((ROOT / "labs").glob("experiments/*/article*.toml")))
    originals = sorted((ROOT / "notebooks").glob("*.ipynb"))
    answered = [with_answers(one.stem, folder / "made", ANSWERS) for one in originals]
    _copy_all(folder / "notebook", [*originals, *answered])
    (folder / "page").mkdir()
    (folder / "page" / "executed.ipynb").write_text(json.dumps(_executed(runs / FIXED_RUNS[0])))


def _executed(run: Path) -> Any:
    """A notebook with an output of each kind that a page shows."""
    rich = {
        "text/html": Table({"rtt_ms": range(25)})._repr_html_() + "<script>x</script>",
        "application/vnd.plotly.v1+json": json.loads(timeline(open_run(run)).to_json()),
        "image/svg+xml": "<svg><path d='M0 0H9'/></svg>",
        "image/png": "iVBORw0KGgo=",
        "text/markdown": "*a* [b](javascript:c)",
        "text/latex": "$a$",
    }
    shown = [new_output("display_data", data={name: one}) for name, one in rich.items()]
    shown += [new_output("stream", text="a\x1b[31mb"), new_output("error", ename="E", evalue="f")]
    cells = [new_markdown_cell("# A\n\n## B ![c](d.png)"), new_raw_cell("<b onclick='x'>e</b>")]
    return new_notebook(cells=[*cells, *(new_code_cell("x = 1", outputs=[one]) for one in shown)])


def _copy_all(folder: Path, files: Iterable[Path]) -> None:
    folder.mkdir()
    for number, file in enumerate(files):
        shutil.copy(file, folder / f"{number}-{file.name}")


def _shorten(run: Path) -> None:
    """Cut captures and samples, so that many changed copies can be read; seal again."""
    for path in run.rglob("capture.pcap"):
        path.write_bytes(path.read_bytes()[:CAPTURE_BYTES])
    for path in run.rglob("samples.bin"):
        path.write_bytes(_records(path.read_bytes()))
    names = [path for path in run.rglob("*") if path.is_file() and path.name not in (SEAL, HOST)]
    _write_seal(run, {path.relative_to(run).as_posix(): digest(path) for path in names})


def _to_schema_2(path: Path) -> None:
    """Write a run.json of schema 1, which those of the fixtures are, as one of schema 2."""
    said = json.loads(path.read_text())
    if said["schema"] < VERSION:
        said = upgraded(said)
        path.write_text(json.dumps(said | {"key": key(said["inputs"])}))


def _records(content: bytes) -> bytes:
    """The whole records of samples.bin at its beginning."""
    at = 0
    while at < min(len(content), SAMPLES_BYTES):
        at += 12 + struct.unpack_from("<I", content, at + 8)[0]
    return content[:at]


def _write_seal(run: Path, files: dict[str, str]) -> None:
    (run / SEAL).write_bytes(
        canonical({"schema": 1, "files": files, "digest": digest(canonical(files))})
    )


class Sources:
    """The real inputs, and their readers; `work` is a folder that reading may use."""

    def __init__(self, work: Path, sources: Path) -> None:
        self.work, self.sources = work, sources
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(sources / "run", work / "runs")
        self.runs = work / "runs"
        self.known = {
            kind: [path.read_bytes() for path in sorted((sources / kind).iterdir())]
            for kind in {*KINDS} - {"run"}
        }
        self.number = 0

    def warm_up(self) -> None:
        """Read every run as it is: compiled code is then loaded, and the inputs are good ones."""
        for run in sorted(self.runs.iterdir()):
            read_run(run)
        for kind, contents in self.known.items():
            for content in contents:
                with suppress(Damaged):  # some recorded output is of programs that failed
                    self.read(kind, content)

    def mutated(self, kind: str, chance: random.Random) -> bytes:
        """An input of a kind."""
        if kind == "run":
            return mutated_run(self.runs, chance)
        content = chance.choice(self.known[kind])
        if kind in ("gz", "xz"):
            return mutated_archive(kind, content, chance)
        if kind in ("notebook", "page"):
            return _changed_notebook(content, chance)
        if kind.endswith(".json") or kind == "study":
            return changed_json(content, chance)
        return (changed_bytes if kind == "samples.bin" else changed_text)(content, chance)

    def read(self, kind: str, content: bytes) -> None:
        """Read an input with all that the project has for it."""
        self.number += 1
        if kind == "run":
            read_changed_run(self.runs, content)
        elif kind in ("gz", "xz"):
            read_archive(self.work / f"packed.tar.{kind}", content)
        elif kind == "study":
            read_study_file(self.work / "studies-of" / STUDIES, content)
        elif kind == "ledger":
            (self.work / "article1.toml").write_bytes(content)
            read_ledger(self.work / "article1.toml")
        elif kind in ("notebook", "page"):
            read_notebook_file(self.work / "00-start-here.ipynb", content, kind == "page")
        else:
            read_raw(self.work / "raw", kind, content)


def _changed_notebook(content: bytes, chance: random.Random) -> bytes:
    """A notebook that was changed, mostly in a part of a cell that may have any value or text."""
    if chance.randrange(6) == 0:
        return changed_json(content, chance)
    said = json.loads(content)
    for _ in range(chance.choice((1, 2, 4))):
        with suppress(KeyError, TypeError, AttributeError, UnicodeError):  # what was changed before
            _change_part(chance.choice((said, *said["cells"], *said["cells"])), chance)
    return json.dumps(said).encode()


def _change_part(part: dict[str, Any], chance: random.Random) -> None:
    """Change a cell of a notebook, or what is beside the cells."""
    at = chance.choice([name for name in ("source", *sorted(part)) if name in part])
    if at == "source" and chance.randrange(8):
        source = changed_text("".join(part[at]).encode(), chance)
        part[at] = source.decode("utf-8", chance.choice((*("replace",) * 9, "surrogateescape")))
    elif at == "metadata" and chance.randrange(8):
        name = chance.choice(METADATA)
        part[at][name] = changed_value(part[at].get(name), chance)
    elif at == "outputs" and part[at] and chance.randrange(8):
        output = chance.choice(part[at])
        data = output.get("data", output)
        name = chance.choice(sorted(data))
        data[name] = changed_value(data[name], chance)
    elif at not in ("cells", "cell_type", "execution_count", "id") or not chance.randrange(8):
        part[at] = changed_value(part[at], chance)


def read_notebook_file(path: Path, content: bytes, shown: bool) -> None:
    """Read a notebook as `student`, `grade` and `publish` do, without executing it."""
    path.write_bytes(content)
    sheet = grade_file(path)
    assert sheet.problem.isprintable()
    notebook = read_notebook(path)
    into = path.parent / "student"
    (into / path.name).unlink(missing_ok=True)
    assert read_notebook(copy_for_students(path, into).path).stem == path.stem
    checked_lab(notebook)
    values = settle([f"{name}=1" for name in declared(notebook)], notebook)
    ready = papermill.execute_notebook(
        open_notebook(notebook),
        None,
        parameters=values,
        kernel_name="python3",
        language="python",
        prepare_only=True,
    )
    if shown:
        page(ready, path.stem)


def read_raw(folder: Path, name: str, content: bytes) -> None:
    """Read a raw file as the check before sealing does; ab's percentiles beside a real report."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    if name == "ab.csv":
        (folder / "ab.txt").write_bytes((FIXTURES / "parse" / "ab-keepalive.txt").read_bytes())
    raw_files.check(folder, [name])


def read_study_file(folder: Path, content: bytes) -> None:
    """Read a study file alone, as one of a folder, and as a side of a comparison."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    path = folder / "buffers.json"
    path.write_bytes(content)
    with suppress(Damaged):
        said = parse_object(content)
        named = f"{said.get('lab')}-{key(said)[:12]}.json"
        if "/" not in named and "\0" not in named and len(named) < 100:
            (folder / named).write_bytes(content)
    for entry in index(folder.parent):
        assert entry.problem is None or entry.problem.isprintable()
    with suppress(BadInput):
        every_run(folder.parent)
    open_study(path)


def parse_object(content: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; Damaged for anything else."""
    try:
        found = parse(content)
    except ValueError as error:
        raise Damaged("no JSON") from error
    if not isinstance(found, dict):
        raise Damaged("no object")
    return found


def read_archive(path: Path, content: bytes) -> None:
    """Unpack a packed file, list what it holds, and remove what was unpacked."""
    path.write_bytes(content)
    archive._content_of.cache_clear()
    held, archive.HELD = archive.HELD, ExitStack()
    before = set(path.parent.parent.glob("temporary/*"))
    try:
        for entry in index(unpacked(path)):
            assert entry.problem is None or entry.problem.isprintable()
        with suppress(BadInput):  # it holds several runs
            open_run(path)
    finally:
        archive.HELD.close()
        archive.HELD = held
        left = set(path.parent.parent.glob("temporary/*")) - before
        assert not left, f"left behind: {left}"


def mutated_archive(kind: str, content: bytes, chance: random.Random) -> bytes:
    """A packed file changed as it is, or in the tar file inside, or made of strange members."""
    if chance.randrange(4) == 0:
        return changed_bytes(content, chance)
    if chance.randrange(2):
        plain = gzip.decompress(content) if kind == "gz" else lzma.decompress(content)
        plain = _changed_tar(plain, chance)
    else:
        plain = _strange_tar(chance)
    if kind == "gz":
        return gzip.compress(plain, 1, mtime=0)
    return lzma.compress(plain, preset=0)


def _changed_tar(plain: bytes, chance: random.Random) -> bytes:
    """A tar file with changed headers, whose check sums are right again in most cases."""
    found = bytearray(plain)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = 512 * chance.randrange(max(1, len(found) // 512))
        field, length = chance.choice(FIELDS)
        put = chance.choice((*PUT, b"0" * length, b"\xff" * length, b"x" * length, bytes(length)))
        found[at + field : at + field + min(length, len(put))] = put[:length]
        if chance.randrange(8):
            found[at + 148 : at + 156] = b" " * 8
            found[at + 148 : at + 156] = b"%06o\0 " % sum(found[at : at + 512])
    return changed_bytes(bytes(found), chance) if chance.randrange(4) == 0 else bytes(found)


def _strange_tar(chance: random.Random) -> bytes:
    """A tar file of members with strange names, types, sizes and attributes."""
    headers = {
        "size": ("-1", "9" * 30, "1e9", ""),
        "path": ("../x", "x" * 5000, "a\0b", ""),
        "GNU.sparse.major": ("1",),
        "GNU.sparse.minor": ("0",),
        "GNU.sparse.map": ("0,99999999999", "x", "1,2,3"),
        "GNU.sparse.size": ("9" * 20, "x"),
        "GNU.sparse.realsize": ("9" * 13,),
        "mtime": ("9" * 400, "nan"),
        "hdrcharset": ("BINARY",),
    }
    made = io.BytesIO()
    forms = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)
    with tarfile.open(fileobj=made, mode="w", format=chance.choice(forms)) as parcel:
        for _ in range(chance.randrange(1, 6)):
            member = tarfile.TarInfo(chance.choice(NAMES))
            content = chance.choice((b"", b"{}", b"x" * 600, bytes(100_000)))
            member.size = len(content)
            if chance.randrange(3) == 0:
                member.type = chance.choice((b"0", b"1", b"2", b"3", b"5", b"6", b"S", b"7", b"Z"))
            if chance.randrange(2):
                some = chance.sample(sorted(headers), chance.randrange(1, 4))
                member.pax_headers = {name: chance.choice(headers[name]) for name in some}
            with suppress(ValueError, UnicodeError):  # tarfile does not write each of them
                parcel.addfile(member, io.BytesIO(content))
    return made.getvalue()


def mutated_run(runs: Path, chance: random.Random) -> bytes:
    """Which run, and the new contents of one to three of its files, as JSON."""
    run = chance.choice(sorted(runs.iterdir()))
    names = sorted(read_seal(run).files)
    weighted = [*names, *(RUN,) * 4, SEAL]
    files: dict[str, str] = {}
    special: dict[str, str] = {}
    for name in {chance.choice(weighted) for _ in range(chance.choice((1, 1, 2, 3)))}:
        if chance.randrange(25) == 0:
            special[name] = chance.choice(SPECIAL)
            continue
        content = (run / name).read_bytes()
        if name == RUN:
            content = _changed_run_json(content, chance)
        elif name.endswith(".json"):
            content = changed_json(content, chance)
        else:
            binary = name.endswith((".bin", ".pcap"))
            content = (changed_bytes if binary else changed_text)(content, chance)
        files[name] = base64.b64encode(content).decode()
    said = {
        "run": run.name,
        "files": files,
        "special": special,
        "portion": chance.randrange(PORTION),
    }
    return json.dumps(said).encode()


def _changed_run_json(content: bytes, chance: random.Random) -> bytes:
    """A run.json that was changed, mostly in one of its parts, with the key of its new inputs."""
    if chance.randrange(6) == 0:
        return changed_json(content, chance)
    said = json.loads(content)
    at, *names = chance.choice(PARTS)
    part = said
    for name in names:
        part = part[name]
    part[at] = changed_value(part.get(at), chance)
    with suppress(LabError, KeyError, TypeError, AttributeError):
        if chance.randrange(2):
            said["link"]["asked"] = said["inputs"]["condition"]["link"]
        said["key"] = key(said["inputs"])
        said["condition"] = said["inputs"]["condition"]["name"]
    return json.dumps(said).encode("utf-8", "surrogatepass")


def read_changed_run(runs: Path, content: bytes) -> None:
    """Change a run as the input says, seal it, read it, and put back what it was."""
    said = json.loads(content)
    run = runs / said["run"]
    before = {name: (run / name).read_bytes() for name in (*said["files"], *said["special"], SEAL)}
    files = dict(read_seal(run).files)
    try:
        for name, text in said["files"].items():
            (run / name).write_bytes(base64.b64decode(text))
            files[name] = digest(run / name)
        if SEAL not in said["files"]:
            files.pop(SEAL, None)
            _write_seal(run, files)
        for name, special in said["special"].items():
            _replace(run / name, special)
        portion = said["portion"] == 0
        if portion:
            for entry in index(runs):
                assert entry.name == run.name or entry.problem is None, entry
                assert entry.problem is None or entry.problem.isprintable()
        read_run(run, portion)
    finally:
        for name, old in before.items():
            _remove(run / name)
            (run / name).write_bytes(old)


def _replace(path: Path, special: str) -> None:
    _remove(path)
    if special == "pipe":
        os.mkfifo(path)
    elif special == "folder":
        path.mkdir()
    elif special == "link":
        path.symlink_to("/etc/hostname")
    elif special == "zeros":
        path.symlink_to("/dev/zero")
    elif special == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def read_run(folder: Path, portion: bool = True) -> None:
    """Read a run with all that the project has for it: each part may refuse it with an error of
    its own; the first one is raised when all have been tried."""
    run = open_run(folder)
    lab = find(run.lab)
    readers: list[Callable[[], object]] = [
        lambda: (run.link.verdict, run.kernel, run.tools, run.commands, run.sysctls, run.buffers),
        lambda: (run.moments, run.repetition, run.hosts, run.condition_asked, run.commands_text()),
        lambda: raw_files.check(run.path, run.seal.files),
        *_tables(run),
        lambda: disturbances(run),
        lambda: (lab.results(run), lab.headline(run), lab.prediction(run)),
    ]
    if portion:
        lab.__dict__["_results"].clear()
        readers += [
            lambda: lab.require("figures").describe_run(run),
            lambda: verdicts(lab, [run]),
            lambda: (timeline(run), buffer_rows([run])) if lab.name == "buffers" else ladder(run),
            lambda: flat_table([run]).to_csv(),
            lambda: compare(folder, folder, results_of).lines(),
        ]
    refused: list[LabError] = []
    for reader in readers:
        try:
            reader()
        except LabError as error:
            assert str(error).isprintable()
            refused.append(error)
    if refused:
        raise refused[0]


def _tables(run: Run) -> Iterator[Callable[[], object]]:
    """Readers of the tables for which a run has the files."""
    yield from (run.fetch, run.wget, run.httping)
    readers: dict[str, Callable[[str], object]] = {
        "samples.bin": run.samples,
        "ss.txt": run.ss,
        "nstat-before.txt": run.nstat,
        "tc-before.txt": run.tc,
        "capture.pcap": run.capture,
    }
    for name in run.seal.files:
        host, _, last = name.rpartition("/")
        if last in readers:
            yield partial(readers[last], host)
