"""Run a program under Docker's default seccomp profile, as in a container without capabilities.

    python3 tests/docker_profile.py [--deny NAME,...] PROGRAM [ARGUMENT...]

The profile allows what it lists and answers the rest with EPERM. Here the rest is listed: it is
shorter. Linux on x86-64; `--deny` refuses further calls, such as ptrace in older profiles. Without
privileges the program must also give up gaining them (no_new_privs), as in such a container.

Source: github.com/moby/profiles, seccomp/default.json of 2026, for a container whose capabilities
were all dropped; numbers from the kernel's arch/x86/entry/syscalls/syscall_64.tbl (Linux 7.2).
Standard library only: the tests on a bare machine run it with that machine's Python.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os

DENIED = {
    **{"syslog": 103, "uselib": 134, "ustat": 136, "sysfs": 139, "vhangup": 153},
    **{"pivot_root": 155, "_sysctl": 156, "chroot": 161, "acct": 163, "settimeofday": 164},
    **{"mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169},
    **{"sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173},
    **{"create_module": 174, "init_module": 175, "delete_module": 176, "get_kernel_syms": 177},
    **{"query_module": 178, "quotactl": 179, "nfsservctl": 180, "getpmsg": 181, "putpmsg": 182},
    **{"afs_syscall": 183, "tuxcall": 184, "security": 185, "lookup_dcookie": 212},
    **{"clock_settime": 227, "vserver": 236, "mbind": 237, "set_mempolicy": 238},
    **{"get_mempolicy": 239, "kexec_load": 246, "add_key": 248, "request_key": 249},
    **{"keyctl": 250, "migrate_pages": 256, "unshare": 272, "move_pages": 279},
    **{"perf_event_open": 298, "fanotify_init": 300, "open_by_handle_at": 304, "setns": 308},
    **{"kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321},
    **{"userfaultfd": 323, "uprobe": 336, "io_uring_setup": 425, "io_uring_enter": 426},
    **{"io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430},
    **{"fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438},
    **{"process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443},
    **{"set_mempolicy_home_node": 450, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460},
    **{"lsm_list_modules": 461, "open_tree_attr": 467},
}
# Calls newer than the profile: runc answers them as a kernel that does not have them.
NEWER = 468
CLONE3 = 435
# Calls that the profile allows, and that --deny can refuse.
ALLOWED = {
    **{"ptrace": 101, "personality": 135, "prctl": 157, "process_vm_readv": 310},
    **{"process_vm_writev": 311, "seccomp": 317, "memfd_create": 319, "execveat": 322},
    **{"close_range": 436, "sched_setaffinity": 203},
}
# The only arguments that the profile allows.
CLONE, NAMESPACES = 56, 0x7E020000
PERSONALITY, PERSONALITIES = 135, (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
SOCKET, FAMILIES_DENIED = 41, (12, 19, 20, 23, 25, 34, 37, 38, 40)

X32 = 0x40000000
AUDIT_ARCH_X86_64 = 0xC000003E
NR, ARCH, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
LD, AND, JEQ, JGE, RET = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2

Line = tuple[int, int, int, int]


def program(denied: tuple[int, ...]) -> list[Line]:
    """The filter: code, jump if true, jump if false, operand of each line. Where seccomp(2) is
    denied, so is the other way to install a filter, prctl(PR_SET_SECCOMP)."""
    refuse = (RET, 0, 0, ERRNO | errno.EPERM)
    lines: list[Line] = [
        (LD, 0, 0, ARCH),
        (JEQ, 1, 0, AUDIT_ARCH_X86_64),
        (RET, 0, 0, KILL),
        (LD, 0, 0, NR),
        (JGE, 0, 1, X32),
        (RET, 0, 0, ERRNO | errno.ENOSYS),
    ]
    for number in denied:
        lines += [(JEQ, 0, 1, number), refuse]
    if ALLOWED["seccomp"] in denied:
        lines += [(JEQ, 0, 3, ALLOWED["prctl"]), (LD, 0, 0, FIRST_ARGUMENT)]
        lines += [(JEQ, 0, 1, PR_SET_SECCOMP), refuse, (LD, 0, 0, NR)]
    lines += [(JEQ, 1, 0, CLONE3), (JGE, 0, 1, NEWER), (RET, 0, 0, ERRNO | errno.ENOSYS)]
    lines += [(JEQ, 0, 5, CLONE), (LD, 0, 0, FIRST_ARGUMENT), (AND, 0, 0, NAMESPACES)]
    lines += [(JEQ, 1, 0, 0), refuse, (RET, 0, 0, ALLOW)]
    count = len(PERSONALITIES)
    lines += [(JEQ, 0, count + 3, PERSONALITY), (LD, 0, 0, FIRST_ARGUMENT)]
    lines += [(JEQ, count - place, 0, one) for place, one in enumerate(PERSONALITIES)]
    lines += [refuse, (RET, 0, 0, ALLOW)]
    count = len(FAMILIES_DENIED)
    lines += [(JEQ, 0, count + 4, SOCKET), (LD, 0, 0, FIRST_ARGUMENT), (JGE, count + 1, 0, 46)]
    lines += [(JEQ, count - place, 0, one) for place, one in enumerate(FAMILIES_DENIED)]
    lines += [(RET, 0, 0, ALLOW), refuse]
    return [*lines, (RET, 0, 0, ALLOW)]


def install(lines: list[Line]) -> None:
    """Filter this process and all that it starts; raises OSError."""
    code = b"".join(
        line[0].to_bytes(2, "little") + bytes(line[1:3]) + line[3].to_bytes(4, "little")
        for line in lines
    )
    held = ctypes.create_string_buffer(code, len(code))
    described = (ctypes.c_size_t * 2)(len(lines), ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    for words in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(described), 0, 0),
    ):
        if libc.prctl(*words):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--deny", default="", metavar="NAME,...", help=", ".join(ALLOWED))
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]")
    args = parser.parse_args()
    further = [name for name in args.deny.split(",") if name]
    if unknown := sorted(set(further) - set(ALLOWED)):
        parser.error(f"cannot deny {', '.join(unknown)}. Allowed: {', '.join(ALLOWED)}")
    if not args.argv:
        parser.error("name a program to run")
    numbers = [ALLOWED[name] for name in further]
    install(program((*DENIED.values(), *numbers)))
    os.execvp(args.argv[0], args.argv)


if __name__ == "__main__":
    main()
