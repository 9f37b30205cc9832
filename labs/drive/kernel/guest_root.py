"""The root folder that a guest sees; every file in it is an input of the run.

Nothing of this machine's root is visible inside. The folder contains copies of the programs that a
run starts, of the shared libraries that they load, and of the interpreter with its standard
library, and a small /etc that is the same everywhere. A file of this machine that is absent,
present or different therefore cannot change a run without changing its key.

A root is identified and stored by its content, created once, and verified before each use
(`kept_copy`).
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from labs.drive.kernel.boot import PATH
from labs.drive.kernel.elf import Linking, linking
from labs.drive.kernel.kept_copy import (
    File,
    Interpreter,
    Kept,
    content_digest,
    file,
    kept_copy,
    listing,
    listing_digest,
)
from labs.drive.record.kept_answers import digest_of, kept
from labs.errors import Missing
from labs.guest.programs import init
from labs.guest.programs.init import INIT, PYTHON
from labs.guest.units import SECOND_NS

_INIT_FILE = Path(init.__file__)

BIN, LIB = "usr/bin", "usr/lib"
LINKS = {"bin": BIN, "sbin": BIN, "usr/sbin": "bin", "lib": LIB, "lib64": LIB, "usr/lib64": "lib"}
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "var/log", "var/lib")
# The accounts that the tools of the labs switch to, or look up.
ACCOUNTS = {"root": 0, "www-data": 33, "sshd": 101, "tcpdump": 102, "nobody": 65534}
ETC: dict[str, str] = {
    "passwd": "".join(f"{name}:x:{n}:{n}:{name}:/:/bin/sh\n" for name, n in ACCOUNTS.items()),
    "group": "".join(f"{name}:x:{n}:\n" for name, n in ACCOUNTS.items()) + "nogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\n",
    "hosts": "127.0.0.1 localhost\n",
    "host.conf": "multi on\n",
    "resolv.conf": "",
    "services": "http 80/tcp\n",
    "protocols": "tcp 6 TCP\nudp 17 UDP\n",
}
ETC_BYTES = {
    # A zone file (tzfile(5)) with one type: UTC, no transitions.
    "localtime": b"TZif" + bytes(16) + struct.pack(">6I", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
}

# Where OpenSSL looks for its configuration depends on who built it.
OPENSSL_FOLDERS = ("usr/lib/ssl", "etc/ssl", "etc/pki/tls")
OPENSSL = b"openssl_conf = labs\n[labs]\n"

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


@dataclass(frozen=True)
class GuestRoot:
    """The files of a root by their path inside, with the digests that they had when it was planned,
    which are inputs of the run."""

    files: Mapping[str, File]
    tools: Mapping[str, str]
    """By name: the programs, `python3`, and `python3-modules`, its standard library."""
    libraries: Mapping[str, str]
    """By soname."""
    ours: str
    """The digest of everything that comes from no package of this machine."""
    interpreter: Interpreter
    """How its interpreter is started outside, to compile what runs inside."""
    versions: Mapping[str, str] | None = None
    """The versions of its programs; None if the programs have to be asked."""

    def as_inputs(self) -> dict[str, object]:
        """The part of a run's inputs that describes this root."""
        return {"tools": self.tools, "libraries": self.libraries, "guest": self.ours}


def guest_root(programs: Mapping[str, Path], interpreter: Path) -> GuestRoot:
    """The root for runs that start these programs (by name), driven by `interpreter`.

    Missing if a program needs a library, or a script an interpreter, that is not here.
    """
    executables = {**_with_interpreters(programs), Path(PYTHON).name: interpreter.resolve()}
    tools = {name: _file(path, executable=True) for name, path in executables.items()}
    home = _standard_library(interpreter, _digest(interpreter))
    modules = _modules(home)
    extensions = [home / name for name in modules if _stem(name) in WITH_LIBRARIES]
    paths = libraries((*executables.values(), *extensions))
    loaded = {name: _file(path, executable=True) for name, path in paths.items()}
    ours = files_of_labs(loaded)
    return GuestRoot(
        {
            **{f"{BIN}/{name}": original for name, original in tools.items()},
            **{f"{LIB}/{home.name}/{name}": original for name, original in modules.items()},
            **{f"{LIB}/{name}": original for name, original in loaded.items()},
            **ours,
        },
        {name: original.digest for name, original in tools.items()}
        | {"python3-modules": listing_digest(listing(modules, {}, ()))},
        {name: original.digest for name, original in loaded.items()},
        digest_of_labs(ours),
        (interpreter,),
    )


def _file(path: Path, executable: bool) -> File:
    return File(path, _digest(path), executable)


def _digest(path: Path) -> str:
    """The sha256 of a file, which another process may have computed: planning a run needs those of
    some hundred files. A copy for a guest is checked when it is made and before each use, so that
    no guest ever has a file whose digest is not the one in its run's inputs."""
    state = _state(path)
    if state is None:
        return content_digest(path)
    return str(_kept(["digest", str(path), *state], lambda: content_digest(path)))


def _state(path: str | Path) -> tuple[int, ...] | None:
    """What identifies a version of a file; None if it has just changed or cannot be examined."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    if time.time_ns() - about.st_ctime_ns < SETTLED_NS:
        return None
    # Without the device: containers number it anew, and would add all answers at each start.
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


SETTLED_NS = 2 * SECOND_NS
"""A file that was changed again within the resolution of its file system's clock looks the same.
Digests of files that have just changed are therefore not kept."""
_SOURCES = digest_of(
    "drive/kernel/guest_root.py", "drive/kernel/kept_copy.py", "drive/kernel/elf.py"
)


def _kept(question: object, answer: Callable[[], object]) -> Any:
    """What was answered before about files of this machine, or the answer now; both are JSON."""
    return json.loads(kept(json.dumps(question), lambda: json.dumps(answer()), _SOURCES))


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
            if where is None or Path(word).parent not in (*_PLACES, Path()):
                raise Missing(
                    f"{name} is a script for {word}, which is in none of {PATH}; install it there"
                )
            if interpreter not in executables and interpreter != Path(PYTHON).name:
                executables[interpreter] = Path(where)
                waiting.append((interpreter, Path(where)))
    return executables


_PLACES = tuple(Path(folder) for folder in PATH.split(":"))


def kept_root(root: GuestRoot) -> Kept:
    """The copy that serves a guest as its root; made if it is not in the cache."""
    return kept_copy("roots", root.files, root.interpreter, links=LINKS, folders=FOLDERS)


def files_of_labs(libraries: Iterable[str]) -> dict[str, File]:
    """The files of a root that come from no package, by their paths."""
    etc = {name: text.encode() for name, text in ETC.items()} | ETC_BYTES
    contents = {
        **{f"etc/{name}": content for name, content in etc.items()},
        **{f"{folder}/openssl.cnf": OPENSSL for folder in OPENSSL_FOLDERS},
        "etc/ld.so.cache": library_cache({name: f"/{LIB}/{name}" for name in libraries}),
        INIT[1:]: _INIT_FILE.read_bytes(),
    }
    return {name: file(content) for name, content in contents.items()}


def digest_of_labs(ours: Mapping[str, File]) -> str:
    """The digest of all of a root that comes from no package, links and empty folders included."""
    return listing_digest(listing(ours, LINKS, FOLDERS))


LIBC, LIBGCC, CANCELS = "libc.so.6", "libgcc_s.so.1", b"\0pthread_cancel\0"
"""The C library loads libgcc_s when a thread is cancelled: no program names it (glibc,
nptl/pthread_cancel.c). iperf3 has threads since 3.16."""


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The shared libraries that programs load on this machine, by soname, the loader included.

    The list comes from the loader itself, without what it would preload for other reasons. It is
    asked for once per content of a program, and again after libraries have been installed.
    """
    installed = _installed()
    by_soname: dict[str, str] = {}
    for program in programs:
        path = program.resolve()
        answer = partial(_libraries_of, path)
        question = ["libraries", str(path), _digest(path), *installed]
        by_soname |= _kept(question, answer) if installed else answer()
    return {name: Path(path) for name, path in sorted(by_soname.items())}


def _installed() -> tuple[int, ...]:
    """Differs from what it was before an installation of libraries: ldconfig then writes the list
    that the loader searches. Empty where there is no such list; then nothing is kept."""
    try:
        about = os.stat("/etc/ld.so.cache")
    except OSError:
        return ()
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _libraries_of(program: Path) -> dict[str, str]:
    asked, opened = _asked_by(program, _digest(program))
    if asked is None:
        return {}
    loader = asked.loader or _loader()
    if loader is None or not asked.needed:
        return {}
    done = subprocess.run(
        (loader, str(program)),
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={"LD_TRACE_LOADED_OBJECTS": "1"},
    )
    named = listed(done.stdout.decode("utf-8", "replace"))
    by_soname, waiting = {}, [*asked.needed, *opened]
    if LIBC in named and (unwinder := named[LIBC].with_name(LIBGCC)).is_file():
        named.setdefault(LIBGCC, unwinder)
    while waiting:
        name = waiting.pop()
        if name in by_soname or name == Path(loader).name:
            continue
        if name not in named:
            raise Missing(
                f"{program} needs the library {name}, which is not installed. Install the package "
                "that contains it"
            )
        by_soname[name] = named[name]
        below, opened = _asked_by(named[name], _digest(named[name]))
        waiting += below.needed if below else ()
        waiting += opened if name != LIBC else ()
    by_soname[Path(loader).name] = Path(loader)
    return {name: str(path) for name, path in by_soname.items()}


@functools.lru_cache(maxsize=256)
def _asked_by(path: Path, digest: str) -> tuple[Linking | None, tuple[str, ...]]:
    """How a program or library with this digest is linked, and the libraries that the C library
    opens for it while it runs."""
    content = path.read_bytes()
    return linking(content), (LIBGCC,) if CANCELS in content else ()


_LISTED = re.compile(r"^\s*(?:(\S+) => )?(/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)


def listed(text: str) -> dict[str, Path]:
    """The libraries that a loader lists, by soname; one that /etc/ld.so.preload names is listed by
    its path alone."""
    return {match[1] or Path(match[2]).name: Path(match[2]) for match in _LISTED.finditer(text)}


@functools.cache
def _loader() -> str | None:
    """The dynamic loader of this machine's programs; libraries do not name it."""
    about = linking(Path("/bin/sh").read_bytes())
    return about.loader if about else None


def _standard_library(interpreter: Path, digest: str) -> Path:
    """The folder of the standard library of an interpreter with this digest."""
    words = (interpreter, "-I", "-S", "-c", "import os; print(os.path.dirname(os.__file__))")

    def asked() -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    return Path(_kept(["standard library", str(interpreter), digest], asked))


def _modules(home: Path) -> dict[str, File]:
    """The modules of a standard library in sorted order, by their paths in it."""
    names = list(_candidates(str(home)))
    states = [_state(f"{home}/{name}") for name in names]

    def digests() -> dict[str, str]:
        wanted = (name for name in names if name.endswith(".py") or _extension(home / name))
        return {name: content_digest(home / name) for name in wanted}

    # One question for all of them: there are hundreds.
    state = sha256(json.dumps([names, states]).encode()).hexdigest()
    by_name = digests() if None in states else _kept(["modules", str(home), state], digests)
    return {
        name: File(home / name, digest, name.endswith(".so")) for name, digest in by_name.items()
    }


def _candidates(home: str) -> Iterator[str]:
    """The sources and extension modules of a standard library, by their paths in it, sorted."""
    for folder, below, names in os.walk(home):
        below[:] = sorted(subfolder for subfolder in below if not _is_left_out(subfolder))
        for name in sorted(names):
            path = f"{folder}/{name}"
            # Debian links sitecustomize.py to a file of /etc, which need not exist.
            if name.endswith((".py", ".so")) and os.path.exists(path):
                yield path[len(home) + 1 :]


def _is_left_out(folder: str) -> bool:
    """Whether a folder of a standard library is left out; `config` also as `config-3.11-linux`."""
    return not LEFT_OUT.isdisjoint((folder, folder.split("-")[0])) or folder.startswith(".")


def _extension(path: Path) -> bool:
    """Whether to include an extension module: not if it tests Python itself, or if it needs
    libraries that Python does not."""
    stem = _stem(path.name)
    if stem.startswith(("_test", "_ctypes_test", "xx", "_xx")):
        return False
    about = linking(path.read_bytes())
    return stem in WITH_LIBRARIES or (about is not None and set(about.needed) <= WITH_PYTHON)


def _stem(name: str) -> str:
    """The module name in a file's path: `json` for `a/json.cpython-311.so`."""
    return name.rpartition("/")[2].split(".")[0]


WITH_PYTHON = frozenset(("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"))


# --- the loader's cache -------------------------------------------------------------------
# struct cache_file_new and file_entry_new of glibc's sysdeps/generic/dl-cache.h.
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEADER = struct.Struct("<20sIIB3xI12x")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_LITTLE_ENDIAN, _X86_64_LIBC6 = 2, 0x0303


def library_cache(paths: Mapping[str, str]) -> bytes:
    """/etc/ld.so.cache for libraries by soname.

    Without it the loader would search folders that depend on the features of the processor.
    """
    names = sorted(paths, key=_cache_order, reverse=True)
    texts = [text.encode() + b"\0" for name in names for text in (name, paths[name])]
    at = _CACHE_HEADER.size + _CACHE_ENTRY.size * len(names)
    offsets = []
    for text in texts:
        offsets.append(at)
        at += len(text)
    strings = b"".join(texts)
    entries = (
        _CACHE_ENTRY.pack(_X86_64_LIBC6, offsets[2 * i], offsets[2 * i + 1], 0, 0)
        for i in range(len(names))
    )
    header = _CACHE_HEADER.pack(_CACHE_MAGIC, len(names), len(strings), _LITTLE_ENDIAN, 0)
    return header + b"".join(entries) + strings


def _cache_order(name: str) -> list[tuple[int, int]]:
    """The loader's sort key for sonames (elf/dl-cache.c: _dl_cache_libcmp): digits compare as
    numbers and sort after everything else."""
    return [
        (1, int(word)) if word.isdigit() else (0, ord(word))
        for word in re.findall(r"[0-9]+|[^0-9]", name)
    ]
