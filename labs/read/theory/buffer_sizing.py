"""How large the buffers of a path must be: the formulas, solved for the buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes

KIB = 1 << 10
LARGEST_BYTES = 1 << 31
DEFAULT_RMEM, DEFAULT_WMEM = (4096, 131072, 6291456), (4096, 16384, 4194304)
"""net.ipv4.tcp_rmem and tcp_wmem of Linux 4.18 to 6.15 with 2 GiB of memory or more."""


@dataclass(frozen=True)
class Advice:
    """The buffers with which one flow fills a path; sizes in bytes, whole KiB.

    `receive_bytes` and `send_bytes` are what getsockopt must return: half of each is requested with
    setsockopt. `receive_suffices` and `send_suffices`: the kernel's default maximum is enough.
    """

    bdp_bytes: float
    receive_bytes: int
    send_bytes: int

    @property
    def receive_suffices(self) -> bool:
        return self.receive_bytes <= DEFAULT_RMEM[-1]

    @property
    def send_suffices(self) -> bool:
        return self.send_bytes <= DEFAULT_WMEM[-1]

    def rmem(self) -> str:
        """net.ipv4.tcp_rmem for the receiver: its default, and a maximum that is large enough."""
        return _three(DEFAULT_RMEM, self.receive_bytes)

    def wmem(self) -> str:
        """net.ipv4.tcp_wmem for the sender."""
        return _three(DEFAULT_WMEM, self.send_bytes)


def advise(rate_mbit: float, rtt_ms: float, kernel: str, *, adv_win_scale: int = 1) -> Advice:
    """The smallest buffers that let one flow fill a line of this rate over this round trip.

    The receiver's window and the sender's bound must each hold a round trip's worth of payload.
    One kernel for both ends; LARGEST_BYTES where no buffer is enough.
    """
    needed = line_goodput_bytes_s(rate_mbit) * rtt_ms / 1e3
    return Advice(
        bdp_bytes=bdp_bytes(rate_mbit, rtt_ms),
        receive_bytes=_smallest(
            needed, lambda size: receive_window_bytes(size, kernel, adv_win_scale=adv_win_scale)
        ),
        send_bytes=_smallest(needed, lambda size: send_bound_bytes(size, kernel)),
    )


def _smallest(needed: float, held: Callable[[int], int]) -> int:
    """The smallest size in whole KiB with which `held` reaches what is needed, by bisection."""
    low, high = 1, LARGEST_BYTES // KIB
    while low < high:
        middle = (low + high) // 2
        if held(middle * KIB) >= needed:
            high = middle
        else:
            low = middle + 1
    return low * KIB


def _three(default: tuple[int, int, int], needed: int) -> str:
    smallest, first, largest = default
    return f"{smallest} {first} {max(largest, needed)}"
