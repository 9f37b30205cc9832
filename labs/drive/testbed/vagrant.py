"""The testbed of the two machines that `vagrant up` brought up, over plain OpenSSH.

Their addresses, the device, and the unit that sets up the server's own link are those of the box
(`vagrant/root`).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from labs.drive.testbed.clocks import bring_near
from labs.drive.testbed.connection import Login
from labs.drive.testbed.link import Link
from labs.drive.testbed.two_machines import Machine, Machines

ADDRESSES = {"server": "192.168.56.10", "client": "192.168.56.11"}
DEVICE = "lab0"
# On the disk: a release may keep /tmp in memory, which the experiments need themselves.
FOLDER = "/var/tmp/labs-{}"
# What its unit runs at boot.
OWN_LINK = ("/usr/local/sbin/lab-link", "start")


def machine(name: str, ssh_config: Path) -> Machine:
    """One of the two, reached as `vagrant ssh-config` says in a file."""
    login = Login(name, ("-F", str(ssh_config)), sudo=True)
    return Machine(
        login,
        ADDRESSES[name],
        DEVICE,
        PurePosixPath(FOLDER.format(name)),
        OWN_LINK if name == "server" else (),
    )


class Vagrant(Machines):
    """Two machines whose clocks are near each other, and whose server has a link of its own."""

    def __init__(self, link: Link, ssh_config: Path, *, as_found: bool = False) -> None:
        super().__init__(
            link,
            machine("server", ssh_config),
            machine("client", ssh_config),
            kind="vagrant",
            as_found=as_found,
        )

    def __enter__(self) -> Vagrant:
        super().__enter__()
        try:
            bring_near(self.server, self.client)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self


def open_testbed(link: Link, ssh_config: str | None) -> Vagrant:
    """The two machines, not set up yet."""
    assert ssh_config is not None
    return Vagrant(link, Path(ssh_config))
