"""Make a kit (`labs.drive.kernel.kit`) from the programs and kernels of this machine.

The programs are those of Debian's packages; the manifest names the package of each, with its
version and its source, and the kit contains the terms under which each is distributed.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel import kit
from labs.drive.kernel.guest_root import files_of_labs, guest_root
from labs.drive.kernel.kept_copy import CHANGED_S, File, file
from labs.drive.kernel.kit import KERNELS, LICENCES, MANIFEST, ROOT, Entry, Kit, Manifest
from labs.drive.kernel.store import CONFIG, PATCHES, PROGRAM, RECORD, Kernel
from labs.drive.record.cache import private_folder
from labs.drive.record.disk import owned_folder, whole_file, written_to
from labs.errors import Missing

MAKING = ".making-"
DOCUMENTS, COMMON = Path("/usr/share/doc"), Path("/usr/share/common-licenses")
OF_KERNELS = "GPL-2"
NAMED_LICENCE = re.compile(r"/usr/share/common-licenses/([\w.+-]+)")
BESIDE_PROGRAMS = ("cat", "sleep", "env", "curl", "wget", "ssh", "sshd", "rsync", "ping")
"""Programs that labs of one's own often start; those that are installed are added."""


@dataclass(frozen=True)
class Package:
    """A package of Debian that has files of a kit."""

    name: str
    version: str
    source: str


def make(
    programs: Mapping[str, Path],
    interpreter: Path,
    versions: Mapping[str, str],
    kernels: Sequence[Kernel],
    out: Path | None = None,
    tell: Callable[[str], None] = print,
) -> Kit:
    """Make a kit of these programs (by name) with their versions, and of these kernels; use it, and
    with `out` write it as a file.

    Missing if a program needs what is not here, or comes from no package.
    """
    tell(f"collecting {len(programs)} programs and {len(kernels)} kernels")
    root = guest_root(programs, interpreter)
    ours = files_of_labs(root.libraries)
    of_root = {name: entry for name, entry in root.files.items() if name not in ours}
    packages = packages_of(entry.content for entry in of_root.values())
    terms = {package.name: _terms(package) for package in packages}
    files = {
        **{f"{ROOT}/{name}": entry for name, entry in of_root.items()},
        **{f"{KERNELS}/{name}": entry for name, entry in _of_kernels(kernels).items()},
        **{f"{LICENCES}/{name}": entry for name, entry in (terms | _common(terms)).items()},
    }
    content = Manifest(
        dict(versions),
        {package.name: (package.version, package.source) for package in packages},
        {kernel.sha256: kernel.source for kernel in kernels},
        {name: _entry(entry) for name, entry in sorted(files.items())},
    ).as_bytes()
    digest = kit.digest_of(content)
    where = private_folder(kit.KITS)
    with written_to(where), owned_folder(MAKING, where) as work:
        made = work / "kit"
        for name, entry in files.items():
            _copy(entry, made / name)
        (made / MANIFEST).write_bytes(content)
        folder = kit.put(made, digest)
    if out is not None:
        tell(f"packing {out}")
        _pack(folder, content, sorted(files), out)
    kit.choose(digest)
    return kit.read(digest)


def packages_of(contents: Iterable[object]) -> tuple[Package, ...]:
    """The packages that own these files, by name; Missing for a file that none owns."""
    paths = {path for path in contents if isinstance(path, Path)}
    owners = _owners(paths)
    names = sorted(set(owners.values()))
    form = "${Package}\\t${Version}\\t${source:Package} ${source:Version}\\n"
    listed = _dpkg(("dpkg-query", "--show", f"--showformat={form}", *names))
    return tuple(Package(*line.split("\t")) for line in listed.splitlines())


def _owners(paths: Iterable[Path]) -> dict[Path, str]:
    """The package of each file. A package may have it by its name before /bin became a link."""
    named: dict[str, set[Path]] = defaultdict(set)
    for path in paths:
        for name in (str(path), str(path.resolve())):
            named[name].add(path)
            named[name.removeprefix("/usr")].add(path)
    owners: dict[Path, str] = {}
    for line in _dpkg(("dpkg-query", "--search", *sorted(named)), may_fail=True).splitlines():
        packages, _, name = line.rpartition(": ")
        owners |= dict.fromkeys(named.get(name, ()), packages.split(", ")[0])
    if strangers := sorted(str(path) for path in set(paths) - owners.keys()):
        raise Missing(
            f"{strangers[0]} belongs to no Debian package, so its version and licence are unknown. "
            "Install the package that provides it"
        )
    return owners


def _dpkg(words: tuple[str, ...], *, may_fail: bool = False) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=not may_fail)
    except FileNotFoundError:
        raise Missing(
            "dpkg-query is not installed: a kit is made on Debian. Elsewhere use one that was "
            "made there: labs kit use FILE"
        ) from None
    return done.stdout


def _terms(package: Package) -> File:
    """The file with the terms of a package; Missing if it was not installed with the package."""
    terms = DOCUMENTS / package.name.partition(":")[0] / "copyright"
    if not terms.is_file():
        raise Missing(f"{terms} does not exist. Reinstall {package.name} with its documentation")
    return file(terms)


def _common(terms: Mapping[str, File]) -> dict[str, File]:
    """The licences that terms only name, and that of the kernels, by their paths in `licences`."""
    named = {OF_KERNELS}
    for entry in terms.values():
        assert isinstance(entry.content, Path)
        text = entry.content.read_text("utf-8", "replace")
        named |= {name.rstrip(".") for name in NAMED_LICENCE.findall(text)}
    paths = {name: COMMON / name for name in sorted(named)}
    return {f"common/{name}": file(path) for name, path in paths.items() if path.is_file()}


def _of_kernels(kernels: Sequence[Kernel]) -> dict[str, File]:
    """The files of kernels by their paths in a store."""
    files: dict[str, File] = {}
    for kernel in kernels:
        for name in (CONFIG, RECORD):
            files[f"{kernel.sha256}/{name}"] = file(kernel.folder / name)
        for patch in sorted((kernel.folder / PATCHES).glob("*.patch")):
            files[f"{kernel.sha256}/{PATCHES}/{patch.name}"] = file(patch)
        files[f"{kernel.sha256}/{PROGRAM}"] = file(kernel.path, executable=True)
    return files


def _entry(entry: File) -> Entry:
    """A file as the manifest has it: digest, mode and size in bytes."""
    content = entry.content
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    return entry.digest, "755" if entry.executable else "644", size


def _copy(entry: File, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(entry.content, bytes):
        path.write_bytes(entry.content)
    else:
        shutil.copyfile(entry.content, path)
    path.chmod(0o755 if entry.executable else 0o644)


def _pack(folder: Path, manifest: bytes, names: Iterable[str], out: Path) -> None:
    """Write a kit as one file, whole or not at all; equal kits have equal bytes."""
    with (
        written_to(out.parent, "name another file with --out FILE"),
        whole_file(out) as target,
        tarfile.open(fileobj=target, mode="w:xz", format=tarfile.PAX_FORMAT) as packed,
    ):
        packed.addfile(_member(MANIFEST, len(manifest), 0o644), io.BytesIO(manifest))
        for name in names:
            path = folder / name
            about = path.stat()
            with path.open("rb") as content:
                packed.addfile(_member(name, about.st_size, about.st_mode & 0o777), content)


def _member(name: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, mode, CHANGED_S
    return member
