"""The numeric core of the reader: functions and byte loads that numba compiles.

Compiled code is kept in the user's cache under a digest of this folder's sources, so that it is
compiled once. Modules can be imported without numba; a compiled function called there raises
Missing.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Never, TypeVar, cast

from labs.drive.record.disk import cache
from labs.errors import Missing

Function = TypeVar("Function", bound=Callable[..., Any])
Word = Callable[[Any, int], int]
_announced: set[str] = set()


def cache_folder() -> Path | None:
    """The folder for compiled code; None if it cannot be written, so that nothing is kept.

    NUMBA_CACHE_DIR names another folder.
    """
    here = Path(__file__).parent
    # numba checks only the file of a function, but compiles constants and functions of other files
    # into it.
    digest = sha256(b"".join(file.read_bytes() for file in sorted(here.glob("*.py"))))
    named = os.environ.get("NUMBA_CACHE_DIR")
    try:
        found = Path(named) if named else cache() / "compiled"
        found = found / f"capture-{digest.hexdigest()[:16]}"
        found.mkdir(parents=True, exist_ok=True)
    except (OSError, Missing):
        return None
    return found if os.access(found, os.W_OK) else None


def _not_compiled(*_: object) -> Never:
    raise Missing(
        "reading a capture needs the package numba, which is not installed. "
        'Install it: pip install "tcp-lab-notebook[capture]"'
    )


if find_spec("numba") is not None:
    import numba
    from llvmlite import ir
    from numba import types
    from numba.core.caching import UserProvidedCacheLocator
    from numba.extending import intrinsic

    KEPT_IN = cache_folder()
    # No reference counts (the functions allocate nothing), and everything inlined: without either,
    # a row takes ten times as long.
    _OPTIONS: dict[str, Any] = {
        "cache": KEPT_IN is not None,
        "nogil": True,
        "_nrt": False,
        "forceinline": True,
    }

    class SharedLocator(UserProvidedCacheLocator):  # type: ignore[misc, unused-ignore]
        """A folder for all copies of the same sources, wherever they are: other clones, too."""

        @classmethod
        def get_suitable_cache_subpath(cls, py_file: str) -> str:
            return ""

    def compiled(function: Function) -> Function:
        """The function, compiled at its first call."""
        config: Any = numba.config
        others = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
        config.CACHE_DIR = str(KEPT_IN or others[0])
        if KEPT_IN is not None:
            config.CACHE_LOCATOR_CLASSES = f"{__name__}.{SharedLocator.__name__}"
        try:
            made: Function = numba.njit(**_OPTIONS)(function)
        finally:
            # For the other code that this process compiles.
            config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = others
        return made

    def apart(function: Function) -> Function:
        """The same, but not made part of its callers: what is rare does not slow what is common."""
        _OPTIONS["forceinline"] = False
        try:
            return compiled(function)
        finally:
            _OPTIONS["forceinline"] = True

    def _word(form: str) -> Word:
        bits = 8 * struct.calcsize(form)
        swap = form[0] == ">"

        def word(typing_context: Any, data: Any, at: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                array = context.make_array(signature.args[0])(context, builder, arguments[0])
                kind = ir.IntType(bits)
                place = builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())
                value = builder.load(place, align=1)
                value = builder.bswap(value) if swap else value
                return builder.zext(value, ir.IntType(64)) if bits < 64 else value

            return types.int64(data, types.int64), code

        made: Any = intrinsic(word)
        return cast(Word, made)
else:
    KEPT_IN = None

    def compiled(function: Function) -> Function:
        """A function that raises Missing, which says how to install numba."""
        return cast(Function, _not_compiled)

    apart = compiled

    def _word(form: str) -> Word:
        return _not_compiled


# numba omits its handling of negative indices for what is masked with this.
POSITIVE = 0x7FFFFFFF

# Numbers of two, four and eight bytes of a buffer, in both byte orders. Each is one load without a
# check of its bounds: the caller has checked them.
be16, be32, be64 = _word(">H"), _word(">I"), _word(">q")
le16, le32 = _word("<H"), _word("<I")


def announce(what: str, *functions: Callable[..., Any]) -> None:
    """Print one line on stderr, once, if the first call of these functions compiles `what`."""
    if what in _announced or find_spec("numba") is None:
        return
    _announced.add(what)
    if KEPT_IN is None or not all(
        any(KEPT_IN.rglob(f"*.{one.__name__}-*.nbi")) for one in functions
    ):
        again = "" if KEPT_IN is not None else " (nothing can be kept: set XDG_CACHE_HOME)"
        print(f"labs: compiling {what}, some seconds, once{again}", file=sys.stderr)
