"""How long a connection takes to open its congestion window."""

from __future__ import annotations

from math import ceil, log2

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS, MSS_BYTES


def rounds(
    window_bytes: float,
    *,
    initial_segments: int = INITIAL_WINDOW_SEGMENTS,
    mss_bytes: int = MSS_BYTES,
) -> int:
    """Round trips with a smaller window before the first one with at least `window_bytes`.

    The first round trip carries the initial window, ten segments, and each next one twice as
    much; 11 to 25 MB.
    Source: RFC 6928 (initial window); RFC 5681 section 3.1 and net/ipv4/tcp_cong.c
    tcp_slow_start() (a segment more for every one that was acknowledged). Losses, cubic's early
    end of slow start on rising delay, and a receive buffer that grows more slowly are not in it.
    """
    first = initial_segments * mss_bytes
    return max(0, ceil(log2(window_bytes / first))) if window_bytes > 0 else 0


def slow_start_s(
    window_bytes: float,
    rtt_ms: float,
    *,
    initial_segments: int = INITIAL_WINDOW_SEGMENTS,
    mss_bytes: int = MSS_BYTES,
) -> float:
    """Seconds from the request until data of a full window begins to come.

    The answer's first bytes need one round trip themselves: 2.4 s to 25 MB at 200 ms.
    """
    before = rounds(window_bytes, initial_segments=initial_segments, mss_bytes=mss_bytes)
    return (1 + before) * rtt_ms / 1e3
