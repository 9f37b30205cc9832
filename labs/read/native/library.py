"""Libraries compiled from C by the machine's compiler, kept in the user's cache.

The file name of a library ends in the digest of its content. It is checked before each load,
because a damaged library could give wrong results or end the process.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shutil import which

from labs.drive.record.disk import write_whole
from labs.drive.record.private_cache import (
    NotPrivateError,
    opened_file,
    private_folder,
    say_not_used,
)
from labs.errors import LabError, Missing

FLAGS = (
    *("-std=c11", "-O2", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-fPIC", "-shared"),
)
COMPILER_S = 300
KIND = "compiled"


def library(name: str, source: Callable[[], str]) -> ctypes.CDLL:
    """The library of this name, compiled from `source()` if it is not in the cache. Missing if that
    fails."""
    if (kept := _kept(name)) is not None:
        return kept
    try:
        with tempfile.TemporaryDirectory(prefix="labs-compiled-") as folder:
            made = _make(source, Path(folder))
            _keep(name, made.read_bytes())
            # Without a cache, or if nothing in it may be executed, it is loaded from here.
            return _kept(name) or ctypes.CDLL(str(made))
    except OSError as error:
        raise Missing(f"a compiled reader cannot be kept ({error.strerror or error})") from None


def _kept(name: str) -> ctypes.CDLL | None:
    """The library of this name in the cache, if it is unchanged; a damaged one is removed."""
    try:
        folder = private_folder(KIND)
        for file in sorted(folder.glob(f"{name}-*.so")):
            if (loaded := _loaded(file, name)) is not None:
                return loaded
            with suppress(FileNotFoundError):  # another process has just removed it
                file.unlink()
    except NotPrivateError as error:
        say_not_used(str(error.strerror))
    except (OSError, Missing):
        pass
    return None


def _loaded(file: Path, name: str) -> ctypes.CDLL | None:
    """The library in a file; None if it cannot be read, if its content does not match its name, or
    if others may have written it. OSError if nothing in its folder may be executed."""
    try:
        descriptor = opened_file(KIND, file.name, os.O_RDONLY)
        with os.fdopen(os.dup(descriptor), "rb") as opened:
            content = opened.read()
    except OSError:
        return None
    if file.name != _file_name(name, content):
        os.close(descriptor)
        return None
    # Load the very file that was checked. It stays open, because the loader would take a reused
    # descriptor number for the same library.
    by_descriptor = Path(f"/proc/self/fd/{descriptor}")
    try:
        return ctypes.CDLL(str(by_descriptor if by_descriptor.exists() else file))
    except OSError:
        os.close(descriptor)
        raise


def _keep(name: str, content: bytes) -> None:
    with suppress(OSError, LabError):
        write_whole(private_folder(KIND) / _file_name(name, content), content, through_link=False)


def _file_name(name: str, content: bytes) -> str:
    return f"{name}-{sha256(name.encode() + content).hexdigest()[:32]}.so"


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
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise Missing(f"{compiler} failed: {errors[0].strip()}")
    made.chmod(0o755)
    return made
