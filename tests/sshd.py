"""An sshd on 127.0.0.1 for tests, whose sessions run in a network namespace."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labs.drive.testbed.connection import Login

SSHD = "/usr/sbin/sshd"
# sshd drops its privileges in this folder; only its own start-up script creates it.
SEPARATION = Path("/run/sshd")
STARTED_S = 30


@dataclass(frozen=True)
class Sshd:
    """A running sshd: how to log in, its process, and its log."""

    login: Login
    pid: int
    log: Path


def no_sshd() -> str | None:
    """Why no sshd can be started here, or None."""
    for program in (SSHD, "ssh", "ssh-keygen", "nsenter", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None


def _configure(folder: Path, namespace: str, first: str) -> int:
    """Write the keys and configurations of an sshd and its client into a new folder; the port."""
    folder.mkdir()
    folder.chmod(0o755)
    for key in ("host", "user"):
        subprocess.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key), check=True
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (folder / "sshd_config").write_text(f"""\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
ForceCommand {first} exec nsenter --net=/run/netns/{namespace} sh -c "$SSH_ORIGINAL_COMMAND"
""")
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "ssh_config").write_text(f"""\
Host lab
    HostName 127.0.0.1
    Port {port}
    User root
    IdentityFile {folder}/user
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
""")
    return port


@contextlib.contextmanager
def sshd(folder: Path, namespace: str, *, first: str = "") -> Iterator[Sshd]:
    """Run an sshd with keys, port and configuration of its own; nothing of the user's is read.
    `first` is a command that each login runs first, as a start-up file of the shell would."""
    port = _configure(folder, namespace, first)
    login = Login("lab", ("-F", str(folder / "ssh_config")))
    with _separation(), (folder / "log").open("wb") as log:
        # It ends with the tests, even if these are killed.
        argv = (
            "setpriv",
            "--pdeathsig",
            "TERM",
            SSHD,
            "-D",
            "-e",
            "-f",
            str(folder / "sshd_config"),
        )
        daemon = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={"PATH": os.environ["PATH"]},
        )
        try:
            _await_listening(daemon, port, folder / "log")
            yield Sshd(login, daemon.pid, folder / "log")
        finally:
            daemon.terminate()
            daemon.wait()


@contextlib.contextmanager
def _separation() -> Iterator[None]:
    made = not SEPARATION.exists()
    SEPARATION.mkdir(mode=0o755, exist_ok=True)
    try:
        yield
    finally:
        if made:
            with contextlib.suppress(OSError):
                SEPARATION.rmdir()


def _await_listening(daemon: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(STARTED_S * 50):
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"sshd did not start: {log.read_text()}")
