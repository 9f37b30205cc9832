"""The first process of a booted kernel: mount what a run needs, start its program, halt.

Part of the guest's root, started by the kernel itself. The program's words, NUL after each, stand
in a file, because the kernel's command line is an input of its random numbers.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from typing import NoReturn

READ_ONLY = 1  # MS_RDONLY of linux/mount.h
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF
PYTHON, INIT = "/usr/bin/python3", "/init.py"
INSIDE_RUN, INSIDE_CODE, INSIDE_BOOT = (f"/run/labs/{name}" for name in ("run", "code", "boot"))
ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/tmp",
    "LC_ALL": "C",
    "TZ": "UTC",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}
# Where, what kind, flags and data; the folders of this machine are named from the working folder
# of the kernel, so that the words are the same for every run.
MOUNTS = (
    ("/dev", "devtmpfs", 0, ""),
    ("/proc", "proc", 0, ""),
    ("/sys", "sysfs", 0, ""),
    ("/run", "tmpfs", 0, ""),
    ("/tmp", "tmpfs", 0, ""),
    ("/var/log", "tmpfs", 0, ""),
    (INSIDE_BOOT, "hostfs", READ_ONLY, "/proc/self/cwd/boot/."),
    (INSIDE_CODE, "hostfs", READ_ONLY, "/proc/self/cwd/code/."),
    (INSIDE_RUN, "hostfs", 0, "/proc/self/cwd/run/."),
)
EXIT_LINE = "labs-exit "

libc = ctypes.CDLL(None, use_errno=True)


def mount(where: str, kind: str, flags: int, data: str) -> None:
    """Mount a file system; OSError if the kernel refuses."""
    os.makedirs(where, exist_ok=True)
    source, data_or_none = kind.encode(), data.encode() or None
    if libc.mount(source, where.encode(), kind.encode(), flags, data_or_none):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)


def start() -> int:
    """Run the program to its end, collecting processes that lost their parent; its exit code."""
    with open(f"{INSIDE_BOOT}/argv", "rb") as file:
        argv = file.read().split(b"\0")[:-1]
    os.chdir(INSIDE_RUN)
    words = [os.fsdecode(word) for word in argv]
    if words[:4] == [PYTHON, "-I", "-S", "-c"]:
        program = os.fork()
        if not program:
            be_python(words[4], words[5:])
    else:
        try:
            program = os.posix_spawnp(argv[0], argv, ENVIRONMENT)
        except OSError as error:
            print(f"{words[0]}: {error.strerror}", flush=True)
            return 127
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def be_python(code: str, args: list[str]) -> NoReturn:
    """Be `python3 -I -S -c code args` in a fork of this process, which saves the start of another
    interpreter: a third of the time from the start of the kernel to a run's first step."""
    exit_code = 1
    try:
        sys.argv = ["-c", *args]
        exec(code, {"__name__": "__main__"})
        exit_code = 0
    except SystemExit as error:
        exit_code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code & 0xFF)


def main() -> None:
    exit_code = 126
    try:
        for one in MOUNTS:
            mount(*one)
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        exit_code = start()
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    print(f"{EXIT_LINE}{exit_code}", flush=True)
    os.sync()
    libc.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
