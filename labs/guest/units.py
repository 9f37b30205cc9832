"""Units of size, rate and time: their factors, and what a link carries in a time.

Names say the unit: `_mib` is 2^20 bytes, `_mbit` 10^6 bits per second, `_ms` and `_ns` are times.
"""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MB = 10**6
"""A megabyte as articles and disks count it."""

MILLISECOND_NS, SECOND_NS = 10**6, 10**9


def bytes_per_second(rate_mbit: float) -> float:
    """A rate in bytes: 125,000,000 for 1000 Mbit/s."""
    return rate_mbit * 1e6 / 8


def bytes_carried(rate_mbit: float, time_ms: float) -> float:
    """What a link of this rate carries in a time; in one round trip it is the BDP."""
    return bytes_per_second(rate_mbit) * time_ms / 1e3
