"""The trials of `sandbox.py`, in a process of their own: a filter stays for the life of a process.

    sandbox_trial.py ptrace | seccomp | seccomp-stub

Exit code 0 if the sandbox around it allows what the mode needs; else the last line says what it
denies. Standard library only, and no other module of this package: this file runs as a program.
Each trial starts a new interpreter, so it imports little.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys

TYPE_CHECKING = False  # without importing typing, which takes some ms
if TYPE_CHECKING:
    from collections.abc import Callable

# x86-64: arch/x86/entry/syscalls/syscall_64.tbl
SENDMSG, RECVMSG, SOCKETPAIR, CLONE, GETPPID = 46, 47, 53, 56, 110
SIGALTSTACK, PRCTL, ARCH_PRCTL, FUTEX, SECCOMP = 131, 157, 158, 202, 317
EXECVEAT, CLOSE_RANGE = 322, 436
# What programs of a guest call and sandboxes may kill for.
GUEST_CALLS = {"mount": 165, "reboot": 169, "unshare": 272, "setns": 308}

# linux/ptrace.h, linux/elf.h
PTRACE_TRACEME, PTRACE_GETREGS, PTRACE_SETREGS, PTRACE_SYSEMU = 0, 12, 13, 31
PTRACE_SETOPTIONS, PTRACE_GETREGSET = 0x4200, 0x4204
PTRACE_O_TRACESYSGOOD, PTRACE_O_EXITKILL = 1, 1 << 20
NT_X86_XSTATE = 0x202
# linux/sched.h, linux/prctl.h, asm/prctl.h, linux/fcntl.h, linux/futex.h, linux/seccomp.h
CLONE_VM, CLONE_VFORK, CLONE_THREAD = 0x100, 0x4000, 0x10000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, ARCH_SET_FS, ARCH_GET_FS = 22, 38, 0x1002, 0x1003
AT_EMPTY_PATH, FUTEX_WAKE, AF_UNIX, SOCK_STREAM = 0x1000, 1, 1, 1
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_MODE_FILTER = 1, 1, 2
SECCOMP_RET_TRAP, SECCOMP_RET_ALLOW = 0x00030000, 0x7FFF0000
BPF_LD_W_ABS, BPF_JEQ_K, BPF_RET_K = 0x20, 0x15, 0x06


def _try(name: str, call: Callable[[], int], expected: int = 0) -> int:
    """Make one call, whose errno should be `expected` (0: it should succeed). Its name is printed
    first, in case the call kills this process. Ends the process, with the reason, if refused."""
    os.write(1, f"{name}\n".encode())
    ctypes.set_errno(0)
    result = call()
    number = ctypes.get_errno() if result == -1 else 0
    if number != expected:
        _refuse(f"{name} is refused ({errno.errorcode.get(number, str(number))})")
    return result


def _refuse(reason: str) -> None:
    os.write(1, f"{reason}\n".encode())
    os._exit(1)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    for function, count in ((libc.ptrace, 4), (libc.syscall, 7)):
        function.argtypes = [ctypes.c_long] * count
        function.restype = ctypes.c_long
    return libc


def _try_ptrace() -> None:
    libc = _libc()

    def trace(name: str, request: int, address: int = 0, data: int = 0) -> None:
        _try(f"ptrace({name})", lambda: libc.ptrace(request, child, address, data))

    child = os.fork()
    if not child:
        trace("PTRACE_TRACEME", PTRACE_TRACEME)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.getppid()
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            _refuse(f"ptrace(PTRACE_TRACEME): the process is killed by {name}")
        os._exit(1)  # the child has given the reason
    registers = ctypes.create_string_buffer(27 * 8)
    state = ctypes.create_string_buffer(1 << 16)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(state), len(state))
    options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL
    trace("PTRACE_SETOPTIONS", PTRACE_SETOPTIONS, 0, options)
    trace("PTRACE_GETREGS", PTRACE_GETREGS, 0, ctypes.addressof(registers))
    trace("PTRACE_SETREGS", PTRACE_SETREGS, 0, ctypes.addressof(registers))
    trace("PTRACE_GETREGSET", PTRACE_GETREGSET, NT_X86_XSTATE, ctypes.addressof(vector))
    trace("PTRACE_SYSEMU", PTRACE_SYSEMU)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP | 0x80:
        _refuse("ptrace(PTRACE_SYSEMU) does not stop a process at its system calls")
    os.kill(child, signal.SIGKILL)


def _try_seccomp(stub_program: bool) -> None:
    libc = _libc()

    def call(name: str, number: int, *words: int, expected: int = 0) -> None:
        padded = [*words, *(0,) * (6 - len(words))]
        _try(name, lambda: libc.syscall(number, *padded), expected)

    # Arguments that have no effect: the errno tells the kernel's own answer from a sandbox's.
    word = (ctypes.c_ulong * 2)()
    here = ctypes.addressof(word)
    if stub_program:
        shared = CLONE_VM | CLONE_VFORK
        call("clone(CLONE_VM)", CLONE, shared | CLONE_THREAD, expected=errno.EINVAL)
        call("execveat", EXECVEAT, -1, here, 0, 0, AT_EMPTY_PATH, expected=errno.EBADF)
        call("close_range", CLOSE_RANGE, 2, 1, expected=errno.EINVAL)
        call("socketpair", SOCKETPAIR, AF_UNIX, SOCK_STREAM, 0, here)
        call("sendmsg", SENDMSG, -1, expected=errno.EBADF)
        call("recvmsg", RECVMSG, -1, expected=errno.EBADF)
    call("futex", FUTEX, here, FUTEX_WAKE, 1)
    call("sigaltstack", SIGALTSTACK)
    call("arch_prctl(ARCH_GET_FS)", ARCH_PRCTL, ARCH_GET_FS, here)
    call("arch_prctl(ARCH_SET_FS)", ARCH_PRCTL, ARCH_SET_FS, word[0])
    call("prctl(PR_SET_NO_NEW_PRIVS)", PRCTL, PR_SET_NO_NEW_PRIVS, 1)

    trapped = {"getppid": GETPPID, **GUEST_CALLS}
    program = _filter(tuple(trapped.values()))
    prog = (ctypes.c_size_t * 2)(len(program) // 8, ctypes.addressof(program))
    filters = ctypes.addressof(prog)
    if stub_program:
        words = (SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, filters)
        call("seccomp(SECCOMP_SET_MODE_FILTER)", SECCOMP, *words)
    else:
        call("prctl(PR_SET_SECCOMP)", PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters)
    received: list[int] = []
    signal.signal(signal.SIGSYS, lambda number, _: received.append(number))
    for name, number in trapped.items():
        os.write(1, f"{name}\n".encode())
        received.clear()
        libc.syscall(number, 0, 0, 0, 0, 0, 0)
        if not received:
            _refuse(f"{name} does not raise SIGSYS in a process that filters it")


def _filter(trapped: tuple[int, ...]) -> ctypes.Array[ctypes.c_char]:
    """A filter program that raises SIGSYS for these system calls and allows all others: struct
    sock_filter of linux/filter.h, 8 bytes each."""
    lines = [(BPF_LD_W_ABS, 0, 0, 0)]  # the number of the call
    for place, number in enumerate(trapped):
        lines.append((BPF_JEQ_K, len(trapped) - place, 0, number))
    lines += [(BPF_RET_K, 0, 0, SECCOMP_RET_ALLOW), (BPF_RET_K, 0, 0, SECCOMP_RET_TRAP)]
    code = b"".join(
        line[0].to_bytes(2, "little") + bytes(line[1:3]) + line[3].to_bytes(4, "little")
        for line in lines
    )
    return ctypes.create_string_buffer(code, len(code))


if __name__ == "__main__":
    if sys.argv[1] == "ptrace":
        _try_ptrace()
    else:
        _try_seccomp(stub_program=sys.argv[1] == "seccomp-stub")
