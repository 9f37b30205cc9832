"""The constants and rules of the receive path, and how they differ between kernel series.

Each property of `Rules` names the kernel function that it describes, and the release that changed
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.read.theory.windows import (
    CLAMP_FOLLOWS_SINCE,
    RATIO_SINCE,
    SMALL_HEADS_SINCE,
    first_ratio,
    series,
)

SK_BUFF_BYTES = 256
"""SKB_DATA_ALIGN(sizeof(struct sk_buff)), x86-64."""
SHARED_INFO_BYTES = 320
"""SKB_DATA_ALIGN(sizeof(struct skb_shared_info)), x86-64."""
OVERHEAD_BYTES = SK_BUFF_BYTES + SHARED_INFO_BYTES
"""SKB_TRUESIZE(0): 576 bytes of metadata for each skb."""
LARGEST_LINEAR_BYTES = 4096 - SHARED_INFO_BYTES
"""SKB_MAX_ORDER(0, 0): the payload of an skb of one page, which collapsing fills."""
MAX_FRAGMENTS = 17
"""MAX_SKB_FRAGS with pages of 4 KiB."""
ALIGNED_BYTES = 64
"""SMP_CACHE_BYTES."""
SMALL_HEAD_BYTES = 704
"""SKB_SMALL_HEAD_SIZE with the MAX_HEADER of a distribution's kernel, since 6.3."""
KMALLOC_BYTES = (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
"""The size classes of SLUB, mm/slab_common.c kmalloc_info."""
FIRST_RCV_MSS_BYTES = 536
SMALLEST_MSS_BYTES = 88
"""TCP_MSS_DEFAULT and TCP_MIN_MSS, include/net/tcp.h."""
MAX_QUICKACKS = 16
LARGEST_UNSCALED_BYTES = 65535
LARGEST_SCALE = 14
SMALLEST_GROWING_BYTES = 128
"""The smallest segment that can open the window: tcp_event_data_recv()."""


@dataclass(frozen=True)
class Rules:
    """The rules of one kernel series, such as (6, 1)."""

    series: tuple[int, int]

    @property
    def scaling_ratio(self) -> int | None:
        """The share of the buffer, in 256ths, that is window before data has arrived; None if
        tcp_adv_win_scale determines it: tcp_win_from_space(), 6.6."""
        return first_ratio(f"{self.series[0]}.{self.series[1]}") if self.has_ratio else None

    @property
    def has_ratio(self) -> bool:
        return self.series >= RATIO_SINCE

    @property
    def clamp_follows_ratio(self) -> bool:
        """tcp_measure_rcv_mss() sets window_clamp with the ratio, 6.11."""
        return self.series >= CLAMP_FOLLOWS_SINCE

    @property
    def initial_limit_bytes(self) -> int:
        """tcp_select_initial_window() offers at most 64 KiB, until 6.9."""
        scale = 0 if self.series < (6, 10) else LARGEST_SCALE
        return LARGEST_UNSCALED_BYTES << scale

    def head_bytes(self, length: int) -> int:
        """The memory of an skb's linear part that holds `length` bytes, including its shared info:
        kmalloc_reserve(), since 6.3 with a cache of small heads."""
        wanted = -(-length // ALIGNED_BYTES) * ALIGNED_BYTES + SHARED_INFO_BYTES
        if self.series >= SMALL_HEADS_SINCE and wanted <= SMALL_HEAD_BYTES:
            return SMALL_HEAD_BYTES
        return next(size for size in KMALLOC_BYTES if size >= wanted)

    @property
    def keeps_reserve(self) -> bool:
        """sk_mem_uncharge() keeps up to 2 MiB reserved for the socket, until 5.19."""
        return self.series < (6, 0)

    @property
    def zero_window_at_once(self) -> bool:
        """tcp_select_window() offers a zero window after a drop for lack of memory, 6.6."""
        return self.series >= (6, 6)

    @property
    def measures_out_of_order(self) -> bool:
        """tcp_data_queue_ofo() also measures the MSS: in 6.12 since an update of the series."""
        return self.series >= (6, 12)

    @property
    def drops_beyond_window(self) -> bool:
        """tcp_sequence() rejects a segment that ends beyond the window, 6.17."""
        return self.series >= (6, 17)

    @property
    def compressed_ack_rtt_pct(self) -> int:
        """The delay of ACKs while segments are missing, as a share of the RTT:
        net.ipv4.tcp_comp_sack_rtt_percent, 6.19; a constant before."""
        return 33 if self.series >= (6, 19) else 5

    @property
    def set_rcvbuf_follows(self) -> bool:
        """SO_RCVBUF moves window_clamp: tcp_set_rcvbuf(), 7.1 (commit b025461303d8)."""
        return self.series >= (7, 1)


def rules(kernel: str) -> Rules:
    """The rules of a release such as `6.1.192-2`; BadInput for anything else."""
    return Rules(series(kernel))
