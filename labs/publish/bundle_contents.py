"""What a bundle contains besides its notebooks and metadata: packed runs, verdicts, the code, the
environment, and how its kernels were built."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

from labs.catalog import LABS, find, with_ledgers
from labs.drive.kernel import store
from labs.drive.kernel.options import fragment_text
from labs.drive.kernel.versions import series_of
from labs.drive.record.seal import canonical, digest, pretty
from labs.drive.testbeds import VIRTUAL
from labs.errors import BadInput
from labs.launch import code_digest
from labs.launch.plan import code_of
from labs.publish.crate import CITATION, INSTALLED, KERNELS, LICENCES, LOCK
from labs.read.claims.ledger import read
from labs.read.claims.sources import sources_of, verdicts_from, with_recorded_draws
from labs.read.claims.verdict import Verdict
from labs.read.runs.archive import BUNDLED, Contents, contents, runs_folder
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Repeated, repeated

DISTRIBUTION = "tcp-lab-notebook"
PACKAGE = Path(__file__).resolve().parents[1]
CLONE = PACKAGE.parent
SCHEMA = 1


def every_content(folders: Iterable[Path]) -> Contents:
    """The runs and studies of several runs, studies, folders or packed files, as one folder of
    runs. If two folders have a newest study of the same lab, the first is kept. BadInput if two
    runs with the same name have different bytes."""
    merged: dict[str, Path | bytes] = {}
    for folder in folders:
        packed = folder.is_file() and folder.suffix != ".json"
        for name, content in contents(runs_folder(folder) if packed else folder).items():
            there = merged.setdefault(name, content)
            if name.endswith("/seal.json") and _bytes(there) != _bytes(content):
                run = name.rpartition("/")[0]
                raise BadInput(
                    f"{folder} and another folder have the run {run} with other bytes. Compare "
                    "them with `labs runs compare`, and name one"
                )
    return merged


def _bytes(content: Path | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def verdicts_on(runs: Path, have: Sequence[Run]) -> dict[str, Any]:
    """The verdicts of runs on the claims of the articles, and the intervals of those in real time,
    as plain data. Recorded runs are judged with the recorded draws of the same conditions.

    A lab with several runs of one condition, and no study that they belong to, has no verdicts.
    """
    articles = []
    for lab in with_ledgers():
        if lab.ledger is None or not any(run.lab == lab.name for run in have):
            continue
        try:
            sources = with_recorded_draws(lab, sources_of(lab, runs, BUNDLED))
            judged: tuple[Verdict, ...] = verdicts_from(lab, sources)
        except BadInput:
            continue
        rows = [verdict.as_json() for verdict in judged]
        articles.append({"lab": lab.name, "article": read(lab.ledger).number, "verdicts": rows})
    return {"schema": SCHEMA, "articles": articles, "intervals": intervals(have)}


def intervals(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """The interval of each condition in real time of the labs of this package."""
    repetitions = [run for run in runs if run.repetition is not None and run.lab in LABS]
    return list(map(interval_of, conditions(repetitions)))


def conditions(runs: Iterable[Run]) -> list[Repeated]:
    """The conditions of runs in real time that have an interval, each on one testbed and kernel."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        asked = canonical(run.condition_asked.as_json()).decode()
        groups.setdefault((run.lab, run.testbed, run.kernel.release, asked), []).append(run)
    every = [
        condition for key in sorted(groups) for condition in repeated(find(key[0]), groups[key])
    ]
    return [condition for condition in every if condition.interval is not None]


def interval_of(condition: Repeated) -> dict[str, Any]:
    """A condition with its interval as plain data."""
    run = condition.runs[0]
    where = {"lab": run.lab, "testbed": run.testbed, "kernel": run.kernel.release}
    return {**where, **condition.as_json()}


def code() -> dict[str, Any]:
    """Version, commit (in a clone) and digest of the code, and the digest of what the runs of each
    lab execute in virtual time."""
    files = {
        path.relative_to(PACKAGE).as_posix(): path.read_bytes()
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and "recorded" not in path.parts[-2:]
    }
    return {
        "schema": SCHEMA,
        "name": DISTRIBUTION,
        "version": distribution(DISTRIBUTION).version,
        "commit": _commit(),
        "digest": code_digest.digest(files),
        "python": platform.python_version(),
        "runs": {name: code_digest.digest(code_of(find(name), VIRTUAL.name)) for name in LABS},
    }


def _commit() -> str | None:
    """The commit of the clone, with "-dirty" if files were changed; None without a clone."""
    words = ("git", "-C", str(CLONE), "describe", "--always", "--abbrev=40", "--dirty")
    if not (CLONE / ".git").exists():
        return None
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def environment() -> dict[str, bytes]:
    """requirements.lock in a clone; elsewhere the version of each installed package."""
    lock = CLONE / "requirements.lock"
    if lock.is_file():
        return {LOCK: lock.read_bytes()}
    lines = {
        f"{distribution.metadata['Name']}=={distribution.version}\n"
        for distribution in distributions()
    }
    return {INSTALLED: "".join(sorted(lines)).encode()}


def legal() -> dict[str, bytes]:
    """The licences, and the citation if it is installed."""
    paths = {name: CLONE / name for name in (*LICENCES, CITATION)}
    if not paths[LICENCES[0]].is_file():
        for file in distribution(DISTRIBUTION).files or ():
            if file.name in paths:
                paths[file.name] = Path(str(file.locate()))
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def kernels_of(runs: Iterable[Run]) -> dict[str, bytes]:
    """The digest and the build recipe of each kernel that the runs name; of a kernel that is not
    built here only its version and digest."""
    named = {
        (kernel["digest"], kernel["version"])
        for run in runs
        if (kernel := run.inputs["kernel"]) is not None
    }
    built = {kernel.sha256: kernel for kernel in store.kernels()}
    contents: dict[str, bytes] = {}
    for sha256, version in sorted(named):
        folder = f"{KERNELS}/{series_of(version)}-{sha256[:12]}"
        for name, content in _recipe(built.get(sha256), sha256, version):
            contents[f"{folder}/{name}"] = content
    return contents


def _recipe(kernel: store.Kernel | None, sha256: str, version: str) -> Iterator[tuple[str, bytes]]:
    if kernel is None:
        yield store.RECORD, pretty({"sha256": sha256, "version": version, "built": None})
        return
    record = store.record(kernel.folder)
    yield store.RECORD, pretty(record)
    if (kernel.folder / store.CONFIG).is_file():
        yield store.CONFIG, (kernel.folder / store.CONFIG).read_bytes()
    for path in sorted((kernel.folder / store.PATCHES).glob("*.patch")):
        yield f"{store.PATCHES}/{path.name}", path.read_bytes()
    series = series_of(version)
    fragment = fragment_text(series).encode()
    if digest(fragment) == record.get("fragment"):
        yield "fragment.config", fragment


def as_bytes(value: Mapping[str, Any]) -> bytes:
    """Plain data as JSON for people, in the order given; numbers that JSON lacks are refused."""
    text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=True, default=_plain)
    return f"{text}\n".encode()


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
