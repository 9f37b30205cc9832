"""Libraries that the machine's compiler makes of C, kept in the user's cache."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import which

from labs.drive.record.disk import cache as users_cache
from labs.drive.record.removal import is_single_file
from labs.errors import Missing

FLAGS = (
    *("-std=c11", "-O2", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-fPIC", "-shared"),
)
COMPILER_S = 300
OTHERS_WRITE = 0o022


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


def library(name: str, source: Callable[[], str]) -> ctypes.CDLL:
    """The library of this name, compiled from `source()` if it is not in the cache. Missing if that
    fails."""
    cache_folder = _cache_folder()
    if cache_folder is not None:
        with suppress(OSError):
            kept = cache_folder / f"{name}.so"
            if _is_own(kept):
                return ctypes.CDLL(str(kept))
            cache_folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".making-", dir=cache_folder) as folder:
                os.replace(_make(source, Path(folder)), kept)
            return ctypes.CDLL(str(kept))
    try:  # a cache that cannot be written, or from which nothing may be executed
        with tempfile.TemporaryDirectory(prefix="labs-compiled-") as folder:
            return ctypes.CDLL(str(_make(source, Path(folder))))
    except OSError as error:
        raise Missing(f"a compiled reader cannot be kept ({error.strerror or error})") from None


def _make(source: Callable[[], str], folder: Path) -> Path:
    compiler = which("cc")
    if compiler is None:
        raise Missing("there is no C compiler (cc). On Debian: apt-get install gcc libc6-dev")
    text, made = folder / "source.c", folder / "made.so"
    text.write_text(source())
    argv = (compiler, *FLAGS, str(text), "-o", str(made), "-lm")
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILER_S)
    except subprocess.TimeoutExpired:
        raise Missing(f"{compiler} took more than {COMPILER_S} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise Missing(f"{compiler} failed: {said[0].strip()}")
    made.chmod(0o755)
    return made
