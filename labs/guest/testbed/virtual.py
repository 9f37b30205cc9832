"""The virtual testbed: the namespaces testbed inside a kernel that the run boots for itself."""

from __future__ import annotations

import ctypes
import re
import time
from pathlib import Path
from signal import Signals
from types import TracebackType

from labs.errors import RunFailed
from labs.guest.testbed.link import Link
from labs.guest.testbed.namespaces import Namespaces

_READ_ALL = 3
_LOG_BYTES = 1 << 20
# The programs of this kernel are processes of the machine below. It kills a program that is stopped
# by a signal from there, and logs one of these lines (userspace and wait_stub_done of
# arch/um/os-Linux/skas/process.c). In seccomp mode, a signal may have ended the process itself
# (mm_sigchld_irq of arch/um/kernel/skas/mmu.c in 7.2; patches/seccomp-mode.patch before).
_SIGNALLED = re.compile(
    r"userspace - child stopped with signal (?P<number>\d+)"
    r"|wait_stub_done : failed to wait for SIGTRAP, .*status = 0x(?P<status>[0-9a-f]+)"
    r"|Unexpectedly lost MM child!(?: Its status is 0x(?P<ended>[0-9a-f]+))?"
)
# What the kernel logs where it ends a program because this machine refused a change of the
# program's memory or state (arch/um/os-Linux/skas/mem.c, process.c; arch/um/kernel/tlb.c).
_REFUSED = re.compile(
    r"a change of a program's memory failed.*|a program left no frame.*"
    r"|UML ran out of memory on the host side.*|Failed to flush page.*"
    r"|fix_range_common: failed.*|Error flushing stub syscalls.*"
    r"|do_syscall_stub: syscall .* failed.*"
    r"|failed to wait for stub.*|expected SIGSYS but got.*|failed to [gs]et regs.*"
)


# What a kernel derives from the size of its table of connections (net/ipv4/tcp_ipv4.c
# tcp_sk_init(), tcp.c tcp_init()), as with the 65,536 buckets of a machine of 4 GiB with 6.1. The
# table of a guest is smaller (`labs.drive.kernel.boot.TCP_BUCKETS`).
LIMITS = {"net/ipv4/tcp_max_tw_buckets": "32768", "net/ipv4/tcp_max_syn_backlog": "512"}
ORPHANS = {"net/ipv4/tcp_max_orphans": "32768"}


class Virtual(Namespaces):
    """The hosts inside the kernel. Leaving raises RunFailed if a program inside was killed because
    somebody outside sent it a signal, such as SIGSTOP, because it broke its own stub, or because
    this machine refused its memory: the run may lack what that program did."""

    def _set_up(self) -> None:
        super()._set_up()
        for path, value in ORPHANS.items():
            Path("/proc/sys", path).write_text(value)
        for host in self.hosts().values():
            for path, value in LIMITS.items():
                host.write_own_sysctl(path, value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        log = kernel_log()
        # First: 7.2 also says of a program that a signal ended that it waited for it in vain.
        found = signalled(log)
        if found is not None:
            raise RunFailed(
                f"{found} ended a program of the virtual kernel: somebody outside sent it (to "
                "pause a run, freeze its cgroup), or the program wrote into the memory that it "
                "shares with its kernel. Run again"
            ) from error
        refused = refused_change(log)
        if refused is not None:
            raise RunFailed(
                "the virtual kernel ended a program whose memory or state it could not change: "
                f"{refused}. This machine limits memory or mappings (ulimit -v, "
                "vm.max_map_count). Raise the limit, and run again"
            ) from error


def kernel_log() -> str:
    """The log of the kernel that this process runs on, as syslog(2) returns it."""
    buffer = ctypes.create_string_buffer(_LOG_BYTES)
    read = ctypes.CDLL(None).klogctl(_READ_ALL, buffer, _LOG_BYTES)
    return buffer.raw[: max(0, read)].decode("utf-8", "replace")


def refused_change(log: str) -> str | None:
    """The first line that says that a program was ended because this machine refused a change of
    its memory or state, up to 80 characters; None if there is none."""
    found = _REFUSED.search(log)
    return None if found is None else found[0].strip()[:80]


def signalled(log: str) -> str | None:
    """The first signal that killed a program of the kernel and that its own kernel did not send;
    None if there was none."""
    found = _SIGNALLED.search(log)
    if found is None:
        return None
    # A wait status has the signal that stopped a process in its second byte, and the signal that
    # ended it in its first.
    if found["number"]:
        number = int(found["number"])
    elif found["status"]:
        number = int(found["status"], 16) >> 8 & 0x7F
    else:
        number = int(found["ended"] or "0", 16) & 0x7F
    if not number:
        return "a signal"
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def open_testbed(link: Link, ssh_config: str | None) -> Virtual:
    """The hosts inside the kernel, not set up yet; called there."""
    await_fine_timers()
    return Virtual(link)


def await_fine_timers() -> None:
    """Sleep until the kernel has high-resolution timers (the last word of /proc/net/psched is 1e9).

    A kernel that has just booted still counts in ticks. tc reads that resolution, and would give
    htb a burst of a whole tick: 500 kB at 1000 Mbit/s.
    """
    for _ in range(500):
        if int(Path("/proc/net/psched").read_text().split()[3], 16) == 1_000_000_000:
            return
        time.sleep(0.01)
    raise RunFailed(
        "the kernel's timers did not reach high resolution within 5 s. It needs "
        "CONFIG_HIGH_RES_TIMERS. Check it: labs kernel check"
    )
