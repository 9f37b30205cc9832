"""Boot a kernel in a process of its own, so that a test can choose what is around it.

`boot_one.py KERNEL ROOT STAGING CODE MEMORY_MIB WORD...` prints the console; with
LABS_TEST_REFUSE set, the kernel of this machine refuses `personality` first, as in many containers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

from labs.drive.kernel.boot import boot
from labs.errors import LabError

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h; 135 is personality on x86-64.
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PERSONALITY = 135


def refuse_personality() -> None:
    """A seccomp filter that this process and all it starts live under."""
    code = b"".join(
        struct.pack("HBBI", *line)
        for line in (
            (LOAD, 0, 0, 0),
            (EQUAL, 0, 1, PERSONALITY),
            (RETURN, 0, 0, ERRNO | errno.EPERM),
            (RETURN, 0, 0, ALLOW),
        )
    )
    lines = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(lines)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, FILTER, ctypes.c_void_p(ctypes.addressof(program)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")
    assert libc.personality(0xFFFFFFFF) == -1 and ctypes.get_errno() == errno.EPERM


def main(argv: list[str]) -> int:
    if os.environ.get("LABS_TEST_REFUSE"):
        refuse_personality()
    kernel, root, staging, code, memory_mib, *words = argv
    try:
        boot(
            Path(kernel),
            root=Path(root),
            staging=Path(staging),
            code=Path(code),
            argv=tuple(words),
            memory_mib=int(memory_mib),
            on_line=lambda line: print(line, flush=True),
        )
    except LabError as error:
        print(f"{type(error).__name__}: {error}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
