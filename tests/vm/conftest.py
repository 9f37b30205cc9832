"""Two running machines, and commands on them over separate connections."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from labs.drive.testbed.vagrant_up import NAMES, reach

On = Callable[..., str]


@pytest.fixture(scope="session")
def ssh_config() -> Path:
    return reach()


@pytest.fixture(scope="session")
def on(ssh_config: Path) -> Iterator[On]:
    """`on("server", "uname", "-r")`: what a command prints on a machine, as its user.

    One connection a machine carries them all: an emulated machine takes a second to make one.
    """
    with TemporaryDirectory(prefix="labs-on-", dir="/tmp") as folder:
        shared = (
            "-F",
            str(ssh_config),
            "-o",
            "ControlMaster=auto",
            "-o",
            f"ControlPath={folder}/%n",
        )

        def said(name: str, *argv: str) -> str:
            return subprocess.run(
                ("ssh", *shared, "-o", "ControlPersist=yes", name, shlex.join(argv)),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=120,
            ).stdout

        for name in NAMES:
            said(name, "true")  # older than any connection that is to be told from them
        yield said
        for name in NAMES:
            subprocess.run(
                ("ssh", *shared, "-O", "exit", name),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
