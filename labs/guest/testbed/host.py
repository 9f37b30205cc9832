"""What all hosts share: the log, one-line errors, batches, restoring sysctls."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from labs.errors import LabError, Missing, RunFailed
from labs.guest.outcome import Command
from labs.guest.testbed.contract import Completed, Process, batches

# iproute2 (lib/utils.c, do_batch) names the line of standard input at which the tool stopped.
FAILED_LINE = "Command failed -:"
Found = list[tuple["LoggedHost", str, str]]
"""The sysctls that a testbed changed, in order: the host, the name, the previous value."""


class LoggedHost(ABC):
    """A host of the contract, except for how it runs commands and accesses files.

    `log` and `found` belong to the testbed: hosts may share a kernel, so the sysctls of all hosts
    are restored in reverse order.
    """

    def __init__(
        self,
        name: str,
        address: str,
        device: str,
        folder: PurePosixPath,
        log: list[Command],
        found: Found,
    ) -> None:
        self.name = name
        self.address = address
        self.device = device
        self.folder = folder
        self._log = log
        self._found = found
        self._started: list[Process] = []

    @abstractmethod
    def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout_s: float
    ) -> tuple[int, Completed]:
        """Run a command; the time at which it began, and how it ended."""

    @abstractmethod
    def _read_sysctl(self, path: str) -> str:
        """The content of /proc/sys/`path`; OSError if it cannot be read."""

    @abstractmethod
    def _write_sysctl(self, path: str, value: str) -> None:
        """Write /proc/sys/`path`; OSError if that fails."""

    @abstractmethod
    def clock_ns(self) -> int: ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = 60.0,
        check: bool = True,
        log: bool = True,
    ) -> Completed:
        at_ns, done = self._execute(argv, stdin, timeout_s)
        if log:
            self._log.append(Command(at_ns, self.name, tuple(argv), done.exit_code))
        if check and done.exit_code:
            raise failed(self.name, argv, done)
        return done

    def batch(self, lines: Sequence[Sequence[str]]) -> None:
        for tool, group in batches(lines):
            if len(group) == 1:
                self.run(group[0])
                continue
            text = "".join(" ".join(words[1:]) + "\n" for words in group)
            at_ns, done = self._execute((tool, "-batch", "-"), text.encode(), 60)
            codes = exit_codes(done, len(group))
            self._log += [
                Command(at_ns, self.name, words, code)
                for words, code in zip(group, codes, strict=False)
            ]
            if done.exit_code:
                raise failed(self.name, group[len(codes) - 1], done)

    def sysctl(self, name: str) -> str:
        try:
            return " ".join(self._read_sysctl(sysctl_path(name)).split())
        except FileNotFoundError:
            raise Missing(
                f"{self.name} has no sysctl {name}. List those it has: sysctl -a"
            ) from None
        except OSError as error:
            raise RunFailed(f"{name} of {self.name} cannot be read: {error.strerror}") from None

    def set_sysctl(self, name: str, value: str) -> None:
        before = self.sysctl(name)
        requested = " ".join(value.split())
        at_ns = self.clock_ns()
        self._found.append((self, name, before))
        try:
            self._write_sysctl(sysctl_path(name), requested)
        except OSError as error:
            self._found.pop()  # unchanged
            raise RunFailed(
                f"{name} of {self.name} refuses '{requested}': {error.strerror}"
            ) from None
        self._log.append(Command(at_ns, self.name, ("sysctl", "-w", f"{name}={requested}"), 0))
        after = self.sysctl(name)
        if after != requested:
            raise RunFailed(f"{name} of {self.name} was set to '{requested}' but is '{after}'")

    def undo_if_lost(self, argv: Sequence[str], stdin: bytes = b"") -> None:  # noqa: B027
        """Nothing: a host of this kernel cannot be lost."""

    def undoes_itself(self) -> bool:
        """Whether the host cannot be reached and restores by itself what was changed."""
        return False

    def stop_all(self) -> None:
        """Stop the programs that are still running, newest first."""
        with contextlib.ExitStack() as steps:
            for started in self._started:
                steps.callback(started.stop, 0.5)
            self._started.clear()


def put_back(found: Found) -> None:
    """Restore the previous values, newest first; RunFailed at the end if one was refused."""
    refused = ""
    while found:
        host, name, value = found.pop()
        if host.undoes_itself():
            continue
        try:
            host._write_sysctl(sysctl_path(name), value)
        except (OSError, LabError) as error:
            refused = f"{name} of {host.name} could not be restored to '{value}': {error}"
    if refused:
        raise RunFailed(refused)


def sysctl_path(name: str) -> str:
    """The path of a sysctl below /proc/sys; a name with slashes may have dots, as in sysctl(8)."""
    path = name if "/" in name else name.replace(".", "/")
    if not all(part.strip(".") for part in path.split("/")):
        raise Missing(f"'{name}' is not the name of a sysctl. Use one such as net.ipv4.tcp_rmem")
    return path


def exit_codes(done: Completed, lines: int) -> list[int]:
    """The exit codes of the lines of a batch, up to the failed one, which ip and tc name last."""
    if not done.exit_code:
        return [0] * lines
    last = 1
    for line in done.stderr.decode("utf-8", "replace").splitlines():
        number = line.rpartition(FAILED_LINE)[2]
        if FAILED_LINE in line and number.isdigit():
            last = int(number)
    return [0] * (last - 1) + [done.exit_code]


def failed(host: str, argv: Sequence[str], done: Completed) -> RunFailed:
    """The error for a command whose exit code is not 0."""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    said = [line.strip() for line in said if FAILED_LINE not in line]
    tail = f": {said[-1]}" if said else ""
    first = f" ({said[0]})" if len(said) > 1 else ""
    ended = (
        f"ended with exit code {done.exit_code}"
        if done.exit_code >= 0
        else f"was ended by signal {-done.exit_code}"
    )
    return RunFailed(f"`{' '.join(argv)}` on {host} {ended}{tail}{first}")


@contextlib.contextmanager
def whole(into: Path) -> Iterator[Path]:
    """A path to write; at the end it replaces `into`, and on an error it is removed."""
    part = into.with_name(f".part-{into.name}")
    try:
        yield part
        part.replace(into)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
