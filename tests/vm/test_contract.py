"""The contract, kept by two virtual machines that Vagrant has up."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from labs.testbed.contract import Testbed
from labs.testbed.link import Link
from labs.testbed.machines_up import NAMES, reach
from labs.testbed.vagrant import DEVICE, Vagrant
from tests.contract import CHECKS, NotApplicable, Setting, run


def said(ssh_config: Path, name: str, *argv: str) -> str:
    """What a command prints on a machine, over a connection of its own."""
    return subprocess.run(("ssh", "-F", str(ssh_config), name, *argv), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def setting() -> Setting:
    ssh_config = reach()

    def left(folders: set[str]) -> list[str]:
        """What is left of testbeds that are gone: folders, and a link that is not the server's
        own."""
        found = [folder for folder in folders for name in NAMES
                 if said(ssh_config, name, "ls", "-d", folder)]
        shaped = said(ssh_config, "server", "/usr/sbin/tc", "qdisc", "show", "dev", DEVICE)
        return found if "delay 200ms" in shaped else [*found, f"on the server: {shaped}"]

    def laid(link: Link) -> Testbed:
        return Vagrant(link, ssh_config)

    return Setting(open=laid, left=left, routers=False, whole_kernel=True)


@pytest.mark.parametrize("name", CHECKS)
def test_contract(name: str, setting: Setting) -> None:
    try:
        run(CHECKS[name], setting)
    except NotApplicable as reason:
        pytest.skip(str(reason))
