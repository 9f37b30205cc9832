"""Reno, and CUBIC with HyStart: the congestion window in segments.

Source: net/ipv4/tcp_cong.c tcp_slow_start(), tcp_cong_avoid_ai(), tcp_reno_cong_avoid(),
tcp_reno_ssthresh(); net/ipv4/tcp_cubic.c bictcp_update(), hystart_update(), cubictcp_acked(),
cubictcp_recalc_ssthresh(), cubictcp_state(). Times are in microseconds and jiffies.
"""

from __future__ import annotations

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.bulk_send_queue import GSO_MAX_BYTES
from labs.read.theory.kernels import ROUNDS_BEGIN_EARLY

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


HZ = 250
"""As in the kernels of distributions and in those built here."""
JIFFY_US = 1_000_000 // HZ
LOW_WINDOW_SEGMENTS = 16
ACK_DELTA_US = 2000
MIN_SAMPLES = 8
LEAST_RISE_US, MOST_RISE_US = 4000, 16000
MOST_ACK_DELAY_US = 1000
BETA, BETA_SCALE = 717, 1024
"""What remains of the window after a loss."""
FRIENDLY_EIGHTHS = 15
"""Eighths of a window that must be acknowledged for Reno to grow by one segment, with that beta."""
CUBE_SCALE = 410
SLOWEST = 100
"""At its target the window grows by one segment per hundred windows."""
EARLY_COUNT = 20
"""Before the first loss the window grows by at least 5 % per round trip."""


class Cubic(Reno):
    """The congestion window and the threshold of slow start, both in segments."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self.rounds_begin_early = ROUNDS_BEGIN_EARLY.holds(kernel)
        self.round_end = 0
        self._reset()

    def _reset(self) -> None:
        self.slow_start_ended = False
        self.delay_min_us = 0
        self.round_start_us = self.last_ack_us = self.samples = 0
        self.round_rtt_us = INFINITE
        self.epoch_start = self.last_time = -1
        self.last_cwnd = self.last_max = self.origin = self.reaches = 0
        self.acked = self.friendly_cwnd = self.count = 0

    def sample(self, now_us: int, rtt_us: int, una: int, nxt: int, pacing_bytes_s: int) -> None:
        """Take a measured RTT: slow start ends if acknowledgements have arrived for half an RTT
        without a gap, or if the RTT has risen."""
        if self.epoch_start >= 0 and now_us // JIFFY_US - self.epoch_start < HZ:
            return
        if rtt_us < 1:
            rtt_us = 1
        if not self.delay_min_us or rtt_us < self.delay_min_us:
            self.delay_min_us = rtt_us
        if self.slow_start_ended or self.cwnd >= self.ssthresh:
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
            # How long ACKs may be delayed by the sizes of packets (hystart_ack_delay()).
            delay_us: float = MOST_ACK_DELAY_US
            if MOST_ACK_DELAY_US * pacing_bytes_s > GSO_MAX_BYTES * 4 * 1_000_000:
                delay_us = GSO_MAX_BYTES * 4 * 1_000_000 / pacing_bytes_s
            allowed_us = int(self.delay_min_us + delay_us) >> 1
            self.slow_start_ended = now_us - self.round_start_us > allowed_us
        if rtt_us < self.round_rtt_us:
            self.round_rtt_us = rtt_us
        if self.samples < MIN_SAMPLES:
            self.samples += 1
        elif self.round_rtt_us > self.delay_min_us + min(
            max(self.delay_min_us >> 3, LEAST_RISE_US), MOST_RISE_US
        ):
            self.slow_start_ended = True
        if self.slow_start_ended:
            self.ssthresh = self.cwnd

    def threshold(self) -> int:
        """The threshold after a loss. If the window had not reached its former maximum again, the
        next one is lower, so that other flows find room."""
        self.epoch_start = -1
        fast = self.cwnd < self.last_max
        self.last_max = self.cwnd * (BETA_SCALE + BETA) // (2 * BETA_SCALE) if fast else self.cwnd
        return max(self.cwnd * BETA // BETA_SCALE, LEAST_THRESHOLD_SEGMENTS)

    def timed_out(self) -> None:
        """A retransmission timeout, after which CUBIC begins anew."""
        self._reset()

    def _segments_per_step(self, now_us: int, acked: int) -> int:
        now = now_us // JIFFY_US
        self.acked += acked
        if self.last_cwnd == self.cwnd and now - self.last_time <= HZ // 32:
            return self.count
        if self.epoch_start < 0 or now != self.last_time:
            self.last_cwnd, self.last_time = self.cwnd, now
            if self.epoch_start < 0:
                self.epoch_start, self.acked = now, acked
                self.friendly_cwnd = self.cwnd
                missing = max(self.last_max - self.cwnd, 0)
                self.origin = self.cwnd + missing
                self.reaches = round(((1 << 40) // CUBE_SCALE * missing) ** (1 / 3))
            delay_min = -(-self.delay_min_us // JIFFY_US)  # as usecs_to_jiffies() rounds
            since = ((now - self.epoch_start + delay_min) << 10) // HZ
            away = CUBE_SCALE * abs(since - self.reaches) ** 3 >> 40
            above = self.origin + (away if since >= self.reaches else -away) - self.cwnd
            self.count = self.cwnd // above if above > 0 else SLOWEST * self.cwnd
            if not self.last_max:
                self.count = min(self.count, EARLY_COUNT)
        per = self.cwnd * FRIENDLY_EIGHTHS >> 3
        while self.acked > per:
            self.acked -= per
            self.friendly_cwnd += 1
        if self.friendly_cwnd > self.cwnd:
            self.count = min(self.count, self.cwnd // (self.friendly_cwnd - self.cwnd))
        self.count = max(self.count, 2)
        return self.count
