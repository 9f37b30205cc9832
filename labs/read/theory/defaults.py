"""The kernel's default sizes of socket buffers."""

from __future__ import annotations

from labs.drive.kernel.memory_size import LARGE_BUFFERS_SINCE
from labs.drive.units import MIB
from labs.read.theory.windows import series

LARGE_CORE_MAX_SINCE = (6, 18)
DEFAULT_WMEM = (4096, 16384, 4194304)
"""net.ipv4.tcp_wmem since Linux 4.18, with 1 GiB of memory or more."""


def default_rmem(kernel: str) -> tuple[int, int, int]:
    """net.ipv4.tcp_rmem of a kernel since 4.20 whose memory does not limit it: 1 GiB or more, and
    5 GiB or more since 6.16. Source: net/ipv4/tcp.c tcp_init()."""
    return 4096, 131072, 32 * MIB if series(kernel) >= LARGE_BUFFERS_SINCE else 6 * MIB


def default_core_max_bytes(kernel: str) -> int:
    """net.core.rmem_max and wmem_max of a kernel. Source: include/net/sock.h SK_RMEM_MAX, and
    net/core/sock.c sysctl_rmem_max since 6.18."""
    return 4 * MIB if series(kernel) >= LARGE_CORE_MAX_SINCE else 212_992
