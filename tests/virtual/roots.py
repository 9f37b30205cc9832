"""Roots of guests with the programs that tests start inside."""

from __future__ import annotations

import functools
from pathlib import Path

from labs.drive.kernel import programs
from labs.drive.kernel.guest_root import kept_root
from labs.drive.kernel.kept_copy import file
from labs.drive.kernel.kit_maker import sources

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
    started = programs.programs((*SHELL, *programs.EVERY_RUN, *names))
    more = {one.name: one for one in OF_SSHD if "sshd" in names and one.exists()}
    paths = sources(started | more, programs.python())
    paths |= {str(one)[1:]: one for one in more.values()}
    files = {name: file(path, not name.endswith(".py")) for name, path in paths.items()}
    return kept_root(files, (programs.python(),)).folder
