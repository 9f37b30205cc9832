"""The numeric core of the reader, compiled by numba where it is installed.

The functions that carry `@compiled` are plain Python too. Without numba they run as they stand, on
memoryviews instead of arrays, and give the same result, slower. What numba makes is kept in the
user's cache, under a digest of this room's sources, so that it is compiled once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from labs.drive.record.disk import cache
from labs.errors import Missing

if TYPE_CHECKING:
    import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
OFF = "LABS_NO_NUMBA"  # set: the plain Python, to compare with
HAVE_NUMBA = find_spec("numba") is not None and not os.environ.get(OFF)
_told: set[str] = set()


def folder() -> Path | None:
    """Where compiled code is kept; None where nothing can be written, and it lives for a process.

    NUMBA_CACHE_DIR names another folder.
    """
    here = Path(__file__).parent
    # numba looks at the one file of a function; but constants and functions of others go into it.
    digest = sha256(b"".join(file.read_bytes() for file in sorted(here.glob("*.py"))))
    named = os.environ.get("NUMBA_CACHE_DIR")
    try:
        found = Path(named) if named else cache() / "compiled"
        found = found / f"capture-{digest.hexdigest()[:16]}"
        found.mkdir(parents=True, exist_ok=True)
    except (OSError, Missing):
        return None
    return found if os.access(found, os.W_OK) else None


if HAVE_NUMBA:
    import numba

    KEPT_IN = folder()
    # Without counts of references (the functions allocate nothing) and all in one piece: either
    # of the two makes a row take ten times as long.
    _HOW: dict[str, Any] = {
        "cache": KEPT_IN is not None,
        "nogil": True,
        "_nrt": False,
        "forceinline": True,
    }

    def compiled(function: Function) -> Function:
        """The function, to be compiled when it is first called."""
        config: Any = numba.config
        others = config.CACHE_DIR
        config.CACHE_DIR = str(KEPT_IN or others)
        try:
            made: Function = numba.njit(**_HOW)(function)
        finally:
            config.CACHE_DIR = others  # of whatever else this process compiles
        return made
else:
    KEPT_IN = None

    def compiled(function: Function) -> Function:
        """The function as it stands."""
        return function


def view(array: np.ndarray[Any, Any]) -> Any:
    """The array as compiled functions take it: plain Python is faster on a memoryview."""
    return array if HAVE_NUMBA else memoryview(array)  # type: ignore[arg-type]


def tell(what: str, *functions: Callable[..., Any]) -> None:
    """Say in one line on stderr, once, that the first use of these compiles `what`."""
    if not HAVE_NUMBA or what in _told:
        return
    _told.add(what)
    if KEPT_IN is None or not all(
        any(KEPT_IN.rglob(f"*.{one.__name__}-*.nbi")) for one in functions
    ):
        again = "" if KEPT_IN is not None else " (nothing can be kept: set XDG_CACHE_HOME)"
        print(f"labs: compiling {what}, some seconds, once{again}", file=sys.stderr)
