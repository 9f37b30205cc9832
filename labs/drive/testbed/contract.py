"""What a testbed promises: two hosts (and, if the link asks for one, a router) and a link.

Three testbeds keep this contract: network namespaces of the machine (root), the same
namespaces inside a kernel that a run booted, and machines reached over ssh. One set of tests
(`tests/contract`) holds all three to it; an experiment is written once, against it.

Promises, beyond the types:

* A command is a tuple of words, never a shell line. Every command that changes something, and
  every program of an experiment, passes through a `Host`, which keeps it in `Testbed.log`.
* A process that a host started runs in a process group of its own. `stop` ends the whole group
  and returns only when nothing of it is left; leaving the testbed stops what still runs. What a
  command that is run leaves of its group ends with it.
* `wait` sleeps until the process ends; nothing here polls, because inside a virtual kernel the
  clock moves only when everything is idle.
* `set_sysctl` remembers the value it found; leaving the testbed puts all of them back, in
  reverse order, also after an error or ^C.
* Paths that a program on a host writes live under `Host.folder`; `fetch` brings them home.
* Time is the host's own: `clock_ns` is its CLOCK_REALTIME in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from labs.drive.outcome import Command


@dataclass(frozen=True)
class Completed:
    """How a command ended: its exit code (negative: the signal that ended it), what it printed."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")


class Process(Protocol):
    """A program that runs on a host, in a process group of its own."""

    argv: tuple[str, ...]

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Sleep until it ends and return its exit code, or None when the time is over."""

    def signal(self, number: int) -> None:
        """Send a signal to the program itself; a program that has ended is left alone."""

    def stop(self, grace_s: float = 2.0) -> int:
        """SIGTERM to the group, after `grace_s` SIGKILL; return the exit code when all are gone."""


class Host(Protocol):
    """One end of the link (or the router)."""

    name: str
    address: str
    device: str
    folder: PurePosixPath

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        check: bool = True,
        log: bool = True,
    ) -> Completed:
        """Run a command to its end. RunFailed if `check` and the exit code is not 0; Missing if
        the program is not on the host; RunFailed, and its whole group killed, past `timeout_s`."""

    def batch(self, lines: Sequence[Sequence[str]]) -> None:
        """Run ip, tc, ethtool lines in order; neighbours of one tool share a process (`-batch`).
        Each line stands in the log by itself. RunFailed names the line that failed."""

    def start(
        self, argv: Sequence[str], *, stdout: str = "/dev/null", stderr: str | None = None
    ) -> Process:
        """Start a command and return at once; `stdout` is a path on the host, and `stderr`
        another, or None for the same."""

    def program(self, source: Path, args: Sequence[str], *, stdout: str = "/dev/null") -> Process:
        """Start one of our single-file programs (`labs/drive/programs`): a file with
        `main(argv: list[str]) -> int`, standard library only. Where the host shares this process's
        kernel it is forked from here, which saves the start of an interpreter."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file on the host; missing folders above it are made."""

    def read(self, path: str) -> bytes:
        """Read a file of the host. RunFailed if it is not there."""

    def fetch(self, path: str, into: Path) -> None:
        """Copy a file of the host into a file here, whatever its size."""

    def sysctl(self, name: str) -> str:
        """A sysctl's value with single spaces. Missing if this host has none of that name."""

    def set_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl, read it back, and put it back on leaving; RunFailed if it did not take."""

    def clock_ns(self) -> int:
        """CLOCK_REALTIME of the host."""


class Testbed(AbstractContextManager["Testbed"], Protocol):
    """Two hosts and the path between them. Entering sets it up, leaving tears it down."""

    @property
    def kind(self) -> str: ...

    @property
    def log(self) -> list[Command]: ...

    @property
    def server(self) -> Host: ...

    @property
    def client(self) -> Host: ...

    @property
    def router(self) -> Host | None: ...

    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name: server, client and, where there is one, router."""


def batches(lines: Sequence[Sequence[str]]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Lines grouped into runs of one tool, in order: what `Host.batch` gives to one process."""
    groups: list[tuple[str, list[tuple[str, ...]]]] = []
    for line in lines:
        tool, words = line[0], tuple(line)
        if tool in ("ip", "tc") and groups and groups[-1][0] == tool:
            groups[-1][1].append(words)
        else:
            groups.append((tool, [words]))
    return groups
