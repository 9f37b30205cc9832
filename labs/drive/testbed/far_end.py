"""The far end of an ssh host, which carries out the orders of the near end (`ssh.py`).

It runs on the host in one of two modes, and receives its orders through a channel: messages over
the standard input and output of a program. A message is one line of JSON; if it has `bytes`, it is
followed by that many raw bytes.

* `serve`: one per host. Runs commands, reads and writes files and sysctls, one order at a time.
  If the connection ends without a `bye`, it restores what the orders changed.
* `keep`: one per program. Reports the end of the program, forwards signals, and stops its group
  when told to or when the connection ends.

Nothing is installed on the host: the near end sends this source.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from labs.drive.record.removal import Made, empty_folder, is_own_folder, is_private_file
from labs.errors import LabError, RunFailed
from labs.guest.testbed import process
from labs.guest.testbed.process_group import members, readable

READY = b"labs-far-end\n"
LOCK = ".labs-lock"
CHUNK_BYTES = 1 << 20
READ_BYTES = 1 << 20
GRACE_S = 2.0
REMOVAL_STEP_S = 0.1
REMOVALS = 50
# An emulated machine under load takes seconds to start an interpreter.
UNDO_S = 60.0
SYSCTLS = "/proc/sys"

Message = dict[str, Any]


def main(argv: list[str]) -> int:
    """Work in the mode that the first word names, until the connection ends."""
    # sshd and sudo may omit the system folders from PATH; and messages are parsed.
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    os.environ["LC_ALL"] = "C"
    signal.signal(signal.SIGTERM, _leave)
    os.write(1, READY)
    channel = Channel(0, 1)
    with contextlib.suppress(EOFError, BrokenPipeError):
        {"serve": serve, "keep": keep}[argv[0]](channel)
    return 0


def _leave(number: int, frame: FrameType | None) -> None:
    raise EOFError


def keep(channel: Channel) -> None:
    """Start the program of the first message and follow it to its end."""
    order, _ = _next(channel)
    try:
        with contextlib.ExitStack() as files:
            nothing = files.enter_context(open("/dev/null", "rb"))
            out = files.enter_context(_output(order["stdout"], order["host"]))
            err = (
                out
                if order["stderr"] is None
                else files.enter_context(_output(order["stderr"], order["host"]))
            )
            at_ns = time.time_ns()
            started = process.spawn(
                order["argv"], stdin=nothing.fileno(), stdout=out, stderr=err, host=order["host"]
            )
    except LabError as error:
        channel.send({"error": type(error).__name__, "message": str(error)})
        return
    try:
        channel.send({"pid": started.pid, "at_ns": at_ns})
        _see_through(channel, started)
    finally:
        started.stop(GRACE_S)


def _see_through(channel: Channel, started: process.LocalProcess) -> None:
    waiter = select.poll()
    waiter.register(channel, select.POLLIN)
    waiter.register(started, select.POLLIN)
    exit_code: int | None = None
    while True:
        while (received := channel.receive(0)) is not None:
            order, _ = received
            if "signal" in order:
                started.signal(order["signal"])
            else:
                channel.send({"gone": started.stop(order["stop"])})
                return
        if exit_code is None and (exit_code := started.wait(0)) is not None:
            waiter.unregister(started)
            channel.send({"exit": exit_code})
            if not members(started.pid):
                channel.send({"gone": started.end_group()})
                return
        waiter.poll()


@contextlib.contextmanager
def _output(path: str, host: str) -> Iterator[int]:
    """A file for the output of a program."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise RunFailed(f"{path} of {host} cannot be written: {error.strerror}") from None
    try:
        yield fd
    finally:
        os.close(fd)


def serve(channel: Channel) -> None:
    """Carry out one order after another; undo what they changed unless the last is `bye`."""
    server = Server(channel)
    try:
        while server.open:
            order, content = _next(channel)
            try:
                server.orders[order["order"]](order, content)
            except LabError as error:
                channel.send({"error": type(error).__name__, "message": str(error)})
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                channel.send(
                    {
                        "error": "OSError",
                        "errno": error.errno,
                        "message": error.strerror or str(error),
                    }
                )
    finally:
        server.undo()


class Server:
    """The orders, and the steps that undo them."""

    def __init__(self, channel: Channel) -> None:
        self.open = True
        self._channel = channel
        self._host = "this machine"
        self._folder: Path | None = None
        self._made: Made | None = None
        self._undo: list[Callable[[], object]] = []
        self._found: set[str] = set()
        self.orders: dict[str, Callable[[Message, bytes], None]] = {
            "open": self._open,
            "run": self._run,
            "read": self._read,
            "write": self._write,
            "sysctl": self._sysctl,
            "clock": self._clock,
            "undo": self._undo_later,
            "bye": self._bye,
        }

    def _open(self, order: Message, content: bytes) -> None:
        """Take a folder that is empty or that an ended testbed left."""
        self._host = order["host"]
        folder = Path(order["folder"])
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not is_own_folder(folder) or not _is_testbeds(folder):
            raise RunFailed(
                f"{folder} on {self._host} contains files that do not belong to a testbed. "
                "Remove it, or name another folder"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(folder / LOCK, flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise RunFailed(
                f"{self._host} is in use by another run, which locked {folder}. Wait for its end"
            ) from None
        self._folder, self._made = folder, Made.of(folder)
        empty_folder(folder, self._made, keep=LOCK)
        os.pwrite(lock, _mark(self._made), 0)
        self._channel.send({"pid": os.getpid()})

    def _run(self, order: Message, content: bytes) -> None:
        timeout_s = order["timeout_s"]

        def watch(running: process.LocalProcess) -> bool:
            """Wait for the program, or for the near end to leave: it sends nothing meanwhile."""
            waiter = select.poll()
            waiter.register(running, select.POLLIN)
            waiter.register(self._channel, select.POLLIN)
            ready = [fd for fd, _ in waiter.poll(timeout_s * 1000)]
            if self._channel.fileno() in ready:
                raise EOFError
            return bool(ready)

        at_ns = time.time_ns()
        done = process.run(
            order["argv"], stdin=content, timeout_s=timeout_s, host=self._host, watch=watch
        )
        self._channel.send(
            {"at_ns": at_ns, "exit": done.exit_code, "stdout": len(done.stdout)},
            done.stdout + done.stderr,
        )

    def _read(self, order: Message, content: bytes) -> None:
        with open(order["path"], "rb", buffering=0) as file:
            while some := file.read(CHUNK_BYTES):
                self._channel.send({"more": True}, some)
        self._channel.send({"more": False})

    def _write(self, order: Message, content: bytes) -> None:
        path = Path(order["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self._channel.send({})

    def _sysctl(self, order: Message, content: bytes) -> None:
        path = Path(SYSCTLS, order["path"])
        value = path.read_bytes()
        if "value" in order:
            if order["path"] not in self._found:
                self._found.add(order["path"])
                self._undo.append(lambda: path.write_bytes(value))
            path.write_text(order["value"])
        self._channel.send({}, value)

    def _clock(self, order: Message, content: bytes) -> None:
        self._channel.send({"at_ns": time.time_ns()})

    def _undo_later(self, order: Message, content: bytes) -> None:
        self._undo.append(lambda: process.run(order["argv"], stdin=content, timeout_s=UNDO_S))
        self._channel.send({})

    def _bye(self, order: Message, content: bytes) -> None:
        """The near end has restored everything itself."""
        self._undo.clear()
        self.undo()
        self._channel.send({})
        self.open = False

    def undo(self) -> None:
        """Undo the changes, newest first, and remove the folder."""
        while self._undo:
            with contextlib.suppress(OSError, LabError):
                self._undo.pop()()
        if self._folder and self._made:
            _remove(self._folder, self._made)
            self._folder = None


def _next(channel: Channel) -> tuple[Message, bytes]:
    received = channel.receive()
    assert received is not None
    return received


def _mark(made: Made) -> bytes:
    return f"{made.device}:{made.inode}\n".encode()


def _is_testbeds(folder: Path) -> bool:
    """Whether a folder is empty but for a lock, or its lock says that a testbed took it."""
    names = os.listdir(folder)
    if names in ([], [LOCK]):
        return True
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        mark = _mark(Made.of(folder))
        return is_private_file(os.fstat(lock)) and os.pread(lock, len(mark) + 1, 0) == mark
    finally:
        os.close(lock)


def _remove(folder: Path, made: Made) -> None:
    """Remove a folder to which programs that are being stopped may still write.

    The lock is removed last, so that after a kill the rest is recognized as a testbed's.
    """
    for _ in range(REMOVALS):
        with contextlib.suppress(OSError):
            if not empty_folder(folder, made, keep=LOCK):
                return
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
            return
        time.sleep(REMOVAL_STEP_S)


class Channel:
    """One end of a channel, on two plain descriptors, which `close` closes."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._buffer = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for. Call `receive(0)` first: messages may be buffered here."""
        return self._read_fd

    def send(self, message: Message, content: bytes = b"") -> None:
        """Send a message. BrokenPipeError if the other end is closed."""
        if content:
            message = {**message, "bytes": len(content)}
        self.write(json.dumps(message).encode() + b"\n")
        self.write(content)

    def write(self, content: bytes) -> None:
        """Write bytes that are not a message."""
        left = memoryview(content)
        if self.closed:
            raise BrokenPipeError
        while left:
            left = left[os.write(self._write_fd, left) :]

    def skip_behind(self, mark: bytes, timeout_s: float) -> bool:
        """Skip what precedes `mark`, and the mark; False after the timeout, EOFError at the end."""
        deadline = time.monotonic() + timeout_s
        while (at := self._buffer.find(mark)) < 0:
            if not self._more(deadline):
                return False
        del self._buffer[: at + len(mark)]
        return True

    def receive(self, timeout_s: float | None = None) -> tuple[Message, bytes] | None:
        """The next message and its bytes; None after the timeout, EOFError at the end."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := self._whole()) is None:
            if not self._more(deadline):
                return None
        return message

    def _more(self, deadline: float | None) -> bool:
        """Read what arrives; False after the timeout, EOFError at the end."""
        if self.closed:
            raise EOFError
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not readable(self._read_fd, left_s):
            return False
        some = os.read(self._read_fd, READ_BYTES)
        if not some:
            raise EOFError
        self._buffer += some
        return True

    def _whole(self) -> tuple[Message, bytes] | None:
        """Take a message from the buffer, if it has arrived completely."""
        end = self._buffer.find(b"\n")
        if end < 0:
            return None
        message: Message = json.loads(self._buffer[:end])
        size = message.get("bytes", 0)
        if len(self._buffer) < end + 1 + size:
            return None
        content = bytes(self._buffer[end + 1 : end + 1 + size])
        del self._buffer[: end + 1 + size]
        return message, content

    @property
    def closed(self) -> bool:
        return self._read_fd < 0

    def close(self) -> None:
        """Close both descriptors, once."""
        if not self.closed:
            os.close(self._read_fd)
            os.close(self._write_fd)
            self._read_fd = self._write_fd = -1
