"""What a lab declares about its results: columns, notes, and how far two testbeds may differ.

Standard library only, because a lab in one file declares them in the file that a run executes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, Generic, NoReturn, Self, TypeVar, Union, get_args, get_origin, overload

from labs.drive.parameters.declare import did_you_mean
from labs.errors import BadInput

T_co = TypeVar("T_co", covariant=True)
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Margin:
    """The range of the ratio of two testbeds within which they agree, fixed before any run."""

    low: float
    high: float
    reason: str

    @property
    def span(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def admits(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high


@dataclass(frozen=True)
class Note:
    """A remark about the figures of a run: `code` for programs, `text` for people.

    `excludes`: the headline figure of the run is meaningless, so it is not compared.
    """

    code: str
    text: str
    excludes: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a lab's results.

    `predicted_by` names the column with the predicted value of the same figure. `hidden` columns
    are omitted from the printed table. Repetitions and testbeds are compared by the first
    `headline` column in which a run has a value. A `steady` column is meaningful only if the run
    reached a steady state; a note with the code `not_settled` says that it did not. A `costly`
    column is computed only if it is read, all others together.
    """

    name: str
    unit: str
    meaning: str
    predicted_by: str | None = None
    hidden: bool = False
    headline: bool = False
    steady: bool = False
    costly: bool = False


class ComputedColumn(Generic[T_co]):
    """A column of a class `Results` with the method that computes it, once per run."""

    def __init__(self, compute: Callable[[Any], T_co], declared: Column) -> None:
        self.compute, self.declared = compute, declared

    @overload
    def __get__(self, results: None, owner: type) -> Self: ...

    @overload
    def __get__(self, results: object, owner: type) -> T_co: ...

    def __get__(self, results: object, owner: type) -> Self | T_co:
        if results is None:
            return self
        values, name = results.__dict__, self.declared.name
        if name not in values:
            values[name] = self.compute(results)
        value: T_co = values[name]
        return value

    def __set__(self, results: object, value: object) -> NoReturn:
        """TypeError: else an attribute `run` would be taken for the value of a column `run`."""
        raise TypeError(f"{self.declared.name} is a column: give the attribute another name")

    def type_in(self, results: type) -> Any:
        """The type of its values in this class `Results`, as annotated; Any without."""
        return _returned(self.compute)


class PartColumn(ComputedColumn[Any]):
    """A column that is a part of a value of a class `Results`; see `part`."""

    def __init__(
        self, of: str | Function, declared: Column, per: float, kind: Function | None
    ) -> None:
        super().__init__(self._follow, declared)
        self.steps: tuple[str | Function, ...] = ("run", of) if callable(of) else (*of.split("."),)
        self.per, self.kind = per, kind

    def __set_name__(self, owner: type, name: str) -> None:
        self.declared = replace(self.declared, name=name)

    def _follow(self, results: object) -> Any:
        value: Any = results
        for step in self.steps:
            if value is None:
                return None
            value = _step(value, step)
        if value is None:
            return None
        value = value if self.kind is None else self.kind(value)
        return value if self.per == 1 else value / self.per

    def type_in(self, results: type) -> Any:
        """The type at the end of its path. BadInput for a path that does not exist."""
        hint: Any = results
        for step in self.steps:
            what = f"{self.declared.name} is {'.'.join(map(str, self.steps))}"
            hint = _returned(step) if callable(step) else _type_of_step(hint, step, what)
        if self.kind is not None:
            return self.kind if isinstance(self.kind, type) else _returned(self.kind)
        return hint if self.per == 1 else float


def _step(value: Any, step: str | Function) -> Any:
    """The next value on a path; None for an element or a key that there is not."""
    if callable(step):
        return step(value)
    if step.isdigit():
        return value[int(step)] if int(step) < len(value) else None
    return value.get(step) if isinstance(value, Mapping) else getattr(value, step)


def column(
    meaning: str,
    *,
    unit: str = "",
    predicted_by: str | None = None,
    hidden: bool = False,
    headline: bool = False,
    steady: bool = False,
    costly: bool = False,
) -> Callable[[Callable[[Any], T_co]], ComputedColumn[T_co]]:
    """Declare that a method of a lab's class `Results` computes the column of its name; see
    `Column`. BadInput for a column that the class declares twice."""
    body = sys._getframe(1).f_locals  # what the class has defined so far

    def declare(compute: Callable[[Any], T_co]) -> ComputedColumn[T_co]:
        name = compute.__name__
        if name in body:
            raise BadInput(f"Results declares {name} twice. Remove one")
        declared = Column(
            name, unit, meaning, predicted_by, hidden, headline, steady=steady, costly=costly
        )
        return ComputedColumn(compute, declared)

    return declare


def part(
    of: str | Function,
    meaning: str,
    *,
    unit: str = "",
    predicted_by: str | None = None,
    hidden: bool = False,
    headline: bool = False,
    steady: bool = False,
    costly: bool = False,
    per: float = 1,
    kind: Function | None = None,
) -> PartColumn:
    """Declare a column that is a part of a value of a lab's class `Results`; else as `column`.

    `of` is a path of attributes, keys, and numbers of elements, with dots between, such as
    `sizes.first` or `interval.steady_bytes_s.0`; or a function of the run. The column is empty
    where a value on the path is None or missing. `kind` is what makes the value of the column of
    that at the end of the path: a type, or a function. `per` is what its values are divided by,
    such as KIB. Of two parts with one name the class keeps the second.
    """
    declared = Column("", unit, meaning, predicted_by, hidden, headline, steady, costly)
    return PartColumn(of, declared, per, kind)


def _type_of_step(hint: Any, step: str, what: str) -> Any:
    """The annotated type of an attribute or an element; Any if it cannot be known."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    (whole, *others) = [kind for kind in kinds if kind is not type(None)]
    if step.isdigit():
        elements = [kind for kind in get_args(whole) if kind is not ...]
        return elements[min(int(step), len(elements) - 1)] if elements else Any
    cls = get_origin(whole) or whole
    if others or cls is Any or not isinstance(cls, type):
        return Any
    if issubclass(cls, Mapping):
        return (*get_args(whole), Any, Any)[1]
    return _type_of_attribute(cls, step, what)


def _type_of_attribute(cls: type, name: str, what: str) -> Any:
    attribute = inspect.getattr_static(cls, name, None)
    if isinstance(attribute, ComputedColumn):
        return attribute.type_in(cls)
    function = getattr(attribute, "func", getattr(attribute, "fget", None))
    if function is not None:
        return _returned(function)
    names = set(dir(cls))
    for base in cls.__mro__:
        made_by = vars(base).get("__init__")
        annotations = {
            **getattr(made_by, "__annotations__", {}),
            **vars(base).get("__annotations__", {}),
        }
        if name in annotations:
            return _evaluated(annotations[name], vars(sys.modules[base.__module__]))
        names |= {*annotations, *getattr(getattr(made_by, "__code__", None), "co_names", ())}
    if attribute is None and name not in names and not hasattr(cls, "__getattr__"):
        raise BadInput(f"{what}, but {cls.__name__} has no {name}{did_you_mean(name, names)}")
    return Any


def _returned(function: Callable[..., Any]) -> Any:
    plain = inspect.unwrap(function)
    annotation = getattr(plain, "__annotations__", {}).get("return", Any)
    return _evaluated(annotation, getattr(plain, "__globals__", {}))


def _evaluated(annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation as a type; Any for one that only type checkers know."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(names))
    except (NameError, TypeError):
        return Any


def computed_columns(results: type) -> dict[str, ComputedColumn[Any]]:
    """The columns of a class `Results` by name, in the order of their definition, those of a base
    class first. BadInput for a prediction that is not a column."""
    columns = {
        name: value
        for cls in reversed(results.__mro__)
        for name, value in vars(cls).items()
        if isinstance(value, ComputedColumn)
    }
    for name, value in columns.items():
        predicted_by = value.declared.predicted_by
        if predicted_by is not None and predicted_by not in columns:
            raise BadInput(
                f"{name} is predicted_by {predicted_by}, which is not a "
                f"column{did_you_mean(predicted_by, columns)}"
            )
    return columns


def columns_of(results: type) -> tuple[Column, ...]:
    """The declared columns of a class `Results`; BadInput as `computed_columns`, and for a part
    that does not exist."""
    columns = computed_columns(results).values()
    for value in columns:
        value.type_in(results)
    return tuple(value.declared for value in columns)


def values_of(results: object) -> dict[str, Any]:
    """The values of all columns of a lab's `Results`, by name."""
    return {name: getattr(results, name) for name in computed_columns(type(results))}
