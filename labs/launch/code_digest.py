"""The copy of the driving code that a run sees, kept by its digest in the user's cache."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from labs.drive.record.cache import cache
from labs.errors import Missing

PACKAGE = Path(__file__).resolve().parent.parent
# What decides what a run does: the rooms that drive it, and how its kernel is booted. Left out is
# what only serves people (flags, help) or makes kernels, whose digests are inputs of their own.
ROOMS = ("drive", "experiments")
FILES = ("__init__.py", "errors.py")
LEFT_OUT = frozenset(
    [f"kernel/{name}.py" for name in ("add", "build", "check", "fragment", "keep", "progress",
                                      "reproduce", "rig", "source", "store", "versions")]
    + [f"parameters/{name}.py" for name in ("flags", "describe", "notebook")]
    + ["testbed/doctor.py", "testbed/packages.py", "testbed/machines_up.py"])
OWN_LAB = "own_lab.py"


def sources() -> dict[str, Path]:
    """The files of the driving half by their path in the copy."""
    found = [PACKAGE / name for name in FILES]
    for room in ROOMS:
        found += sorted((PACKAGE / room).rglob("*.py"))
    names = {str(path.relative_to(PACKAGE)): path for path in found}
    return {f"labs/{name}": path for name, path in names.items() if name not in LEFT_OUT}


@functools.cache
def _contents() -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in sources().items()}


def digest_of(own_lab: Path | None) -> str:
    """The sha256 of the driving code: every file's name and content, and a reader's own lab."""
    total = hashlib.sha256()
    for name, content in _with(own_lab).items():
        total.update(f"{name}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _with(own_lab: Path | None) -> dict[str, bytes]:
    own = {OWN_LAB: own_lab.read_bytes()} if own_lab else {}
    return {**_contents(), **own}


def copy(own_lab: Path | None, interpreter: Path) -> Path:
    """A folder with the driving code, compiled for `interpreter`; made once a digest."""
    tag = hashlib.sha256(str(interpreter.resolve()).encode()).hexdigest()[:8]
    final = cache() / "code" / f"{digest_of(own_lab)}-{tag}"
    if final.exists():
        return final
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
    except OSError as error:
        raise Missing(f"{final.parent} cannot be written ({error.strerror}); "
                      "name a folder that can in XDG_CACHE_HOME") from None
    try:
        for name, content in _with(own_lab).items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # Compiled by content, not by time, so that inside nothing is compiled again.
        subprocess.run((interpreter, "-I", "-m", "compileall", "-q", "-s", str(made),
                        "--invalidation-mode", "unchecked-hash", str(made)),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        made.chmod(0o755)
        made.rename(final)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not final.exists():
            raise
    return final
