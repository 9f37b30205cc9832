"""Everything that a user sees, of two commits, side by side: what differs between them.

    python -m tests.same BASE [KIND ...]         compare the working tree with the commit BASE
    python -m tests.same --collect DIR [KIND ...]    only write what this tree shows
    python -m tests.same --compare DIR DIR [KIND ...]    compare what was written

A commit is checked out beside this tree and collected by its own copy of this file, with this
environment. What a tree shows is one JSON file per kind: texts by key. The kinds are the functions
of `KINDS`. The exit code is 5 if anything differs.
"""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy

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
            code, _, refusal = answer("runs", "export", str(path), "--csv", str(table))
            if code:
                yield path.name, refusal
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
                        parts(where, data) if kind.endswith("json") else [(where, canonical(data))]
                    )


def charts() -> Shown:
    """The figures of every lab over all its recorded runs, also those that no notebook draws."""
    import labs
    from labs.catalog import LABS
    from labs.errors import LabError

    for lab in LABS:
        drawn = getattr(labs.charts, lab)
        values = {"TESTBED": "recorded", "SIZE": "full", **RECORDED_WITH.get(lab, {})}
        study = labs.study(labs.check(lab, values))
        calls = [
            (f"{name} {condition}", partial(getattr(drawn, name), study.run(condition)))
            for name in OF_A_RUN.get(lab, ())
            for condition in study.conditions
        ]
        calls += [
            (name, partial(getattr(drawn, name), study.results()))
            for name in OF_A_TABLE.get(lab, ())
        ]
        calls += [(name, partial(getattr(drawn, name), study)) for name in OF_A_STUDY.get(lab, ())]
        for name, draw in calls:
            try:
                figure = json.loads(draw().to_json())
            except LabError as error:
                yield f"{lab} {name}", str(error)
                continue
            yield from parts(f"{lab} {name}", figure)


RECORDED_WITH: Mapping[str, Mapping[str, object]] = {"stack": {"DURATION_S": 3, "WORK_US": 1000}}
"""Parameters of recorded runs that are not the defaults of size full."""
OF_A_RUN: Mapping[str, Sequence[str]] = {
    "buffers": ("timeline",),
    "nagle": ("ladder",),
    "windows": ("by_packet", "by_part"),
    "queues": ("goodput", "windows", "queue"),
    "sharing": ("goodput", "windows", "queue", "phase"),
}
OF_A_TABLE: Mapping[str, Sequence[str]] = {
    "buffers": ("by_condition", "against_buffer_size", "kernels", "loss", "adv_win_scale"),
    "nagle": ("by_condition", "segments"),
    "queues": ("utilisation", "requests"),
    "sharing": ("share_against_buffer",),
}
OF_A_STUDY: Mapping[str, Sequence[str]] = {
    "nagle": ("matrix", "distribution", "acks"),
    "stack": ("effects", "load_and_latency", "work_per_request", "distribution"),
    "sweeps": ("goodput_by_buffer", "measured_and_predicted", "surface", "in_flight_by_write"),
}


def parts(where: str, figure: Any) -> Shown:
    """What a figure tells: its points, and everything in it that can be read. Not its style."""
    traces: Counter[str] = Counter()
    for trace in figure.get("data", ()):
        name = plain_text(str(trace.get("name", "")))
        traces[name] += 1
        points = {axis: _points(trace.get(axis)) for axis in ("x", "y", "z", "text")}
        yield f"{where} trace {name!r} {traces[name]}", canonical(points)
    layout = figure.get("layout", {})
    for name, value in layout.items():
        if name == "meta":
            yield from ((f"{where} {key}", canonical(words)) for key, words in value.items())
        elif name.startswith(("xaxis", "yaxis")):
            yield (
                f"{where} {name}",
                canonical([value.get("title", {}).get("text"), value.get("type")]),
            )
    yield f"{where} title", canonical(layout.get("title", {}).get("text"))
    for place, note in enumerate(sorted(str(a.get("text")) for a in layout.get("annotations", ()))):
        yield f"{where} annotation {place}", plain_text(note)


def plain_text(words: str) -> str:
    """A text without the marks of HTML."""
    return re.sub(r"<[^>]+>", " ", words).strip()


def _points(values: Any) -> Any:
    """The coordinates of a trace, in five digits; plotly writes long lists as base64."""
    if isinstance(values, Mapping) and "bdata" in values:
        numbers = numpy.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
        values = numbers.reshape(_shape(values, len(numbers))).tolist()
    if isinstance(values, list):
        return [_points(value) for value in values]
    return float(f"{values:.5g}") if isinstance(values, float) else values


def _shape(values: Mapping[str, Any], count: int) -> tuple[int, ...]:
    return tuple(map(int, str(values.get("shape", count)).split(",")))


def captures() -> Shown:
    """The account and the segments of every capture that is recorded or kept as a fixture."""
    with TemporaryDirectory() as folder:
        for path in [*sorted(DATA.glob("*.pcap.gz")), *_recorded_captures(Path(folder))]:
            account = answer("explain", str(path), "--json")[1]
            yield f"explain {path.name}", account.replace(f"{path.parent}/", "")
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
                asked = lab.conditions(lab.Parameters(**values))
                text = canonical([(condition.as_json(), condition.group) for condition in asked])
            except BadInput as error:
                text = str(error)
            yield f"{name} {place}", text


def _drawn(cls: type[Any], chance: random.Random) -> dict[str, object]:
    """Values for some of the parameters of a lab, within what they allow."""
    from labs.drive.parameters.declare import declared

    values: dict[str, object] = {}
    for name, parameter in declared(cls).items():
        if chance.random() < 0.7 or name == "only":
            continue
        if parameter.choices is not None:
            values[name] = chance.choice(parameter.choices)
        elif parameter.kind is bool:
            values[name] = chance.random() < 0.5
        elif parameter.kind in (int, float) and isinstance(parameter.default, int | float):
            low = parameter.default / 2 if parameter.low is None else parameter.low
            high = 2 * parameter.default if parameter.high is None else parameter.high
            drawn = chance.uniform(low, min(high, 10 * max(1, parameter.default)))
            values[name] = round(drawn) if parameter.kind is int else round(drawn, 3)
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
    """What each exercise expects, on every kernel and on the default exercise."""
    from labs.catalog import LABS, find
    from labs.errors import LabError
    from labs.grading.grade_sheet import RunEvidence
    from labs.read.exercises.exercise import of_lab

    for name in LABS:
        lab = find(name)
        for exercise in of_lab(lab)[0]:
            for kernel in ("5.10", "6.1", "6.12", "7.2"):
                try:
                    expected = repr(exercise.expected(RunEvidence(kernel, lab)))
                except LabError as error:
                    expected = str(error)
                yield f"{exercise.notebook} {exercise.name} {kernel}", expected


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
        _, text, refusal = answer(*words, "--json")
        yield f"keys of labs {words[0]}", canonical(_keys(json.loads(text))) if text else refusal


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
    for kind in (
        code,
        conditions,
        commands,
        exercises,
        claims,
        archives,
        captures,
        charts,
        notebooks,
    )
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
    parser.add_argument(
        "--compare", type=Path, nargs=2, metavar="DIR", help="compare what was written"
    )
    args = parser.parse_args()
    named = [
        *([] if args.base is None or not (args.collect or args.compare) else [args.base]),
        *args.kinds,
    ]
    kinds = named or list(KINDS)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"{unknown[0]} is not a kind. Allowed: {', '.join(KINDS)}")
    if args.collect is not None:
        collect(args.collect, kinds)
        return 0
    if args.compare is not None:
        return DIFFERS if differences(args.compare[0], args.compare[1], kinds) else 0
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
