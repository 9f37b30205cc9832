"""Two machines that are up, and commands on them over connections of their own."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.testbed.machines_up import reach

On = Callable[..., str]


@pytest.fixture(scope="session")
def ssh_config() -> Path:
    return reach()


@pytest.fixture(scope="session")
def on(ssh_config: Path) -> On:
    """`on("server", "uname", "-r")`: what a command prints on a machine, as its user."""

    def said(name: str, *argv: str) -> str:
        return subprocess.run(("ssh", "-F", str(ssh_config), name, shlex.join(argv)), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120).stdout

    return said
