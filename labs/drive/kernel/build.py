"""Build a User-Mode Linux kernel with virtual time, reproducibly to the byte; or add one that was
built elsewhere.

The steps: fetch the source, patch it, `make tinyconfig` plus our fragment, `make`, check, store.
Everything that a kernel build takes from its environment is fixed here: the user, host and date in
the banner (they also feed the kernel's random number generator), the locale, the time zone and the
PATH of the tools. Absolute paths are mapped to constant ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from labs.drive.kernel import check, store
from labs.drive.kernel import kernel_source as source
from labs.drive.kernel.boot import PATH
from labs.drive.kernel.options import fragment_text, options_of, verify_options
from labs.drive.kernel.versions import SERIES, KernelSpec, series_like, series_of
from labs.drive.record.disk import owned_folder
from labs.errors import LabError, Missing, RunFailed

HZ = 250
# The loader and the C library of a kernel are those of its guest: a kernel is started in the folder
# where `guest` is the root (`labs.drive.kernel.boot`), and so needs nothing of the machine.
LOADER, LIBRARIES = "guest/lib64/ld-linux-x86-64.so.2", "guest/usr/lib"
LINK = f"LINK-y=-no-pie -Wl,-rpath,{LIBRARIES} -Wl,--dynamic-linker={LOADER}"
# Half of this is the unpacked tree. A downloaded package needs additional room.
ROOM_MIB = 1536
ROOM_TO_ADD_MIB = 128
REPRODUCE_IN = ((Path(tempfile.gettempdir()), "near"), (Path("/var/tmp"), "deeper/and/deeper"))
_TOOLS = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "tar": "tar",
    "patch": "patch",
    "setpriv": "util-linux",
    "/usr/include/stdio.h": "libc6-dev",
}


_OLD_FILE = re.compile(rb"--- (a/|/dev/null)")
_NEW_FILE = re.compile(rb"\+\+\+ (?:b/)?(\S+)")


@dataclass(frozen=True)
class Built:
    """A kernel, and whether it was built now or existed before."""

    kernel: store.Kernel
    fresh: bool


def plan(
    spec: KernelSpec, *, tarball: Path | None = None, into: Path | None = None
) -> dict[str, Any]:
    """What a build of `spec` would do, as plain data. Nothing is fetched or written."""
    located = source.locate(spec, tarball)
    series = series_of(located.version) if located.version else spec.series
    there = _there(located.version, series, into)
    return {
        "source": located.version or None,
        "supported": series in SERIES,
        "from": "tarball" if located.tarball else "archive",
        "tarball": str(located.tarball) if located.tarball else None,
        "package": located.package or None,
        "release": located.release or None,
        "hz": HZ,
        "patches": sorted(series_like(series).patch_files()),
        "options": len(options_of(fragment_text(series))),
        "into": str(into or store.own_store()),
        "built": there.sha256 if there else None,
    }


def needs() -> None:
    """Raise Missing, naming the packages, if this machine lacks a tool of the build, or if it is
    not x86-64, the only architecture on which User-Mode Linux is supported here."""
    if (machine := os.uname().machine) != "x86_64":
        raise Missing(
            f"User-Mode Linux needs x86-64, and this machine is {machine}. Use recorded "
            "runs, which need no kernel"
        )
    absent = {
        package
        for name, package in _TOOLS.items()
        if not shutil.which(name, path=PATH, mode=os.F_OK)
    }
    if lacking := sorted(absent):
        raise Missing(
            f"building a kernel needs {', '.join(lacking)}. On Debian, run as root: "
            f"apt-get install {' '.join(lacking)}"
        )


def build(
    spec: KernelSpec,
    *,
    tarball: Path | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    into: Path | None = None,
    progress: Progress | None = None,
) -> Built:
    """Build the kernel that `spec` names, check it and store it in `into` (the user's store).

    A kernel that was built from the same source with the same patches, options and compiler is
    not built again unless `fresh`. Raises Missing if tools, the source or disk space are missing,
    and RunFailed if a patch, an option, the compiler or the check fails; such a kernel is not
    stored.
    """
    show = progress or Progress()
    try:
        needs()
        located = source.locate(spec, tarball)
    except LabError:
        # If no kernel can be built here, one that is shared or was added serves as well.
        if fresh or tarball or spec.form == "digest" or not (there := _kept(spec)):
            raise
        return Built(there, False)
    if not fresh and (there := _there(located.version, series_of(located.version), into)):
        return Built(there, False)
    # The compiler sees the resolved path, so that is the one to map.
    folder = (into or store.own_store()).resolve()
    with store.work_folder(folder, ROOM_MIB) as work:
        try:
            made = _build(located, spec, work, jobs or len(os.sched_getaffinity(0)), show)
        finally:
            show.close()
    return Built(made, True)


def _build(
    located: source.Source, spec: KernelSpec, work: Path, jobs: int, show: Progress
) -> store.Kernel:
    show.step(f"unpacking {located.package or located.tarball} {located.version}".rstrip())
    tree = work / "tree"
    release = source.unpack(source.fetch(located, work), tree)
    version = source.named(located, release, spec)
    series = series_of(release)
    _apply(tree, series)
    show.step(f"configuring Linux {release}")
    config = _configure(tree, release)
    show.step(f"compiling Linux {release}")
    _compile(tree, release, jobs, show)
    show.step("checking the kernel: boots, link shaping, receive buffer figures")
    checked = check.check(tree / "linux", release)
    patches = series_like(series).patch_files()
    content = {
        "version": release,
        "source": version,
        "patches": {name: hashlib.sha256(text).hexdigest() for name, text in patches.items()},
        "checked": checked,
        **_options_and_tools(series),
    }
    return store.keep(tree / "linux", content, config=config, patches=patches, work=work)


def plan_add(file: Path, sha256: str, *, into: Path | None = None) -> dict[str, Any]:
    """What `add` would do, as plain data; checks the digest of the file first."""
    store.check_digest(file, sha256)
    return {
        "file": str(file),
        "sha256": sha256.lower(),
        "into": str((into or store.own_store()) / sha256.lower()),
    }


def add(file: Path, sha256: str, *, into: Path | None = None) -> store.Kernel:
    """Check a kernel file and store it in `into` (the user's store) under its digest.

    Version and HZ are what the booted kernel reports. RunFailed if the kernel fails the check.
    """
    store.check_digest(file, sha256)
    with store.work_folder((into or store.own_store()).resolve(), ROOM_TO_ADD_MIB) as work:
        program = work / "linux"
        shutil.copyfile(file, program)
        program.chmod(0o755)
        # Checked again, because the copy is what is stored.
        store.check_digest(program, sha256)
        measured = check.check(program)
        content = {
            "version": measured["release"],
            "source": measured["release"],
            "hz": measured["hz"],
            "added": True,
            "checked": measured,
        }
        return store.keep(program, content, config=None, patches={}, work=work)


def plan_reproduce(spec: KernelSpec) -> dict[str, Any]:
    """What `reproduce` would do, as plain data."""
    located = source.locate(spec)
    return {
        "source": located.version,
        "release": located.release or None,
        "folders": [str(place / "labs-reproduce-" / below) for place, below in REPRODUCE_IN],
    }


def reproduce(
    spec: KernelSpec, *, jobs: int | None = None, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Build `spec` twice and keep neither; return `folder`, `seconds` and `sha256` of each build.

    The second folder is on another path, which is longer. Errors are those of `build`.
    """
    needs()
    builds = []
    with contextlib.ExitStack() as stack:
        folders = [
            stack.enter_context(owned_folder("labs-reproduce-", place)) / below
            for place, below in REPRODUCE_IN
        ]
        located = source.locate(spec)
        tarball = source.fetch(located, folders[0].parent)
        for folder in folders:
            begin = time.monotonic()
            built = build(
                KernelSpec("source", located.version),
                tarball=tarball,
                fresh=True,
                jobs=jobs,
                into=folder,
                progress=progress,
            )
            seconds = round(time.monotonic() - begin, 1)
            builds.append(
                {"folder": str(folder), "seconds": seconds, "sha256": built.kernel.sha256}
            )
    return builds


def _kept(spec: KernelSpec) -> store.Kernel | None:
    try:
        return store.find(spec.text)
    except Missing:
        return None


def _options_and_tools(series: str) -> dict[str, Any]:
    """What determines the bytes of a kernel besides its source and its patches."""
    return {
        "hz": HZ,
        "fragment": hashlib.sha256(fragment_text(series).encode()).hexdigest(),
        "compiler": _first_line(("gcc", "--version")),
        "linker": _first_line(("ld", "--version")),
        "link": LINK,
    }


def _there(version: str, series: str, into: Path | None) -> store.Kernel | None:
    """A stored kernel that was built from this source version with the current recipe; its patches
    may have other names and explain themselves otherwise."""
    recipe = _options_and_tools(series)
    changed = changes(series_like(series).patch_files())
    for kernel in store.kernels_of(into) if into else store.kernels():
        content = store.record(kernel.folder)
        if (
            kernel.source == version
            and recipe.items() <= content.items()
            and changes(store.patches_of(kernel)) == changed
        ):
            return kernel
    return None


def changes(patches: Mapping[str, bytes]) -> dict[bytes, list[bytes]]:
    """The lines that patches remove and add, by file, in their order."""
    changed: dict[bytes, list[bytes]] = {}
    lines: list[bytes] = []
    for line in b"\n".join(patches[name] for name in sorted(patches)).splitlines():
        if file := _NEW_FILE.match(line):
            lines = changed.setdefault(file[1], [])
        elif line[:1] in (b"+", b"-") and not _OLD_FILE.match(line):
            lines.append(line)
    return changed


def _first_line(argv: tuple[str, ...]) -> str:
    answer = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"PATH": PATH, "LC_ALL": "C"}
    ).stdout
    return (answer.splitlines() or [""])[0]


def _apply(tree: Path, series: str) -> None:
    words = ("patch", "--strip=1", "--batch", "--forward", "--no-backup-if-mismatch")
    for name, patch in series_like(series).patch_files().items():
        done = subprocess.run(words, cwd=tree, input=patch, capture_output=True, check=False)
        if done.returncode:
            printed = done.stdout.decode("utf-8", "replace").splitlines() or ["patch said nothing"]
            lines = [line for line in printed if "FAILED" in line or "can't" in line]
            raise RunFailed(
                f"{name} does not apply to this source: {(lines or printed)[0]}. Build "
                f"a supported series ({', '.join(SERIES)}), or fix the patch"
            )


def environment(tree: Path) -> dict[str, str]:
    """The whole environment of the build; nothing of the user's environment is passed on."""
    mapped = f"-ffile-prefix-map={tree}=/kernel"
    return {
        "PATH": PATH,  # a compiler of the user's own would produce other bytes
        "HOME": str(tree),
        "LC_ALL": "C",
        "TZ": "UTC",
        "SOURCE_DATE_EPOCH": "1767225600",
        "KBUILD_BUILD_TIMESTAMP": "2026-01-01 00:00:00 UTC",
        "KBUILD_BUILD_USER": "labs",
        "KBUILD_BUILD_HOST": "labs",
        "KBUILD_BUILD_VERSION": "1",
        "LOCALVERSION": "",
        "KCFLAGS": mapped,
        "KAFLAGS": mapped,
        "HOSTCFLAGS": mapped,
    }


def _configure(tree: Path, release: str) -> str:
    """Write `.config` from tinyconfig and the fragment; return it, verified."""
    text = fragment_text(series_of(release))
    _make(tree, "tinyconfig")
    with (tree / ".config").open("a", encoding="utf-8") as config:
        config.write(text)
    _make(tree, "olddefconfig")
    made = (tree / ".config").read_text("utf-8")
    verify_options(options_of(text), options_of(made), release)
    return made


def _compile(tree: Path, release: str, jobs: int, show: Progress) -> None:
    objects = series_like(series_of(release)).objects
    done = 0

    def count(line: str) -> None:
        nonlocal done
        if line.startswith("  CC "):
            done += 1
            show.part(done, objects, line.split()[-1])

    _make(tree, f"-j{jobs}", LINK, "linux", on_line=count)
    if not (tree / "linux").is_file():
        raise RunFailed("make succeeded but produced no kernel")


def _make(tree: Path, *words: str, on_line: Callable[[str], None] | None = None) -> None:
    """Run make in its own process group, which has ended when this returns or raises."""
    # If this process is killed, make receives SIGTERM and passes it on to its children.
    argv = ("setpriv", "--pdeathsig", "TERM", "make", "ARCH=um", *words)
    last: list[str] = []
    process = subprocess.Popen(
        argv,
        cwd=tree,
        env=environment(tree),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("  "):
                last = [*last, line.strip()][-40:]
            if on_line:
                on_line(line)
        status = process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status:
        raise _failure(words[-1], last)


def _failure(target: str, lines: list[str]) -> LabError:
    """The first error of make, in one line."""
    if any("No space left" in line for line in lines):
        return Missing("the disk became full during compilation. A build needs 2 GiB")
    # The lines of make itself (***) name only the rule; the error is printed before them.
    errors = [line for line in lines if "rror" in line and "***" not in line]
    error = (errors or [line for line in lines if "***" not in line][-1:] or lines or ["nothing"])[
        0
    ]
    return RunFailed(f"make {target} failed: {error}")


class Progress:
    """Shows the steps of a task on stderr."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar = self._stream.isatty()
        self._tenth = 0

    def step(self, text: str) -> None:
        """Show that a step begins."""
        self._tenth = 0
        self._write(f"{text}\n")

    def part(self, done: int, of: int, what: str) -> None:
        """Show how much of the current step is done."""
        percent = min(99, 100 * done // max(of, 1))
        if self._bar:
            self._write(f"{percent:3d} %  {what[:70]}")
        elif percent // 10 > self._tenth:
            self._tenth = percent // 10
            self._write(f"{self._tenth * 10} %  {what}\n")

    def close(self) -> None:
        """Remove the percentage."""
        self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}" if self._bar else text)
        self._stream.flush()
