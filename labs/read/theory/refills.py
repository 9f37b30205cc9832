"""A simulation of one flow, refill by refill: the data in flight with a small send buffer.

Below 1 MiB a send buffer holds a few dozen packets, and no mean describes how its writer and the
acknowledgements alternate, which affects goodput by about a fifth. The alternation is therefore
simulated, for one flow without losses, in the steps that the kernel takes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from functools import lru_cache

from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import bytes_per_second
from labs.read.theory.bdp import HEADER_BYTES, INITIAL_WINDOW_SEGMENTS

GSO_MAX_BYTES = 65535
PACED_S = 1 / 1024
"""sk_pacing_shift is 10: a packet is as long as what is sent in about a millisecond."""
SLOW_START_PACE, LATER_PACE = 2.0, 1.2
"""net.ipv4.tcp_pacing_ss_ratio and tcp_pacing_ca_ratio: they delay nothing here, but determine the
length of packets."""
TRAIN_S, TRAIN_SLACK_S = 2e-3, 1e-3
"""Acknowledgements at most this far apart form one train; cubic ends slow start when a train has
lasted half a round trip (net/ipv4/tcp_cubic.c hystart_update())."""
LEAST_SEGMENTS = 2
"""net.ipv4.tcp_min_tso_segs."""
SOON_S = 1e-3
"""A short packet waits for an acknowledgement that is due by then."""
BURST_BYTES = 1600
"""What the shaped class may send at once after a pause: htb's cburst, as tc sets it."""
ROUNDS = 200
SETTLED = 0.6
"""The share of the rounds that precedes the measurement of goodput."""
KEPT_FLOWS = 1024


@lru_cache(maxsize=KEPT_FLOWS)
def refilled_bytes_s(
    sndbuf_bytes: int,
    window_bytes: int,
    *,
    rtt_ms: float,
    overhead_bytes: int,
    rate_mbit: float | None = None,
    mss_bytes: int = MSS_BYTES,
) -> float:
    """Steady goodput with a send buffer and a receive window, both of a fixed size.

    `overhead_bytes` is the memory of a sent packet besides its payload. Without a rate, the link
    takes no time. Valid while the window is not larger than the send buffer.
    Source: net/ipv4/tcp.c tcp_sendmsg_locked() (room is checked only when a new packet is
    begun, not when its tail is filled up), tcp_push_one(); net/ipv4/tcp_output.c tcp_write_xmit(),
    tcp_tso_autosize(), tcp_tso_should_defer(); net/core/stream.c sk_stream_write_space().
    """
    flow = _Flow(
        sndbuf_bytes,
        window_bytes,
        rtt_ms / 1e3,
        overhead_bytes,
        mss_bytes,
        0.0 if rate_mbit is None else (mss_bytes + HEADER_BYTES) / bytes_per_second(rate_mbit),
    )
    return flow.goodput_bytes_s()


class _Flow:
    """A sender, the packets in flight, and the acknowledgements; all lengths in segments."""

    def __init__(
        self,
        sndbuf_bytes: int,
        window_bytes: int,
        rtt_s: float,
        overhead_bytes: int,
        mss_bytes: int,
        segment_s: float,
    ) -> None:
        self.sndbuf_bytes, self.overhead_bytes, self.mss_bytes = (
            sndbuf_bytes,
            overhead_bytes,
            mss_bytes,
        )
        self.rtt_s, self.segment_s = rtt_s, segment_s
        self.window = max(1, window_bytes // mss_bytes)
        # A packet is built up to half a window (net/ipv4/tcp_output.c tcp_bound_to_half_wnd()).
        self.longest = max(1, min(GSO_MAX_BYTES, window_bytes // 2) // mss_bytes)
        self.now_s = self.line_free_s = 0.0
        self.credit_s = BURST_BYTES * segment_s / (mss_bytes + HEADER_BYTES)
        self.queued_bytes = 0
        self.unsent: deque[int] = deque()
        self.under_way: deque[tuple[float, int]] = deque()  # when acknowledged, how long
        self.in_flight = self.most_in_flight = 0
        self.congestion_window = INITIAL_WINDOW_SEGMENTS
        self.written = self.pushed = 0
        self.slow_start, self.acknowledged, self.round_ends = True, 0, 0
        self.round_began_s = self.last_s = 0.0

    def goodput_bytes_s(self) -> float:
        """The mean over the last rounds, in which nothing changes any more."""
        times, totals = [0.0], [0]
        round_s = self.rtt_s + self.window * self.segment_s
        self._write()
        while self.now_s < ROUNDS * round_s:
            self._acknowledge()
            times.append(self.now_s)
            totals.append(self.acknowledged)
        begin = bisect_left(times, SETTLED * times[-1])
        took_s = times[-1] - times[begin]
        return (totals[-1] - totals[begin]) * self.mss_bytes / took_s

    def _acknowledge(self) -> None:
        """The oldest packet's acknowledgement arrives: it frees room and lets others be sent."""
        self.now_s, length = self.under_way.popleft()
        self.acknowledged += length
        self.in_flight -= length
        self.queued_bytes -= length * self.mss_bytes + self.overhead_bytes
        if self.slow_start and self.congestion_window < 2 * self.most_in_flight:
            self.congestion_window += length
        self._watch_the_train()
        self._send()
        # The writer is woken when two thirds of its buffer are in use at most.
        if self.sndbuf_bytes - self.queued_bytes >= self.queued_bytes // 2:
            self._write()

    def _watch_the_train(self) -> None:
        """End slow start once acknowledgements have arrived for half an RTT without a gap."""
        if self.acknowledged > self.round_ends:
            self.round_ends = self.acknowledged + self.in_flight
            self.round_began_s = self.last_s = self.now_s
        if self.now_s - self.last_s <= TRAIN_S:
            self.last_s = self.now_s
            if self.now_s - self.round_began_s > (self.rtt_s + TRAIN_SLACK_S) / 2:
                self.slow_start = False

    def _write(self) -> None:
        """Write until a new packet would be needed and there is no room for one."""
        while True:
            if not self.unsent or self.unsent[-1] >= self.longest:
                if self.queued_bytes >= self.sndbuf_bytes:
                    break
                self.unsent.append(0)
                self.queued_bytes += self.overhead_bytes
            more = self.longest - self.unsent[-1]
            self.unsent[-1] += more
            self.written += more
            self.queued_bytes += more * self.mss_bytes
            if self.written - self.pushed > self.window // 2:
                self.pushed = self.written
                self._send()
            elif len(self.unsent) == 1:
                self._send(one=True)
        self._send()

    def _send(self, one: bool = False) -> None:
        """Send what the windows allow, in packets as long as pacing makes them."""
        pace = SLOW_START_PACE if self.slow_start else LATER_PACE
        paced = pace * self.congestion_window / self.rtt_s * PACED_S
        length = min(GSO_MAX_BYTES // self.mss_bytes, max(LEAST_SEGMENTS, int(paced)))
        while self.unsent:
            room = min(self.window, self.congestion_window) - self.in_flight
            if room <= 0 or (not one and self._waits(room, length)):
                break
            sent = min(self.unsent[0], length, room)
            if sent < self.unsent[0]:
                # What is split off becomes a packet of its own.
                self.unsent[0] -= sent
                self.queued_bytes += self.overhead_bytes
            else:
                self.unsent.popleft()
            self.in_flight += sent
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            # htb lets a packet go as a whole as soon as its class has credit.
            goes_s = max(self.line_free_s, self.now_s)
            self.line_free_s = max(self.line_free_s, self.now_s - self.credit_s) + (
                sent * self.segment_s
            )
            self.under_way.append((goes_s + self.rtt_s, sent))
            if one:
                break

    def _waits(self, room: int, length: int) -> bool:
        """Whether a short packet waits for an acknowledgement that is about to arrive."""
        head = self.unsent[0]
        if room >= length or (len(self.unsent) > 1 and room >= head) or room > head:
            return False
        if room >= min(self.window, self.congestion_window) // 3 or not self.under_way:
            return False
        return self.under_way[0][0] - self.now_s < min(SOON_S, self.rtt_s / 2)
