"""The amount of memory that a guest gets.

A kernel derives the largest automatic receive buffer, `tcp_rmem[2]`, from its memory: a 128th of
it, at most 6 MiB until 6.15 and at most 32 MiB since. Source: net/ipv4/tcp.c tcp_init().
"""

from __future__ import annotations

LARGE_BUFFERS_SINCE = (6, 16)
LARGE_BUFFERS_MIB = 5120
"""A 128th of 4096 MiB is 32 MiB, but the kernel's own memory does not count."""


def guest_memory_mib(least_mib: int, series: str) -> int:
    """The memory of a guest whose kernel is of this series, such as "6.1"; empty if not known.

    That is `least_mib`, and at least 5120 MiB on 6.16 and later, whose largest receive buffer would
    otherwise be smaller than on a machine with more memory.
    """
    numbers = tuple(int(part) for part in series.split(".") if part)
    return max(least_mib, LARGE_BUFFERS_MIB) if numbers >= LARGE_BUFFERS_SINCE else least_mib
