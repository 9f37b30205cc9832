"""Everything that a user sees, of two commits, side by side: what differs between them.

    python -m tests.same BASE [KIND ...]         compare the working tree with the commit BASE
    python -m tests.same --collect DIR [KIND ...]    only write what this tree shows

A commit is checked out beside this tree and collected by its own copy of this file, with this
environment. What a tree shows is one JSON file per kind: texts by key. The kinds are the functions
of `KINDS`. The exit code is 5 if anything differs.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
DIFFERS = 5
DRAWN_SETS = 500
"""Sets of parameters that are drawn per lab."""
LONGEST = 160
"""The characters of a value that a difference shows."""
Shown = Iterator[tuple[str, str]]
NOT_ON_EVERY_MACHINE = ("doctor", "kernel")


def canonical(value: object) -> str:
    """A value as text; equal values have equal texts."""
    return json.dumps(value, sort_keys=True, default=str)


def answer(*words: str) -> tuple[int, str, str]:
    """What `labs WORDS` returns and prints, in this process."""
    from labs.cli.__main__ import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def archives() -> Shown:
    """The flat table of every recorded archive, cell by cell."""
    for path in sorted(DATA.glob("*.tar.xz")):
        with TemporaryDirectory() as folder:
            table = Path(folder) / "table.csv"
            code, _, said = answer("runs", "export", str(path), "--csv", str(table))
            if code:
                yield path.name, said
                continue
            rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8"))))
            for row in rows:
                where = f"{path.name} {row['condition']} {row['key'][:12]}"
                yield from ((f"{where} {name}", value) for name, value in row.items())
            yield f"{path.name} schema", table.with_suffix(".schema.json").read_text("utf-8")


def claims() -> Shown:
    """The verdict on every claim, field by field, and the texts."""
    for line in answer("claims", "--json")[1].splitlines():
        if line.strip("[],\n "):
            verdict = json.loads(line.strip("[], "))
            yield from (
                (f"{verdict['id']} {name}", canonical(value)) for name, value in verdict.items()
            )
    yield "text", answer("claims", "--all")[1]


def notebooks() -> Shown:
    """Every output of the notebooks over recorded runs, by cell: figures, tables, sentences."""
    from labs.publish.execute import execute, open_notebook
    from labs.read.notebook_file import parameters, read_notebook

    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = read_notebook(path)
        values = {"TESTBED": "recorded"} if "TESTBED" in parameters(notebook) else {}
        book = execute(open_notebook(notebook), path, values, progress=False)
        for cell in book.cells:
            for place, output in enumerate(cell.get("outputs", ())):
                for kind, data in output.get("data", {"text": output.get("text", "")}).items():
                    where = f"{path.stem} {cell.id} {place} {kind}"
                    yield from (
                        _parts(where, data) if kind.endswith("json") else [(where, canonical(data))]
                    )


def _parts(where: str, figure: Any) -> Shown:
    """A figure as its traces, its layout, and the table and texts in it."""
    for place, trace in enumerate(figure.get("data", ())):
        yield f"{where} trace {place} {trace.get('name', '')}", canonical(trace)
    for name, value in figure.get("layout", {}).items():
        yield f"{where} layout.{name}", canonical(value)


def captures() -> Shown:
    """The account and the segments of every capture that is recorded or kept as a fixture."""
    with TemporaryDirectory() as folder:
        for path in [*sorted(DATA.glob("*.pcap.gz")), *_recorded_captures(Path(folder))]:
            yield f"explain {path.name}", answer("explain", str(path), "--json")[1]
            table = Path(folder) / "segments.csv"
            answer("capture", "table", str(path), "--out", str(table))
            yield f"table {path.name}", table.read_text("utf-8") if table.is_file() else ""


def _recorded_captures(folder: Path) -> Iterator[Path]:
    """The recorded captures of each lab, one run of every condition."""
    from labs.read.runs.archive import run_folders, unpacked

    for archive in sorted(DATA.glob("*.tar.xz")):
        seen = set()
        for run in run_folders(unpacked(archive)):
            condition = run.name.rpartition("-")[0]
            for capture in sorted(run.rglob("*.pcap")) if condition not in seen else ():
                seen.add(condition)
                copy = folder / f"{archive.name}-{condition}-{capture.parent.name}.pcap"
                copy.write_bytes(capture.read_bytes())
                yield copy


def conditions() -> Shown:
    """The conditions of every lab, for its sizes and for drawn parameters."""
    from labs.catalog import LABS, find
    from labs.errors import BadInput

    for name in LABS:
        lab = find(name)
        chance = random.Random(name)
        sets: list[dict[str, Any]] = [{"size": "small"}, {"size": "full"}]
        sets += [_drawn(lab.Parameters, chance) for _ in range(DRAWN_SETS)]
        for place, values in enumerate(sets):
            try:
                every = lab.conditions(lab.Parameters(**values))
                text = canonical([(one.as_json(), one.group) for one in every])
            except BadInput as error:
                text = str(error)
            yield f"{name} {place}", text


def _drawn(cls: type[Any], chance: random.Random) -> dict[str, object]:
    """Values for some of the parameters of a lab, within what they allow."""
    from labs.drive.parameters.declare import declared

    values: dict[str, object] = {}
    for name, one in declared(cls).items():
        if chance.random() < 0.7 or name == "only":
            continue
        if one.choices is not None:
            values[name] = chance.choice(one.choices)
        elif one.kind is bool:
            values[name] = chance.random() < 0.5
        elif one.kind in (int, float) and isinstance(one.default, int | float):
            low = one.default / 2 if one.low is None else one.low
            high = 2 * one.default if one.high is None else one.high
            drawn = chance.uniform(low, min(high, 10 * max(1, one.default)))
            values[name] = round(drawn) if one.kind is int else round(drawn, 3)
    return values


def code() -> Shown:
    """The digest of the code that a run of each lab executes, on each testbed."""
    from labs.catalog import LABS, find
    from labs.launch.code_digest import digest
    from labs.launch.plan import code_of

    for name in LABS:
        for testbed in ("virtual", "namespaces", "vagrant"):
            yield f"{name} {testbed}", digest(code_of(find(name), testbed))


def exercises() -> Shown:
    """What each exercise expects, on every kernel and on the default one."""
    from labs.catalog import LABS, find
    from labs.errors import LabError
    from labs.grading.run_evidence import RunEvidence

    for name in LABS:
        lab = find(name)
        for one in getattr(lab.part("exercises"), "EXERCISES", ()):
            for kernel in ("5.10", "6.1", "6.12", "7.2"):
                try:
                    expected = repr(one.expected(RunEvidence(lab, kernel)))
                except LabError as error:
                    expected = str(error)
                yield f"{one.notebook} {one.name} {kernel}", expected


def commands() -> Shown:
    """The help of every command, and the keys of what it prints as JSON."""
    from labs.catalog import LABS
    from labs.cli.__main__ import COMMANDS

    os.environ["COLUMNS"] = "80"
    for name in COMMANDS:
        _, text, _ = answer(name, "--help")
        yield f"{name} --help", text
        for verb in _verbs(text):
            yield f"{name} {verb} --help", answer(name, verb, "--help")[1]
    for lab in LABS:
        yield f"run {lab} --help", answer("run", lab, "--help")[1]
        yield f"parameters {lab}", answer("parameters", lab)[1]
        yield f"parameters {lab} --json", answer("parameters", lab, "--json")[1]
    for words in (
        ("advise", "1000", "80"),
        ("runs", "list", str(DATA / "nagle-kernels.tar.xz")),
        ("audit",),
        ("doctor",),
    ):
        _, text, said = answer(*words, "--json")
        yield f"keys of labs {words[0]}", canonical(_keys(json.loads(text))) if text else said


def _verbs(text: str) -> list[str]:
    """The verbs that a command's help lists."""
    listed = text.partition("positional arguments:\n  VERB\n")[2].partition("\n\n")[0]
    lines = [line for line in listed.splitlines() if line.startswith("    ") and line[4] != " "]
    return [line.split()[0] for line in lines]


def _keys(value: object) -> object:
    """The keys of JSON, without its values; of a list those of its first member."""
    if isinstance(value, dict):
        return {name: _keys(below) for name, below in value.items()}
    return [_keys(value[0])] if isinstance(value, list) and value else None


KINDS: Mapping[str, Callable[[], Shown]] = {
    kind.__name__: kind
    for kind in (code, conditions, commands, exercises, claims, archives, captures, notebooks)
}


def collect(into: Path, kinds: Sequence[str]) -> None:
    """Write what this tree shows."""
    into.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        print(f"{kind} ...", file=sys.stderr, flush=True)
        texts = dict(KINDS[kind]())
        if not texts:
            raise SystemExit(f"{kind}: nothing was collected")
        (into / f"{kind}.json").write_text(json.dumps(texts, indent=0))


def collect_of(tree: Path, into: Path, kinds: Sequence[str]) -> None:
    """Write what another tree shows, by its own copy of this file."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    words = (sys.executable, "-m", "tests.same", "--collect", str(into), *kinds)
    subprocess.run(words, cwd=tree, env=environment, check=True)


def differences(before: Path, after: Path, kinds: Sequence[str]) -> int:
    """Print what differs, and return how many keys."""
    total = 0
    for kind in kinds:
        old, new = (json.loads((side / f"{kind}.json").read_text()) for side in (before, after))
        changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        print(f"{kind}: {len(changed)} of {len({**old, **new})} differ")
        for key in changed:
            print(f"  {key}\n    - {_excerpt(old.get(key), new.get(key))}")
            print(f"    + {_excerpt(new.get(key), old.get(key))}")
        total += len(changed)
    return total


def _excerpt(text: str | None, other: str | None) -> str:
    """The part of a text around the first place where it is not the other's."""
    if text is None:
        return "(missing)"
    pairs = zip(text, other or "", strict=False)
    same = next((at for at, (mine, its) in enumerate(pairs) if mine != its), 0)
    begin = max(0, same - LONGEST // 4)
    return repr(text[begin : begin + LONGEST])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", metavar="BASE", help="the commit to compare with")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--collect", type=Path, metavar="DIR", help="only write what is shown")
    args = parser.parse_args()
    named = [*([] if args.base is None or args.collect is None else [args.base]), *args.kinds]
    kinds = named or list(KINDS)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"{unknown[0]} is not a kind. Allowed: {', '.join(KINDS)}")
    if args.collect is not None:
        collect(args.collect, kinds)
        return 0
    if args.base is None:
        parser.error("name the commit to compare with, such as HEAD~1")
    with TemporaryDirectory() as folder:
        tree, before, after = (Path(folder) / name for name in ("tree", "before", "after"))
        subprocess.run(
            ("git", "-C", str(ROOT), "worktree", "add", "--detach", str(tree), args.base),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            collect_of(tree, before, kinds)
            collect_of(ROOT, after, kinds)
        finally:
            subprocess.run(
                ("git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)), check=True
            )
        return DIFFERS if differences(before, after, kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
