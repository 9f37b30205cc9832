"""Reno: the congestion window in segments, and what every congestion control here has in common.

Source: net/ipv4/tcp_cong.c tcp_slow_start(), tcp_cong_avoid_ai(), tcp_reno_cong_avoid(),
tcp_reno_ssthresh().
"""

from __future__ import annotations

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS

INFINITE = 0x7FFFFFFF
LEAST_THRESHOLD_SEGMENTS = 2


class Reno:
    """The congestion window and the threshold of slow start, both in segments."""

    def __init__(self) -> None:
        self.cwnd, self.ssthresh = INITIAL_WINDOW_SEGMENTS, INFINITE
        self.credit = 0

    def sample(self, now_us: int, rtt_us: int, una: int, nxt: int, pacing_bytes_s: int) -> None:
        """Take a measured RTT, which Reno does not use."""

    def grow(self, now_us: int, acked: int) -> None:
        """Grow after segments were acknowledged while the window limited the sender."""
        if self.cwnd < self.ssthresh:
            cwnd = min(self.cwnd + acked, self.ssthresh)
            acked -= cwnd - self.cwnd
            self.cwnd = cwnd
            if not acked:
                return
        per = self._segments_per_step(now_us, acked)
        if self.credit >= per:
            self.credit = 0
            self.cwnd += 1
        self.credit += acked
        self.cwnd += self.credit // per
        self.credit %= per

    def _segments_per_step(self, now_us: int, acked: int) -> int:
        """How many acknowledged segments enlarge the window by one."""
        return self.cwnd

    def threshold(self) -> int:
        """The threshold of slow start after a loss."""
        return max(self.cwnd >> 1, LEAST_THRESHOLD_SEGMENTS)

    def timed_out(self) -> None:
        """A retransmission timeout, after which Reno forgets nothing."""
