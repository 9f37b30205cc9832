"""The programs of this machine: where they are, what they print of their versions, and the shared
libraries that they load.

Runs in real time use them as they are, and their digests are inputs of these runs. A kit
(`labs.drive.kernel.kit_maker`) has copies of them.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.kept_copy import content_digest
from labs.drive.testbed.packages import install_line
from labs.errors import Missing

# Programs that any run may start, whatever its experiment: for the hosts, the link, the samplers,
# and the files that are served.
EVERY_RUN = ("ip", "tc", "ss", "nstat", "truncate", "touch")
OLDEST_PYTHON = (3, 11)
ASKED = {"nginx": "-v"} | dict.fromkeys(("tc", "ip", "ss", "nstat", "ab", "ssh", "sshd"), "-V")
# Begins a line about a library that /etc/ld.so.preload names and that cannot be loaded.
OF_THE_LOADER = "ERROR: ld.so: "
LIBC, LIBGCC, CANCELS = "libc.so.6", "libgcc_s.so.1", b"\0pthread_cancel\0"
"""The C library loads libgcc_s when a thread is cancelled: no program names it (glibc,
nptl/pthread_cancel.c). iperf3 has threads since 3.16."""


def find(name: str) -> Path:
    """The path of a program in the system's folders; Missing, with the command to install it."""
    path = shutil.which(name, path=PATH)
    if path is None:
        raise Missing(f"{name} is not installed. Run: {install_line([name])}")
    return Path(path)


def programs(names: Iterable[str]) -> dict[str, Path]:
    """The paths of these programs; Missing if one is not installed."""
    return {name: find(name) for name in names}


@functools.cache
def python() -> Path:
    """The interpreter of the driving half: the system's if it is new enough, else this one."""
    system = shutil.which("python3", path=PATH)
    asked = "import sys; print(*sys.version_info[:2])"
    if system and tuple(map(int, answer(Path(system), asked).split())) >= OLDEST_PYTHON:
        return Path(system)
    return Path(getattr(sys, "_base_executable", sys.executable))


def answer(interpreter: Path, code: str) -> str:
    """What an interpreter of Python prints when it runs `code`."""
    words = (interpreter, "-I", "-S", "-c", code)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def versions(programs: Mapping[str, Path], interpreter: Path) -> dict[str, str]:
    """The first line of each program's version output, and the version of the C library."""
    return {
        **{name: version(path) for name, path in programs.items()},
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "",
        "python3": version(interpreter),
    }


def version(path: Path) -> str:
    """The first line of a program's version output."""
    return _version_of(path, content_digest(path))


@functools.cache
def _version_of(path: Path, digest: str) -> str:
    done = subprocess.run(
        (path, ASKED.get(path.name, "--version")),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": PATH, "LC_ALL": "C"},
    )
    lines = (done.stdout or done.stderr).decode("utf-8", "replace").strip().splitlines()
    return next((line for line in lines if not line.startswith(OF_THE_LOADER)), "")


def digests(programs: Mapping[str, Path], interpreter: Path) -> dict[str, dict[str, str]]:
    """The digests of programs, of the interpreter (as python3), and of every shared library that
    they load (by soname): inputs of a run that uses this machine's own files."""
    tools = {**programs, "python3": interpreter}
    return {
        "tools": {name: content_digest(path) for name, path in tools.items()},
        "libraries": {
            name: content_digest(path) for name, path in libraries(tools.values()).items()
        },
    }


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that programs load on this machine, by soname, the loader included.

    Missing if one is not installed.
    """
    programs = tuple(programs)
    by_soname: dict[str, Path] = {}
    for of_program in loaded_by(programs).values():
        by_soname |= of_program
    libc = by_soname.get(LIBC)
    others = (*programs, *(path for path in by_soname.values() if path != libc))
    if libc and any(CANCELS in path.read_bytes() for path in others):
        by_soname.setdefault(LIBGCC, libc.with_name(LIBGCC))
    return dict(sorted(by_soname.items()))


def loaded_by(paths: Sequence[Path]) -> dict[Path, dict[str, Path]]:
    """The shared libraries that each program or library loads, by soname; none for a script."""
    # Of a single file ldd does not print the name.
    done = subprocess.run(
        ("ldd", *paths, *paths[:1]),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": PATH, "LC_ALL": "C"},
    )
    loaded: dict[Path, dict[str, Path]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if not line.startswith("\t"):
            of_path = loaded.setdefault(Path(line.removesuffix(":")), {})
        elif lacking := _NOT_FOUND.match(line):
            raise Missing(
                f"{[*loaded][-1]} needs the library {lacking[1]}, which is not installed. Install "
                "the package that contains it"
            )
        elif match := _LISTED.match(line):
            of_path[match[1] or Path(match[2]).name] = Path(match[2])
    return loaded


_LISTED = re.compile(r"\t(?:(\S+) => )?(/.+) \(0x[0-9a-f]+\)$")
_NOT_FOUND = re.compile(r"\t(\S+) => not found")
