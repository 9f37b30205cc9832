"""The kit: the programs of a guest with their libraries and interpreter, and perhaps kernels.

Every run in virtual time executes a kit, so what it executes is the same on every x86-64 Linux,
before and after an upgrade of the machine, and equal runs have equal keys everywhere. A kit is a
folder in the cache, or one file for other machines, and consists of::

    manifest.json         what is in it, with SHA-256, mode and size of each file
    root/usr/bin/nginx    the files of a guest's root by their paths in it (`guest_root`)
    kernels/SHA256/linux  the kernels as in a store (`store`)
    licences/PACKAGE      the terms under which a package is distributed

It is named by the digest of its manifest. `use` unpacks it into the cache; nothing of it is used
unless every file is as the manifest says. `kit_maker` makes one. The files that this version of
labs adds to each root are not in it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import os
import platform
import re
import tarfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from labs.drive.kernel.guest_root import BIN, LIB, digest_of_labs, kept_root
from labs.drive.kernel.kept_copy import File, Interpreter, Kept, listing, listing_digest
from labs.drive.record.cache import cache, opened_file, private_folder
from labs.drive.record.disk import owned_folder, write_whole, written_to
from labs.drive.testbed.packages import KIT_TOOLS, install_line
from labs.errors import BadInput, Damaged, LabError, Missing

SCHEMA = 1
ARCHITECTURE = "x86_64"
KITS, UNPACKING = "kits", ".unpacking-"
CHOSEN, MADE = "in-use", "made"
"""The files with the digest of the kit that the user chose, and of that which a run made."""
MANIFEST, ROOT, KERNELS, LICENCES = "manifest.json", "root", "kernels", "licences"
MOST_BYTES, MOST_MANIFEST_BYTES, MOST_MEMORY_BYTES = 512 << 20, 8 << 20, 128 << 20
"""Of an unpacked kit, of its manifest, and of what unpacking may take."""
INSTALLED = Path(__file__).parents[3] / "tcp_lab_kit" / "kit.tar.xz"
"""The kit of the wheel `tcp-lab-kit`, if it is installed beside this package."""
LOADER = "ld-linux-x86-64.so.2"
AGAIN = "Copy it again, or make one where the labs are set up: labs kit make --out FILE"
REPAIR = "Unpack it again (labs kit use FILE), or make one of this machine: labs kit make"
ELSEWHERE = "name another folder in XDG_CACHE_HOME"

Entry = tuple[str, str, int]
"""A file of a kit: its SHA-256, its mode, and its size in bytes."""


@dataclass(frozen=True)
class Manifest:
    """What is in a kit: programs with the versions that they print, packages with their versions
    and sources, kernels with the versions of their sources by digest, and the files."""

    programs: Mapping[str, str]
    packages: Mapping[str, tuple[str, str]]
    kernels: Mapping[str, str]
    files: Mapping[str, Entry]

    def as_bytes(self) -> bytes:
        """The file that it is in a kit."""
        content = {"schema": SCHEMA, "architecture": ARCHITECTURE, **self.__dict__}
        return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


@dataclass(frozen=True)
class Kit:
    """A kit in the cache."""

    folder: Path
    digest: str
    manifest: Manifest

    @property
    def kernels(self) -> Path:
        """The store of its kernels."""
        return self.folder / KERNELS

    def programs(self, names: Iterable[str]) -> dict[str, Path]:
        """The paths of these programs of it, by name; Missing if it lacks one."""
        lacking = sorted(set(names) - self.manifest.programs.keys())
        if lacking:
            further = "".join(f" --with {name}" for name in lacking if name not in KIT_TOOLS)
            raise Missing(
                f"the kit in use, {self.digest[:12]}, lacks {', '.join(lacking)}. Install what it "
                f"lacks ({install_line(lacking)}), then make another kit: labs kit make{further}"
            )
        return {name: self.folder / ROOT / BIN / name for name in names}

    def versions(self, names: Iterable[str]) -> dict[str, str]:
        """The versions of these programs, of the C library, and of the interpreter."""
        return {name: self.manifest.programs[name] for name in (*names, "libc", "python3")}

    @functools.cached_property
    def files(self) -> dict[str, File]:
        """The files of its root by their paths in it."""
        return {
            name.removeprefix(f"{ROOT}/"): File(self.folder / name, digest, mode == "755")
            for name, (digest, mode, _) in self.manifest.files.items()
            if name.startswith(f"{ROOT}/")
        }

    @functools.cached_property
    def root_digest(self) -> str:
        """The digest of its root, which is in the keys of its runs: kernels have their own."""
        return listing_digest(listing(self.files, {}, ()))

    @functools.cached_property
    def inputs(self) -> dict[str, object]:
        """Its part of a run's inputs: all of its root, whichever programs the run starts."""
        guest = digest_of_labs(self.files)
        return {"tools": {"kit": self.root_digest}, "libraries": {}, "guest": guest}

    @property
    def interpreter(self) -> Interpreter:
        """How its Python is started on a machine with another C library, or with none."""
        libraries = self.folder / ROOT / LIB
        return (
            *(libraries / LOADER, "--library-path", str(libraries)),
            self.folder / ROOT / BIN / "python3",
        )

    def kept_root(self) -> Kept:
        """The root of a guest, with what labs add. Damaged if a file of the kit was changed."""
        try:
            return kept_root(self.files, self.interpreter)
        except LabError:
            if _is_whole(self.folder):
                raise
            raise Damaged(f"a file of the kit in {self.folder} was changed. {REPAIR}") from None


def check_architecture() -> None:
    """Missing if no kit can be used on this machine."""
    if platform.machine() != ARCHITECTURE:
        raise Missing(
            f"a kit is for {ARCHITECTURE}, and this machine is {platform.machine()}. Use recorded "
            "runs, which need none"
        )


def digest_of(manifest: bytes) -> str:
    """The digest by which a kit is named."""
    return hashlib.sha256(manifest).hexdigest()


def in_use() -> Kit | None:
    """The kit that virtual runs execute; None if there is none yet (`kit_maker.ready` makes one).

    It is the one that was chosen, else that of the wheel `tcp-lab-kit`, else the one that a run
    made. Damaged if it is not whole.
    """
    if platform.machine() != ARCHITECTURE:
        return None
    if chosen := _named_by(CHOSEN):
        return read(chosen)
    if INSTALLED.is_file():
        return _unpacked(INSTALLED)
    made = _named_by(MADE)
    return read(made) if made and (private_folder(KITS, make=False) / made).is_dir() else None


def _named_by(file_name: str) -> str:
    """The digest of a kit in this file, or nothing."""
    try:
        with os.fdopen(opened_file(KITS, file_name, os.O_RDONLY), encoding="utf-8") as file:
            digest = file.read(100).strip()
        if digest in ("", "none"):  # the latter: before every run had a kit
            return ""
        if re.fullmatch("[0-9a-f]{64}", digest):
            return digest
        raise ValueError(f"{digest[:20]!r} is no digest. {REPAIR}")
    except (FileNotFoundError, Missing):  # a user without a home has no cache
        return ""
    except (OSError, ValueError) as error:
        raise Damaged(f"the choice of a kit cannot be read: {error}") from None


def read(digest: str) -> Kit:
    """The kit of this digest in the cache; Damaged if it is not there or was changed."""
    try:
        folder = private_folder(KITS, make=False) / digest
        content = (folder / MANIFEST).read_bytes()
    except OSError as error:
        raise Damaged(
            f"the kit {digest[:12]} cannot be read ({error.strerror}). {REPAIR}"
        ) from None
    if digest_of(content) != digest:
        raise Damaged(f"{folder / MANIFEST} was changed. {REPAIR}")
    return Kit(folder, digest, _manifest(content, folder))


def kits_folder() -> Path:
    """The folder of kits in the cache; Missing if it cannot be written."""
    try:
        return private_folder(KITS)
    except OSError as error:
        raise Missing(
            f"{cache() / KITS} cannot be written ({error.strerror}); {ELSEWHERE}"
        ) from None


def choose(digest: str, file_name: str = CHOSEN) -> None:
    """Use the kit of this digest from now on; with MADE unless there is another."""
    where = kits_folder()
    with written_to(where, ELSEWHERE):
        write_whole(where / file_name, f"{digest}\n".encode())


def use(file: Path, sha256: str | None = None) -> Kit:
    """Unpack a kit into the cache, and use it from now on.

    BadInput if there is no such file; Damaged if it is not a kit, is cut short, was changed, is for
    another version of labs, or has not the digest `sha256`; Missing on another architecture.
    Nothing of it is then kept.
    """
    check_architecture()
    if not file.is_file():
        raise BadInput(f"{file} is not a file. Give a kit, as labs kit make --out FILE writes it")
    if sha256 is not None:
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != sha256.lower():
            raise Damaged(f"{file} has the SHA-256 {digest}, not {sha256.lower()}. {AGAIN}")
    made = _unpacked(file, fresh=True)
    choose(made.digest)
    return made


def put(made: Path, digest: str) -> Path:
    """Give a whole kit its name in the cache, in place of one that is no longer whole."""
    kept = kits_folder() / digest
    if kept.is_dir() and not _is_whole(kept):
        kept.rename(made.with_name("damaged"))
    with suppress(OSError):
        made.rename(kept)
    if not kept.is_dir():
        raise Missing(f"{kept} cannot be written. Try again, or {ELSEWHERE}")
    return kept


def _is_whole(folder: Path) -> bool:
    """Whether each file of a kit is as its manifest says."""
    try:
        content = (folder / MANIFEST).read_bytes()
        files = _manifest(content, folder).files
        return digest_of(content) == folder.name and all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            and f"{(folder / name).stat().st_mode & 0o777:o}" == mode
            for name, (digest, mode, _) in files.items()
        )
    except (OSError, Damaged):
        return False


class _Decompressed:
    """The content of an xz file, read in order; Damaged beyond MOST_BYTES."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY_BYTES)
        self._left = MOST_BYTES

    def read(self, size: int) -> bytes:
        parts, wanted = [], size
        while wanted and not self._decompressor.eof:
            fresh = self._file.read(1 << 16) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not fresh:
                raise EOFError("its end is lacking")
            parts.append(self._decompressor.decompress(fresh, wanted))
            wanted -= len(parts[-1])
        self._left -= size - wanted
        if self._left < 0:
            raise tarfile.ReadError(f"it has more than {MOST_BYTES >> 20} MiB")
        return b"".join(parts)


def _unpacked(file: Path, *, fresh: bool = False) -> Kit:
    """A kit in the cache that has the content of a file; unpacked if it is not there, or `fresh`.

    Damaged, and nothing kept, if a file of it is not as its manifest says.
    """
    where = kits_folder()
    try:
        with (
            file.open("rb") as opened,
            tarfile.open(fileobj=_Decompressed(opened), mode="r|") as packed,  # type: ignore[call-overload]
        ):
            content = _first(packed)
            digest = digest_of(content)
            if not fresh and (where / digest).is_dir():
                return read(digest)
            manifest = _manifest(content, file)
            with written_to(where, ELSEWHERE), owned_folder(UNPACKING, where) as work:
                made = work / "kit"
                made.mkdir()
                (made / MANIFEST).write_bytes(content)
                _write_files(packed, manifest, made, file)
                put(made, digest)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise Damaged(f"{file} is not a kit, or is cut short ({error}). {AGAIN}") from None
    return read(digest)


def _first(packed: tarfile.TarFile) -> bytes:
    """The manifest, which is the first member of a kit."""
    member = packed.next()
    is_manifest = member is not None and member.name == MANIFEST and member.isreg()
    opened = packed.extractfile(member) if member is not None and is_manifest else None
    content = opened.read(MOST_MANIFEST_BYTES) if opened else b""
    if not content:
        raise tarfile.ReadError("no manifest")
    return content


def _write_files(packed: tarfile.TarFile, manifest: Manifest, into: Path, file: Path) -> None:
    """Write the files of a kit; Damaged if they are not those of its manifest."""
    wanted = dict(manifest.files)
    while member := packed.next():
        if member.name not in wanted or not member.isreg():
            raise Damaged(f"{member.name!r} in {file} is not in its manifest. {AGAIN}")
        digest, mode, size = wanted.pop(member.name)
        opened = packed.extractfile(member) if member.size == size else None
        if opened is None or _write(opened, into / member.name, int(mode, 8)) != digest:
            raise Damaged(f"{member.name} in {file} was changed. {AGAIN}")
    if wanted:
        raise Damaged(f"{file} lacks {min(wanted)}: it is cut short. {AGAIN}")


def _manifest(content: bytes, file: Path) -> Manifest:
    """A manifest; Damaged if it is none, or one of another version."""
    try:
        given = dict(json.loads(content))
        schema, architecture = given["schema"], given["architecture"]
        manifest = Manifest(
            _texts(given["programs"]),
            {str(name): _pair(about) for name, about in dict(given["packages"]).items()},
            _texts(given["kernels"]),
            {str(name): _entry(str(name), entry) for name, entry in dict(given["files"]).items()},
        )
        parents = {str(parent) for name in manifest.files for parent in PurePosixPath(name).parents}
        if parents & manifest.files.keys() or not manifest.programs.keys() >= {"libc", "python3"}:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Damaged(f"the manifest of {file} cannot be read. {AGAIN}") from None
    if schema != SCHEMA:
        raise Damaged(
            f"{file} was made for another version of labs: its schema is {schema!r}. "
            f"Allowed: {SCHEMA}. Make it again: labs kit make"
        )
    if architecture != ARCHITECTURE:
        raise Damaged(f"{file} is for {architecture!r}. A kit for {ARCHITECTURE} is needed")
    if sum(size for _, _, size in manifest.files.values()) > MOST_BYTES:
        raise Damaged(f"{file} has more than {MOST_BYTES >> 20} MiB. {AGAIN}")
    return manifest


def _texts(given: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in given.items()}


def _pair(given: Any) -> tuple[str, str]:
    version, source = given
    return str(version), str(source)


def _entry(name: str, given: Any) -> Entry:
    """A file of a manifest; ValueError for one that is not inside the kit, or no plain file."""
    digest, mode, size = given
    path = PurePosixPath(name)
    inside = path.parts[0] in (ROOT, KERNELS, LICENCES) and ".." not in path.parts
    has_size = type(size) is int and size >= 0
    if not (inside and len(path.parts) > 1 and str(path) == name and len(name) < 250 and has_size):
        raise ValueError
    if mode not in ("644", "755"):
        raise ValueError
    return str(digest), mode, size


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
