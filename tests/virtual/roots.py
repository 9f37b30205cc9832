"""Roots of guests with the programs that tests start inside."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from labs.drive.kernel.guest_root import guest_root, kept_root
from labs.drive.kernel.kept_copy import file
from labs.launch import inventory

SHELL = (
    *("bash", "sh", "cat", "chmod", "cp", "dd", "echo", "env", "head", "kill", "ln", "ls", "mkdir"),
    *("mount", "mv", "printf", "rm", "rmdir", "setpriv", "sleep", "sync", "true", "umount"),
    *("false", "nsenter", "uname"),
)


# Started by their whole paths since OpenSSH 9.8 and 10.0.
OF_SSHD = tuple(Path("/usr/lib/openssh", name) for name in ("sshd-session", "sshd-auth"))


@functools.cache
def root_with(*names: str) -> Path:
    """The folder of a root that has these programs, what every run may start, and a shell."""
    programs = inventory.programs((*SHELL, *inventory.EVERY_RUN, *names))
    more = {one.name: one for one in OF_SSHD if "sshd" in names and one.exists()}
    root = guest_root(programs | more, inventory.python())
    files = {**root.files, **{str(one)[1:]: file(one, executable=True) for one in more.values()}}
    return kept_root(replace(root, files=files)).folder
