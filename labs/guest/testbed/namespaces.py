"""Two hosts as network namespaces of one kernel: one that a run booted for itself, or this
machine's (`labs.drive.testbed.namespaces`)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from labs.errors import LabError, Missing, RunFailed
from labs.guest.outcome import Command
from labs.guest.testbed import process
from labs.guest.testbed.contract import Completed
from labs.guest.testbed.host import Found, LoggedHost, failed, put_back, sysctl_path, whole
from labs.guest.testbed.link import Layout, Link, addressing, layout, linking, wiring
from labs.guest.testbed.process_group import await_end
from labs.guest.units import MIB

NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)
COPIED_BYTES = MIB
SYSCTL_BYTES = 1 << 16
CONTROL, AVAILABLE, ALLOWED = (
    f"net.ipv4.tcp_{which}congestion_control" for which in ("", "available_", "allowed_")
)


def _enter(namespace_fd: int) -> None:
    """Move this thread into a network namespace; processes that it starts are in it, too."""
    if _libc.setns(namespace_fd, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise Missing(
            f"cannot enter a network namespace ({os.strerror(number)}). This testbed needs root"
        )


class NamespaceHost(LoggedHost):
    """A host that is a network namespace; it has the files, clock and kernel of this process."""

    def __init__(
        self,
        name: str,
        namespace: str,
        plan: Layout,
        folder: Path,
        log: list[Command],
        found: Found,
        note: Callable[..., None],
    ) -> None:
        port = plan.port(name)
        super().__init__(name, port.address, port.device, PurePosixPath(folder), log, found)
        self._note = note
        self._home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self._there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        _enter(self._there)
        try:
            yield
        finally:
            _enter(self._home)

    def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout_s: float
    ) -> tuple[int, Completed]:
        at_ns = self.clock_ns()
        with self._inside():
            return at_ns, process.run(argv, stdin=stdin, timeout_s=timeout_s, host=self.name)

    def start(
        self, argv: Sequence[str], *, stdout: str = "/dev/null", stderr: str | None = None
    ) -> process.LocalProcess:
        with contextlib.ExitStack() as files:
            out = files.enter_context(self._output(stdout))
            err = out if stderr is None else files.enter_context(self._output(stderr))
            nothing = files.enter_context(open("/dev/null", "rb"))
            at_ns = self.clock_ns()
            with self._inside():
                started = process.spawn(
                    argv, stdin=nothing.fileno(), stdout=out, stderr=err, host=self.name
                )
        self._started.append(started)
        self._log.append(Command(at_ns, self.name, tuple(argv), None))
        return started

    def program(
        self, source: Path, args: Sequence[str], *, stdout: str = "/dev/null"
    ) -> process.LocalProcess:
        if not source.is_file():
            raise RunFailed(f"there is no program {source} to start on {self.name}")
        with self._output(stdout) as out:
            at_ns = self.clock_ns()
            started = process.fork(source, args, stdout=out, enter=lambda: _enter(self._there))
        self._started.append(started)
        self._log.append(Command(at_ns, self.name, (source.name, *args), None))
        return started

    @contextlib.contextmanager
    def _output(self, path: str) -> Iterator[int]:
        """A file of the host for the output of a program."""
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            raise self._refused(path, "written", error) from None
        try:
            yield fd
        finally:
            os.close(fd)

    def write(self, path: str, content: bytes) -> None:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)
        except OSError as error:
            raise self._refused(path, "written", error) from None

    def read(self, path: str) -> bytes:
        try:
            with self._inside():
                return Path(path).read_bytes()
        except OSError as error:
            raise self._refused(path, "read", error) from None

    def fetch(self, path: str, into: Path) -> None:
        try:
            with (
                whole(into) as part,
                self._inside(),
                open(path, "rb") as source,
                part.open("wb") as copy,
            ):
                while some := source.read(COPIED_BYTES):
                    copy.write(some)
        except OSError as error:
            raise self._refused(path, "fetched", error) from None

    def _refused(self, path: str, done: str, error: OSError) -> RunFailed:
        return RunFailed(f"{path} of {self.name} cannot be {done}: {error.strerror}")

    def set_sysctl(self, name: str, value: str) -> None:
        if name == CONTROL:
            self._allow(value.strip())
        before = self.sysctl(name)
        path = sysctl_path(name)
        if not (path.startswith("net/") and self._owns(path)):
            self._note(sysctl=path, value=before)
        super().set_sysctl(name, value)

    def _allow(self, control: str) -> None:
        """Let namespaces use a congestion control of this kernel: they can select only the allowed
        ones (net/ipv4/tcp_cong.c, tcp_set_default_congestion_control)."""
        allowed = self.sysctl(ALLOWED)
        if control in self.sysctl(AVAILABLE).split() and control not in allowed.split():
            self.set_sysctl(ALLOWED, f"{allowed} {control}")

    def _owns(self, path: str) -> bool:
        """Whether the sysctl belongs to the namespace; those of the whole kernel are invisible or
        read-only in it."""
        with self._inside(), contextlib.suppress(FileNotFoundError):
            return bool(os.stat(f"/proc/sys/{path}").st_mode & stat.S_IWUSR)
        return False

    def _read_sysctl(self, path: str) -> str:
        # Hundreds are read in a run, and inside a kernel of ours each system call counts.
        with self._inside(), contextlib.suppress(FileNotFoundError):
            file = os.open(f"/proc/sys/{path}", os.O_RDONLY)
            try:
                if os.fstat(file).st_mode & stat.S_IWUSR:
                    return os.read(file, SYSCTL_BYTES).decode()
            finally:
                os.close(file)
        return Path("/proc/sys", path).read_text()

    def write_own_sysctl(self, path: str, value: str) -> None:
        """Write a sysctl of the namespace that is neither logged nor restored."""
        with self._inside():
            Path("/proc/sys", path).write_text(value)

    def _write_sysctl(self, path: str, value: str) -> None:
        with self._inside() if self._owns(path) else contextlib.nullcontext():
            Path("/proc/sys", path).write_text(value)

    def clock_ns(self) -> int:
        return time.time_ns()

    def close(self) -> None:
        os.close(self._there)
        os.close(self._home)


class Namespaces:
    """The testbed of network namespaces. `prefix` precedes the names of the namespaces; `tag` is
    the name of the folder with their files: on a kernel of the run's own both are constant, because
    configurations and commands contain them, and must repeat."""

    kind = "namespaces"

    def __init__(self, link: Link, tag: str = "labs", prefix: str = "") -> None:
        self.link = link
        self.log: list[Command] = []
        self._plan = layout(link)
        self._tag = tag
        self._names = {host: f"{prefix}{host}" for host in self._plan.hosts}
        self._folder = Path("/tmp", tag)
        self._hosts: dict[str, NamespaceHost] = {}
        self._found: Found = []

    def __enter__(self) -> Namespaces:
        try:
            self._set_up()
        except BaseException:
            self._tear_down()
            raise
        return self

    def note(self, **entry: str) -> None:
        """Called before each change that would outlive this process: here none would."""

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o755)

    def _remove_folder(self) -> None:
        for folder, below, names in os.walk(self._folder, topdown=False):
            for path in (os.path.join(folder, name) for name in (*names, *below)):
                (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)
        self._folder.rmdir()

    def _set_up(self) -> None:
        for name in self._names.values():
            self.note(namespace=name)
        self._make_folder()
        text = "".join(" ".join(line[1:]) + "\n" for line in wiring(self._plan, self._names))
        done = process.run(("ip", "-batch", "-"), stdin=text.encode(), timeout_s=60)
        if done.exit_code:
            raise failed("this machine", ("ip", "-batch", "-"), done)
        for host in self._plan.hosts:
            folder = self._folder / host
            folder.mkdir()
            self._hosts[host] = NamespaceHost(
                host, self._names[host], self._plan, folder, self.log, self._found, self.note
            )
        for host, opened in self._hosts.items():
            opened.batch(addressing(self._plan, host))
        if "router" in self._hosts:
            self._hosts["router"].set_sysctl("net.ipv4.ip_forward", "1")
        for host, lines in linking(self._plan, self.link).items():
            self._hosts[host].batch(lines)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._tear_down()
        except LabError:
            if error is None:  # otherwise the first error is reported
                raise

    def _tear_down(self) -> None:
        """Undo everything in reverse order; each step is taken even if another one fails."""
        with contextlib.ExitStack() as steps:
            if self._folder.is_dir():
                steps.callback(self._remove_folder)
            for name in self._names.values():
                steps.callback(remove_namespace, name)
            for host in self._hosts.values():
                steps.callback(host.close)
            steps.callback(put_back, self._found)
            for host in self._hosts.values():
                steps.callback(host.stop_all)
        self._hosts.clear()

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


def remove_namespace(name: str) -> None:
    """Kill the processes in a network namespace and remove it, if it exists."""
    path = NAMESPACES / name
    try:
        about = path.stat()
    except FileNotFoundError:
        return
    for pid in inside((about.st_dev, about.st_ino)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await_end(pid, 2)
    # As `ip netns delete` does, without starting a process.
    _libc.umount2(os.fsencode(path), _MNT_DETACH)
    path.unlink(missing_ok=True)


def inside(namespace: tuple[int, int]) -> list[int]:
    """The other processes in a network namespace, which is given by its device and inode."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                about = os.stat(f"/proc/{name}/ns/net")
                if (about.st_dev, about.st_ino) == namespace:
                    found.append(int(name))
    return found
