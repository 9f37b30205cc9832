"""Programs in C, compiled by gcc on first use and kept in the cache.

The name of a compiled program in the cache is the digest of its sources, the compiler's version
and the flags, so a change of any of them compiles it again. It is linked statically: the same file
runs on a virtual machine with another C library.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from labs.drive.record.cache import cache
from labs.drive.record.disk import owned_folder
from labs.errors import Missing, RunFailed

WARNINGS = (
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wstrict-prototypes"),
    "-Werror",
)
FLAGS = ("-std=gnu11", "-O2", "-pthread", *WARNINGS)
STATIC = ("-static",)
COMPILER_S = 120


def compiled(folder: Path, flags: tuple[str, ...] = (*FLAGS, *STATIC)) -> Path:
    """The program whose main file is `<folder>/<name of folder>.c`, compiled if it is not yet.

    Missing if there is no compiler, RunFailed with its first error if it refuses the source.
    """
    sources = sorted([*folder.glob("*.c"), *folder.glob("*.h")])
    identity = hashlib.sha256()
    for word in (_version(), *flags):
        identity.update(word.encode() + b"\0")
    for source in sources:
        identity.update(source.name.encode() + b"\0" + source.read_bytes())
    kept = cache() / "programs" / f"{folder.name}-{identity.hexdigest()[:16]}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with owned_folder(".compiling-", kept.parent) as making:
            made = making / folder.name
            _compile((*flags, str(folder / f"{folder.name}.c"), "-o", str(made)))
            made.replace(kept)
    return kept


def _version() -> str:
    try:
        done = subprocess.run(("gcc", "--version"), capture_output=True, text=True)
    except OSError:
        raise Missing(
            "gcc is not installed, and this lab compiles its server. On Debian: "
            "apt-get install gcc libc6-dev"
        ) from None
    return done.stdout.splitlines()[0]


def _compile(words: tuple[str, ...]) -> None:
    done = subprocess.run(("gcc", *words), capture_output=True, text=True, timeout=COMPILER_S)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        said = (errors or done.stderr.splitlines() or ["no message"])[0]
        raise RunFailed(f"gcc cannot compile {Path(words[-3]).name}: {said}")
