"""Keep a kernel that was built elsewhere, after its digest and its figures were checked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from labs.drive.kernel import store
from labs.drive.kernel.check import check
from labs.drive.kernel.install import keep, work_folder
from labs.errors import BadInput, Damaged

ROOM_MIB = 128


def plan(file: Path, sha256: str, *, into: Path | None = None) -> dict[str, Any]:
    """What `add` would do, as plain data, after the file's digest was checked."""
    verify(file, sha256)
    return {
        "file": str(file),
        "sha256": sha256.lower(),
        "into": str((into or store.own_store()) / sha256.lower()),
    }


def verify(file: Path, sha256: str) -> None:
    """BadInput for a digest that is none or a file that is not there; Damaged if they differ."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise BadInput(
            f"--sha256 {sha256} is no digest: give all 64 hex digits, as sha256sum prints them"
        )
    if not file.is_file():
        raise BadInput(f"{file} is not a file: give a User-Mode Linux kernel")
    if (found := store.digest_of(file)) != sha256.lower():
        raise Damaged(
            f"{file} has the sha256 {found}, not {sha256.lower()}: fetch it again, or "
            "ask who built it for the digest"
        )


def add(file: Path, sha256: str, *, into: Path | None = None) -> store.Kernel:
    """Check a kernel file and keep it in `into` (the user's store) under its digest.

    Version and tick are what the booted kernel says of itself. RunFailed if it fails the check.
    """
    verify(file, sha256)
    with work_folder((into or store.own_store()).resolve(), ROOM_MIB) as work:
        program = work / "linux"
        shutil.copyfile(file, program)
        program.chmod(0o755)
        # Once more: what is kept is the copy.
        verify(program, sha256)
        measured = check(program)
        content = {
            "schema": store.SCHEMA,
            "version": measured["release"],
            "source": measured["release"],
            "sha256": sha256.lower(),
            "hz": measured["hz"],
            "added": True,
            "checked": measured,
        }
        return keep(program, content, config=None, patches={}, work=work)
