"""The state of Vagrant's machines and how ssh reaches them, as `vagrant` reports it."""

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
    """The folder of the Vagrantfile: the clone that has this package, or the current folder."""
    clone = Path(__file__).resolve().parents[3]
    return clone if (clone / VAGRANTFILE).is_file() else Path.cwd()


def program() -> str:
    """The path of vagrant; Missing where it is not installed."""
    path = shutil.which("vagrant")
    if path is None:
        raise Missing(f"vagrant is not installed. Install it: {install_line(NEEDED)}")
    return path


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a vagrant command that only reports. Missing without vagrant or a Vagrantfile."""
    where = folder()
    if not (where / VAGRANTFILE).is_file():
        raise Missing(f"there is no {VAGRANTFILE} in {where}. Change to the folder of the clone")
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
            f"vagrant {' '.join(words)} did not end within {ANSWER_S} s. Check that libvirt or "
            "VirtualBox is running"
        ) from None


@dataclass(frozen=True)
class States:
    """The state of each machine by name, in Vagrant's words ("running", "not created", ...)."""

    of: Mapping[str, str]

    @property
    def up(self) -> bool:
        return all(self.of[name] == "running" for name in NAMES)

    @property
    def next_step(self) -> str:
        """The command that starts what is not running; empty if both machines are."""
        down = [name for name in NAMES if self.of[name] != "running"]
        if not down:
            return ""
        return "vagrant up" if len(down) == len(NAMES) else f"vagrant up {down[0]}"

    @property
    def summary(self) -> str:
        """The states in one clause."""
        if not any(state != ABSENT for state in self.of.values()):
            return "the virtual machines do not exist yet"
        return ", ".join(
            f"{name} does not exist" if self.of[name] == ABSENT else f"{name} is {self.of[name]}"
            for name in NAMES
        )


def machines_folder() -> Path:
    """The folder in which Vagrant stores the state of its machines."""
    return folder() / os.environ.get("VAGRANT_DOTFILE_PATH", ".vagrant") / "machines"


def created() -> dict[str, bool]:
    """Which machines exist, by Vagrant's folder; no program is started for this."""
    return {name: any(machines_folder().glob(f"{name}/*/id")) for name in NAMES}


def states() -> States:
    """The states of the machines. Missing if Vagrant cannot report them."""
    made = created()
    if not any(made.values()):
        return States(dict.fromkeys(NAMES, ABSENT))
    done = ask("status", "--machine-readable")
    by_name = read_states(done.stdout)
    if done.returncode or set(by_name) != set(NAMES):
        raise Missing(f"vagrant cannot report its machines: {last_word(done)}. Run: vagrant status")
    return States(by_name)


def read_states(text: str) -> dict[str, str]:
    """The states in `vagrant status --machine-readable`: time, machine, kind, value."""
    rows = (line.split(",") for line in text.splitlines())
    return {
        row[1]: row[3].replace("_", " ")
        for row in rows
        if len(row) > 3 and row[1] in NAMES and row[2] == "state"
    }


def reach() -> Path:
    """A file for `ssh -F` that reaches both machines. Missing, with the next step, unless both are
    running."""
    done = ask("ssh-config") if all(created().values()) else None
    hosts = (
        [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Host ")]
        if done
        else []
    )
    if done is None or done.returncode or sorted(hosts) != sorted(NAMES):
        current = states()
        if current.up:
            assert done is not None
            raise Missing(
                f"vagrant cannot report how to reach its machines: {last_word(done)}. "
                "Run: vagrant reload"
            )
        raise Missing(f"{current.summary}. Run: {next_step(current)}")
    path = machines_folder().parent / SSH_CONFIG
    write_whole(path, done.stdout.encode())
    return path


def next_step(current: States) -> str:
    """The command to run first if not all is running: boxes are built before machines."""
    named = os.environ.get("LAB_BOX") or os.environ.get("LAB_BOX_URL")
    built = any((folder() / "vagrant" / "boxes").glob("*.json"))
    if ABSENT in current.of.values() and not named and not built:
        return "make box && vagrant up"
    return current.next_step


def last_word(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return lines[0] if lines else f"it ended with exit code {done.returncode}"
