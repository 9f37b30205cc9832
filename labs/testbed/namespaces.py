"""Two hosts as network namespaces of one kernel: this machine's (root), or one a run booted."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from labs.errors import Missing, RunFailed
from labs.testbed import process
from labs.testbed.contract import Command, Completed, batches
from labs.testbed.layout import Layout, addressing, layout, linking, wiring
from labs.testbed.link import Link

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
PREFIX = "labs-"


def _enter(namespace_fd: int) -> None:
    """Move this thread into a network namespace; what it starts from now on is born there."""
    if _libc.setns(namespace_fd, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise Missing(f"cannot enter a network namespace ({os.strerror(number)}); "
                      "this testbed needs root")


class NamespaceHost:
    """A host that is a network namespace; it shares files, clock and kernel with this process."""

    def __init__(self, name: str, namespace: str, plan: Layout, folder: Path,
                 log: list[Command]) -> None:
        port = plan.port(name)
        self.name = name
        self.address = port.address
        self.device = port.device
        self.folder = PurePosixPath(folder)
        self._log = log
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        self._started: list[process.LocalProcess] = []
        self._found: list[tuple[str, str]] = []

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        _enter(self._there)
        try:
            yield
        finally:
            _enter(self._home)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0,
            check: bool = True, log: bool = True) -> Completed:
        at_ns = self.clock_ns()
        with self._inside():
            done = process.run(argv, stdin=stdin, timeout_s=timeout_s)
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
            at_ns = self.clock_ns()
            text = "".join(" ".join(words[1:]) + "\n" for words in group)
            done = self.run((tool, "-batch", "-"), stdin=text.encode(), check=False, log=False)
            self._log += [Command(at_ns, self.name, words, done.exit_code) for words in group]
            if done.exit_code:
                raise failed(self.name, (tool, "-batch", "-"), done)

    def start(self, argv: Sequence[str], *, stdout: str = "/dev/null",
              stderr: str | None = None) -> process.LocalProcess:
        mode = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with contextlib.ExitStack() as files:
            def opened(path: str, flags: int) -> int:
                fd = os.open(path, flags, 0o644)
                files.callback(os.close, fd)
                return fd

            out = opened(stdout, mode)
            err = out if stderr is None else opened(stderr, mode)
            self._log.append(Command(self.clock_ns(), self.name, tuple(argv), None))
            with self._inside():
                started = process.spawn(argv, stdin=opened("/dev/null", os.O_RDONLY),
                                        stdout=out, stderr=err)
        self._started.append(started)
        return started

    def program(self, source: Path, args: Sequence[str], *,
                stdout: str = "/dev/null") -> process.LocalProcess:
        self._log.append(Command(self.clock_ns(), self.name, (source.name, *args), None))
        started = process.fork(source, args, stdout=stdout, enter=lambda: _enter(self._there))
        self._started.append(started)
        return started

    def write(self, path: str, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)

    def read(self, path: str) -> bytes:
        try:
            with self._inside():
                return Path(path).read_bytes()
        except OSError as error:
            raise RunFailed(f"{path} of {self.name} cannot be read: {error.strerror}") from None

    def fetch(self, path: str, into: Path) -> None:
        try:
            shutil.copyfile(path, into)
        except OSError as error:
            raise RunFailed(f"{path} of {self.name} cannot be fetched: {error.strerror}") from None

    def sysctl(self, name: str) -> str:
        text = self._sysctl_io(name, None)
        return " ".join(text.split())

    def set_sysctl(self, name: str, value: str) -> None:
        before = self.sysctl(name)
        wished = " ".join(value.split())
        self._found.append((name, before))
        at_ns = self.clock_ns()
        try:
            self._sysctl_io(name, wished)
        except OSError as error:
            raise RunFailed(f"{name} of {self.name} does not take '{wished}': "
                            f"{error.strerror}") from None
        self._log.append(Command(at_ns, self.name, ("sysctl", "-w", f"{name}={wished}"), 0))
        after = self.sysctl(name)
        if after != wished:
            raise RunFailed(f"{name} of {self.name} was set to '{wished}' but reads '{after}'")

    def _sysctl_io(self, name: str, value: str | None) -> str:
        """Read or write a sysctl here, or kernel-wide where a namespace has none of its own."""
        path = Path("/proc/sys") / name.replace(".", "/")
        for namespace in (self._there, self._home):
            _enter(namespace)
            try:
                if value is None:
                    return path.read_text()
                path.write_text(value)
                return value
            except FileNotFoundError:
                continue
            finally:
                _enter(self._home)
        raise Missing(f"{self.name} has no sysctl {name}; `sysctl -a` lists what there is")

    def clock_ns(self) -> int:
        return time.time_ns()

    def close(self) -> None:
        """Stop what still runs and put the sysctls back, newest first."""
        for started in reversed(self._started):
            started.stop(0.5)
        for name, value in reversed(self._found):
            with contextlib.suppress(OSError, Missing):
                self._sysctl_io(name, value)
        os.close(self._there)
        os.close(self._home)


def failed(host: str, argv: Sequence[str], done: Completed) -> RunFailed:
    """The error for a command that ended with an exit code."""
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    tail = f": {said[-1]}" if said else ""
    first = f" ({said[0]})" if len(said) > 1 else ""
    return RunFailed(f"`{' '.join(argv)}` on {host} ended with exit code "
                     f"{done.exit_code}{tail}{first}")


class Namespaces:
    """The testbed of network namespaces. `own_kernel` says that the kernel is the run's own, so
    the namespaces bear the hosts' plain names; on a shared machine they carry a process id."""

    kind = "namespaces"

    def __init__(self, link: Link, *, own_kernel: bool) -> None:
        self.link = link
        self.log: list[Command] = []
        self._plan = layout(link)
        tag = "" if own_kernel else f"{PREFIX}{os.getpid()}-"
        self._names = {host: tag + host for host in self._plan.hosts}
        self._hosts: dict[str, NamespaceHost] = {}
        self._own_kernel = own_kernel

    def __enter__(self) -> Namespaces:
        if not self._own_kernel:
            if os.geteuid():
                raise Missing("the namespaces testbed needs root; run as root, "
                              "or use --testbed virtual, which needs no rights")
            clear_stale()
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            self._lay()
        except BaseException:
            self._take_away()
            raise
        return self

    def _lay(self) -> None:
        text = "".join(" ".join(line[1:]) + "\n" for line in wiring(self._plan, self._names))
        done = process.run(("ip", "-batch", "-"), stdin=text.encode(), timeout_s=60)
        if done.exit_code:
            raise failed("this machine", ("ip", "-batch", "-"), done)
        for host in self._plan.hosts:
            folder = self._folder / host
            folder.mkdir()
            self._hosts[host] = NamespaceHost(host, self._names[host], self._plan, folder, self.log)
        for host, opened in self._hosts.items():
            opened.batch(addressing(self._plan, host))
        if "router" in self._hosts:
            self._hosts["router"].set_sysctl("net.ipv4.ip_forward", "1")
        for host, lines in linking(self._plan, self.link).items():
            self._hosts[host].batch(lines)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._take_away()

    def _take_away(self) -> None:
        for host in self._hosts.values():
            host.close()
        self._hosts.clear()
        if not self._own_kernel:
            for name in self._names.values():
                remove(name)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def server(self) -> NamespaceHost:
        return self._hosts["server"]

    @property
    def client(self) -> NamespaceHost:
        return self._hosts["client"]

    @property
    def router(self) -> NamespaceHost | None:
        return self._hosts.get("router")

    def hosts(self) -> Mapping[str, NamespaceHost]:
        return self._hosts


def remove(namespace: str) -> None:
    """End what runs in a namespace of this machine, and the namespace."""
    if not os.path.exists(f"/run/netns/{namespace}"):
        return
    inside = process.run(("ip", "netns", "pids", namespace), stdin=b"", timeout_s=10)
    for word in inside.text.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(word), signal.SIGKILL)
    process.run(("ip", "netns", "delete", namespace), stdin=b"", timeout_s=10)


def clear_stale() -> None:
    """Remove the namespaces that a killed run left: their name carries its process id."""
    root = Path("/run/netns")
    for path in sorted(root.glob(PREFIX + "*")) if root.is_dir() else ():
        owner = path.name.removeprefix(PREFIX).split("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            remove(path.name)
