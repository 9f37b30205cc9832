"""Which machines Vagrant has up, and how ssh reaches them: what `vagrant` itself is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.drive.record.disk import write_whole
from labs.drive.testbed.packages import install_line
from labs.errors import Missing

NAMES = ("server", "client")
VAGRANTFILE = "Vagrantfile"
SSH_CONFIG = "labs-ssh-config"
NEEDED = ("vagrant", "vagrant-libvirt", "libvirt-daemon-system", "qemu-system-x86")
ANSWER_S = 180
ABSENT = "not created"


def folder() -> Path:
    """Where the Vagrantfile is: in the clone that this package is part of, or right here."""
    clone = Path(__file__).resolve().parents[2]
    return clone if (clone / VAGRANTFILE).is_file() else Path.cwd()


def program() -> str:
    """The path of vagrant; Missing where it is not installed."""
    found = shutil.which("vagrant")
    if found is None:
        raise Missing(f"vagrant is not installed; {install_line(NEEDED)}")
    return found


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Let vagrant answer a question. Missing without it, or without a Vagrantfile."""
    where = folder()
    if not (where / VAGRANTFILE).is_file():
        raise Missing(f"there is no {VAGRANTFILE} in {where}; it comes with the clone: go there")
    try:
        return subprocess.run(
            (program(), *words),
            cwd=where,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=ANSWER_S,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    except subprocess.TimeoutExpired:
        raise Missing(
            f"vagrant {' '.join(words)} did not answer in {ANSWER_S} s; see whether "
            "libvirt or VirtualBox runs"
        ) from None


@dataclass(frozen=True)
class States:
    """What Vagrant says of each machine ("running", "not created", ...)."""

    of: Mapping[str, str]

    @property
    def up(self) -> bool:
        return all(self.of[name] == "running" for name in NAMES)

    @property
    def next_step(self) -> str:
        """The command that brings up what is not; empty if all is up."""
        down = [name for name in NAMES if self.of[name] != "running"]
        if not down:
            return ""
        return "vagrant up" if len(down) == len(NAMES) else f"vagrant up {down[0]}"

    def __str__(self) -> str:
        return ", ".join(f"{name} is {self.of[name].replace('_', ' ')}" for name in NAMES)


def machines_folder() -> Path:
    """Where Vagrant keeps what it knows of its machines."""
    return folder() / os.environ.get("VAGRANT_DOTFILE_PATH", ".vagrant") / "machines"


def created() -> dict[str, bool]:
    """Which machines Vagrant has made, as its own folder says; nothing is started for that."""
    return {name: any(machines_folder().glob(f"{name}/*/id")) for name in NAMES}


def states() -> States:
    """The machines' states. Missing if Vagrant cannot tell."""
    made = created()
    if not any(made.values()):
        return States(dict.fromkeys(NAMES, ABSENT))
    done = ask("status", "--machine-readable")
    found = read_states(done.stdout)
    if done.returncode or set(found) != set(NAMES):
        raise Missing(
            f"vagrant cannot tell of its machines: {last_word(done)}; `vagrant status` says more"
        )
    return States(found)


def read_states(text: str) -> dict[str, str]:
    """The states in `vagrant status --machine-readable`: time, machine, kind, value."""
    rows = (line.split(",") for line in text.splitlines())
    return {
        row[1]: row[3].replace("_", " ")
        for row in rows
        if len(row) > 3 and row[1] in NAMES and row[2] == "state"
    }


def reach() -> Path:
    """A file for `ssh -F` that reaches both machines. Missing, with the next step, if not both
    are up."""
    done = ask("ssh-config") if all(created().values()) else None
    hosts = (
        [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Host ")]
        if done
        else []
    )
    if done is None or done.returncode or sorted(hosts) != sorted(NAMES):
        found = states()
        if found.up:
            assert done is not None
            raise Missing(
                f"vagrant cannot tell how its machines are reached: {last_word(done)}; "
                "vagrant reload"
            )
        raise Missing(f"{found}; {next_step(found)}")
    path = machines_folder().parent / SSH_CONFIG
    write_whole(path, done.stdout.encode())
    return path


def next_step(found: States) -> str:
    """The command to give first when not all is up: boxes are built before machines."""
    named = os.environ.get("LAB_BOX") or os.environ.get("LAB_BOX_URL")
    built = any((folder() / "vagrant" / "boxes").glob("*.json"))
    if ABSENT in found.of.values() and not named and not built:
        return "make box && vagrant up"
    return found.next_step


def last_word(done: subprocess.CompletedProcess[str]) -> str:
    said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return said[0] if said else f"it ended with exit code {done.returncode}"
