"""The virtual testbed reads the log of its kernel."""

from __future__ import annotations

import pytest

from labs.guest.testbed.virtual import refused_change, signalled

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


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (
            "<3>a change of a program's memory failed: -12\n",
            "a change of a program's memory failed: -12",
        ),
        (
            "<3>do_syscall_stub: syscall 9 failed, return value = 0xfffffffffffffff4, expected\n",
            "do_syscall_stub: syscall 9 failed, return value = 0xfffffffffffffff4, expected",
        ),
        (
            "<3>UML ran out of memory on the host side!\nmore\n",
            "UML ran out of memory on the host side!",
        ),
        ("<6>Run /usr/bin/python3 as init process\n", None),
    ],
)
def test_refused_change_is_found_in_the_log_of_any_series(log: str, found: str | None) -> None:
    """The texts of patches/*/seccomp-calls.patch, and of arch/um/os-Linux/skas/{mem,process}.c."""
    assert refused_change(log) == found
