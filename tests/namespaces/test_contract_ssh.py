"""The contract, kept by hosts that are reached over ssh: here an sshd of our own for each, whose
sessions land in a network namespace, so that addresses, devices and sysctls are each host's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.drive.testbed.vagrant import Machine, Machines
from tests.contract import CHECKS, NotApplicable, Setting, run
from tests.namespaces.test_contract import missing_here
from tests.sshd import Sshd


@pytest.fixture(scope="module")
def setting(daemons: dict[str, tuple[Sshd, Machine]], controls: Path) -> Setting:
    def left(folders: set[str]) -> list[str]:
        """What exited testbeds left: folders on the hosts, control sockets here."""
        return [folder for folder in folders if Path(folder).exists()] + [
            str(path) for path in controls.iterdir()
        ]

    server, client = (machine for _, machine in daemons.values())
    return Setting(
        open=lambda link: Machines(link, server, client),
        left=left,
        routers=False,
        whole_kernel=False,
        missing=missing_here(),
    )


@pytest.mark.parametrize("name", CHECKS)
def test_contract_over_ssh(name: str, setting: Setting) -> None:
    try:
        run(CHECKS[name], setting)
    except NotApplicable as reason:
        pytest.skip(str(reason))
