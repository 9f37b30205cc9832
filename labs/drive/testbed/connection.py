"""A connection to a machine by OpenSSH, and the sessions over it, each with a far end at work."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from labs.drive.kernel.process_group import KILLED_S
from labs.drive.testbed import far_end, process
from labs.drive.testbed.far_end import Channel, Message
from labs.errors import BRANCHES, LabError, Missing, RunFailed

CONNECT_S = 30
ANSWER_S = 60.0
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_S),
    # Less would hide that the other side does not answer any more.
    "LogLevel": "INFO",
    # A machine that does not answer for 15 seconds is taken for dead.
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
# What ssh says along with a reason: of a key that it sees for the first time, and of a session that
# lost the connection which it was to share.
NO_REASON = (
    "Warning: Permanently added",
    "kex_exchange_identification",
    "UNKNOWN port 65535",
    "Shared connection to",
)
# Receives the modules and runs the far end; one line, since not every login shell takes more.
BOOTSTRAP = r"""exec('import json, os, sys, types
text = b""
while len(text) < int(sys.argv[1]):
    text += os.read(0, int(sys.argv[1]) - len(text)) or sys.exit(1)
for name, source in json.loads(text):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(source, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[2:]))')""".replace("\n", r"\n")
# What the far end consists of, each after what it imports.
PACKAGES = ("labs", "labs.drive", "labs.drive.kernel", "labs.drive.testbed")
MODULES = (
    "labs.errors",
    "labs.drive.kernel.process_group",
    "labs.drive.outcome",
    "labs.drive.testbed.contract",
    "labs.drive.testbed.process",
    "labs.drive.testbed.far_end",
)


@dataclass(frozen=True)
class Login:
    """How to reach a machine: what `ssh` is given (`-F FILE` among the options, for instance), and
    whether it takes `sudo`, without a password, to be root there."""

    destination: str
    options: tuple[str, ...] = ()
    sudo: bool = False
    python: str = "python3"

    def argv(self, control: Path, mode: str, *, first: bool) -> tuple[str, ...]:
        """The ssh command of a session over the connection at `control`; the first makes it."""
        given = {**OPTIONS, "ControlMaster": "yes" if first else "no", "ControlPath": str(control)}
        if not first:
            given["ProxyCommand"] = "false"  # never a connection of its own
        words = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
        return ("ssh", *words, *self.options, "-T", self.destination, self.far_end(mode))

    def far_end(self, mode: str) -> str:
        """The command for the login shell: the one place where words are quoted for a shell."""
        sudo = ("sudo", "-n", "--") if self.sudo else ()
        return shlex.join(
            (*sudo, self.python, "-I", "-S", "-c", BOOTSTRAP, str(len(modules())), mode)
        )


@functools.cache
def modules() -> bytes:
    """The far end's modules, as its bootstrap reads them."""
    sources = [(name, "") for name in PACKAGES]
    for name in MODULES:
        file = import_module(name).__file__
        assert file is not None
        sources.append((name, Path(file).read_text("utf-8")))
    return json.dumps(sources).encode()


class Session:
    """A far end: on its way when made, at work when `ready` returns. Whatever ends it before its
    time is RunFailed, in one line.

    The first session of a connection makes it, the others go `over` that one.
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
            with contextlib.suppress(BrokenPipeError):  # `ready` tells of it
                self._channel.write(modules())
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """Wait until the far end is at work; Missing or RunFailed if it does not come to that."""
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
        """Whether the connection is gone, or goes within a time."""
        return self._ssh.wait(timeout_s) is not None

    def _unreachable(self) -> LabError:
        exit_code = self._end()
        said = self._last_words()
        if exit_code == 127 or "command not found" in said:
            return Missing(
                f"{self._there} lacks a program that is needed to work there: {said}; "
                f"install {self._login.python}{' and sudo' * self._login.sudo} there"
            )
        if "Session open refused" in said:
            return Missing(
                f"{self._there} carries no more programs at once over one connection; "
                "raise MaxSessions in its sshd_config"
            )
        if said.startswith("sudo:"):
            return Missing(
                f"{self._there} does not let its user become root without a password: "
                f"{said}; allow it in sudoers, or log in as root"
            )
        retry = shlex.join(("ssh", *self._login.options, self._login.destination, "true"))
        return Missing(f"{self._there} cannot be reached: {said}; `{retry}` tries alone")

    def _end(self) -> int:
        """End ssh if it has not ended; its exit code."""
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
        """The error for a connection that ended before its time."""
        self._channel.close()
        exit_code = self._end()
        return RunFailed(
            f"the connection to {self._there} was lost: {self._last_words()} (ssh "
            f"ended with exit code {exit_code}); see that the machine runs, and "
            "start this run again"
        )

    @property
    def closed(self) -> bool:
        """Whether nothing can be asked any more; what was changed is undone by the far end."""
        return self._channel.closed

    def send(self, message: Message) -> None:
        """Send what nobody answers; a far end that has ended is left alone."""
        try:
            self._channel.send(message)
        except BrokenPipeError:
            return

    def receive(self, timeout_s: float | None = None) -> tuple[Message, bytes] | None:
        """The next message, or None when the time is over; raises what the far end tells of."""
        try:
            received = self._channel.receive(timeout_s)
        except EOFError:
            raise self.lost() from None
        if received and "error" in received[0]:
            raise _told(received[0])
        return received

    def answer(self, timeout_s: float = ANSWER_S) -> tuple[Message, bytes]:
        """The next message; a far end that says nothing for too long is lost. After ^C the session
        ends, for what comes next would be the answer to something else."""
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
        """Send an order and return its answer."""
        try:
            self._channel.send(message, content)
            return self.answer(timeout_s)
        except BrokenPipeError:
            raise self.lost() from None
        except KeyboardInterrupt:
            self._channel.close()
            raise

    def close(self) -> None:
        """End the session; its far end undoes what it has not been told to forget."""
        self._channel.close()
        self._ssh.wait(far_end.GRACE_S + KILLED_S if self._at_work else 0)
        self._ssh.stop(1)
        if self._said >= 0:
            os.close(self._said)
            self._said = -1


def _told(message: Message) -> Exception:
    """The error that a far end tells of."""
    if message["error"] == "OSError":
        return OSError(message["errno"], message["message"])
    return BRANCHES[message["error"]](message["message"])
