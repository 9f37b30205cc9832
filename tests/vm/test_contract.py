"""The contract for two virtual machines that Vagrant started."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.drive.testbed.vagrant import DEVICE, Vagrant
from labs.drive.testbed.vagrant_up import NAMES
from labs.guest.testbed.link import Link
from tests.contract import CHECKS, NotApplicable, Setting, run
from tests.vm.conftest import On


@pytest.fixture(scope="module")
def setting(ssh_config: Path, on: On) -> Setting:
    def left(folders: set[str]) -> list[str]:
        """What exited testbeds left: folders, or another link than the server's own."""
        there = ("find", *sorted(folders), "-maxdepth", "0")
        found = [line for name in NAMES for line in on(name, *there).split()] if folders else []
        shaped = on("server", "/usr/sbin/tc", "qdisc", "show", "dev", DEVICE)
        return found if "delay 200ms" in shaped else [*found, f"on the server: {shaped}"]

    return Setting(open=lambda link: Vagrant(link, ssh_config), left=left, routers=False)


@pytest.mark.parametrize("name", CHECKS)
def test_contract_of_vagrant(name: str, setting: Setting) -> None:
    try:
        run(CHECKS[name], setting)
    except NotApplicable as reason:
        pytest.skip(str(reason))


def test_vagrant_as_found_keeps_the_link_of_the_server(ssh_config: Path) -> None:
    with Vagrant(Link(), ssh_config, as_found=True) as testbed:
        assert "delay 200ms" in testbed.server.run(("tc", "qdisc", "show", "dev", DEVICE)).text
