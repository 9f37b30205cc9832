"""Every file of this machine that a guest's kernel opens during a run is an input of the run.

Each lab performs one run with strace attached to the kernel's main process, which opens all files
for the guest. Each path must belong to the run's inputs, or to the few files that the kernel itself
uses when it starts (`STARTUP`), each with the reason why it cannot change a run.

strace does not follow the kernel's children, because the kernel traces them itself. It stops the
kernel at every call, so a trace is kept per key of its run (`tests.kept_runs`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import posixpath
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labs.catalog import find
from labs.drive.kernel.guest_root import FOLDERS, LINKS, files_of_labs
from labs.drive.kernel.kept_copy import content_digest
from labs.drive.kernel.programs import libraries, python
from labs.launch.make import make
from labs.launch.plan import Planned, plan
from labs.launch.wanted import Job, Opened, Wanted
from tests.kept_runs import STORE, text

IN_A_GUEST = ("buffers", "nagle", "queues", "sweeps", "windows")
"""The labs that boot a kernel; `sharing` runs the code of `queues`."""
SMALL: dict[str, dict[str, Any]] = {
    "buffers": {"only": "both", "transfer_mib": 1},
    "nagle": {"only": "on", "requests": 10, "concurrency": 2, "capture": True},
    "queues": {"only": "updown-fifo", "duration_s": 5},
    "sweeps": {"only": "both-256k", "transfer_mib": 1},
    "windows": {"only": "article-scale0", "duration_s": 2},
}
PROGRAM = {
    "buffers": "nginx",
    "nagle": "nginx",
    "queues": "tc",
    "sweeps": "iperf3",
    "windows": "tcpdump",
}
"""A program that each of these runs starts."""
# -DDD: strace is a grandchild in a session of its own. So the kernel keeps its process id and its
# children, and strace finishes its output although the boot kills the kernel's process group.
TRACED = """\
#!/bin/sh
exec strace -DDD --quiet=attach --signal=none --trace=%file --output={trace} -- {kernel} "$@"
"""
END_S = 60.0
# The first and the last line of a trace.
STARTED, ENDED = "execve(", "+++ exited with 0 +++"
CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)(?: (E[A-Z]+) .*)?$")
DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+), ")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
TWO_PATHS = ("rename", "renameat", "renameat2", "link", "linkat")
ABSENT = ("ENOENT", "ENOTDIR")
# The four folders of a guest, as its kernel names them; the loader names its C library from the
# folder of the boot.
OF_THE_GUEST = re.compile(r"(?:/proc/self/cwd/)?(guest|code|boot|run)(?:/(.*))?$")

BOOT = r"/.+/labs-boot-[0-9a-f]+"
STARTUP: Mapping[str, str] = {
    "/etc/ld.so.preload": "absent; test_kit.py creates one",
    BOOT: "the boot's own folder, in which the kernel creates the guest's memory: a nameless file "
    "of zeros",
    rf"{BOOT}/\.uml(/.*)?": "created by the kernel for its process id, which nothing reads",
    "/proc/cpuinfo": "the processor's flags and cache alignment",
    "/dev/ptmx": "opened once to learn whether terminals raise SIGIO; the guest has no terminal",
}


@dataclass(frozen=True)
class Access:
    """A path in a system call, and the name of the error if the call failed."""

    path: str
    error: str | None


def accesses(lines: Iterable[str]) -> Iterator[Access]:
    """The paths in a trace's lines. AssertionError for a line that has another form."""
    for line in lines:
        if line.startswith("+++ "):
            continue
        found = CALL.match(line)
        assert found, line
        name, words, _, error = found.groups()
        texts = TEXT.findall(DESCRIPTOR.sub("", words, count=1))
        assert texts and "\\" not in texts[0], line
        for path in texts[: 2 if name in TWO_PATHS else 1]:
            if path:  # an empty path stands for a descriptor, which was opened before
                yield Access(posixpath.normpath(path).replace("//", "/"), error)


@dataclass(frozen=True)
class Inputs:
    """The files that are inputs of a run, and their folders, by the folder of the guest."""

    files: Mapping[str, frozenset[str]]
    folders: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, planned: Planned) -> Inputs:
        assert planned.kit is not None
        of_kit = planned.kit.files
        files = {
            "guest": frozenset((*of_kit, *files_of_labs(of_kit), *LINKS)),
            "code": frozenset(planned.driving),
            "boot": frozenset({"argv"}),
        }
        folders = {
            where: frozenset(above for name in names for above in parents(name))
            for where, names in files.items()
        }
        folders["guest"] |= {above for name in FOLDERS for above in (name, *parents(name))}
        return cls(files, folders)

    def refuse(self, access: Access) -> bool:
        """Whether an access concerns no input of the run.

        Below the guest's folders a name that does not exist is allowed: the folders are verified
        before each run, so it exists on no other machine either.
        """
        found = OF_THE_GUEST.match(access.path)
        if not found:
            return not any(re.fullmatch(known, access.path) for known in STARTUP)
        where, name = found[1], found[2] or ""
        if where == "run" or access.error in ABSENT:
            return False
        files, folders = self.files[where], self.folders[where]
        above, _, last = name.rpartition("/")
        compiled = last == "__pycache__" and above in folders
        return not (name in files | folders or compiled or source_of(name) in files)


def parents(name: str) -> Iterator[str]:
    """The folders above a path, up to the empty name."""
    while name:
        name = posixpath.dirname(name)
        yield name


def source_of(name: str) -> str:
    """The module from which a file was compiled (PEP 3147), or nothing for any other file."""
    folder, _, file = name.rpartition("/__pycache__/")
    stem, _, rest = file.partition(".")
    return f"{folder}/{stem}.py" if rest.startswith("cpython-") else ""


def traced_run(planned: Planned, folder: Path) -> str:
    """Perform the run and return what strace printed."""
    assert planned.kernel is not None
    trace, program = folder / "trace", folder / "kernel"
    program.write_text(TRACED.format(trace=trace, kernel=planned.kernel.path))
    program.chmod(0o755)
    kernel = dataclasses.replace(planned.kernel, path=program, sha256=content_digest(program))
    traced = dataclasses.replace(planned, kernel=kernel)
    make(Job(traced, Opened(folder / "runs"), Wanted()), None, lambda notice: None)
    for _ in range(round(END_S / 0.1)):
        printed = trace.read_text()
        if printed.rstrip().endswith(ENDED):
            return printed
        time.sleep(0.1)
    raise AssertionError(f"strace did not end: {printed[-500:]}")


@pytest.mark.program("strace")
@pytest.mark.parametrize("name", IN_A_GUEST)
def test_guest_opens_only_inputs_of_the_run(name: str, tmp_path: Path) -> None:
    lab = find(name)
    (planned,) = plan(lab, lab.Parameters(**SMALL[name]))
    key = hashlib.sha256(f"strace {planned.key}".encode()).hexdigest()
    lines = text(STORE, key, lambda: traced_run(planned, tmp_path)).splitlines()
    assert lines[0].startswith(STARTED) and lines[-1] == ENDED
    found = list(accesses(lines[1:]))
    inputs = Inputs.of(planned)
    assert sorted({access.path for access in found if inputs.refuse(access)}) == []

    # The trace covers all four folders of the guest and all kinds of inputs.
    opened = {access.path for access in found if access.error is None}
    base = "/proc/self/cwd"
    assert opened >= {
        *(f"{base}/guest/{file}" for file in ("init.py", "usr/lib/libc.so.6")),
        f"{base}/guest/usr/bin/{PROGRAM[name]}",
        *(f"{base}/code/labs/guest/bench.py", f"{base}/boot/argv", f"{base}/run/run.json"),
    }


def test_inputs_refuse_what_is_no_input(tmp_path: Path) -> None:
    lab = find("buffers")
    (planned,) = plan(lab, lab.Parameters(**SMALL["buffers"]))
    inputs = Inputs.of(planned)
    base, nothing = "/proc/self/cwd", "ENOENT"
    for path, error in (
        ("/etc/localtime", None),
        ("/etc/nsswitch.conf", nothing),
        ("/usr/lib/libother.so.1", None),
        (f"{base}/guest/etc/ld.so.preload", None),
        (f"{base}/guest/usr/lib/__pycache__/stray.cpython-311.pyc", None),
        (f"{base}/code/labs/read/lab.py", None),
        (f"{base}/other", nothing),
        (str(libraries([python()])["libc.so.6"]), None),
        ("other/lib/libc.so.6", None),
        (f"{base}/guest/etc/passwd/../../../../x", None),
    ):
        line = f'openat(AT_FDCWD, "{path}", O_RDONLY) = ' + (f"-1 {error} (x)" if error else "3")
        (access,) = accesses([line])
        assert inputs.refuse(access), path
    for path, error in (
        (f"{base}/guest/etc/ld.so.preload", nothing),
        (f"/{base}/guest/./usr/lib/libc.so.6", None),
        (f"{base}/code/labs/guest/__pycache__/bench.cpython-311.pyc", None),
        (f"{base}/code/labs/guest", None),
        ("guest/usr/lib/libc.so.6", None),
        ("guest/usr/lib/tls/libc.so.6", nothing),
    ):
        line = f'access("{path}", R_OK) = ' + (f"-1 {error} (No such file)" if error else "0")
        (access,) = accesses([line])
        assert not inputs.refuse(access), path
