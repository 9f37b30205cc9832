"""The programs that a run starts on this machine: where they are, their digests and versions."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from labs.drive.kernel.boot import PATH
from labs.drive.record.canonical import digest
from labs.drive.testbed.process import PACKAGES
from labs.errors import Missing

# What every run starts, whatever its experiment: the hosts, the link, the watchers.
ALWAYS = ("bash", "mount", "ip", "tc", "ss", "nstat")
OLDEST_PYTHON = (3, 11)
ASKED = {"nginx": "-v", "tc": "-V", "ip": "-V", "ss": "-V", "nstat": "-V", "ab": "-V"}


def find(name: str) -> Path:
    """The path of a program among the system's folders; Missing with the package that has it."""
    found = shutil.which(name, path=PATH)
    if found is None:
        raise Missing(
            f"{name} is not installed; on Debian: apt-get install {PACKAGES.get(name, name)}"
        )
    return Path(found)


@functools.cache
def python() -> Path:
    """The interpreter of the driving half: the system's, or else the one that runs now."""
    system = shutil.which("python3", path=PATH)
    if system and _version(system) >= OLDEST_PYTHON:
        return Path(system)
    return Path(getattr(sys, "_base_executable", sys.executable))


def _version(interpreter: str) -> tuple[int, ...]:
    done = subprocess.run(
        (interpreter, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"),
        capture_output=True,
    )
    return tuple(int(word) for word in done.stdout.split())


@functools.cache
def _digest(path: Path, size: int, changed_ns: int) -> str:
    return digest(path)


def digests(names: Iterable[str], interpreter: Path) -> dict[str, str]:
    """The sha256 of each program, and of the interpreter as python3: a run's inputs."""
    found = {}
    used = [(name, find(name)) for name in names] + [("python3", interpreter), *_libc()]
    for name, path in used:
        real = path.resolve()
        about = os.stat(real)
        found[name] = _digest(real, about.st_size, about.st_mtime_ns)
    return found


def _libc() -> list[tuple[str, Path]]:
    """The C library that programs of this machine use; none where it cannot be told."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line}
    return [("libc", Path(path)) for path in sorted(paths)[:1]]


def versions(names: Iterable[str], interpreter: Path) -> dict[str, str]:
    """What each of a run's tools says of its version, in its first line."""
    said = {
        "libc": lambda: os.confstr("CS_GNU_LIBC_VERSION") or "",
        "python3": lambda: version(interpreter),
    }
    return {name: said[name]() if name in said else version(find(name)) for name in names}


@functools.cache
def version(path: Path) -> str:
    """What a program says of its version, in its first line."""
    done = subprocess.run(
        (path, ASKED.get(path.name, "--version")),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": PATH, "LC_ALL": "C"},
    )
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return said.splitlines()[0] if said else ""
