"""Which verdicts moved between two sets of them, and what differs in the runs behind them.

Each set has the form of what `labs claims --json` prints. A verdict moved if its word did, on the
whole or on one testbed and kernel series, or if only one set has the claim. Other figures under the
same verdict are only counted.
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
from labs.read.theory.windows import series

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

Said = Mapping[str, Any]
"""A verdict as plain data, as `Verdict.as_json` has it."""


@dataclass(frozen=True)
class MovedWitness:
    """One testbed and kernel series on both sides; None where a side has no verdict of it.

    `runs` are the conditions whose runs differ, `inputs` what else differs behind them.
    """

    testbed: str
    kernels: tuple[str | None, str | None]
    verdicts: tuple[str | None, str | None]
    measured: tuple[Any, Any]
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
        a, b = self.measured
        numbers = all(isinstance(one, int | float) for one in (a, b))
        return 100 * (b - a) / abs(a) if numbers and a else None

    def lines(self) -> Iterator[str]:
        before, now = (_words(one) for one in self.verdicts)
        kernel = self.kernels[1] or self.kernels[0] or ""
        yield f"{Witness(self.testbed, kernel)}: {_arrow(before, now)}"
        if None in self.verdicts:
            return
        figures = [f"{figures_in_words(one) or NOWHERE}" for one in self.measured]
        by = "" if self.percent is None else f", {self.percent:+.3g} %"
        if figures[0] != figures[1] or by:
            yield f"measured {_arrow(*figures)} ({self.unit}{by})"
        if self.kernels[0] != self.kernels[1]:
            yield f"kernel {self.kernels[0]} -> {self.kernels[1]}"
        if self.runs:
            yield f"other runs of {few(self.runs, SHOWN)}"
        if self.inputs:
            yield f"differing: {', '.join(self.inputs)}"


@dataclass(frozen=True)
class Moved:
    """A claim whose verdict moved; None for the side that does not have the claim.

    `claim` are the fields of the claim that differ, with both values.
    """

    id: str
    verdicts: tuple[str | None, str | None]
    claim: Mapping[str, tuple[Any, Any]]
    witnesses: tuple[MovedWitness, ...]

    @property
    def reason(self) -> str:
        """Why the verdict moved, if no run explains it."""
        if None in self.verdicts:
            return "only one side has this claim"
        if self.claim:
            return "the claim differs: " + "; ".join(
                f"{name} {_arrow(*map(_shown, both))}" for name, both in self.claim.items()
            )
        if any(one.runs or one.inputs or None in one.verdicts for one in self.witnesses):
            return ""
        return "the runs are the same: the code that reads or judges them differs"

    def lines(self) -> Iterator[str]:
        yield f"{self.id:<6} {_arrow(*map(_words, self.verdicts))}"
        for one in self.witnesses:
            first, *rest = one.lines()
            yield f"  {first}"
            yield from (f"    {line}" for line in rest)
        if self.reason:
            yield f"  {self.reason}"

    def as_json(self) -> dict[str, Any]:
        witnesses = [{**asdict(one), "percent": one.percent} for one in self.witnesses]
        return {**asdict(self), "witnesses": witnesses, "reason": self.reason}


@dataclass(frozen=True)
class Comparison:
    """The verdicts that moved, of how many claims, and the claims with other figures alone."""

    moved: tuple[Moved, ...]
    other_figures: tuple[str, ...]
    compared: int

    def lines(self) -> list[str]:
        """The comparison as text, the counts last."""
        found = [printable(line) for one in self.moved for line in one.lines()]
        figures = f"; other figures: {', '.join(self.other_figures)}" if self.other_figures else ""
        return [*found, f"{len(self.moved)} of {self.compared} verdicts moved{figures}"]

    def as_json(self) -> dict[str, Any]:
        return {
            "compared": self.compared,
            "moved": [one.as_json() for one in self.moved],
            "other_figures": list(self.other_figures),
        }


def read_verdicts(path: Path) -> list[Said]:
    """The verdicts in a file that `labs claims --json` wrote. BadInput if there is no such file,
    Damaged if it is something else."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist. {AGAIN}")
    content = read_bytes(path, most_bytes=MOST_BYTES, follow=True, next_step=AGAIN)
    try:
        found = parse(content)
    except ValueError as error:
        raise Damaged(f"{path} is not JSON ({error}). {AGAIN}") from error
    return held_to_schema(found, path)


def held_to_schema(found: Any, path: Path) -> list[Said]:
    """The content of a file as verdicts; Damaged if it is something else."""
    if (wrong := objection(SCHEMA, found)) is not None:
        where = ".".join(map(str, wrong.absolute_path)) or "the whole"
        raise Damaged(f"{path}: {where} is not a verdict. {AGAIN}")
    assert isinstance(found, list)
    return found


def compare_verdicts(before: Sequence[Said], now: Sequence[Said]) -> Comparison:
    """What moved from one set of verdicts to another, in the order of the claims."""
    old, new = ({str(one["id"]): one for one in some} for some in (before, now))
    moved: list[Moved] = []
    figures: list[str] = []
    every = list(dict.fromkeys([*new, *old]))
    for id_ in every:
        a, b = old.get(id_), new.get(id_)
        found = _moved(id_, a, b)
        words = any(one.moved for one in found.witnesses)
        if found.verdicts[0] != found.verdicts[1] or words:
            moved.append(found)
        elif a is not None and b is not None and _figures(a) != _figures(b):
            figures.append(id_)
    return Comparison(tuple(moved), tuple(figures), len(every))


def _moved(id_: str, a: Said | None, b: Said | None) -> Moved:
    verdicts = tuple(None if one is None else _verdict(one) for one in (a, b))
    left, right = ({} if one is None else _by_place(one) for one in (a, b))
    unit = str((b or a or {}).get("unit", ""))
    pairs = {place: (left.get(place), right.get(place)) for place in {**left, **right}}
    witnesses = tuple(_witness(place[0], unit, *pair) for place, pair in pairs.items())
    claim = (
        {}
        if a is None or b is None
        else {
            name: (a[name], b[name])
            for name in OF_THE_CLAIM
            if name in a and name in b and a[name] != b[name]
        }
    )
    telling = tuple(one for one in witnesses if one.moved or (a and b and None in one.verdicts))
    return Moved(id_, (verdicts[0], verdicts[1]), claim, telling)


def _by_place(one: Said) -> dict[tuple[str, tuple[int, int]], Said]:
    """The verdicts of each testbed and kernel series."""
    return {
        (each["testbed"], series(each["kernel"]) if each["kernel"] else (0, 0)): each
        for each in one.get("witnesses", ())
    }


def _witness(testbed: str, unit: str, a: Said | None, b: Said | None) -> MovedWitness:
    def both(name: str) -> tuple[Any, Any]:
        return (None if a is None else a.get(name), None if b is None else b.get(name))

    words = tuple(None if one is None else str(one["verdict"]) for one in (a, b))
    runs, inputs = _behind(*both("runs"))
    return MovedWitness(
        testbed, both("kernel"), (words[0], words[1]), both("measured"), unit, runs, inputs
    )


def _behind(a: Said | None, b: Said | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The conditions whose runs differ, and what else differs behind them."""
    if a is None or b is None:
        return (), ()
    names = dict.fromkeys([*b["conditions"], *a["conditions"]])
    differing = (one for one in names if a["conditions"].get(one) != b["conditions"].get(one))
    return tuple(differing), tuple(said for key, said in BEHIND.items() if a[key] != b[key])


def _figures(one: Said) -> list[Any]:
    witnesses = one.get("witnesses", ())
    found = [one.get("measured"), one.get("factor"), *(each.get("measured") for each in witnesses)]
    return list(map(rounded, found))


def rounded(value: Any) -> Any:
    """A figure, or several, to as many digits as every processor computes alike."""
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _verdict(one: Said) -> str:
    return str(one["verdict"])


def _shown(value: Any) -> str:
    return figures_in_words(value) or NOWHERE


def _words(verdict: str | None) -> str:
    return NOWHERE if verdict is None else verdict


def _arrow(before: str, now: str) -> str:
    return before if before == now else f"{before} -> {now}"
