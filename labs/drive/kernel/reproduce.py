"""Build a kernel twice, in two folders and by two users, and compare.

The path of the second folder is longer than that of the first. If root runs this, the second user
is `nobody`; any other user builds both. Each build is a separate process with its own copy of the
package, because the other user may not be allowed to read this one. Nothing is kept.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from labs.drive.kernel import kernel_source as source
from labs.drive.kernel.build import ROOM_MIB, needs
from labs.drive.kernel.store import work_folder
from labs.drive.kernel.versions import KernelSpec
from labs.drive.record.removal import is_own_folder
from labs.errors import Missing, RunFailed

OTHER_USER = "nobody"
SYSTEM_PYTHON = "/usr/bin/python3"
PACKAGE = Path(__file__).parents[2]
_DEEPER = "deeper/and/deeper"


def plan(spec: KernelSpec) -> dict[str, Any]:
    """What `reproduce` would do, as plain data."""
    located = source.locate(spec)
    return {
        "source": located.version,
        "from": located.kind,
        "folders": [str(folder / _place()) for folder in _folders()],
        "users": list(_users()),
    }


def reproduce(spec: KernelSpec, *, jobs: int | None = None) -> list[dict[str, Any]]:
    """Build `spec` twice; return for each build `user`, `folder`, `seconds`, `sha256`.

    Errors of a build are raised unchanged; Missing if the disk has no room for a build.
    """
    needs()
    builds = []
    with ExitStack() as stack:
        works = [stack.enter_context(_work(folder)) for folder in _folders()]
        located = source.locate(spec)
        tarball = source.fetch(located, works[0])
        for work, user, below in zip(works, _users(), ("near", _DEEPER), strict=True):
            builds.append(_build(located.version, tarball, work / below, user, jobs))
    return builds


def _users() -> tuple[str, str]:
    me = pwd.getpwuid(os.geteuid()).pw_name
    return me, OTHER_USER if os.geteuid() == 0 else me


def _place() -> str:
    return f"labs-reproduce-{os.geteuid()}"


def _folders() -> tuple[Path, Path]:
    return Path(tempfile.gettempdir()), Path("/var/tmp")


@contextmanager
def _work(folder: Path) -> Iterator[Path]:
    """A work folder in a private folder of this user, below a folder that all may write."""
    place = folder / _place()
    with suppress(FileExistsError):
        place.mkdir()
    if not is_own_folder(place):
        raise Missing(
            f"{place} is a link or belongs to another user. Remove it, or set TMPDIR to another "
            "folder"
        )
    try:
        with work_folder(place, ROOM_MIB, "in TMPDIR") as work:
            yield work
    finally:
        with suppress(OSError):
            place.rmdir()


def _build(
    version: str, tarball: Path, folder: Path, user: str, jobs: int | None
) -> dict[str, Any]:
    """One build in a separate process, as `user`."""
    folder.mkdir(parents=True)
    code = folder / "code"
    shutil.copytree(PACKAGE, code / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    # Nobody else may enter the work folder that a downloaded tarball is in.
    own_tarball = folder / tarball.name
    shutil.copyfile(tarball, own_tarball)
    words: tuple[str, ...] = (
        "--source",
        str(own_tarball),
        "--fresh",
        "--json",
        "--into",
        str(folder / "store"),
    )
    if jobs:
        words += ("--jobs", str(jobs))
    print(f"build by {user} in {folder}", file=sys.stderr)
    begin = time.monotonic()
    answer = _answer_of(
        (*_labs_of(user, folder), "kernel", "build", version, *words),
        code,
        folder,
        f"the build by {user} in {folder}",
    )
    return {
        "user": user,
        "folder": str(folder),
        "seconds": round(time.monotonic() - begin, 1),
        "sha256": json.loads(answer)["sha256"],
    }


def _labs_of(user: str, folder: Path) -> tuple[str, ...]:
    """The command line that starts `labs` as `user`, from the copy in the working folder. Another
    user becomes the owner of `folder`. The started process ends with this one."""
    words: tuple[str, ...] = ("setpriv", "--pdeathsig", "INT")
    python = sys.executable
    if user != pwd.getpwuid(os.geteuid()).pw_name:
        owner = pwd.getpwnam(user)
        words += (f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups")
        _open_to(folder, owner)
        # The other user may be unable to reach a virtual environment.
        python = SYSTEM_PYTHON
    return (*words, python, "-m", "labs.cli")


def _answer_of(words: tuple[str, ...], code: Path, home: Path, what: str) -> bytes:
    """The standard output of a build started in the folder `code`; RunFailed if it fails."""
    process = subprocess.Popen(
        words,
        cwd=code,
        stdout=subprocess.PIPE,
        stderr=None,
        start_new_session=True,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    try:
        answer, _ = process.communicate()
    except BaseException:
        # The build removes its own work folder; only then can the folder around it be removed.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if process.returncode:
        raise RunFailed(
            f"{what} ended with exit code {process.returncode}. Its messages are printed above"
        )
    return answer


def _open_to(folder: Path, owner: pwd.struct_passwd) -> None:
    """Give a folder to another user, and make our folders above it passable for that user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
        if parent.name == _place():
            return
