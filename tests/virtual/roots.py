"""Roots of guests with the programs that tests start inside."""

from __future__ import annotations

import functools
from pathlib import Path

from labs.drive.kernel.guest_root import guest_root, kept_root
from labs.launch import inventory

SHELL = (
    *(
        "bash",
        "sh",
        "cat",
        "chmod",
        "cp",
        "dd",
        "env",
        "head",
        "kill",
        "ln",
        "ls",
        "mkdir",
        "mount",
    ),
    *("mv", "rm", "rmdir", "sleep", "sync", "umount", "uname", "true"),
)


@functools.cache
def root_with(*names: str) -> Path:
    """The folder of a root that has these programs, what every run may start, and a shell."""
    programs = inventory.programs((*SHELL, *inventory.EVERY_RUN, *names))
    return kept_root(guest_root(programs, inventory.python()), inventory.python())
