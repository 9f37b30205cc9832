"""CUBIC with HyStart for a sender without losses: the congestion window in segments.

Source: net/ipv4/tcp_cubic.c bictcp_update(), hystart_update(), cubictcp_acked();
net/ipv4/tcp_cong.c tcp_slow_start(), tcp_cong_avoid_ai(). Times are in microseconds and jiffies.
"""

from __future__ import annotations

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.windows import series

HZ = 250
"""As in the kernels of distributions and in those built here."""
JIFFY_US = 1_000_000 // HZ
INFINITE = 0x7FFFFFFF
LOW_WINDOW_SEGMENTS = 16
ACK_DELTA_US = 2000
MIN_SAMPLES = 8
LEAST_RISE_US, MOST_RISE_US = 4000, 16000
FRIENDLY_EIGHTHS = 15
"""Eighths of a window that must be acknowledged for Reno to grow by one segment: beta 717/1024."""
CUBE_SCALE = 410
ROUNDS_BEGIN_EARLY_SINCE = (5, 15)
"""Older kernels let HyStart's first round begin in the middle of a train of ACKs, and so end slow
start too early (commit 25c1a9ca53db, Linux 6.14, which the stable kernels from 5.15 on have)."""
EARLY_COUNT = 20
"""Before the first loss the window grows by at least 5 % per round trip."""


class Cubic:
    """The congestion window and the threshold of slow start, both in segments."""

    def __init__(self, kernel: str) -> None:
        self.rounds_begin_early = series(kernel) >= ROUNDS_BEGIN_EARLY_SINCE
        self.cwnd, self.ssthresh = INITIAL_WINDOW_SEGMENTS, INFINITE
        self.found = False
        self.delay_min_us = 0
        self.round_start_us = self.last_ack_us = self.round_end = self.samples = 0
        self.round_rtt_us = INFINITE
        self.epoch_start = self.last_time = -1
        self.last_cwnd = self.origin = self.acked = self.friendly_cwnd = 0
        self.count = self.credit = 0

    @property
    def in_slow_start(self) -> bool:
        return self.cwnd < self.ssthresh

    def sample(self, now_us: int, rtt_us: int, una: int, nxt: int, ack_delay_us: float) -> None:
        """Take a measured RTT: slow start ends if acknowledgements have arrived for half an RTT
        without a gap, or if the RTT has risen."""
        if self.epoch_start >= 0 and now_us // JIFFY_US - self.epoch_start < HZ:
            return
        rtt_us = max(1, rtt_us)
        if not self.delay_min_us or rtt_us < self.delay_min_us:
            self.delay_min_us = rtt_us
        if self.found or not self.in_slow_start:
            return
        if self.cwnd < LOW_WINDOW_SEGMENTS and not self.rounds_begin_early:
            return
        if una > self.round_end:
            self.round_start_us = self.last_ack_us = now_us
            self.round_end, self.samples, self.round_rtt_us = nxt, 0, INFINITE
        if self.cwnd < LOW_WINDOW_SEGMENTS:
            return
        if now_us - self.last_ack_us <= ACK_DELTA_US:
            self.last_ack_us = now_us
            allowed_us = int(self.delay_min_us + ack_delay_us) >> 1
            self.found = now_us - self.round_start_us > allowed_us
        self.round_rtt_us = min(self.round_rtt_us, rtt_us)
        if self.samples < MIN_SAMPLES:
            self.samples += 1
        elif self.round_rtt_us > self.delay_min_us + min(
            max(self.delay_min_us >> 3, LEAST_RISE_US), MOST_RISE_US
        ):
            self.found = True
        if self.found:
            self.ssthresh = self.cwnd

    def grow(self, now_us: int, acked: int) -> None:
        """Grow after segments were acknowledged while the window limited the sender."""
        if self.in_slow_start:
            cwnd = min(self.cwnd + acked, self.ssthresh)
            acked -= cwnd - self.cwnd
            self.cwnd = cwnd
            if not acked:
                return
        self._update(now_us // JIFFY_US, acked)
        if self.credit >= self.count:
            self.credit = 0
            self.cwnd += 1
        self.credit += acked
        more, self.credit = divmod(self.credit, self.count)
        self.cwnd += more

    def _update(self, now: int, acked: int) -> None:
        """Compute how many acknowledged segments enlarge the window by one."""
        self.acked += acked
        if self.last_cwnd == self.cwnd and now - self.last_time <= HZ // 32:
            return
        if self.epoch_start < 0 or now != self.last_time:
            self.last_cwnd, self.last_time = self.cwnd, now
            if self.epoch_start < 0:
                self.epoch_start, self.acked = now, acked
                self.friendly_cwnd = self.origin = self.cwnd
            delay_min = -(-self.delay_min_us // JIFFY_US)  # as usecs_to_jiffies() rounds
            since = ((now - self.epoch_start + delay_min) << 10) // HZ
            above = self.origin + (CUBE_SCALE * since**3 >> 40) - self.cwnd
            self.count = min(self.cwnd // above, EARLY_COUNT) if above > 0 else EARLY_COUNT
        per = self.cwnd * FRIENDLY_EIGHTHS >> 3
        while self.acked > per:
            self.acked -= per
            self.friendly_cwnd += 1
        if self.friendly_cwnd > self.cwnd:
            self.count = min(self.count, self.cwnd // (self.friendly_cwnd - self.cwnd))
        self.count = max(self.count, 2)
