"""Which verdicts moved between two sets of them, and what differs in the runs behind them.

Each set has the form of what `labs claims --json` prints. A verdict moved if its word did, on the
whole or on one testbed and kernel series, or if only one set has the claim. Other figures under the
same verdict are only counted. What moved has both sides, the earlier one first; None stands for a
side that lacks the claim, or the testbed and kernel series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labs.drive.record.stored_files import parse, read_bytes
from labs.errors import BadInput, Damaged
from labs.read.claims.verdict import Witness
from labs.read.display.format import few, figures_in_words, printable
from labs.read.json_schema import objection
from labs.read.runs.compare import Change
from labs.read.theory.kernels import series

SCHEMA = Path(__file__).with_name("verdicts.schema.json")
MOST_BYTES = 64 << 20
AGAIN = "Allowed: what `labs claims --json` prints, a bundle, or a release of this project"
DIGITS = 9
SHOWN = 6
"""Names of conditions in a line."""
OF_THE_CLAIM = ("expected", "unit", "tolerance_pct", "conditions")
"""Fields of a claim that decide about its verdict."""
BEHIND = {"kernels": "kernel builds", "tools": "tools", "code": "driving code"}
NOWHERE = "none"

PlainVerdict = Mapping[str, Any]
"""A verdict as plain data, as `Verdict.as_json` has it; or that of one witness."""
Sides = tuple[Any, Any]


@dataclass(frozen=True)
class MovedWitness:
    """One testbed and kernel series. `runs` are the conditions whose runs differ, `inputs` what
    else differs behind them."""

    testbed: str
    kernels: Sides
    verdicts: Sides
    measured: Sides
    unit: str
    runs: tuple[str, ...]
    inputs: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Whether both sides have a verdict, and not the same one."""
        return None not in self.verdicts and self.verdicts[0] != self.verdicts[1]

    @property
    def percent(self) -> float | None:
        """By how much the measured figure changed, if it is one number on both sides."""
        return Change("measured", *self.measured).percent

    def lines(self) -> Iterator[str]:
        kernel = self.kernels[1] or self.kernels[0] or ""
        yield f"{Witness(self.testbed, kernel)}: {_arrow(self.verdicts)}"
        if None in self.verdicts:
            return
        by = "" if self.percent is None else f", {self.percent:+.3g} %"
        if by or "->" in _arrow(self.measured):
            yield f"measured {_arrow(self.measured)} ({self.unit}{by})"
        if self.kernels[0] != self.kernels[1]:
            yield f"kernel {_arrow(self.kernels)}"
        if self.runs:
            yield f"other runs of {few(self.runs, SHOWN)}"
        if self.inputs:
            yield f"differing: {', '.join(self.inputs)}"


@dataclass(frozen=True)
class Moved:
    """A claim whose verdict moved; `claim` are the fields of the claim that differ."""

    id: str
    verdicts: Sides
    claim: Mapping[str, Sides]
    witnesses: tuple[MovedWitness, ...]

    @property
    def reason(self) -> str:
        """Why the verdict moved, if no run explains it."""
        if None in self.verdicts:
            return "only one side has this claim"
        if self.claim:
            fields = (f"{name} {_arrow(sides)}" for name, sides in self.claim.items())
            return f"the claim differs: {'; '.join(fields)}"
        if any(place.runs or place.inputs or None in place.verdicts for place in self.witnesses):
            return ""
        return "the runs are the same: the code that reads or judges them differs"

    def lines(self) -> Iterator[str]:
        yield f"{self.id:<6} {_arrow(self.verdicts)}"
        for witness in self.witnesses:
            first, *rest = witness.lines()
            yield f"  {first}"
            yield from (f"    {line}" for line in rest)
        if self.reason:
            yield f"  {self.reason}"

    def as_json(self) -> dict[str, Any]:
        witnesses = [{**asdict(place), "percent": place.percent} for place in self.witnesses]
        return {**asdict(self), "witnesses": witnesses, "reason": self.reason}


@dataclass(frozen=True)
class Comparison:
    """The verdicts that moved, of how many claims, and the claims with other figures alone."""

    compared: int
    moved: tuple[Moved, ...]
    other_figures: tuple[str, ...]

    def lines(self) -> list[str]:
        """The comparison as text, the counts last."""
        lines = [printable(line) for verdict in self.moved for line in verdict.lines()]
        figures = f"; other figures: {', '.join(self.other_figures)}" if self.other_figures else ""
        return [*lines, f"{len(self.moved)} of {self.compared} verdicts moved{figures}"]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "moved": [verdict.as_json() for verdict in self.moved]}


def read_verdicts(path: Path) -> list[PlainVerdict]:
    """The verdicts in a file that `labs claims --json` wrote. BadInput if there is no such file,
    Damaged if it is something else."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist. {AGAIN}")
    content = read_bytes(path, most_bytes=MOST_BYTES, follow=True, next_step=AGAIN)
    try:
        return held_to_schema(parse(content), path)
    except ValueError as error:
        raise Damaged(f"{path} is not JSON ({error}). {AGAIN}") from error


def held_to_schema(content: Any, path: Path) -> list[PlainVerdict]:
    """The content of a file as verdicts; Damaged if it is something else."""
    if (wrong := objection(SCHEMA, content)) is not None:
        where = ".".join(map(str, wrong.absolute_path)) or "the whole"
        raise Damaged(f"{path}: {where} is not a verdict. {AGAIN}")
    verdicts: list[PlainVerdict] = content
    return verdicts


def compare_verdicts(before: Sequence[PlainVerdict], now: Sequence[PlainVerdict]) -> Comparison:
    """What moved from one set of verdicts to another, in the order of the claims."""
    old, new = ({str(verdict["id"]): verdict for verdict in side} for side in (before, now))
    moved: list[Moved] = []
    other_figures: list[str] = []
    ids = list(new | old)
    for id_ in ids:
        first, second = old.get(id_), new.get(id_)
        change = _moved(id_, first or {}, second or {})
        if any(place.moved for place in change.witnesses) or len(set(change.verdicts)) == 2:
            moved.append(change)
        elif first and second and _figures(first) != _figures(second):
            other_figures.append(id_)
    return Comparison(len(ids), tuple(moved), tuple(other_figures))


def _moved(id_: str, first: PlainVerdict, second: PlainVerdict) -> Moved:
    left, right = _by_place(first), _by_place(second)
    unit = str((second or first).get("unit", ""))
    every = [
        _witness(place[0], unit, left.get(place, {}), right.get(place, {}))
        for place in left | right
    ]
    both = bool(first and second)
    telling = (place for place in every if place.moved or (both and None in place.verdicts))
    claim = {
        name: (first[name], second[name])
        for name in OF_THE_CLAIM
        if name in first and name in second and first[name] != second[name]
    }
    return Moved(id_, _sides("verdict", first, second), claim, tuple(telling))


def _sides(name: str, before: PlainVerdict, now: PlainVerdict) -> Sides:
    """A field on both sides."""
    return before.get(name), now.get(name)


def _by_place(verdict: PlainVerdict) -> dict[tuple[str, tuple[int, int]], PlainVerdict]:
    """The verdicts of each testbed and kernel series."""
    return {
        (witness["testbed"], series(witness["kernel"]) if witness["kernel"] else (0, 0)): witness
        for witness in verdict.get("witnesses", ())
    }


def _witness(testbed: str, unit: str, before: PlainVerdict, now: PlainVerdict) -> MovedWitness:
    names = ("kernel", "verdict", "measured", "runs")
    kernels, verdicts, measured, behind = (_sides(name, before, now) for name in names)
    runs, inputs = list[str](), list[str]()
    if None not in behind:
        old, new = (side["conditions"] for side in behind)
        runs = [name for name in new | old if old.get(name) != new.get(name)]
        inputs = [words for key, words in BEHIND.items() if behind[0][key] != behind[1][key]]
    return MovedWitness(testbed, kernels, verdicts, measured, unit, tuple(runs), tuple(inputs))


def _figures(verdict: PlainVerdict) -> Any:
    witnesses = verdict.get("witnesses", ())
    measured = [witness.get("measured") for witness in witnesses]
    return rounded([verdict.get("measured"), verdict.get("factor"), *measured])


def rounded(value: Any) -> Any:
    """A figure, or several, to as many digits as every processor computes alike."""
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _arrow(sides: Sides) -> str:
    before, now = (figures_in_words(side) or NOWHERE for side in sides)
    return before if before == now else f"{before} -> {now}"
