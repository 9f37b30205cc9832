"""Make a kit (`labs.drive.kernel.kit`) from the programs of this machine.

Each user has one: the first virtual run makes it. A kit that is written to a file for other
machines also has the kernels that are built here, the names of the Debian packages of its programs
with their versions and sources, and the terms under which each is distributed.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labs.drive.kernel import kit
from labs.drive.kernel import programs as here
from labs.drive.kernel.boot import PATH
from labs.drive.kernel.guest_root import BIN, LIB
from labs.drive.kernel.kept_copy import CHANGED_S, content_digest
from labs.drive.kernel.kit import KERNELS, LICENCES, MANIFEST, ROOT, Entry, Kit, Manifest
from labs.drive.kernel.store import CONFIG, PATCHES, PROGRAM, RECORD, Kernel, kernels_of
from labs.drive.record.disk import owned_folder, whole_file, written_to
from labs.drive.record.removal import say
from labs.drive.testbed.packages import KIT_TOOLS
from labs.errors import BadInput, LabError, Missing
from labs.guest.programs.init import PYTHON

MAKING = ".making-"
DOCUMENTS, COMMON = Path("/usr/share/doc"), Path("/usr/share/common-licenses")
OF_KERNELS = "GPL-2"
NAMED_LICENCE = re.compile(r"/usr/share/common-licenses/([\w.+-]+)")
BESIDE = ("cat", "sleep", "env", "curl", "wget", "ssh", "sshd", "rsync", "ping")
"""Programs that labs of one's own often start; those that are installed are included."""

# Parts of the standard library that neither a lab's experiment nor its tools can use inside.
LEFT_OUT = frozenset(
    (
        *("__pycache__", "config", "site-packages", "dist-packages", "test", "tests", "idlelib"),
        *("idle_test", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "venv"),
        "distutils",
    )
)
# Extension modules whose libraries are included although Python itself does not load them.
WITH_LIBRARIES = ("_ctypes",)
WITH_PYTHON = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", kit.LOADER}
OF_TESTS = ("_test", "_ctypes_test", "xx", "_xx")

Sources = Mapping[str, Path]
"""Files of this machine by their paths in a root or a kit."""
_alone = threading.Lock()


def ready() -> Kit:
    """The kit in use; if there is none, it is made of this machine's programs."""
    with _alone:
        return kit.in_use() or make(tell=say, named_in=kit.MADE)


def make(
    more: Iterable[str] = (),
    kernels: Sequence[Kernel] = (),
    out: Path | None = None,
    tell: Callable[[str], None] = print,
    named_in: str = kit.CHOSEN,
) -> Kit:
    """Make a kit of the programs of the labs, of those that the kit in use has, and of `more`; use
    it, and with `out` write it as a file, with these kernels.

    Missing if a program needs what is not here, or if for a file one belongs to no package.
    """
    kit.check_architecture()
    chosen, lacking = choice(more)
    kernels = kernels or _kernels_in_use()
    tell(f"making a kit of {len(chosen)} programs of this machine")
    if lacking:
        tell(f"not installed, so not in the kit: {', '.join(lacking)}")
    root = sources(chosen, here.python())
    packages = packages_of(root.values()) if out else ()
    files = {
        **{f"{ROOT}/{name}": path for name, path in root.items()},
        **{f"{KERNELS}/{name}": path for name, path in _of_kernels(kernels).items()},
        **{f"{LICENCES}/{name}": path for name, path in _terms(packages).items()},
    }
    where = kit.kits_folder()
    with written_to(where, kit.ELSEWHERE), owned_folder(MAKING, where) as work:
        made = work / "kit"
        content = Manifest(
            here.versions(chosen, here.python()),
            {package.name: (package.version, package.source) for package in packages},
            {kernel.sha256: kernel.source for kernel in kernels},
            {name: _copied(files[name], made, name) for name in sorted(files)},
        ).as_bytes()
        (made / MANIFEST).write_bytes(content)
        folder = kit.put(made, kit.digest_of(content))
    if out is not None:
        tell(f"packing {out}")
        _pack(folder, content, sorted(files), out)
    whole = kit.read(folder.name)
    kit.choose(folder.name, named_in)
    return whole


def _kernels_in_use() -> Sequence[Kernel]:
    """The kernels of the kit in use, which another kit made here has as well."""
    with suppress(LabError):  # a damaged kit is replaced
        used = kit.in_use()
        return kernels_of(used.kernels) if used else ()
    return ()


def choice(more: Iterable[str] = ()) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The paths of the programs that a kit made here has, by name, and the names of those that it
    lacks; Missing if one of `more` is not installed, BadInput for a path."""
    for name in more:
        if "/" in name:
            raise BadInput(f"--with {name} is a path. Allowed: the name of a program in {PATH}")
    had: set[str] = set()
    with suppress(LabError):  # a damaged kit is replaced
        used = kit.in_use()
        had = set(used.manifest.programs) - {"libc", "python3"} if used else had
    wanted = dict.fromkeys((*KIT_TOOLS, *sorted(had - {*KIT_TOOLS, *BESIDE})))
    found = {
        name: Path(path) for name in (*wanted, *BESIDE) if (path := shutil.which(name, path=PATH))
    }
    return found | here.programs(more), tuple(sorted(wanted.keys() - found.keys() - set(more)))


# --- the root -----------------------------------------------------------------------------


def sources(programs: Mapping[str, Path], interpreter: Path) -> dict[str, Path]:
    """The files of a root with these programs (by name), driven by `interpreter`.

    Missing if a program needs a library, or a script an interpreter, that is not here.
    """
    executables = {**_with_interpreters(programs), Path(PYTHON).name: interpreter.resolve()}
    home = Path(here.answer(interpreter, "import os; print(os.path.dirname(os.__file__))"))
    modules = {str(path.relative_to(home)): path for path in _modules(home)}
    extensions = [path for path in modules.values() if _stem(path) in WITH_LIBRARIES]
    loaded = here.libraries((*executables.values(), *extensions))
    return {
        **{f"{BIN}/{name}": path for name, path in executables.items()},
        **{f"{LIB}/{home.name}/{name}": path for name, path in modules.items()},
        **{f"{LIB}/{name}": path for name, path in loaded.items()},
    }


def _with_interpreters(programs: Mapping[str, Path]) -> dict[str, Path]:
    """The programs, and the interpreters of those that are scripts."""
    executables, waiting = dict(programs), list(programs.items())
    while waiting:
        name, path = waiting.pop()
        with path.open("rb") as opened:
            first = opened.readline(256)
        words = first[2:].decode("utf-8", "replace").split() if first[:2] == b"#!" else []
        for word in words[: 2 if words and Path(words[0]).name == "env" else 1]:
            interpreter = Path(word).name
            where = shutil.which(interpreter, path=PATH)
            if where is None or str(Path(word).parent) not in (*PATH.split(":"), "."):
                raise Missing(
                    f"{name} is a script for {word}, which is in none of {PATH}; install it there"
                )
            if interpreter not in executables and interpreter != Path(PYTHON).name:
                executables[interpreter] = Path(where)
                waiting.append((interpreter, Path(where)))
    return executables


def _modules(home: Path) -> Iterator[Path]:
    """The sources and extension modules of a standard library, without those modules that test
    Python itself, or that need libraries which Python does not."""
    extensions = []
    for folder, below, names in os.walk(home):
        below[:] = (name for name in below if not _is_left_out(name))
        for path in (Path(folder, name) for name in names):
            # Debian links sitecustomize.py to a file of /etc, which need not exist.
            if path.suffix == ".py" and path.exists():
                yield path
            if path.suffix == ".so" and not _stem(path).startswith(OF_TESTS):
                extensions.append(path)
    for path, loaded in here.loaded_by(extensions).items() if extensions else ():
        if _stem(path) in WITH_LIBRARIES or loaded.keys() <= WITH_PYTHON:
            yield path


def _is_left_out(folder: str) -> bool:
    """Whether a folder of a standard library is left out; `config` also as `config-3.11-linux`."""
    return not LEFT_OUT.isdisjoint((folder, folder.split("-")[0])) or folder.startswith(".")


def _stem(path: Path) -> str:
    """The module name in a file's path: `json` for `a/json.cpython-311.so`."""
    return path.name.split(".")[0]


# --- what else a file has -----------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """A package of Debian that has files of a kit."""

    name: str
    version: str
    source: str


def packages_of(paths: Iterable[Path]) -> tuple[Package, ...]:
    """The packages that own these files, by name; Missing for a file that none owns."""
    names = sorted(set(_owners(set(paths)).values()))
    form = "${Package}\\t${Version}\\t${source:Package} ${source:Version}\\n"
    listed = _dpkg(("dpkg-query", "--show", f"--showformat={form}", *names))
    return tuple(Package(*line.split("\t")) for line in listed.splitlines())


def _owners(paths: set[Path]) -> dict[Path, str]:
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
    if strangers := sorted(str(path) for path in paths - owners.keys()):
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


def _terms(packages: Sequence[Package]) -> dict[str, Path]:
    """The files with the terms of packages, the licences that these only name, and that of the
    kernels, by their paths in `licences`; Missing if one was not installed with its package."""
    terms = {
        package.name: DOCUMENTS / package.name.partition(":")[0] / "copyright"
        for package in packages
    }
    named = {OF_KERNELS} if packages else set[str]()
    for name, path in terms.items():
        if not path.is_file():
            raise Missing(f"{path} does not exist. Reinstall {name} with its documentation")
        text = path.read_text("utf-8", "replace")
        named |= {licence.rstrip(".") for licence in NAMED_LICENCE.findall(text)}
    common = {f"common/{name}": COMMON / name for name in sorted(named)}
    return terms | {name: path for name, path in common.items() if path.is_file()}


def _of_kernels(kernels: Sequence[Kernel]) -> dict[str, Path]:
    """The files of kernels by their paths in a store."""
    return {
        f"{kernel.sha256}/{path.relative_to(kernel.folder)}": path
        for kernel in kernels
        for path in (
            *(kernel.folder / name for name in (CONFIG, RECORD, PROGRAM)),
            *(kernel.folder / PATCHES).glob("*.patch"),
        )
    }


# --- the files ----------------------------------------------------------------------------


def _copied(source: Path, made: Path, name: str) -> Entry:
    """Copy a file into the folder of a kit, and return its entry in the manifest."""
    path, mode = made / name, 0o755 if is_executable(name) else 0o644
    entry = content_digest(source), f"{mode:o}", source.stat().st_size
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    path.chmod(mode)
    return entry


def is_executable(name: str) -> bool:
    """Whether the file of this name in a kit is a program or a library."""
    is_program = name.startswith(f"{ROOT}/{BIN}/") or name.endswith(f"/{PROGRAM}")
    return is_program or ".so" in name.rpartition("/")[2]


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
