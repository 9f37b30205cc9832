"""The virtual testbed: the namespaces testbed inside a kernel that the run boots for itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from labs.drive import guest
from labs.drive.kernel.boot import INSIDE_CODE, boot
from labs.drive.testbed.link import Link
from labs.drive.testbed.namespaces import Namespaces
from labs.errors import RunFailed


def run(
    kernel: Path,
    *,
    interpreter: Path,
    staging: Path,
    code: Path,
    experiment: str,
    memory_mib: int,
    seed: int,
    cpu: int | None,
    on_line: Callable[[str], None],
) -> None:
    """Boot `kernel` and make the run that `staging`/inputs.json asks for; as `kernel.boot.boot`."""
    boot(
        kernel,
        staging=staging,
        code=code,
        argv=guest.argv(interpreter, INSIDE_CODE, "virtual", experiment),
        memory_mib=memory_mib,
        seed=seed,
        cpu=cpu,
        on_line=on_line,
    )


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
