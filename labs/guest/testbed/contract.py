"""The contract of a testbed: two hosts (and a router, if the link requests one) and a link.

Three testbeds keep this contract: network namespaces of the machine (root), the same namespaces
inside a kernel that a run booted, and machines reached over ssh. The same tests (`tests/contract`)
run against all three, and an experiment is written once for all of them.

Beyond the types, a testbed guarantees:

* A command is a tuple of words, never a shell line. Every command that changes something, and
  every program of an experiment, is run by a `Host` and recorded in `Testbed.log`.
* A process that a host starts has its own process group. `stop` ends the whole group and returns
  when all its processes are gone. Exiting the testbed stops what is still running. Processes that
  a command leaves in its group end with the command.
* `wait` sleeps until the process ends. Nothing polls, because inside a virtual kernel the clock
  advances only while everything is idle.
* `set_sysctl` remembers the previous value. Exiting the testbed restores all of them in reverse
  order, also after an error or ^C.
* Programs on a host write below `Host.folder`; `fetch` copies their files from there.
* Times are those of the host: `clock_ns` is its CLOCK_REALTIME in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from labs.guest.outcome import Command


@dataclass(frozen=True)
class Completed:
    """A command that has ended: its exit code (negative: the signal that ended it) and output."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")


class Process(Protocol):
    """A program that runs on a host in its own process group."""

    argv: tuple[str, ...]

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Sleep until it ends and return its exit code; None after the timeout."""

    def signal(self, number: int) -> None:
        """Send a signal to the program itself; has no effect if the program has ended."""

    def stop(self, grace_s: float = 2.0) -> int:
        """SIGTERM to the group, SIGKILL after `grace_s`; return the exit code once all are gone."""


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
        """Run a command to its end. RunFailed if `check` and the exit code is not 0. Missing if the
        host lacks the program. After `timeout_s` its group is killed, and RunFailed."""

    def batch(self, lines: Sequence[Sequence[str]]) -> None:
        """Run ip, tc and ethtool lines in order. Neighbouring lines of one tool share a process
        (`-batch`), but each has its own entry in the log. RunFailed names the failed line."""

    def start(
        self, argv: Sequence[str], *, stdout: str = "/dev/null", stderr: str | None = None
    ) -> Process:
        """Start a command and return at once. `stdout` and `stderr` are paths on the host; None for
        `stderr` means the same file as `stdout`."""

    def program(self, source: Path, args: Sequence[str], *, stdout: str = "/dev/null") -> Process:
        """Start a single-file program (`labs/guest/programs`), which has a function
        `main(argv: list[str]) -> int` and uses only the standard library. If the host shares the
        kernel of this process, it is forked from here, which saves starting an interpreter."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file on the host; missing parent folders are created."""

    def read(self, path: str) -> bytes:
        """Read a file of the host. RunFailed if it does not exist."""

    def fetch(self, path: str, into: Path) -> None:
        """Copy a file of the host, of any size, into a local file."""

    def sysctl(self, name: str) -> str:
        """The value of a sysctl, with single spaces. Missing if the host lacks that sysctl."""

    def set_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl, read it back, restore it on exit. RunFailed if the value was not taken."""

    def undo_if_lost(self, argv: Sequence[str], stdin: bytes = b"") -> None:
        """Have a machine run a command if the connection to it is lost; nothing elsewhere."""

    def clock_ns(self) -> int:
        """CLOCK_REALTIME of the host."""


class Testbed(AbstractContextManager["Testbed"], Protocol):
    """Two hosts and the path between them: set up on enter, torn down on exit."""

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
        """The hosts by name: server, client and, if there is one, router."""


def batches(lines: Sequence[Sequence[str]]) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Lines grouped by neighbours of one tool, in order: `Host.batch` runs a process per group."""
    groups: list[tuple[str, list[tuple[str, ...]]]] = []
    for line in lines:
        tool, words = line[0], tuple(line)
        if tool in ("ip", "tc") and groups and groups[-1][0] == tool:
            groups[-1][1].append(words)
        else:
            groups.append((tool, [words]))
    return groups
