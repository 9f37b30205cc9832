"""A machine reached over OpenSSH as a host of the contract.

Each host has one ssh connection. It carries a session that serves orders and keeps the connection
open, and one session per running program. At the far end of a session runs `far_end.py`, whose
source is sent over it, so the machine needs only Python.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Sequence
from pathlib import Path, PurePosixPath

from labs.drive.record.disk import owned_folder
from labs.drive.testbed.connection import ANSWER_S, Login, Session
from labs.drive.testbed.far_end import Message
from labs.errors import RunFailed
from labs.guest.outcome import Command
from labs.guest.testbed.contract import Completed
from labs.guest.testbed.host import Found, LoggedHost, whole

# The path of a socket is limited to 107 bytes, so the control socket is not below TMPDIR.
CONTROL_FOLDERS = Path("/tmp")
# How long to wait after a failure for the end of the connection that may have caused it.
LOST_S = 0.5


class SshProcess:
    """A program on the machine; its far end stops its group if the connection ends."""

    def __init__(self, argv: tuple[str, ...], pid: int, session: Session) -> None:
        self.argv = argv
        self.pid = pid
        self._session: Session | None = session
        self._exit_code: int | None = None
        self._lost: RunFailed | None = None

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self._exit_code is None and self._session:
            received = self._session.receive(timeout_s)
            if received:
                self._exit_code = int(received[0]["exit"])
        return self._exit_code

    def signal(self, number: int) -> None:
        if self._session and self.wait(0) is None:
            self._session.send({"signal": int(number)})

    def stop(self, grace_s: float = 2.0) -> int:
        if self._session:
            session, self._session = self._session, None
            try:
                session.send({"stop": grace_s})
                self._exit_code = _gone(session, grace_s)
            except RunFailed as error:
                self._lost = error
            finally:
                session.close()
        if self._lost:
            raise self._lost
        assert self._exit_code is not None
        return self._exit_code


def _gone(session: Session, grace_s: float) -> int:
    """Wait until the program and its group are gone; return its exit code."""
    while "gone" not in (message := session.answer(grace_s + ANSWER_S)[0]):
        pass
    return int(message["gone"])


class SshHost(LoggedHost):
    """A machine as a host. Before `open` its `folder` is empty or does not exist; `close` removes
    it. `log` and `found` belong to the testbed."""

    def __init__(
        self,
        name: str,
        address: str,
        device: str,
        login: Login,
        folder: PurePosixPath,
        log: list[Command],
        found: Found,
    ) -> None:
        super().__init__(name, address, device, folder, log, found)
        self._login = login
        self._programs: set[str] = set()
        self._closing = contextlib.ExitStack()
        self._coming: Session | None = None
        self._session: Session | None = None

    @property
    def python(self) -> str:
        """The interpreter of the machine."""
        return self._login.python

    def connect(self) -> None:
        """Start to connect without waiting, so that several hosts connect at the same time."""
        with contextlib.ExitStack() as opened:
            self._control = (
                opened.enter_context(owned_folder("labs-ssh-", CONTROL_FOLDERS)) / "control"
            )
            self._coming = Session(self.name, self._login, self._control, "serve")
            opened.callback(self._coming.close)
            self._closing = opened.pop_all()

    def open(self) -> None:
        """Connect and take the folder. Missing if the machine cannot be reached or used; RunFailed
        if the folder contains files of others or another run uses it."""
        if self._coming is None:
            self.connect()
        session, self._coming = self._coming, None
        assert session is not None
        with contextlib.ExitStack() as opened:
            opened.callback(self.close)
            session.ready()
            try:
                session.ask({"order": "open", "folder": str(self.folder), "host": self.name})
            except OSError as error:
                raise self._refused(str(self.folder), "made", error) from None
            self._session = session
            opened.pop_all()

    def close(self) -> None:
        """Tell the machine that everything has been restored, and end the connection."""
        session, self._session, self._coming = self._session, None, None
        with self._closing:
            if session and not session.closed:
                session.ask({"order": "bye"})

    def undoes_itself(self) -> bool:
        return self._session is None or self._session.closed

    def connection_lost(self) -> RunFailed | None:
        """The error for a connection whose end has not been reported yet; None if there is none."""
        session = self._session
        ended = session is not None and not session.closed and session.ended(LOST_S)
        return session.lost() if session and ended else None

    def undo_if_lost(self, argv: Sequence[str], stdin: bytes = b"") -> None:
        """Have the machine run a command if the connection ends without `close`."""
        self._ask({"order": "undo", "argv": list(argv)}, stdin)

    def _serving(self) -> Session:
        if self._session is None:
            raise RunFailed(f"{self.name} is not connected")
        return self._session

    def _ask(
        self, message: Message, content: bytes = b"", timeout_s: float = ANSWER_S
    ) -> tuple[Message, bytes]:
        return self._serving().ask(message, content, timeout_s=timeout_s)

    def _execute(
        self, argv: Sequence[str], stdin: bytes, timeout_s: float
    ) -> tuple[int, Completed]:
        order = {"order": "run", "argv": list(argv), "timeout_s": timeout_s}
        answer, printed = self._ask(order, stdin, timeout_s + ANSWER_S)
        cut = answer["stdout"]
        return answer["at_ns"], Completed(tuple(argv), answer["exit"], printed[:cut], printed[cut:])

    def start(
        self, argv: Sequence[str], *, stdout: str = "/dev/null", stderr: str | None = None
    ) -> SshProcess:
        return self._keep(tuple(argv), tuple(argv), stdout, stderr)

    def program(
        self, source: Path, args: Sequence[str], *, stdout: str = "/dev/null"
    ) -> SshProcess:
        try:
            content = source.read_bytes()
        except OSError:
            raise RunFailed(f"there is no program {source} to start on {self.name}") from None
        there = str(
            self.folder / "programs" / hashlib.sha256(content).hexdigest()[:16] / source.name
        )
        if there not in self._programs:
            self.write(there, content)
            self._programs.add(there)
        return self._keep(
            (source.name, *args), (self._login.python, "-u", "-I", "-S", there, *args), stdout, None
        )

    def _keep(
        self, shown: tuple[str, ...], argv: tuple[str, ...], stdout: str, stderr: str | None
    ) -> SshProcess:
        session = Session(self.name, self._login, self._control, "keep", over=self._serving())
        try:
            session.ready()
            answer, _ = session.ask(
                {"host": self.name, "argv": list(argv), "stdout": stdout, "stderr": stderr}
            )
        except BaseException:
            session.close()
            raise
        started = SshProcess(shown, answer["pid"], session)
        self._started.append(started)
        self._log.append(Command(answer["at_ns"], self.name, shown, None))
        return started

    def write(self, path: str, content: bytes) -> None:
        try:
            self._ask({"order": "write", "path": path}, content)
        except OSError as error:
            raise self._refused(path, "written", error) from None

    def read(self, path: str) -> bytes:
        try:
            with contextlib.closing(self._parts(path)) as parts:
                return b"".join(parts)
        except OSError as error:
            raise self._refused(path, "read", error) from None

    def fetch(self, path: str, into: Path) -> None:
        try:
            with (
                whole(into) as part,
                part.open("wb") as copy,
                contextlib.closing(self._parts(path)) as parts,
            ):
                for some in parts:
                    copy.write(some)
        except OSError as error:
            raise self._refused(path, "fetched", error) from None

    def _parts(self, path: str) -> Generator[bytes, None, None]:
        """The parts of a file as they arrive; on an early exit the rest is read and dropped."""
        session, more = self._serving(), False
        try:
            message, some = session.ask({"order": "read", "path": path})
            while more := message["more"]:
                yield some
                more = False
                message, some = session.answer()
        finally:
            while more:
                more = session.answer()[0]["more"]

    def _refused(self, path: str, done: str, error: OSError) -> RunFailed:
        return RunFailed(f"{path} of {self.name} cannot be {done}: {error.strerror}")

    def _read_sysctl(self, path: str) -> str:
        return self._ask({"order": "sysctl", "path": path})[1].decode()

    def _write_sysctl(self, path: str, value: str) -> None:
        self._ask({"order": "sysctl", "path": path, "value": value})

    def clock_ns(self) -> int:
        return int(self._ask({"order": "clock"})[0]["at_ns"])
