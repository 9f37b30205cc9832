"""The virtual testbed reads the log of its kernel."""

from __future__ import annotations

import pytest

from labs.drive.testbed.virtual import signalled

# Lines of the kernels 6.1.192 and 6.12.117 after a signal to one of their programs.
QUIET = "<6>device eth0 entered promiscuous mode\n<6>device eth0 left promiscuous mode\n"
STOPPED = "<3>userspace - child stopped with signal 19\n"
IN_THE_STUB = (
    "<3>wait_stub_done : failed to wait for SIGTRAP, pid = 32270, n = 32270, errno = 25, "
    "status = 0x127f\n"
)

# In seccomp mode: 7.2.13, and 6.1.192 after SIGTERM.
ENDED = "<3>Unexpectedly lost MM child! Affected tasks will segfault.\n"
ENDED_BEFORE = "<3>Unexpectedly lost MM child! Its status is 0xf\n"


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("", None),
        (QUIET, None),
        (QUIET + STOPPED + QUIET + IN_THE_STUB, "SIGSTOP"),
        (QUIET + IN_THE_STUB, "SIGCONT"),
        (STOPPED.replace("19", "40"), "signal 40"),
        (QUIET + ENDED, "a signal"),
        (QUIET + ENDED_BEFORE, "SIGTERM"),
    ],
)
def test_signalled_names_the_first_signal(log: str, name: str | None) -> None:
    assert signalled(log) == name
