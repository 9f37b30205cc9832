"""The kit: kernels, and the programs of a guest with their libraries and interpreter, as one file.

What a run executes then is the same on every x86-64 Linux, before and after an upgrade of the
machine, so equal runs have equal keys everywhere. A kit consists of::

    manifest.json         what is in it, with SHA-256, mode and size of each file
    root/usr/bin/nginx    the files of a guest's root by their paths in it (`guest_root`)
    kernels/SHA256/linux  the kernels as in a store (`store`)
    licences/PACKAGE      the terms under which a package is distributed

It is named by the digest of its manifest. `use` unpacks it into the cache; nothing of it is used
unless every file is as the manifest says. The files that this version of labs adds to each root are
not in it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import lzma
import os
import platform
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from labs.drive.kernel.guest_root import BIN, LIB, GuestRoot, digest_of_labs, files_of_labs
from labs.drive.kernel.kept_copy import File, Interpreter, listing, listing_digest
from labs.drive.record.disk import cache, owned_folder, write_whole, written_to
from labs.drive.record.private_cache import private_folder
from labs.errors import BadInput, Damaged, Missing

SCHEMA = 1
ARCHITECTURE = "x86_64"
KITS, IN_USE, UNPACKING = "kits", "in-use", ".unpacking-"
MANIFEST, ROOT, KERNELS, LICENCES = "manifest.json", "root", "kernels", "licences"
MOST_BYTES, MOST_MANIFEST_BYTES = 1 << 30, 8 << 20
PACKAGE, PACKED = "tcp_lab_kit", "kit.tar.xz"
"""The wheel that carries a kit, and its file."""
LOADER = "ld-linux-x86-64.so.2"
AGAIN = "Copy it again, or make one where the labs are set up: labs kit make"
NONE = "none"


@dataclass(frozen=True)
class Kit:
    """A kit in the cache."""

    folder: Path
    digest: str
    manifest: Mapping[str, Any]

    @property
    def kernels(self) -> Path:
        """The store of its kernels."""
        return self.folder / KERNELS

    @property
    def programs(self) -> Mapping[str, str]:
        """Its programs and the versions that they print."""
        return dict(self.manifest["programs"])

    @property
    def packages(self) -> Mapping[str, str]:
        """The packages from which its programs come, with their versions."""
        return dict(self.manifest["packages"])

    def has(self, names: Iterable[str]) -> bool:
        """Whether it has all of these programs."""
        return self.programs.keys() >= set(names)

    @functools.cached_property
    def _of_packages(self) -> dict[str, File]:
        """The files of its root by their paths in it."""
        return {
            name.removeprefix(f"{ROOT}/"): File(self.folder / name, digest, mode == "755")
            for name, (digest, mode, _) in self.manifest["files"].items()
            if name.startswith(f"{ROOT}/")
        }

    def root(self, names: Iterable[str]) -> GuestRoot:
        """The root of a run that starts these programs: all of the kit, whichever they are."""
        files = self._of_packages
        ours = files_of_labs(
            PurePosixPath(name).name for name in files if str(PurePosixPath(name).parent) == LIB
        )
        libraries, programs = self.folder / ROOT / LIB, self.programs
        return GuestRoot(
            {**files, **ours},
            {"kit": listing_digest(listing(files, {}, ()))},
            {},
            digest_of_labs(ours),
            _started_by(libraries, self.folder / ROOT / BIN / "python3"),
            {name: programs[name] for name in (*names, "libc", "python3")},
        )


def _started_by(libraries: Path, program: Path) -> Interpreter:
    """How a program of a kit is started on a machine with another C library, or with none."""
    return libraries / LOADER, "--library-path", str(libraries), program


def digest_of(manifest: bytes) -> str:
    """The digest by which a kit is named."""
    return hashlib.sha256(manifest).hexdigest()


def as_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as the file that it is in a kit."""
    return json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"


def in_use() -> Kit | None:
    """The kit that runs are performed with; None if they use the programs of this machine.

    That of the wheel `tcp-lab-kit` is taken unless another was chosen. Damaged if it is not whole.
    """
    if platform.machine() != ARCHITECTURE:
        return None
    try:
        chosen = (cache() / KITS / IN_USE).read_text("utf-8").strip()
    except (OSError, Missing):
        packed = _installed()
        return None if packed is None else use(packed)
    return None if chosen == NONE else read(chosen)


def _installed() -> Path | None:
    """The kit that was installed as a package of its own."""
    package = importlib.util.find_spec(PACKAGE)
    folders = package.submodule_search_locations if package else None
    return next((Path(folder) / PACKED for folder in folders or ()), None)


def read(digest: str) -> Kit:
    """The kit of this digest in the cache; Damaged if it is not there or was changed."""
    folder = private_folder(KITS, make=False) / digest
    try:
        content = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise Damaged(
            f"the kit in use, {digest[:12]}, cannot be read ({error.strerror}). Use it again: labs "
            "kit use FILE, or do without: labs kit use none"
        ) from None
    if digest_of(content) != digest:
        raise Damaged(f"{folder / MANIFEST} was changed. Remove {folder}, and use the kit again")
    return Kit(folder, digest, json.loads(content))


def choose(digest: str) -> None:
    """Use the kit of this digest, or with `none` this machine's programs, from now on."""
    where = private_folder(KITS)
    with written_to(where):
        write_whole(where / IN_USE, f"{digest}\n".encode())


def use(file: Path) -> Kit:
    """Unpack a kit into the cache, and use it from now on.

    BadInput if there is no such file; Damaged if it is not a kit, is cut short, was changed, or is
    for another version of labs; Missing on another architecture. Nothing of it is then kept.
    """
    if platform.machine() != ARCHITECTURE:
        raise Missing(
            f"a kit is for {ARCHITECTURE}, and this machine is {platform.machine()}. Use recorded "
            "runs, which need none"
        )
    if not file.is_file():
        raise BadInput(f"{file} is not a file. Give a kit, as labs kit make --out FILE writes it")
    where = private_folder(KITS)
    with written_to(where), owned_folder(UNPACKING, where) as work:
        digest = _unpack(file, work / "kit")
        put(work / "kit", digest)
    choose(digest)
    return read(digest)


def put(made: Path, digest: str) -> Path:
    """Give a whole kit its name in the cache, in place of one that is no longer whole."""
    kept = private_folder(KITS) / digest
    if kept.is_dir() and not _is_whole(kept):
        kept.rename(made.with_name("damaged"))
    with suppress(OSError):
        made.rename(kept)
    if not kept.is_dir():
        raise Missing(f"{kept} cannot be written. Name another folder in XDG_CACHE_HOME")
    return kept


def _is_whole(folder: Path) -> bool:
    """Whether each file of a kit is as its manifest says."""
    try:
        content = (folder / MANIFEST).read_bytes()
        files = _manifest(content, folder)["files"]
        return digest_of(content) == folder.name and all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for name, (digest, _, _) in files.items()
        )
    except (OSError, Damaged):
        return False


def _unpack(file: Path, into: Path) -> str:
    """Unpack a kit, and return its digest."""
    into.mkdir()
    try:
        with tarfile.open(file, "r:xz") as packed:
            content = _first(packed)
            manifest = _manifest(content, file)
            (into / MANIFEST).write_bytes(content)
            wanted = dict(manifest["files"])
            while member := packed.next():
                digest, mode, size = wanted.pop(member.name, ("", "", -1))
                opened = packed.extractfile(member) if member.isreg() else None
                if opened is None or member.size != size:
                    raise Damaged(f"{file} has {member.name!r}, which no kit has. {AGAIN}")
                if _write(opened, into / member.name, int(mode, 8)) != digest:
                    raise Damaged(f"{member.name} in {file} was changed. {AGAIN}")
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise Damaged(f"{file} is not a kit, or is cut short ({error}). {AGAIN}") from None
    if wanted:
        raise Damaged(f"{file} lacks {min(wanted)}: it is cut short. {AGAIN}")
    return digest_of(content)


def _first(packed: tarfile.TarFile) -> bytes:
    """The manifest, which is the first member of a kit."""
    member = packed.next()
    opened = packed.extractfile(member) if member and member.name == MANIFEST else None
    content = opened.read(MOST_MANIFEST_BYTES) if opened else b""
    if not content:
        raise tarfile.ReadError("no manifest")
    return content


def _manifest(content: bytes, file: Path) -> dict[str, Any]:
    """A manifest; Damaged if it is none, or one of another version."""
    try:
        manifest = dict(json.loads(content))
        schema, architecture = manifest["schema"], manifest["architecture"]
        files = {
            str(name): (str(digest), str(mode), int(size))
            for name, (digest, mode, size) in manifest["files"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Damaged(f"the manifest of {file} cannot be read. {AGAIN}") from None
    if schema != SCHEMA:
        raise Damaged(
            f"{file} was made for another version of labs: its form is {schema}, and this version "
            f"reads form {SCHEMA}. Make it again: labs kit make"
        )
    if architecture != ARCHITECTURE:
        raise Damaged(f"{file} is for {architecture}. A kit for {ARCHITECTURE} is needed")
    unfit = [name for name, entry in files.items() if not _is_plain(name, entry)]
    if unfit or sum(size for _, _, size in files.values()) > MOST_BYTES:
        raise Damaged(f"the manifest of {file} lists {unfit[:1] or 'too much'}. {AGAIN}")
    return manifest


def _is_plain(name: str, entry: tuple[str, str, int]) -> bool:
    """Whether a file of a manifest is inside the kit, with a mode that files of kits have."""
    path = PurePosixPath(name)
    inside = path.parts[:1] in ((ROOT,), (KERNELS,), (LICENCES,)) and ".." not in path.parts
    return inside and str(path) == name and entry[1] in ("644", "755") and entry[2] >= 0


def _write(content: IO[bytes], path: Path, mode: int) -> str:
    """Write a file of a kit, and return its digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    total = hashlib.sha256()
    with path.open("xb") as file:
        while part := content.read(1 << 16):
            total.update(part)
            file.write(part)
    os.chmod(path, mode)
    return total.hexdigest()
