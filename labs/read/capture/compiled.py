"""The numeric core of the reader: functions of restricted Python, performed as C.

At the first call of one that is `native`, it and what it calls are translated to C
(`labs.read.capture.to_c`), compiled by the machine's compiler into the user's cache, and loaded.
Where that is impossible, Python performs the same functions, a hundred times more slowly.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from shutil import which
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from labs.drive.record.disk import cache as users_cache
from labs.drive.record.removal import is_single_file
from labs.errors import Missing

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
FLAGS = ("-std=c11", "-O2", "-fwrapv", "-fno-strict-aliasing", "-fPIC", "-shared")
COMPILER_S = 300
OTHERS_WRITE = 0o022
_known: dict[Callable[..., Any], None] = {}
_said: set[str] = set()


def compiled(function: Function) -> Function:
    """A function that a native one may call."""
    _known[function] = None
    return function


def native(function: Function) -> Function:
    """A function that is called with arrays of numpy, and performed as C if that is possible."""
    compiled(function)
    found: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*given: Any) -> Any:
        if not found:
            found.append(_as_c(function) or _as_python(function))
        return found[0](*given)

    return cast(Function, call)


def _as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        # An element of a view is a number of Python, which neither wraps nor is slow.
        return function(*(one.data if isinstance(one, np.ndarray) else one for one in given))

    return call


class _Array(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("length", ctypes.c_int64), ("row", ctypes.c_int64))


class _Pair(ctypes.Structure):
    _fields_ = (("one", ctypes.c_int64), ("two", ctypes.c_int64))


def _as_c(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function from its library; None, and one line on stderr, if it cannot be compiled."""
    from labs.read.capture.to_c import parameters, returned  # noqa: PLC0415  of no use in Python

    try:
        perform = getattr(_library(function), f"f_{function.__name__}")
    except Missing as reason:
        _say(f"captures are read by Python, which is slow: {reason}")
        return None
    kinds = [_ELEMENTS.get(kind) for _, kind in parameters(function)]
    perform.argtypes = [ctypes.c_int64 if kind is None else _Array for kind in kinds]
    result = returned(function)
    perform.restype = {"void": None, "int64_t": ctypes.c_int64, "tuple2": _Pair}[result]

    def passed(kind: type[object] | None, one: Any) -> Any:
        if kind is None:
            return one
        if one.dtype != kind or not one.flags.c_contiguous:
            raise TypeError(f"{function.__name__} was given {one.dtype} in place of {kind}")
        return _Array(one.ctypes.data, len(one), one.shape[-1])

    def call(*given: Any) -> Any:
        made = perform(*map(passed, kinds, given))
        return (made.one, made.two) if result == "tuple2" else made

    return call


def _say(what: str) -> None:
    if what not in _said:
        _said.add(what)
        print(f"labs: {what}", file=sys.stderr)


@cache
def _digest() -> str:
    """What the libraries were made of: this folder's sources, the flags, the machine."""
    made_of = sha256(" ".join((*FLAGS, sys.platform, platform.machine())).encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        made_of.update(file.read_bytes())
    return made_of.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """Where libraries are kept; None for a user without a home."""
    try:
        return users_cache() / "compiled"
    except Missing:
        return None


def _is_own(kept: Path) -> bool:
    """Whether a library is a file that only this user, whose rights it gets, can have written."""
    try:
        about = os.lstat(kept)
    except FileNotFoundError:
        return False
    return is_single_file(about) and not about.st_mode & OTHERS_WRITE


def _library(function: Callable[..., Any]) -> ctypes.CDLL:
    """The library of a function, compiled if it is not in the cache. Missing if that fails."""
    name = f"{function.__name__}-{_digest()}.so"
    cache_folder = _cache_folder()
    if cache_folder is not None:
        with suppress(OSError):
            kept = cache_folder / name
            if _is_own(kept):
                return ctypes.CDLL(str(kept))
            cache_folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".making-", dir=cache_folder) as folder:
                os.replace(_make(function, Path(folder)), kept)
            return ctypes.CDLL(str(kept))
    try:  # a cache that cannot be written, or from which nothing may be executed
        with tempfile.TemporaryDirectory(prefix="labs-compiled-") as folder:
            return ctypes.CDLL(str(_make(function, Path(folder))))
    except OSError as error:
        raise Missing(f"a compiled reader cannot be kept ({error.strerror or error})") from None


def _make(function: Callable[..., Any], folder: Path) -> Path:
    from labs.read.capture.to_c import translated  # noqa: PLC0415  of no use once it is compiled

    compiler = which("cc")
    if compiler is None:
        raise Missing("there is no C compiler (cc). On Debian: apt-get install gcc libc6-dev")
    source, made = folder / "source.c", folder / "made.so"
    source.write_text(translated(function, _known))
    argv = (compiler, *FLAGS, str(source), "-o", str(made))
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILER_S)
    except subprocess.TimeoutExpired:
        raise Missing(f"{compiler} took more than {COMPILER_S} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise Missing(f"{compiler} failed: {said[0].strip()}")
    made.chmod(0o755)
    return made


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
