"""The first process of a booted kernel: mount what a run needs, start its program, halt.

Part of the guest's root, started by the kernel itself. The program's words, NUL after each, stand
in a file, because the kernel's command line is an input of its random numbers.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
import types

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
NOT_SET_UP, NO_PROGRAM = 126, 127
"""Exit codes if a mount fails, or the program cannot be started."""

libc = ctypes.CDLL(None, use_errno=True)


def mount(where: str, kind: str, flags: int, data: str) -> None:
    """Mount a file system; OSError if the kernel refuses."""
    os.makedirs(where, exist_ok=True)
    source, data_or_none = kind.encode(), data.encode() or None
    if libc.mount(source, where.encode(), kind.encode(), flags, data_or_none):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)


def start(argv: list[str]) -> int:
    """Start the program; its process, or 0 in a fork of this process that is to be the program.

    Python with code is such a fork, which saves the start of another interpreter.
    """
    if is_python(argv):
        return os.fork()
    try:
        return os.posix_spawnp(argv[0], argv, ENVIRONMENT)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", flush=True)
        raise SystemExit(NO_PROGRAM) from None


def is_python(argv: list[str]) -> bool:
    return argv[:4] == [PYTHON, "-I", "-S", "-c"]


def be_python(code: str, args: list[str]) -> None:
    """Be `python3 -I -S -c code args` from here on; this interpreter then ends as it would."""
    sys.argv = ["-c", *args]
    main_module = types.ModuleType("__main__")
    sys.modules["__main__"] = main_module
    exec(code, main_module.__dict__)


def collect(program: int) -> int:
    """Collect the processes that lost their parent until the program ends; its exit code."""
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main() -> None:
    exit_code, argv, program = NOT_SET_UP, [""], 1
    try:
        for one in MOUNTS:
            mount(*one)
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        with open(f"{INSIDE_BOOT}/argv", "rb") as file:
            argv = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
        os.chdir(INSIDE_RUN)
        program = start(argv)
        exit_code = collect(program) if program else exit_code
    except SystemExit:
        exit_code = NO_PROGRAM
    except BaseException:
        traceback.print_exc()
    if not program:
        be_python(argv[4], argv[5:])
        return
    sys.stdout.flush()
    print(f"{EXIT_LINE}{exit_code}", flush=True)
    os.sync()
    libc.reboot(POWER_OFF)


if __name__ == "__main__":
    main()
