"""Two namespaces that are reached over ssh, as two machines would be.

The tests here change what the whole machine has one of, so a second set of them waits.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from labs.drive.testbed import ssh
from labs.drive.testbed.namespaces import OnThisMachine
from labs.drive.testbed.vagrant import Machine
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import ALLOWED, AVAILABLE
from tests.sshd import Sshd, no_sshd, sshd


@pytest.fixture(scope="session", autouse=True)
def alone() -> Iterator[None]:
    with open("/run/labs-tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def controls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of control sockets during the tests."""
    folder = tmp_path_factory.mktemp("controls")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssh, "CONTROL_FOLDERS", folder)
        yield folder


@pytest.fixture(scope="session")
def daemons(
    tmp_path_factory: pytest.TempPathFactory, alone: None, controls: Path
) -> Iterator[dict[str, tuple[Sshd, Machine]]]:
    """An sshd for server and client each, and the machine that it gives access to."""
    if reason := no_sshd():
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("ssh")
    with contextlib.ExitStack() as stack:
        ground = stack.enter_context(OnThisMachine(Link()))
        ground.server.set_sysctl(ALLOWED, ground.server.sysctl(AVAILABLE))  # as on a machine
        found = {}
        for name, host in ground.hosts().items():
            namespace = f"{Path(host.folder).parent.name}-{name}"
            daemon = stack.enter_context(sshd(root / name, namespace))
            found[name] = (
                daemon,
                Machine(
                    daemon.login, host.address, host.device, PurePosixPath(root, name, "folder")
                ),
            )
        yield found
