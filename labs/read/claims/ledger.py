"""The ledger: what an article says, read from its TOML file and checked.

    [article]                     number, title, lab, kernels
    [article.parameters]          the article's own, by the names of the lab's parameters
    [[claim]]
      id, statement, expected, unit
      tolerance_pct, tolerance_reason    how far a figure may lie from the article's, and why
      conditions                  whose runs are looked at; `*` as in names of files
      parameters                  which of the article's the claim rests on; "link" is all of those
      column, reduction           read so: a column of the results, over the runs; or
      judge                       read so: the name of a judging function
      arguments                   figures that the judging function takes
      hardware                    true: a figure of the author's machine, shown and not judged
      until, changed, source      the last kernel series that it is true for, what came, says who

`expected` and `column` are one, or several by name. There is no field for a verdict.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import unknown
from labs.errors import BadInput
from labs.read.theory.kernel_version import series

LINK = ("rate_mbit", "delay_ms", "loss_pct", "jitter_ms", "shaped_at")
REDUCTIONS = ("only", "median", "mean", "min", "max")
WILD = "*?"
"""What in a condition stands for others: the rest of a name, one sign."""
VERDICT_FIELDS = frozenset(
    {"verdict", "measured", "predicted", "factor", "reason", "witness", "word", "result"}
)
Figure = float | str | Mapping[str, float | str]
"""One figure, or several by name; text where the article gives no number."""
_ID = re.compile(r"A(\d{1,2})\.(\d{1,3})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; the module's docstring says what each field means."""

    id: str
    statement: str
    expected: Figure
    unit: str
    tolerance_pct: float | None = None
    tolerance_reason: str = ""
    conditions: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    column: str | Mapping[str, str] | None = None
    reduction: str = "only"
    judge: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    hardware: bool = False
    until: str | None = None
    changed: str = ""
    source: str = ""

    @property
    def allowed(self) -> float:
        """The tolerance as a share; 0 where there is none."""
        return (self.tolerance_pct or 0.0) / 100


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article's claims, and what it was measured with."""

    number: int
    title: str
    lab: str
    kernels: str
    parameters: Mapping[str, float | str]
    claims: tuple[Claim, ...]

    def claim(self, id_: str) -> Claim:
        """The claim of that id; BadInput, with those there are, for another."""
        for claim in self.claims:
            if claim.id == id_:
                return claim
        raise BadInput(
            unknown(id_, [claim.id for claim in self.claims], f"claim of article {self.number}")
        )


_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "statement": str,
    "expected": (int, float, str, dict),
    "unit": str,
    "tolerance_pct": (int, float),
    "tolerance_reason": str,
    "conditions": list,
    "parameters": list,
    "column": (str, dict),
    "reduction": str,
    "judge": str,
    "arguments": dict,
    "hardware": bool,
    "until": str,
    "changed": str,
    "source": str,
}
_REQUIRED = ("id", "statement", "expected", "unit")


def read(path: Path) -> Article:
    """Read a ledger. BadInput, in one line with the claim's id, for what it cannot say."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path.name}: {' '.join(str(error).split())}") from error
    head = found.get("article")
    if not isinstance(head, dict) or set(found) - {"article", "claim"}:
        raise BadInput(
            f"{path.name}: it has one [article] and a [[claim]] for each claim, and nothing else"
        )
    wanted: dict[str, type] = {
        "number": int,
        "title": str,
        "lab": str,
        "kernels": str,
        "parameters": dict,
    }
    for name, kind in wanted.items():
        if not isinstance(head.get(name), kind):
            raise BadInput(f"{path.name}: [article] has no {name} that is a {kind.__name__}")
    claims = tuple(_claim(path.name, one, head["parameters"]) for one in found.get("claim", []))
    _in_order(path.name, head["number"], claims)
    return Article(**{name: head[name] for name in wanted}, claims=claims)


def _claim(file: str, said: Mapping[str, Any], parameters: Mapping[str, Any]) -> Claim:
    where = f"{file}, {said.get('id', 'a claim without id')}"
    names = [one.name for one in fields(Claim)]
    for name, value in said.items():
        if name in VERDICT_FIELDS:
            raise BadInput(
                f"{where}: {name} is not written down, it is computed from runs; take the line out"
            )
        if name not in names:
            raise BadInput(f"{where}: {unknown(name, names, 'field of a claim')}")
        kind = _TYPES[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BadInput(f"{where}: {name} = {value!r} is of the wrong type")
    missing = [name for name in _REQUIRED if name not in said]
    if missing:
        raise BadInput(f"{where}: it has no {' and no '.join(missing)}")
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
    }
    plain["parameters"] = _spread(where, plain.get("parameters", ()), parameters)
    claim = Claim(**plain)
    for fault in _faults(claim):
        raise BadInput(f"{where}: {fault}")
    return claim


def _spread(where: str, names: tuple[str, ...], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The parameters by name, `link` spread out; BadInput for one that the article has not."""
    found = [each for name in names for each in (LINK if name == "link" else (name,))]
    for name in found:
        if name not in parameters:
            raise BadInput(f"{where}: {unknown(name, ['link', *parameters], 'parameter')}")
    return tuple(found)


def _faults(claim: Claim) -> list[str]:
    """What is wrong with a claim whose fields are known and of the right type."""
    several = isinstance(claim.expected, Mapping)
    found = {
        "its id is no A<article>.<claim>": _ID.fullmatch(claim.id) is None,
        "statement is empty": not claim.statement.strip(),
        "give column or judge, and not both": (claim.column is None) == (claim.judge is None),
        "a column is read from runs; name their conditions": claim.column is not None
        and not claim.conditions,
        "expected and column must name the same figures": claim.column is not None
        and (dict(claim.column) if isinstance(claim.column, Mapping) else {}).keys()
        != (dict(claim.expected) if isinstance(claim.expected, Mapping) else {}).keys(),
        "a column needs expected figures that are numbers": claim.column is not None
        and not all(
            isinstance(value, int | float)
            for value in (
                claim.expected.values() if isinstance(claim.expected, Mapping) else [claim.expected]
            )
        ),
        "a column needs a tolerance_pct, or hardware = true": claim.column is not None
        and claim.tolerance_pct is None
        and not claim.hardware,
        "tolerance_pct is below 0": (claim.tolerance_pct or 0) < 0,
        "tolerance_pct and tolerance_reason go together": (claim.tolerance_pct is None)
        != (not claim.tolerance_reason.strip()),
        "several runs need a reduction: median, mean, min or max": claim.column is not None
        and claim.reduction == "only"
        and (
            len(claim.conditions) > 1
            or any(sign in name for name in claim.conditions for sign in WILD)
        ),
        f"reduction must be one of {', '.join(REDUCTIONS)}": claim.reduction not in REDUCTIONS,
        "expected names no figure": several and not claim.expected,
        "until, changed and source go together": not (
            bool(claim.until) == bool(claim.changed) == bool(claim.source)
        ),
    }
    faults = [fault for fault, wrong in found.items() if wrong]
    if claim.until is not None and not faults:
        series(claim.until)
    return faults


def _in_order(file: str, number: int, claims: tuple[Claim, ...]) -> None:
    for position, claim in enumerate(claims, start=1):
        if claim.id != f"A{number}.{position}":
            raise BadInput(
                f"{file}, {claim.id}: the claims of article {number} go from "
                f"A{number}.1 on in order; this one is number {position}"
            )
