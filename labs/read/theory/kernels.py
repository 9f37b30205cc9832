"""What changed in the kernel, and since when: each rule that depends on the version is here, once.

A change names the first series that has it, the commit (if it is known) and what changed. Changes
that stable kernels received, too, have the first of the kernels built here in which they were seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.drive.kernel.memory_size import LARGE_BUFFERS_SINCE
from labs.errors import BadInput
from labs.guest.units import MIB

_SERIES = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\D.*)?", re.ASCII | re.DOTALL)


def series(kernel: str) -> tuple[int, int]:
    """`6.1.192-2` is (6, 1). BadInput for anything else, such as a digest."""
    match = _SERIES.fullmatch(kernel)
    if match is None:
        raise BadInput(f"{kernel!r} is not a kernel version. Give one like 6.1 or 6.12.117")
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class Change:
    """One change: the first series that has it, its commit (empty if unknown), and what changed."""

    since: tuple[int, int]
    commit: str
    what: str

    def holds(self, kernel: str) -> bool:
        """Whether a kernel has it. BadInput for what is not a version."""
        return series(kernel) >= self.since


# The receive window.
RATIO = Change(
    (6, 6),
    "dfa2f0483360",
    "tcp_win_from_space() takes the measured share of payload, and no longer tcp_adv_win_scale",
)
HALF_AT_FIRST = Change(
    (6, 10),
    "697a6c8cec03",
    "tcp_scaling_ratio_init(): half of a buffer is window before data has arrived, not a quarter",
)
CLAMP_FOLLOWS = Change(
    (6, 11),
    "05f76b2d634e",
    "tcp_measure_rcv_mss() sets window_clamp with the ratio: a fixed buffer follows it as well",
)
WHOLE_FIRST_WINDOW = Change(
    (6, 10), "378979e94e95", "tcp_select_initial_window() does not limit the first window to 64 KiB"
)
SET_RCVBUF_MOVES_CLAMP = Change(
    (7, 1), "b025461303d8", "SO_RCVBUF on a connection moves window_clamp: tcp_set_rcvbuf()"
)
ZERO_AT_ONCE = Change(
    (6, 6), "", "after a drop for lack of memory tcp_select_window() offers a window of 0"
)
MEASURES_OUT_OF_ORDER = Change(
    (6, 12), "", "tcp_data_queue_ofo() measures the MSS, too; in 6.12 since an update of the series"
)
NOTHING_BEYOND = Change(
    (6, 17), "", "tcp_sequence() rejects a segment that ends beyond the window: BeyondWindow"
)
WIDER_COMPRESSION = Change(
    (6, 19),
    "416dd649f3aa",
    "ACKs wait for 33 % of the RTT while segments are missing, with a slack of 10 us, and not for"
    " 5 % with 100 us: net.ipv4.tcp_comp_sack_rtt_percent",
)

# The receive buffer.
SMALL_HEADS = Change(
    (6, 3), "", "the heads of packets are from a cache of 704 bytes, and not from kmalloc-1k"
)
NO_RESERVE = Change(
    (6, 0), "", "sk_mem_uncharge() no longer keeps up to 2 MiB reserved for a socket"
)
QUEUE_NOT_COPIED = Change(
    (6, 12),
    "",
    "data that is still queued does not count as read in tcp_rcv_space_adjust(), and a round trip"
    " of less than a millisecond gives no sample by timestamps",
)
GROWS_BY_NEW_RULE = Change(
    (6, 18), "aa251c84636c", "tcp_rcvbuf_grow() sizes a buffer for twice what was read"
)
SLOWER_NEARBY = Change(
    (6, 19), "ecfea98b7d0d", "a buffer grows more slowly below 1 ms: net.ipv4.tcp_rcvbuf_low_rtt"
)

# The sender.
SIZES_BY_RTT = Change(
    (5, 18), "", "packets are larger where the RTT is short: net.ipv4.tcp_tso_rtt_log"
)
GROWS_PACKETS = Change((6, 10), "", "tcp_grow_skb(): a short packet takes bytes from the next one")
REDUCED_GROWS = Change(
    (5, 15),
    "",
    "tcp_cwnd_reduction(): the window grows with each ACK that advances without a new loss",
)
ROUNDS_BEGIN_EARLY = Change(
    (5, 15),
    "25c1a9ca53db",
    "HyStart's first round does not begin in the middle of a train of ACKs, which ended slow start"
    " too early (Linux 6.14; the stable kernels from 5.15 on have it)",
)
OWN_PAGES = Change(
    (6, 0),
    "",
    "a hole of a file is read into pages of the pipe's own, which begin where the read begins;"
    " until 6.4, and before 6.0 they are pages of the file",
)
ONE_MESSAGE = Change(
    (6, 5), "", "the pages of a pipe are one message (MSG_SPLICE_PAGES), and not one each"
)
WRITES_SOONER = Change(
    (5, 15),
    "",
    "nginx writes sooner after it is woken; not measured: with this delay the downloads of the sets"
    " wget and discard on 5.10 are predicted best",
)

# Sizes of buffers.
LARGE_RMEM = Change(
    LARGE_BUFFERS_SINCE, "572be9bf9d0d", "tcp_rmem[2] is 32 MiB, and not 6 MiB: tcp_init()"
)
LARGE_CORE_MAX = Change(
    (6, 18), "a6d4f25888b8", "net.core.rmem_max and wmem_max are 4 MiB, and not 212,992 bytes"
)

DEFAULT_WMEM = (4096, 16384, 4 * MIB)
"""net.ipv4.tcp_wmem since Linux 4.18, with 1 GiB of memory or more."""
RMEM_CAP, OLD_RMEM_CAP = 32 * MIB, 6 * MIB
CORE_MAX_BYTES, OLD_CORE_MAX_BYTES = 4 * MIB, 212_992


def default_rmem(kernel: str) -> tuple[int, int, int]:
    """net.ipv4.tcp_rmem of a kernel since 4.20 whose memory does not limit it: 1 GiB or more, and
    5 GiB or more since 6.16. Source: net/ipv4/tcp.c tcp_init()."""
    return 4096, 131072, RMEM_CAP if LARGE_RMEM.holds(kernel) else OLD_RMEM_CAP


def default_core_max_bytes(kernel: str) -> int:
    """net.core.rmem_max and wmem_max of a kernel. Source: include/net/sock.h SK_RMEM_MAX, and
    net/core/sock.c sysctl_rmem_max since 6.18."""
    return CORE_MAX_BYTES if LARGE_CORE_MAX.holds(kernel) else OLD_CORE_MAX_BYTES


def first_ratio(kernel: str) -> int:
    """256ths of a buffer that are window before any data has arrived. Source: include/net/tcp.h
    tcp_scaling_ratio_init()."""
    return 128 if HALF_AT_FIRST.holds(kernel) else (1200 << 8) // 4672
