"""Functions and methods of restricted Python, performed as C where the compiled library is there.

`labs.read.native.build` translates and compiles them, for a clone and for a wheel. Without the
library, or with one of other sources, Python performs the same source, over 200 times more
slowly, and one line on stderr says so. Nothing is compiled at first use.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

from labs.errors import Missing

PACKAGE = Path(__file__).parents[2]
Function = TypeVar("Function", bound=Callable[..., Any])
NATIVE: dict[str, Callable[..., Any]] = {}
"""The functions that are called from Python, by symbol."""
MOST_RESULTS = 4


# What the functions work on: numbers in arrays of numpy, of ctypes or in any buffer; records.


class Numbers(Protocol):
    def __getitem__(self, place: Any, /) -> int: ...
    def __setitem__(self, place: Any, value: Any, /) -> None: ...
    def __len__(self) -> int: ...


class Bytes(Numbers, Protocol): ...


class Int8s(Numbers, Protocol): ...


class Uint16s(Numbers, Protocol): ...


class Int32s(Numbers, Protocol): ...


class Uint32s(Numbers, Protocol): ...


class Int64s(Numbers, Protocol): ...


@dataclass(frozen=True)
class Element:
    """The type of an array's elements: in C, and their code in a buffer."""

    c: str
    code: str


NUMBERS: dict[Any, Element] = {
    Bytes: Element("uint8_t", "B"),
    Int8s: Element("int8_t", "b"),
    Uint16s: Element("uint16_t", "H"),
    Int32s: Element("int32_t", "i"),
    Uint32s: Element("uint32_t", "I"),
    Int64s: Element("int64_t", "q"),
}


class Record(ctypes.Structure):
    """A structure of integers and of other records."""


OfRecord = TypeVar("OfRecord", bound=type[Record])


def record(kind: OfRecord) -> OfRecord:
    """Give a class of records the fields that it is annotated with."""
    kind._fields_ = [
        (name, hint if issubclass(hint, Record) else ctypes.c_int64)
        for name, hint in get_type_hints(kind).items()
        if name not in _OF_CTYPES
    ]
    return kind


_OF_CTYPES = frozenset(get_type_hints(ctypes.Structure))
Kept = TypeVar("Kept", covariant=True)


class Records(Protocol[Kept]):
    """An array of records."""

    def __getitem__(self, place: int, /) -> Kept: ...
    def __len__(self) -> int: ...


class Arrays:
    """A value whose fields are arrays, which it keeps."""

    def described(self) -> Any:
        """The arrays as C wants them."""
        if "is described" not in self.__dict__:
            kinds = hints_of(type(self))
            arrays = [_described(hint, getattr(self, name)) for name, hint in kinds.items()]
            self.__dict__["is described"] = (_Array * len(kinds))(*arrays)
        return self.__dict__["is described"]


hints_of: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def rare(function: Function) -> Function:
    """A function that few packets need. It is not made part of its callers."""
    function.__dict__["is_rare"] = True
    return function


def is_rare(function: Callable[..., Any]) -> bool:
    return "is_rare" in function.__dict__


def symbol_of(function: Callable[..., Any]) -> str:
    """The name of a function or of a class of records in C."""
    return f"{function.__module__.rpartition('.')[2]}_{function.__name__}"


def native(function: Function) -> Function:
    """A function over arrays and records that is performed as C if that is possible."""
    symbol = symbol_of(function)
    NATIVE[symbol] = function
    chosen: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*given: Any) -> Any:
        if not chosen:
            chosen.append(_as_c(function, symbol) or _as_python(function))
        return chosen[0](*given)

    return cast(Function, call)


def _as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    hints = get_type_hints(function)
    kinds = [kind for name, kind in hints.items() if name != "return"]

    def call(*given: Any) -> Any:
        records: list[_Plain] = []
        made = function(*(_viewed(*pair, records) for pair in zip(kinds, given, strict=True)))
        for plain in records:
            plain.copy_back()
        return made

    return call


def _viewed(kind: Any, given: Any, records: list[_Plain]) -> Any:
    """An argument as Python shall see it: an element of a view is a number of Python, which neither
    wraps nor is slow, and so is a field of a plain object."""
    if kind in NUMBERS:
        return _view(kind, given)
    if isinstance(given, Arrays):
        views = object.__new__(type(given))
        for name, hint in hints_of(type(given)).items():
            views.__dict__[name] = _view(hint, getattr(given, name))
        return views
    if get_origin(kind) is Records:
        return _PlainRecords(given, records)
    return _Plain(given, records) if isinstance(given, Record) else given


class _Plain:
    """The fields of a record, and where they are copied back."""

    def __init__(self, record: Record, records: list[_Plain]) -> None:
        fields = {name: getattr(record, name) for name, *_ in record._fields_}
        self.__dict__ = {
            name: _Plain(field, records) if isinstance(field, Record) else field
            for name, field in fields.items()
        }
        self.__dict__["record of"] = record
        records.append(self)

    def copy_back(self) -> None:
        record = self.__dict__["record of"]
        for name, *_ in record._fields_:
            field = self.__dict__[name]
            if not isinstance(field, _Plain):
                setattr(record, name, field)


class _PlainRecords(dict[int, _Plain]):
    """An array of records, of which those are copied that are used."""

    def __init__(self, array: Any, records: list[_Plain]) -> None:
        self.array, self.records = array, records

    def __len__(self) -> int:
        return len(self.array)

    def __missing__(self, place: int) -> _Plain:
        if place < 0:
            raise IndexError(place)
        made = self[place] = _Plain(self.array[place], self.records)
        return made


def _view(kind: Any, given: Any) -> memoryview:
    """A buffer as a view of numbers. TypeError for another type of numbers."""
    view, code = memoryview(given), NUMBERS[kind].code
    held = view.format.lstrip("<")
    if view.itemsize != ctypes.sizeof(_TYPES[code]) or held.islower() != code.islower():
        raise TypeError(f"numbers of type {held} were given in place of {code}")
    if not view.c_contiguous:
        raise TypeError("numbers of an array that is not contiguous were given")
    # The formats of ctypes name the byte order, which a view does not understand.
    return view if held == view.format else view.cast("B").cast(cast(Any, code))


_TYPES: dict[str, Any] = {
    **{"B": ctypes.c_uint8, "b": ctypes.c_int8, "H": ctypes.c_uint16},
    **{"i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64},
}


class _Array(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_int64), ("row", ctypes.c_int64))


def _as_c(function: Callable[..., Any], symbol: str) -> Callable[..., Any] | None:
    """The function of the library; None, and one line on stderr, if it is not there."""
    try:
        perform = getattr(library(), f"perform_{symbol}")
    except Missing as reason:
        say_once(f"captures are read by Python, which is slow: {reason}")
        return None
    hints = get_type_hints(function)
    returns = hints.pop("return")
    kinds = list(hints.values())
    perform.argtypes = [ctypes.c_void_p, *(_passed_as(kind) for kind in kinds)]
    perform.restype = ctypes.c_int64
    count = len(get_args(returns)) if get_origin(returns) is tuple else 1

    def call(*given: Any) -> Any:
        results = (ctypes.c_int64 * MOST_RESULTS)()
        if not perform(results, *map(_passed, kinds, given)):
            raise IndexError(f"{symbol}: a place or a number is out of range")
        return tuple(results[:count]) if count > 1 else results[0]

    return call


def _passed_as(kind: Any) -> Any:
    return ctypes.c_int64 if kind in (int, bool) else ctypes.c_void_p


def _passed(kind: Any, given: Any) -> Any:
    if kind in (int, bool):
        return given
    if kind in NUMBERS:
        return ctypes.byref(_described(kind, given))
    if isinstance(given, Record):
        return ctypes.byref(given)
    if isinstance(given, Arrays):
        return ctypes.byref(given.described())
    return ctypes.byref(_Array(ctypes.addressof(given), len(given), 1))


def _described(kind: Any, given: Any) -> _Array:
    view = _view(kind, given)
    count = view.nbytes // view.itemsize
    if hasattr(given, "ctypes"):  # of numpy, which may not be written to
        at = given.ctypes.data
    else:
        at = ctypes.addressof(ctypes.c_char.from_buffer(given)) if count else 0
    return _Array(at, count, (view.shape or (0,))[-1])


# The library.

SOURCES = (
    *("read/native/*.py", "read/native/prelude.h", "read/capture/*.py", "read/theory/*.py"),
    *(f"read/flows/{name}.py" for name in ("connection_state", "limits", "rtt")),
)
"""What it is made of, within the package."""
_ENDINGS = {"win32": "dll", "darwin": "dylib"}
_warned: set[str] = set()


def library_file(system: str = sys.platform, machine: str = platform.machine()) -> Path:
    """Where the library of a system is, as sys.platform and platform.machine() name it."""
    processor = {"amd64": "x86_64", "aarch64": "arm64"}.get(machine.lower(), machine.lower())
    name = f"compiled-{system}-{processor}.{_ENDINGS.get(system, 'so')}"
    return PACKAGE / "read" / "native" / name


@cache
def sources_digest() -> str:
    """What a library that belongs to these sources says of itself."""
    made_of = sha256()
    for pattern in SOURCES:
        for file in sorted(PACKAGE.glob(pattern)):
            made_of.update(file.read_bytes())
    return made_of.hexdigest()


@cache
def library() -> ctypes.CDLL:
    """The library of this machine. Missing if there is none, or if it is of other sources."""
    file = library_file()
    if not file.exists():
        raise Missing(f"there is no compiled library. In a clone: {BUILD}")
    try:
        loaded = ctypes.CDLL(str(file))
    except OSError as error:
        raise Missing(f"the compiled library cannot be loaded ({error})") from None
    held = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(loaded, "sources"))).decode()
    if held != sources_digest():
        raise Missing(f"the compiled library is older than its sources. Run: {BUILD}")
    return loaded


BUILD = "make ready"


def say_once(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        print(f"labs: {what}", file=sys.stderr)


# Numbers of several bytes of a buffer, in both byte orders, and a hash. prelude.h has them in C.


def be16(data: Bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def be32(data: Bytes, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def le16(data: Bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8


def le32(data: Bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24


def scrambled(value: int) -> int:
    """62 bits that depend on all of a number."""
    product = value * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return (product ^ product >> 29) >> 2


PRIMITIVES: frozenset[Callable[..., Any]] = frozenset((be16, be32, le16, le32, scrambled))


def be64(data: Bytes, at: int) -> int:
    """Signed."""
    high = be32(data, at)
    return ((high ^ 0x80000000) - 0x80000000) << 32 | be32(data, at + 4)
