"""The virtual testbed: the namespaces testbed inside a kernel that the run boots for itself."""

from __future__ import annotations

import time
from pathlib import Path

from labs.drive.testbed.link import Link
from labs.drive.testbed.namespaces import Namespaces
from labs.errors import RunFailed


def open_testbed(link: Link, ssh_config: str | None) -> Namespaces:
    """The hosts inside the kernel, not set up yet; called there."""
    await_fine_timers()
    return Namespaces(link, own_kernel=True)


def await_fine_timers() -> None:
    """Sleep until the kernel's timers are fine ones (the last word of /proc/net/psched is 1e9).

    A kernel that has just booted still counts in ticks, and tc, which asks for that, would give
    htb a burst of a whole tick: 500 kB at 1000 Mbit/s.
    """
    for _ in range(500):
        if int(Path("/proc/net/psched").read_text().split()[3], 16) == 1_000_000_000:
            return
        time.sleep(0.01)
    raise RunFailed(
        "the kernel's timers did not become fine ones within 5 s; "
        "it needs CONFIG_HIGH_RES_TIMERS: labs kernel check"
    )
