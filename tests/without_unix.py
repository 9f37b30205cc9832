"""Run Python as on a system that is not Unix: without Unix's modules, flags, signals and functions,
and without the packages of the extras.

    python -m tests.without_unix claims nagle

runs `labs` so. The names are from https://docs.python.org/3/library/unix.html and from
"Availability: Unix" in the documentation of os and signal. Paths and file locks of a real Windows
are not tested by this. A process without file locks needs a TMPDIR of its own, because other
processes remove unpacked runs that nobody has locked.
"""

from __future__ import annotations

import os
import platform
import signal
import sys

MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
FUNCTIONS = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "chown", "fchmod"),
    *("fork", "getegid", "geteuid", "getgid", "getloadavg", "getpgid", "getuid", "killpg"),
    *(
        "lchown",
        "mkfifo",
        "pidfd_open",
        "sched_getaffinity",
        "sched_setaffinity",
        "setsid",
        "statvfs",
        "sysconf",
    ),
)
SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2")
OF_EXTRAS = (
    *("IPython", "bleach", "distributed", "jsonschema_rs", "nbconvert", "nbformat", "papermill"),
    *("pyarrow", "pyshark", "rocrate", "scapy"),
)


def remove() -> None:
    """Remove all this from the current process, before anything imports it."""
    for name in (*MODULES, *OF_EXTRAS):
        assert name not in sys.modules, name
        sys.modules[name] = None  # type: ignore[assignment]
    for name in FUNCTIONS:
        delattr(os, name)
    for name in SIGNALS:
        delattr(signal, name)
    for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        supported.clear()
    platform.system = lambda: "Windows"


if __name__ == "__main__":
    remove()
    from labs.cli.__main__ import main

    sys.exit(main())
