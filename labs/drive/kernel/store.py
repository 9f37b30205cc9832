"""Stores of built kernels: where they are, how a kernel is found, how one is added.

A store is a folder of kernels, each under its digest:

    SHA256/linux          the kernel, an executable
    SHA256/config         its configuration
    SHA256/kernel.json    what it was built from, and what its check measured
    SHA256/patches/       the patches with which it was built

The user's own store is `labs/kernels` in the cache (XDG_CACHE_HOME, else ~/.cache); nobody else can
read it or may write to it. LABS_KERNELS names one or more shared stores, separated by colons; these
are read-only and searched first. Their users trust whoever can write to them. The kernels of the
kit in use (`labs.drive.kernel.kit`) come next.

A kernel is added to a store completely or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.drive.kernel.kit import in_use
from labs.drive.kernel.versions import SERIES, age, read_kernel_spec
from labs.drive.record.cache import cache, private_folder
from labs.drive.record.disk import clear_folders, owned_folder
from labs.drive.record.removal import is_own_folder
from labs.errors import BadInput, Damaged, Missing

SCHEMA = 1
PROGRAM, CONFIG, RECORD, PATCHES = "linux", "config", "kernel.json", "patches"
WORK = ".work-"
ELSEWHERE = "name another folder in XDG_CACHE_HOME or with --into"


@dataclass(frozen=True)
class Kernel:
    """A built kernel; `version` is its release (6.1.192), `source` the package's (6.1.192-2)."""

    version: str
    source: str
    sha256: str
    hz: int
    path: Path
    folder: Path


def own_store() -> Path:
    """The user's store; it need not exist yet."""
    return cache() / "kernels"


def shared_stores() -> tuple[Path, ...]:
    """The stores that LABS_KERNELS names. BadInput if one is not a folder."""
    named = [Path(part) for part in os.environ.get("LABS_KERNELS", "").split(":") if part]
    for folder in named:
        if not folder.is_dir():
            raise BadInput(
                f"LABS_KERNELS contains {folder}, which is not a folder. Correct or unset it"
            )
    return tuple(named)


def stores() -> Iterator[Path]:
    """All stores in the order in which they are searched, one by one: a user without a home folder
    has no own store and may not need it."""
    yield from shared_stores()
    with contextlib.suppress(Damaged):  # a run refuses a damaged kit; kernels elsewhere need none
        if kit := in_use():
            yield kit.kernels
    yield own_store()


def record(folder: Path) -> dict[str, Any]:
    """A kernel's `kernel.json`. Damaged if it cannot be read or has another schema."""
    try:
        content = dict(json.loads((folder / RECORD).read_text("utf-8")))
        schema = content["schema"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _broken(folder, f"cannot be read ({error})") from None
    if schema != SCHEMA:
        raise _broken(folder, f"has schema {schema}, and this version reads schema {SCHEMA}")
    return content


def read(folder: Path) -> Kernel:
    """The kernel in one folder of a store. Damaged if its record is incomplete."""
    content = record(folder)
    try:
        version, source, sha256 = (str(content[name]) for name in ("version", "source", "sha256"))
        return Kernel(version, source, sha256, int(content["hz"]), folder / PROGRAM, folder)
    except (KeyError, ValueError, TypeError) as error:
        raise _broken(folder, f"lacks {error}") from None


def _broken(folder: Path, what: str) -> Damaged:
    return Damaged(f"{folder / RECORD} {what}. Remove {folder} and build the kernel again")


def patches_of(kernel: Kernel) -> dict[str, bytes]:
    """The patches with which a kernel was built by their names."""
    names = record(kernel.folder).get("patches", {})
    files = [kernel.folder / PATCHES / name for name in names]
    return {file.name: file.read_bytes() for file in files if file.is_file()}


def kernels_of(store: Path) -> tuple[Kernel, ...]:
    """The kernels of one store, newest version first; within a version the latest stored first.

    Missing if the store cannot be read, Damaged if one of its records is incomplete.
    """
    try:
        with contextlib.suppress(Missing):  # a user without a home has no own store
            if store == own_store():
                private_folder(store.name, make=False)
        # Any other name belongs to a build in progress.
        folders = [folder for folder in store.iterdir() if len(folder.name) == 64]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Missing(
            f"cannot read the kernels in {store} ({error.strerror}). Make it readable, or name "
            "another folder in LABS_KERNELS or XDG_CACHE_HOME"
        ) from None
    folders.sort(key=lambda folder: (_kept_at(folder), folder.name), reverse=True)
    stored = [read(folder) for folder in folders]
    return tuple(sorted(stored, key=lambda kernel: age(kernel.source), reverse=True))


def kernels() -> tuple[Kernel, ...]:
    """Every built kernel, once each, in the order in which the stores are searched."""
    by_digest: dict[str, Kernel] = {}
    for store in stores():
        for kernel in kernels_of(store):
            by_digest.setdefault(kernel.sha256, kernel)
    return tuple(by_digest.values())


def find(spec: str) -> Kernel:
    """The kernel that `spec` means: "6.1", "6.1.192-2" or at least 8 digits of a digest.

    It is the newest matching version in the first store that has one; later stores are not read.
    BadInput if `spec` is not a kernel's name or matches several digests; Missing if the kernel is
    not built; Damaged if the file does not match its digest.
    """
    wanted = read_kernel_spec(spec)
    there: list[Kernel] = []
    for store in stores():
        kept = kernels_of(store)
        if fitting := [kernel for kernel in kept if wanted.matches(kernel.source, kernel.sha256)]:
            if wanted.form == "digest" and len(fitting) > 1:
                raise BadInput(f"{spec} matches {len(fitting)} digests. Give more digits")
            return _verified(fitting[0])
        there += kept
    built = ", ".join(dict.fromkeys(f"{kernel.source} ({kernel.sha256[:12]})" for kernel in there))
    step = f"labs kernel build {spec}"
    if wanted.form == "digest":
        step = "labs kernel list"
    elif wanted.series not in SERIES:
        step = f"name a supported series ({', '.join(SERIES)})"
    raise Missing(f"no kernel {spec} is built. Built: {built or 'none'}. Next step: {step}")


def _verified(kernel: Kernel) -> Kernel:
    """The kernel, if its program matches its digest; otherwise Damaged."""
    if not kernel.path.is_file() or digest_of(kernel.path) != kernel.sha256:
        raise Damaged(
            f"{kernel.path} does not match its digest. Remove {kernel.folder}, and run labs kernel "
            f"build {kernel.source}, or if it is of a kit, labs kit use FILE"
        )
    return kernel


def digest_of(file: Path) -> str:
    """The sha256 of a file, in hex."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _kept_at(folder: Path) -> float:
    try:
        return (folder / RECORD).stat().st_mtime
    except OSError:
        return 0.0


def keep(
    program: Path,
    content: dict[str, Any],
    *,
    config: str | None,
    patches: dict[str, bytes],
    work: Path,
) -> Kernel:
    """Store a kernel program with its record, configuration and patches in the store of `work`.

    The folder gets its name once everything is written. A kernel with the same digest that exists
    already is kept and gets the new record and patches.
    """
    content = {"schema": SCHEMA, "sha256": digest_of(program), **content}
    new = work / "new"
    (new / PATCHES).mkdir(parents=True)
    shutil.copyfile(program, new / PROGRAM)
    (new / PROGRAM).chmod(0o755)
    if config is not None:
        (new / CONFIG).write_text(config, "utf-8")
    for name, patch in patches.items():
        (new / PATCHES / name).write_bytes(patch)
    (new / RECORD).write_text(
        json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8"
    )
    folder = work.parent / content["sha256"]
    try:
        new.rename(folder)
    except OSError:
        if not is_own_folder(folder):
            raise
        for stale in (folder / PATCHES).iterdir():
            stale.unlink()
        names = [f"{PATCHES}/{name}" for name in patches]
        for name in (PROGRAM, CONFIG, *names, RECORD):
            if (new / name).exists():
                (new / name).replace(folder / name)
    return read(folder)


@contextlib.contextmanager
def work_folder(where: Path, room_mib: int) -> Iterator[Path]:
    """A folder inside the store to build in; always removed afterwards.

    What killed builds left behind is removed first. Missing if there is too little room or no
    write permission.
    """
    with contextlib.ExitStack() as stack:
        try:
            with contextlib.suppress(Missing):  # a user without a home has no own store
                if where == own_store().resolve():
                    private_folder(where.name)
            where.mkdir(parents=True, exist_ok=True)
            # Before the free space is measured, because leftovers may fill the disk.
            clear_folders(WORK, where)
            free_mib = shutil.disk_usage(where).free >> 20
            if free_mib < room_mib:
                raise Missing(
                    f"a build needs {room_mib} MiB below {where}, where {free_mib} MiB are free. "
                    f"Free some space, or {ELSEWHERE}"
                )
            folder = stack.enter_context(owned_folder(WORK, where))
        except OSError as error:
            raise Missing(
                f"cannot write to {where} ({error.strerror}). Make it writable, or {ELSEWHERE}"
            ) from None
        yield folder


def check_digest(file: Path, sha256: str) -> None:
    """BadInput if `sha256` is not a digest or the file does not exist; Damaged on a mismatch."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise BadInput(
            f"--sha256 {sha256} is not a digest. Give all 64 hex digits, as sha256sum prints them"
        )
    if not file.is_file():
        raise BadInput(f"{file} is not a file. Give a User-Mode Linux kernel")
    if (digest := digest_of(file)) != sha256.lower():
        raise Damaged(
            f"{file} has the SHA-256 {digest}, not {sha256.lower()}. Fetch it again, or "
            "ask whoever built it for the digest"
        )
