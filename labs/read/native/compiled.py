"""The numeric core of the reader: functions of restricted Python, performed as C.

At the first call of one that is `native`, it and what it calls are translated to C
(`labs.read.native.to_c`), compiled by the machine's compiler into the user's cache, and loaded.
Where that is impossible, Python performs the same functions, a hundred times more slowly.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from labs.errors import Missing
from labs.read.native.library import FLAGS, library

Function = TypeVar("Function", bound=Callable[..., Any])
# Arrays as the functions see them: of numpy, or in Python views of their memory.
Bytes: TypeAlias = Any
Int8s: TypeAlias = Any
Uint16s: TypeAlias = Any
Int32s: TypeAlias = Any
Uint32s: TypeAlias = Any
Int64s: TypeAlias = Any
_ELEMENTS = {
    "Bytes": np.uint8,
    "Int8s": np.int8,
    "Uint16s": np.uint16,
    "Int32s": np.int32,
    "Uint32s": np.uint32,
    "Int64s": np.int64,
}
_known: dict[Callable[..., Any], bool] = {}
_warned: set[str] = set()


def compiled(function: Function) -> Function:
    """A function that a native one may call."""
    _known[function] = False
    return function


def rare(function: Function) -> Function:
    """A function that few packets need. It is faster to compile but slower to run."""
    _known[function] = True
    return function


def native(function: Function) -> Function:
    """A function that is called with arrays of numpy, and performed as C if that is possible."""
    compiled(function)
    chosen: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*given: Any) -> Any:
        if not chosen:
            chosen.append(_as_c(function) or _as_python(function))
        return chosen[0](*given)

    return cast(Function, call)


def _as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        # An element of a view is a number of Python, which neither wraps nor is slow.
        return function(
            *(argument.data if isinstance(argument, np.ndarray) else argument for argument in given)
        )

    return call


class _Array(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_int64), ("row", ctypes.c_int64))


class _Pair(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int64), ("second", ctypes.c_int64))


def _as_c(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function from its library; None, and one line on stderr, if it cannot be compiled."""
    from labs.read.native.to_c import parameters, returned  # noqa: PLC0415  of no use in Python

    try:
        perform = getattr(_library(function), f"f_{function.__name__}")
    except Missing as reason:
        _warn_once(f"captures are read by Python, which is slow: {reason}")
        return None
    kinds = [_ELEMENTS.get(kind) for _, kind in parameters(function)]
    perform.argtypes = [ctypes.c_int64 if kind is None else _Array for kind in kinds]
    result = returned(function)
    perform.restype = {"void": None, "int64_t": ctypes.c_int64, "tuple2": _Pair}[result]

    def passed(kind: type[object] | None, argument: Any) -> Any:
        if kind is None:
            return argument
        if argument.dtype != kind or not argument.flags.c_contiguous:
            raise TypeError(f"{function.__name__} was given {argument.dtype} in place of {kind}")
        return _Array(argument.ctypes.data, len(argument), argument.shape[-1])

    def call(*given: Any) -> Any:
        made = perform(*map(passed, kinds, given))
        return (made.first, made.second) if result == "tuple2" else made

    return call


def _warn_once(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        print(f"labs: {what}", file=sys.stderr)


@cache
def _digest(folder: Path) -> str:
    """What the libraries were made of: the sources in a folder and in this one, the flags, the
    machine."""
    made_of = sha256(" ".join((*FLAGS, sys.platform, platform.machine())).encode())
    for file in (*sorted(folder.glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))):
        made_of.update(file.read_bytes())
    return made_of.hexdigest()[:16]


def _library(function: Callable[..., Any]) -> ctypes.CDLL:
    """The library of a function, compiled if it is not in the cache. Missing if that fails."""
    from labs.read.native.to_c import translated  # noqa: PLC0415  of no use once it is compiled

    folder = Path(function.__code__.co_filename).parent
    return library(f"{function.__name__}-{_digest(folder)}", lambda: translated(function, _known))


# Numbers of two, four and eight bytes of a buffer, in both byte orders. The caller has checked that
# they are in it.


@compiled
def be16(data: Bytes, at: int) -> int:
    return int(data[at] << 8 | data[at + 1])


@compiled
def be32(data: Bytes, at: int) -> int:
    return int(data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3])


@compiled
def be64(data: Bytes, at: int) -> int:
    """Signed."""
    high = be32(data, at)
    return ((high ^ 0x80000000) - 0x80000000) << 32 | be32(data, at + 4)


@compiled
def le16(data: Bytes, at: int) -> int:
    return int(data[at] | data[at + 1] << 8)


@compiled
def le32(data: Bytes, at: int) -> int:
    return int(data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24)
