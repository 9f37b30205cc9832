"""The testbeds, each as a value that says what code asks about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """Where the hosts of a run are.

    `module` is what a run's own process opens them with; a testbed without one performs no runs. In
    virtual time a run boots a kernel and repeats to the byte; elsewhere conditions are repeated.
    `machines` are hosts with kernels and settings of their own. `before` is what comes before the
    command that performs runs there.
    """

    name: str
    what: str
    module: str = ""
    virtual_time: bool = False
    machines: bool = False
    before: str = ""

    @property
    def performs(self) -> bool:
        return bool(self.module)

    @property
    def on_this_machine(self) -> bool:
        """Whether its runs are processes of this machine, which must be Linux."""
        return self.performs and not self.machines

    @property
    def on_this_kernel(self) -> bool:
        """Whether its hosts are namespaces of this machine's own kernel."""
        return self.on_this_machine and not self.virtual_time

    @property
    def any_kernel(self) -> bool:
        """Whether the user chooses the kernel."""
        return self.virtual_time or not self.performs

    @property
    def second(self) -> bool:
        """Whether runs in virtual time are compared with those on it."""
        return self.performs and not self.virtual_time


VIRTUAL = Kind(
    "virtual",
    "a Linux kernel as a process, in virtual time; needs no root",
    "labs.guest.testbed.virtual",
    virtual_time=True,
)
NAMESPACES = Kind(
    "namespaces",
    "two hosts on this machine's own kernel; needs root",
    "labs.drive.testbed.namespaces",
)
VAGRANT = Kind(
    "vagrant",
    "two virtual machines, each with its own kernel",
    "labs.drive.testbed.vagrant",
    machines=True,
    before="make box && vagrant up && ",
)
RECORDED = Kind("recorded", "recorded runs; needs only Python")
SSH = Kind("ssh", "two machines of one's own, reached by ssh", machines=True)
TESTBEDS = {kind.name: kind for kind in (VIRTUAL, NAMESPACES, VAGRANT, RECORDED)}
"""Those that a user can name."""
OF_RUNS = TESTBEDS | {SSH.name: SSH}
"""Those that a run can have been performed on."""
