"""A connection to a machine by OpenSSH, and its sessions, each with a far end on the machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from labs.drive.testbed import far_end
from labs.drive.testbed.far_end import Channel, Message
from labs.errors import BRANCHES, LabError, Missing, RunFailed
from labs.guest.testbed import process
from labs.guest.testbed.process_group import KILLED_S

CONNECT_S = 30
ANSWER_S = 60.0
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_S),
    # A lower level would hide that the machine no longer responds.
    "LogLevel": "INFO",
    # A machine that does not respond for 15 seconds is considered dead.
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "ControlPersist": "no",
}
# Lines of ssh that give no reason: about a key that it sees for the first time, and about a session
# whose shared connection was lost.
NO_REASON = (
    "Warning: Permanently added",
    "kex_exchange_identification",
    "UNKNOWN port 65535",
    "Shared connection to",
)
# Receives the modules and runs the far end. One line, because some login shells take only one.
BOOTSTRAP = r"""exec('import json, os, sys, types
text = b""
while len(text) < int(sys.argv[1]):
    text += os.read(0, int(sys.argv[1]) - len(text)) or sys.exit(1)
for name, source in json.loads(text):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(source, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[2:]))')""".replace("\n", r"\n")
# The modules of the far end, each after those that it imports.
PACKAGES = (
    "labs",
    "labs.guest",
    "labs.guest.testbed",
    "labs.drive",
    "labs.drive.record",
    "labs.drive.testbed",
)
MODULES = (
    "labs.errors",
    "labs.guest.testbed.process_group",
    "labs.drive.record.removal",
    "labs.guest.outcome",
    "labs.guest.testbed.contract",
    "labs.guest.testbed.process",
    "labs.drive.testbed.far_end",
)


@dataclass(frozen=True)
class Login:
    """How to reach a machine: the arguments of `ssh` (`-F FILE` may be an option), and whether root
    requires `sudo`, without a password."""

    destination: str
    options: tuple[str, ...] = ()
    sudo: bool = False
    python: str = "python3"

    def argv(self, control: Path, mode: str, *, first: bool) -> tuple[str, ...]:
        """The ssh command of a session over the connection at `control`; the first one opens it."""
        given = {**OPTIONS, "ControlMaster": "yes" if first else "no", "ControlPath": str(control)}
        if not first:
            given["ProxyCommand"] = "false"  # never a separate connection
        words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        return ("ssh", *words, *self.options, "-T", self.destination, self.far_end(mode))

    def far_end(self, mode: str) -> str:
        """The command for the login shell; the only place where words are quoted for a shell."""
        sudo = ("sudo", "-n", "--") if self.sudo else ()
        return shlex.join(
            (*sudo, self.python, "-I", "-S", "-c", BOOTSTRAP, str(len(modules())), mode)
        )


@functools.cache
def modules() -> bytes:
    """The modules of the far end, as its bootstrap reads them."""
    sources = [(name, "") for name in PACKAGES]
    for name in MODULES:
        file = import_module(name).__file__
        assert file is not None
        sources.append((name, Path(file).read_text("utf-8")))
    return json.dumps(sources).encode()


class Session:
    """A session with a far end, which is started by the constructor and works once `ready` returns.
    An unexpected end is RunFailed, in one line.

    The first session opens the connection; the others use it (`over`).
    """

    def __init__(
        self, host: str, login: Login, control: Path, mode: str, *, over: Session | None = None
    ) -> None:
        self._over = over
        self._at_work = False
        self._there = f"{host} ({login.destination})"
        self._login = login
        self._said = os.memfd_create("stderr")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._channel = Channel(ours_in, ours_out)
        try:
            self._ssh = process.spawn(
                login.argv(control, mode, first=over is None),
                stdin=theirs_in,
                stdout=theirs_out,
                stderr=self._said,
            )
        except BaseException:
            self._channel.close()
            os.close(self._said)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        try:
            with contextlib.suppress(BrokenPipeError):  # reported by `ready`
                self._channel.write(modules())
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """Wait until the far end works; Missing or RunFailed if it does not start."""
        try:
            if not self._channel.skip_behind(far_end.READY, CONNECT_S + ANSWER_S):
                raise EOFError
        except EOFError:
            over = self._over
            error = over.lost() if over and over.ended(2) else self._unreachable()
            self.close()
            raise error from None
        except BaseException:
            self.close()
            raise
        self._at_work = True

    def ended(self, timeout_s: float) -> bool:
        """Whether the connection ends within a time, or has ended."""
        return self._ssh.wait(timeout_s) is not None

    def _unreachable(self) -> LabError:
        exit_code = self._end()
        said = self._last_words()
        if exit_code == 127 or "command not found" in said:
            return Missing(
                f"{self._there} lacks a required program: {said}. "
                f"Install {self._login.python}{' and sudo' * self._login.sudo} there"
            )
        if "Session open refused" in said:
            return Missing(
                f"{self._there} allows no more programs at once over one connection. "
                "Raise MaxSessions in its sshd_config"
            )
        if said.startswith("sudo:"):
            return Missing(
                f"{self._there} does not let its user become root without a password: "
                f"{said}. Allow it in sudoers, or log in as root"
            )
        retry = shlex.join(("ssh", *self._login.options, self._login.destination, "true"))
        return Missing(f"{self._there} cannot be reached: {said}. Test it: {retry}")

    def _end(self) -> int:
        """End ssh if it has not ended; return its exit code."""
        self._ssh.wait(2)
        return self._ssh.stop(1)

    def _last_words(self) -> str:
        said = os.pread(self._said, 1 << 16, 0).decode("utf-8", "replace")
        lines = [
            line.strip()
            for line in said.splitlines()
            if line.strip() and not any(noise in line for noise in NO_REASON)
        ]
        if not lines and self._over:
            self._over.ended(2)
            return self._over._last_words()
        return lines[-1] if lines else "ssh gave no reason"

    def lost(self) -> RunFailed:
        """The error for a connection that ended unexpectedly."""
        self._channel.close()
        exit_code = self._end()
        return RunFailed(
            f"the connection to {self._there} was lost: {self._last_words()} (ssh "
            f"ended with exit code {exit_code}). Check that the machine is running, and "
            "run again"
        )

    @property
    def closed(self) -> bool:
        """Whether the session has ended; the far end undoes what was changed."""
        return self._channel.closed

    def send(self, message: Message) -> None:
        """Send a message that has no response; no effect if the far end has ended."""
        try:
            self._channel.send(message)
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float | None = None) -> tuple[Message, bytes] | None:
        """The next message, or None after the timeout; raises an error that the far end reports."""
        try:
            received = self._channel.receive(timeout_s)
        except EOFError:
            raise self.lost() from None
        if received and "error" in received[0]:
            raise _told(received[0])
        return received

    def answer(self, timeout_s: float = ANSWER_S) -> tuple[Message, bytes]:
        """The next message; without one in time the connection is lost. ^C ends the session,
        because the next message would be the response to an earlier order."""
        try:
            received = self.receive(timeout_s)
        except KeyboardInterrupt:
            self._channel.close()
            raise
        if received is None:
            raise self.lost()
        return received

    def ask(
        self, message: Message, content: bytes = b"", *, timeout_s: float = ANSWER_S
    ) -> tuple[Message, bytes]:
        """Send an order and return its response."""
        try:
            self._channel.send(message, content)
            return self.answer(timeout_s)
        except BrokenPipeError:
            raise self.lost() from None
        except KeyboardInterrupt:
            self._channel.close()
            raise

    def close(self) -> None:
        """End the session; unless it was told `bye`, its far end undoes what was changed."""
        self._channel.close()
        self._ssh.wait(far_end.GRACE_S + KILLED_S if self._at_work else 0)
        self._ssh.stop(1)
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


def _told(message: Message) -> Exception:
    """The error that a far end reports."""
    if message["error"] == "OSError":
        return OSError(message["errno"], message["message"])
    return BRANCHES[message["error"]](message["message"])
