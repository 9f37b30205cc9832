"""The declaration of parameters, the check of their values, and those that every lab has.

A lab declares its parameters as the fields of a frozen dataclass::

    @dataclass(frozen=True, kw_only=True)
    class Parameters(LabParameters):
        rate_mbit: float = parameter(1000.0, unit="Mbit/s", low=0.1, high=1e5, help="link rate")

A field is text (`str`), a whole number (`int`), a number (`float`) or a switch (`bool`).
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from labs.drive.testbeds import TESTBEDS, VIRTUAL, Kind
from labs.errors import BadInput

Scalar = str | int | float | bool
Spell = Callable[["Parameter"], str]
P = TypeVar("P")
L = TypeVar("L", bound="LabParameters")

KINDS: dict[str, type[Scalar]] = {"str": str, "int": int, "float": float, "bool": bool}
_DECLARED: dict[type[Any], Mapping[str, Parameter]] = {}
# How the source of the values spells their names, while an instance is constructed (`check`).
_SPELL: ContextVar[Spell | None] = ContextVar("spell", default=None)
WORDS = {str: "text", int: "a whole number", float: "a number", bool: "a switch"}


def parameter(
    default: Scalar,
    *,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Iterable[str] | None = None,
    pattern: str | None = None,
    form: str = "",
    flag: str = "",
    several: bool = True,
    on_machines: Scalar | None = None,
) -> Any:
    """Declare one field of a parameter class.

    `unit` is the unit of a number; `low` and `high` are inclusive. Text is limited by `choices`, or
    by `pattern` (a regular expression for the whole value), which `form` describes in words.
    `flag` replaces the flag that is derived from the field's name. `several=False` refuses a list
    of values (`axes.py`), as for a text that may contain commas. `on_machines` is the default of
    the command line for size small on two machines, if it is another one.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "unit": unit,
            "low": low,
            "high": high,
            "choices": None if choices is None else tuple(choices),
            "pattern": pattern,
            "form": form,
            "flag": flag,
            "several": several,
            "on_machines": on_machines,
        },
    )


@dataclass(frozen=True)
class Parameter:
    """One declared field: its kind, its allowed values, and its names."""

    name: str
    kind: type[Scalar]
    default: Scalar
    help: str = ""
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] | None = None
    pattern: str | None = None
    form: str = ""
    flag: str = ""
    several: bool = True
    on_machines: Scalar | None = None

    @property
    def notebook_name(self) -> str:
        return self.name.upper()

    @property
    def allowed(self) -> str:
        """The allowed values in words: the choices, or the kind with range and unit."""
        if self.choices is not None:
            return ", ".join(self.choices)
        if self.kind is bool:
            return "True or False"
        if self.form:
            return self.form
        return f"{WORDS[self.kind]}, {self.span}" if self.span else WORDS[self.kind]

    @property
    def span(self) -> str:
        """The range and unit, such as `0.1 to 1000 Mbit/s`, as far as they are declared."""
        if self.low is not None and self.high is not None:
            words = f"{plain(self.low)} to {plain(self.high)}"
        elif self.low is not None:
            words = f"{plain(self.low)} or more"
        elif self.high is not None:
            words = f"{plain(self.high)} or less"
        else:
            words = ""
        return f"{words} {self.unit}".strip()

    def validate(self, value: object, spelt: str) -> Scalar:
        """The value as this parameter's kind; BadInput in one line if it is not allowed."""
        settled = self._typed(value, spelt)
        if isinstance(settled, str):
            self._validate_text(settled, spelt)
        elif not isinstance(settled, bool):
            low = -math.inf if self.low is None else self.low
            high = math.inf if self.high is None else self.high
            if not low <= settled <= high:
                raise BadInput(
                    f"{describe_value(spelt, value)} is out of range; allowed: {self.allowed}"
                )
        return settled

    def _typed(self, value: object, spelt: str) -> Scalar:
        if self.kind is str and isinstance(value, str):
            return str(value)
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.kind is int and isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        if self.kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            return self._finite(value, spelt)
        raise BadInput(
            f"{describe_value(spelt, value)} is {sort_of(value)}, not {WORDS[self.kind]}; "
            f"allowed: {self.allowed}" + self._describe_sample(value, spelt)
        )

    def _finite(self, value: float, spelt: str) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise BadInput(f"{describe_value(spelt, value)} is not finite; allowed: {self.allowed}")
        return number

    def _validate_text(self, value: str, spelt: str) -> None:
        if self.choices is not None and value not in self.choices:
            raise BadInput(
                f"{describe_value(spelt, value)} is not a choice; allowed: {self.allowed}"
                + did_you_mean(value, self.choices)
            )
        if self.pattern is not None and re.fullmatch(self.pattern, value) is None:
            raise BadInput(
                f"{describe_value(spelt, value)} cannot be read; allowed: {self.allowed}"
            )

    def _describe_sample(self, value: object, spelt: str) -> str:
        """A hint, because papermill's -p turns 6.10 into the number 6.1; its -r keeps text."""
        if self.kind is not str or not isinstance(value, int | float):
            return ""
        text = shown(value)
        return f'; write it in quotes, "{text}", or in papermill: -r {spelt} {text}'


def declared(cls: type[Any]) -> Mapping[str, Parameter]:
    """The parameters of a class by field name, in the order of their declaration.

    BadInput if the class is not a frozen dataclass, or a field or its default cannot be used.
    """
    if cls not in _DECLARED:
        _DECLARED[cls] = _read_class(cls)
    return _DECLARED[cls]


def _read_class(cls: type[Any]) -> Mapping[str, Parameter]:
    made = cls.__dict__.get("__dataclass_params__")
    if made is None or not made.frozen:
        raise BadInput(
            f"{cls.__name__} is not a frozen dataclass; "
            "write @dataclass(frozen=True, kw_only=True) above it"
        )
    return {field.name: _read(cls, field) for field in dataclasses.fields(cls)}


def _read(cls: type[Any], field: dataclasses.Field[Any]) -> Parameter:
    where = f"{cls.__name__}.{field.name}"
    written = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
    kind = KINDS.get(written)
    if kind is None:
        raise BadInput(f"{where} is {field.type}; a parameter is str, int, float or bool")
    if field.default is dataclasses.MISSING:
        raise BadInput(f"{where} has no default; write = parameter(DEFAULT, help=...)")
    if re.fullmatch(r"[a-z][a-z0-9_]*", field.name) is None:
        raise BadInput(f"{where} must be lower case: letters, digits and _")
    metadata = dict(field.metadata)
    metadata["flag"] = metadata.get("flag") or "--" + field.name.replace("_", "-")
    read = Parameter(name=field.name, kind=kind, default=field.default, **metadata)
    return dataclasses.replace(read, default=read.validate(field.default, f"{where}: default"))


def validate(instance: object) -> None:
    """Validate every value of an instance during construction, and convert numbers."""
    spell = _SPELL.get() or field_name
    for parameter in declared(type(instance)).values():
        value = parameter.validate(getattr(instance, parameter.name), spell(parameter))
        object.__setattr__(instance, parameter.name, value)


def check(cls: type[P], values: Mapping[str, object], *, spell: Spell | None = None) -> P:
    """An instance with these values by field name, and defaults for the others.

    The class validates the values (`validate`). `spell` gives a parameter's name as the user wrote
    it (by default the field name), for the line of BadInput about an unknown name, a wrong type, or
    a value that is not allowed.
    """
    spelt = field_name if spell is None else spell
    parameters = declared(cls)
    for name in values:
        if name not in parameters:
            raise BadInput(unknown(name, [spelt(parameter) for parameter in parameters.values()]))
    token = _SPELL.set(spelt)
    try:
        return cls(**values)
    finally:
        _SPELL.reset(token)


def with_testbed_defaults(
    cls: type[L], values: Mapping[str, object], *, spell: Spell | None = None
) -> L:
    """As `check`, with the defaults of the command line for the testbed and the size."""
    requested = check(cls, values, spell=spell)
    defaults = requested.testbed_defaults(requested.testbed, requested.size)
    if defaults.keys() <= values.keys():
        return requested
    return check(cls, {**defaults, **values}, spell=spell)


def unknown(name: str, names: Iterable[str], what: str = "parameter") -> str:
    """The message for a name that does not exist, with the nearest correct one, or all."""
    names = list(names)
    hint = did_you_mean(name, names)
    return f"{name} is not a {what}" + (hint or f"; allowed: {', '.join(names)}")


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`; did you mean NAME?`, or nothing if no name is similar."""
    near = nearest(word, names)
    return f"; did you mean {near}?" if near else ""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name most similar to a word, or None; case, - and _ are ignored."""
    folded = {fold(name): name for name in names}
    near = difflib.get_close_matches(fold(word), list(folded), n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def fold(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def field_name(parameter: Parameter) -> str:
    return parameter.name


def notebook_name(parameter: Parameter) -> str:
    return parameter.notebook_name


def flag_name(parameter: Parameter) -> str:
    return parameter.flag


def plain(value: object) -> str:
    """A value as a person writes it: 1000 for 1000.0, text without quotes."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def shown(value: object) -> str:
    """A value for an error message: short and on one line."""
    try:
        text = f'"{value}"' if isinstance(value, str) else repr(value)
    except ValueError:  # Python does not print a whole number of more than 4,300 digits
        text = "a number too long to print"
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


def describe_value(spelt: str, value: object) -> str:
    """Name and value as the user wrote them: `--rate-mbit 0` or `RATE_MBIT = 0`."""
    return f"{spelt} {shown(value)}" if spelt.startswith("--") else f"{spelt} = {shown(value)}"


def sort_of(value: object) -> str:
    for kind in (bool, str, int, float):
        if isinstance(value, kind):
            return WORDS[kind]
    return f"a {type(value).__name__}"


SIZES = ("small", "full")
_KERNEL = r"(?:[0-9]+\.[0-9]+(?:\.[0-9]+(?:-[0-9A-Za-z.+~]+)?)?|[0-9a-f]{8,64})"


@dataclass(frozen=True, kw_only=True)
class LabParameters:
    """The parameters that every lab has; the class of a lab adds its own.

    An instance is valid by construction: BadInput, in one line, for a value that is not allowed.
    """

    size: str = parameter(
        "small", choices=SIZES, several=False, help="number of conditions: a few, or all of them"
    )
    only: str = parameter(
        "",
        form="names separated by commas, or nothing for all",
        several=False,
        help="run only these conditions",
    )
    testbed: str = parameter(
        VIRTUAL.name, choices=tuple(TESTBEDS), several=False, help="where the hosts are"
    )
    kernel: str = parameter(
        "6.1",
        pattern=rf"{_KERNEL}(?: *, *{_KERNEL})*",
        form='a version such as "6.1" or "6.1.192-2", or 8 digits or more of a kernel\'s digest; '
        "several are separated by commas",
        help="the kernel that the virtual testbed boots",
    )
    runs: str = parameter(
        "runs",
        pattern=r"[^\x00\n]*[^\x00\s][^\x00\n]*",
        form="a folder",
        flag="--into",
        several=False,
        help="the folder that keeps runs and studies",
    )
    seed: int = parameter(1, low=0, high=2**31 - 1, help="seed for all random choices")
    memory_mib: int = parameter(
        4096,
        unit="MiB",
        low=1024,
        high=65536,
        help="memory of the virtual testbed's kernel; at least 5120 since Linux 6.16",
    )
    capture: bool = parameter(False, help="also keep the client's packets")
    repetitions_min: int = parameter(
        5,
        low=1,
        high=1000,
        help="real-time testbeds: least number of runs per condition; below 5 no interval",
    )
    repetitions_max: int = parameter(
        10,
        low=1,
        high=1000,
        help="real-time testbeds: greatest number of runs per condition, disturbed runs included",
    )
    ci_width_pct: float = parameter(
        10.0,
        unit="%",
        low=0,
        high=1000,
        help="real-time testbeds: repeat a condition until its 95 % interval is at most this wide",
    )

    def __post_init__(self) -> None:
        validate(self)

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        """The defaults of the command line for a testbed and a size, as far as they differ from
        those of the class."""
        if not TESTBEDS[testbed].machines or size != "small":
            return {}
        defaults = {each.name: each.on_machines for each in declared(cls).values()}
        return {name: value for name, value in defaults.items() if value is not None}

    @property
    def where(self) -> Kind:
        """The testbed."""
        return TESTBEDS[self.testbed]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels that `kernel` names."""
        return tuple(dict.fromkeys(name.strip() for name in self.kernel.split(",")))

    def chosen(self, conditions: Sequence[str]) -> tuple[str, ...]:
        """The names of `only` in the order of `conditions`, or all of them; BadInput if unknown.

        What is not the name of a condition may be how several begin: `sweep` is all `sweep-...`.
        """
        wanted = [name.strip() for name in self.only.split(",") if name.strip()]
        selected: set[str] = set()
        for name in wanted:
            family = [condition for condition in conditions if condition.startswith(f"{name}-")]
            if name not in conditions and not family:
                hint = did_you_mean(name, conditions) or "."
                raise BadInput(f"{name} is not a condition{hint} Allowed: {', '.join(conditions)}")
            selected.update([name] if name in conditions else family)
        return tuple(name for name in conditions if name in selected or not wanted)
