"""Did the result change? Two sides, run by run: identical bytes, equal results, or changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from labs.drive.record.seal import HOST, canonical
from labs.drive.record.stored_files import read_json
from labs.errors import BadInput, Damaged
from labs.read.display.format import in_runs, input_value
from labs.read.runs.archive import is_packed, is_run, run_folders, runs_folder
from labs.read.runs.run import Run, open_run
from labs.read.runs.schemas import open_study

IDENTICAL, EQUAL, CHANGED = "identical", "equal", "changed"
GRADES = (IDENTICAL, EQUAL, CHANGED)
# What a row of results says about the run itself; the inputs are compared on their own.
OF_THE_RUN = frozenset(
    {"lab", "condition", "testbed", "kernel", "source", "key", "digest", "link", "path"}
)

Results = Mapping[str, object]


@dataclass(frozen=True)
class Change:
    """A named value on the two sides; None where a side has none."""

    name: str
    a: object
    b: object

    @property
    def percent(self) -> float | None:
        """By how much b differs from a, in per cent of a; None if a is 0 or no number."""
        a, b = _number(self.a), _number(self.b)
        return None if a is None or b is None or a == 0 else 100.0 * (b - a) / abs(a)

    @property
    def by(self) -> str:
        """The change and by how much: `steady_mib_s 12 -> 13 (+8.33 %)`."""
        return str(self) if self.percent is None else f"{self} ({self.percent:+.3g} %)"

    def __str__(self) -> str:
        return f"{self.name} {input_value(self.a)} -> {input_value(self.b)}"


@dataclass(frozen=True)
class Pair:
    """Two runs of one condition, and what differs in their results, inputs and files."""

    a: Run
    b: Run
    grade: str
    results: tuple[Change, ...]
    inputs: tuple[Change, ...]
    files: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        yield f"{self.a.lab} {self.a.condition}: {self.grade}"
        yield from (f"  {change.by}" for change in self.results)
        if self.inputs:
            yield f"  inputs that differ: {', '.join(_in_short(self.inputs))}"
        elif self.grade != IDENTICAL:
            yield f"  the inputs are equal; bytes differ in {', '.join(self.files)}"
            yield f"  {self._why_of_equal_inputs()}"

    def _why_of_equal_inputs(self) -> str:
        """What is known of two runs that differ although their inputs do not."""
        if not self.a.where.virtual_time:
            return "runs in real time do not repeat to the byte: compare testbeds by repetitions"
        about = [_machine(run) for run in (self.a, self.b)]
        differing = ", ".join(map(str, changes(*about)))
        if not all(about):
            cause = "one run or both lack host.json"
        elif differing:
            cause = f"according to host.json these differ: {differing}"
        else:
            cause = "host.json shows no difference"
        return (
            "something that is not an input affected a run, or a file was edited and sealed again; "
            f"{cause}. Repeat both with --fresh on one machine; docs/reproducibility.md lists the "
            "known exceptions"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "lab": self.a.lab,
            "condition": self.a.condition,
            "grade": self.grade,
            "a": _run_json(self.a),
            "b": _run_json(self.b),
            "changed": [{**vars(change), "percent": change.percent} for change in self.results],
            "inputs": [vars(change) for change in self.inputs],
            "files": list(self.files),
        }


@dataclass(frozen=True)
class Comparison:
    """All pairs of two sides, and the runs that only one side has."""

    pairs: tuple[Pair, ...]
    only_a: tuple[Run, ...]
    only_b: tuple[Run, ...]

    @property
    def grade(self) -> str:
        """The worst grade of the pairs; a run that only one side has is in no pair."""
        return max((pair.grade for pair in self.pairs), key=GRADES.index)

    @property
    def counts(self) -> dict[str, int]:
        """The number of pairs, and of the runs that only one side has."""
        return {
            "compared": len(self.pairs),
            "only_first": len(self.only_a),
            "only_second": len(self.only_b),
        }

    def lines(self) -> list[str]:
        """The comparison as text: one line per pair, its changes below it, the counts last."""
        text = [line for pair in self.pairs for line in pair.lines()]
        for side, runs in (("first", self.only_a), ("second", self.only_b)):
            text += only_in(side, Counter(f"{run.lab} {run.condition}" for run in runs))
        compared, *alone = map(in_runs, self.counts.values())
        text.append(
            f"{compared} compared: {self.grade}; {alone[0]} only in the first; {alone[1]} only in "
            "the second"
        )
        return text

    def as_json(self) -> dict[str, object]:
        return {
            "grade": self.grade,
            **self.counts,
            "pairs": [pair.as_json() for pair in self.pairs],
            "only_a": [_run_json(run) for run in self.only_a],
            "only_b": [_run_json(run) for run in self.only_b],
        }


def only_in(side: str, counts: Mapping[str, int]) -> Iterator[str]:
    """A line for each condition with runs that only one side has."""
    for condition, count in counts.items():
        yield f"{condition}: {in_runs(count)} only in the {side}"


def compare(a: str | Path, b: str | Path, results_of: Callable[[Run], Results]) -> Comparison:
    """Compare every run of two sides; `paired` says which runs belong together.

    A side is a run folder, a study file, a RUNS folder or a packed file. `results_of` computes the
    results of a run as its lab does. Raises BadInput if a side has no runs or if the sides have
    none in common; Damaged for a damaged run.
    """
    together, only_a, only_b = paired(every_run(a), every_run(b))
    if not together:
        raise BadInput(
            f"{a} and {b} have no run in common that could be compared ({_names(only_a)}; "
            f"{_names(only_b)}). Compare runs of the same conditions"
        )
    pairs = tuple(graded(first, other, results_of) for first, other in together)
    return Comparison(pairs, tuple(only_a), tuple(only_b))


def every_run(what: str | Path) -> list[Run]:
    """Open all runs of a run folder, a study file, a folder of runs or a packed file."""
    path = Path(what)
    if path.is_file() and not is_packed(path):
        folders = [folder for folder in open_study(path).folders() if is_run(folder)]
    elif path.is_dir() and is_run(path):
        folders = [path]
    else:
        folders = run_folders(runs_folder(path))
    if not folders:
        raise BadInput(
            f"{what} contains no run. Name a run, a study file, a folder given to "
            "--into or a packed file"
        )
    return [open_run(folder) for folder in folders]


def paired(
    a: Sequence[Run], b: Sequence[Run]
) -> tuple[list[tuple[Run, Run]], list[Run], list[Run]]:
    """Pairs, what only a has, what only b has.

    Runs with equal keys belong together. Of the others, two runs belong together if they are the
    only ones on their sides that answer a question: first the same condition on the same kernel
    with the same seed, then the same condition, then a condition of the same name.
    """
    questions = (lambda run: run.key, _on_its_kernel, _asked, _named)
    groups, *rest = matched(a, b, questions, lambda *sides: [*map(len, sides)] == [1, 1])
    pairs = sorted(((left[0], right[0]) for left, right in groups), key=lambda p: _named(p[0]))
    only_a, only_b = (sorted(side, key=_named) for side in rest)
    return pairs, only_a, only_b


def matched(
    a: Iterable[Run],
    b: Iterable[Run],
    questions: Iterable[Callable[[Run], object]],
    fits: Callable[[list[Run], list[Run]], bool],
) -> tuple[list[tuple[list[Run], list[Run]]], list[Run], list[Run]]:
    """The runs of both sides that answer the same question, if they fit, by the first of several
    questions by which they do; and the runs that are left on each side."""
    together: list[tuple[list[Run], list[Run]]] = []
    rest = [*a], [*b]
    for question in questions:
        groups: dict[object, tuple[list[Run], list[Run]]] = defaultdict(lambda: ([], []))
        for at, runs in enumerate(rest):
            for run in runs:
                groups[question(run)][at].append(run)
        together += (fitting := [sides for sides in groups.values() if fits(*sides)])
        taken = {id(run) for sides in fitting for side in sides for run in side}
        left = ([run for run in side if id(run) not in taken] for side in rest)
        rest = next(left), next(left)
    return together, *rest


def _on_its_kernel(run: Run) -> object:
    inputs = run.inputs
    return (*_asked(run), run.kernel.release, inputs.get("seed"), inputs.get("repetition"))


def _asked(run: Run) -> tuple[str, bytes, str]:
    return run.lab, canonical(run.condition_asked.as_json()), run.testbed


def _named(run: Run) -> tuple[str, str]:
    return run.lab, run.condition


def graded(a: Run, b: Run, compute: Callable[[Run], Results]) -> Pair:
    """Two runs of one condition: identical bytes, equal results, or what changed."""
    if a.digest == b.digest:
        return Pair(a, b, IDENTICAL, (), (), ())
    results = tuple(changes(_measured(compute(a)), _measured(compute(b))))
    return Pair(
        a,
        b,
        CHANGED if results else EQUAL,
        results,
        tuple(_changed_inputs(a, b)),
        tuple(_changed_files(a, b)),
    )


def _measured(results: Results) -> Results:
    """What was measured, as plain Python values: an analysis may return numpy's."""
    return {
        name: value.item() if hasattr(value, "item") else value
        for name, value in results.items()
        if name not in OF_THE_RUN
    }


OF_THE_MACHINE = ("cpu", "uname", "cpus", "boot")
"""What host.json says about a machine, besides its load and the time."""


def _machine(run: Run) -> dict[str, object]:
    """What host.json says about the machine that performed a run; empty if it is missing."""
    try:
        machine = read_json(run.path / HOST)
    except Damaged:
        return {}
    return {name: machine[name] for name in OF_THE_MACHINE if name in machine} if machine else {}


SHOWN = 6


def _in_short(inputs: Sequence[Change]) -> Iterator[str]:
    """The inputs that differ; for many tools or libraries, how many only one side has."""
    for group, many in groupby(inputs, key=lambda change: change.name.partition(".")[0]):
        listed = list(many)
        alone = {
            side: [change for change in listed if getattr(change, other) is None]
            for side, other in (("first", "b"), ("second", "a"))
        }
        for side, changes_ in alone.items():
            if len(changes_) > SHOWN:
                listed = [change for change in listed if change not in changes_]
                yield f"{len(changes_)} {group} that only the {side} has"
        yield from map(str, listed)


def _changed_files(a: Run, b: Run) -> list[str]:
    return [change.name for change in changes(a.seal.files, b.seal.files)]


def _changed_inputs(a: Run, b: Run) -> Iterator[Change]:
    """The inputs that differ; for a tool its version, if it differs, instead of its digest."""
    differing = changes(a.inputs, b.inputs)
    if not differing and a.key != b.key:
        yield Change("key", a.key, b.key)  # null here, and no such entry there
    for change in differing:
        tool = change.name.removeprefix("tools.")
        before, after = a.tools.get(tool), b.tools.get(tool)
        if change.name.startswith("tools.") and before != after:
            yield Change(change.name, before, after)
        else:
            yield change


def changes(a: Mapping[str, object], b: Mapping[str, object]) -> list[Change]:
    """The values that differ in two nested mappings, under dotted names."""
    left, right = dict(_flat(a)), dict(_flat(b))
    every = (
        Change(name, left.get(name), right.get(name)) for name in dict.fromkeys([*left, *right])
    )
    return [change for change in every if not _equal(change.a, change.b)]


def _flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """The single values in a nest of them, under dotted names."""
    parts: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        yield name, value
        return
    for part, below in parts:
        yield from _flat(below, f"{name}.{part}" if name else str(part))


def _equal(a: object, b: object) -> bool:
    if a != a and b != b:
        return True  # no number on both sides
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value)


def _names(runs: Iterable[Run]) -> str:
    return ", ".join(f"{run.lab} {run.condition}" for run in runs)


def _run_json(run: Run) -> dict[str, object]:
    return {
        "path": str(run.path),
        "lab": run.lab,
        "condition": run.condition,
        "key": run.key,
        "digest": run.digest,
    }
