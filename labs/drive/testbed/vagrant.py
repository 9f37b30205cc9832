"""The testbed of two machines reached over OpenSSH: those that `vagrant up` started, or any others.

Their link is shaped on the server's device. The addresses, the device, and the unit that sets up
the server's own link are those of the box (`vagrant/root`). Machines outlive a run, so the settings
of their devices and their nftables tables are restored on exit, as sysctls are; if the connection
is lost, the machines do this by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType

from labs.drive.testbed.connection import Login
from labs.drive.testbed.ssh import SshHost
from labs.drive.testbeds import VAGRANT
from labs.errors import BadInput, LabError, RunFailed
from labs.guest.bench import PROGRAMS
from labs.guest.host_load import bring_near
from labs.guest.outcome import Command
from labs.guest.testbed.host import Found, put_back
from labs.guest.testbed.link import Argv, Link, shaping

ADDRESSES = {"server": "192.168.56.10", "client": "192.168.56.11"}
DEVICE = "lab0"
# On the disk: a release may keep /tmp in memory, which the experiments need themselves.
FOLDER = "/var/tmp/labs-{}"
# What the unit of the box runs at boot.
OWN_LINK = ("/usr/local/sbin/lab-link", "start")
# A virtual machine without hardware virtualization sometimes wakes up some milliseconds late.
TIMER_LATE_MS = 5.0
DEVICE_SETTINGS = PROGRAMS / "device_settings.py"
SETTINGS_S = 120.0


@dataclass(frozen=True)
class Machine:
    """A machine and its place on the link: the address at which the other reaches it, its device,
    the folder that a run may use there, and the command that restores the link found there."""

    login: Login
    address: str
    device: str
    folder: PurePosixPath
    own_link: Argv = ()


def of_machines(link: Link, device: str) -> tuple[Argv, ...]:
    """The tc lines that shape the device of a machine."""
    return shaping(link, device, TIMER_LATE_MS)


def unshaping(device: str) -> Argv:
    """The line that removes the shaper of a device."""
    return ("tc", "qdisc", "del", "dev", device, "root")


def is_shaped(qdiscs: str) -> bool:
    """Whether `tc qdisc show dev X root` shows a shaper; default qdiscs have the handle 0."""
    return any(
        line.split()[:1] == ["qdisc"] and line.split()[2] != "0:" for line in qdiscs.splitlines()
    )


class Machines:
    """The testbed of two machines. It has no router: BadInput for a link shaped at one.

    With `as_found` no link is set up; the server keeps its own.
    """

    def __init__(
        self,
        link: Link,
        server: Machine,
        client: Machine,
        *,
        kind: str = "ssh",
        as_found: bool = False,
    ) -> None:
        if link.shaped_at != "server":
            raise BadInput(f"the vagrant testbed has no {link.shaped_at}. Use --shaped-at server")
        self.kind = kind
        self.link = link
        self.log: list[Command] = []
        self.router = None
        self._found: Found = []
        self._own_link = server.own_link
        self._as_found = as_found
        self.server, self.client = (
            SshHost(
                name,
                machine.address,
                machine.device,
                machine.login,
                machine.folder,
                self.log,
                self._found,
            )
            for name, machine in (("server", server), ("client", client))
        )
        self._leaving = contextlib.ExitStack()

    def hosts(self) -> Mapping[str, SshHost]:
        return {"server": self.server, "client": self.client}

    def __enter__(self) -> Machines:
        with contextlib.ExitStack() as leaving:
            for host in self.hosts().values():
                host.connect()
                leaving.callback(host.close)
            for host in self.hosts().values():
                host.open()
            for host in self.hosts().values():
                self._remember_settings(host, leaving)
            if not self._as_found:
                self._shape(leaving)
            leaving.callback(put_back, self._found)
            for host in self.hosts().values():
                leaving.callback(host.stop_all)
            self._leaving = leaving.pop_all()
        return self

    def _shape(self, leaving: contextlib.ExitStack) -> None:
        """Set up the link on the server's device, and arrange for its removal."""
        lines = of_machines(self.link, self.server.device)
        undo = unshaping(self.server.device)
        shown = ("tc", "qdisc", "show", "dev", self.server.device, "root")
        if is_shaped(self.server.run(shown, log=False).text):
            if self._own_link:
                self.server.undo_if_lost(self._own_link)
                leaving.callback(self._on_the_server, self._own_link)
            self.server.run(undo)
        if lines:
            self.server.undo_if_lost(undo)
            leaving.callback(self._on_the_server, undo)
            self.server.batch(lines)

    def _remember_settings(self, host: SshHost, leaving: contextlib.ExitStack) -> None:
        """Read the settings of a device, and arrange for what the run changes to be restored."""
        source = DEVICE_SETTINGS.read_bytes()
        words = (host.python, "-I", "-S", "-")

        def restore() -> None:
            if not host.undoes_itself():
                host.run(restoring, stdin=source, timeout_s=SETTINGS_S, log=False)

        reading = (*words, "read", host.device)
        found = host.run(reading, stdin=source, timeout_s=SETTINGS_S, log=False).text.strip()
        restoring = (*words, "restore", host.device, found)
        host.undo_if_lost(restoring, source)
        leaving.callback(restore)

    def _on_the_server(self, argv: Argv) -> None:
        """Run a command, unless the server cannot be reached and does it by itself."""
        if not self.server.undoes_itself():
            self.server.run(argv, log=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The end of a connection causes other failures, which may be raised before it.
        lost = (
            [one for host in self.hosts().values() if (one := host.connection_lost())]
            if isinstance(error, RunFailed)
            else []
        )
        try:
            self._leaving.close()
        except LabError:
            if error is None:  # otherwise the first error is reported
                raise
        if lost:
            raise lost[0] from error


def machine(name: str, ssh_config: Path) -> Machine:
    """One of the two machines, reached by a file with the output of `vagrant ssh-config`."""
    login = Login(name, ("-F", str(ssh_config)), sudo=True)
    return Machine(
        login,
        ADDRESSES[name],
        DEVICE,
        PurePosixPath(FOLDER.format(name)),
        OWN_LINK if name == "server" else (),
    )


class Vagrant(Machines):
    """The two machines of the box. Their clocks are set; the server has a link of its own."""

    def __init__(self, link: Link, ssh_config: Path, *, as_found: bool = False) -> None:
        super().__init__(
            link,
            machine("server", ssh_config),
            machine("client", ssh_config),
            kind=VAGRANT.name,
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
