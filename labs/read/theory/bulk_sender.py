"""The sending end of one bulk flow: when packets leave, and what acknowledgements change.

Source: net/ipv4/tcp_output.c tcp_write_xmit(),
tcp_tso_autosize(), tcp_tso_should_defer(), tcp_mss_split_point(), tcp_nagle_check(),
tcp_grow_skb(), tcp_cwnd_validate(); net/ipv4/tcp_input.c tcp_sndbuf_expand(),
tcp_update_pacing_rate(); net/core/stream.c sk_stream_write_space().
Times are in nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque

from labs.read.theory.bdp import INITIAL_WINDOW_SEGMENTS
from labs.read.theory.bulk_link import NEVER_NS, Link, Sent
from labs.read.theory.bulk_send_queue import CORK, GSO_MAX_BYTES, NAGLE, SendQueue
from labs.read.theory.congestion import Cubic, Reno
from labs.read.theory.kernels import GROWS_PACKETS, SIZES_BY_RTT
from labs.read.theory.receiver import LEAST_RTO_US, TIMESTAMP_BYTES
from labs.read.theory.windows import (
    SENT_HEADER_BYTES,
    SHARED_INFO_BYTES,
    SK_BUFF_BYTES,
    segment_overhead_bytes,
)

PACING_SHIFT, RTT_SHIFT, LARGEST_RTT_SHIFT = 10, 9, 32
"""A packet holds the bytes that are sent in 1/1024 s, and more if the RTT is below 16 ms
(sk_pacing_shift, net.ipv4.tcp_tso_rtt_log)."""
SLOW_START_PACE_PCT, LATER_PACE_PCT = 200, 120
"""net.ipv4.tcp_pacing_ss_ratio and tcp_pacing_ca_ratio: without fq they only size packets."""
LEAST_TSO_SEGMENTS = 2
"""net.ipv4.tcp_min_tso_segs."""
TSO_WIN_DIVISOR, DEFER_NS = 3, 1_000_000
"""net.ipv4.tcp_tso_win_divisor; a packet waits for an ACK that is due within a millisecond."""
TICK_NS, TICK_US = 4_000_000, 4000
"""HZ = 250, as in the kernels of distributions and in those built here."""
LEAST_PROBE_US = 2000

RECEIVE_WINDOW, SEND_BUFFER = "receive window", "send buffer"
WAKE_UP, CONGESTION_WINDOW = "sender's wake-up", "congestion window"
SLOW_START, NAGLE_HOLDS = "slow start", "Nagle"
"""Why nothing more was sent."""


def ticks(microseconds: int) -> int:
    """usecs_to_jiffies(), which rounds up."""
    return -(-microseconds // TICK_US)


class Sender(SendQueue):
    """The queue of a sender, its packets in flight, and its estimates. `heard_ns` is the time of
    the last ACK."""

    flight: deque[Sent]

    def __init__(
        self,
        kernel: str,
        *,
        mss_bytes: int,
        tcp_wmem: tuple[int, int, int],
        sndbuf_bytes: int,
        locked: bool,
        edge: int,
        rtt_us: int,
        reno: bool,
        link: Link,
        heard_ns: int,
    ) -> None:
        super().__init__(
            mss_bytes=mss_bytes,
            overhead=segment_overhead_bytes(kernel),
            sndbuf_bytes=sndbuf_bytes,
            edge=edge,
        )
        self.grows_packets = GROWS_PACKETS.holds(kernel)
        self.sizes_by_rtt = SIZES_BY_RTT.holds(kernel)
        self.control = Reno() if reno else Cubic(kernel)
        self.locked, self.largest = locked, tcp_wmem[2]
        self.link, self.heard_ns = link, heard_ns
        self.una = self.nxt = self.small_end = 0
        self.edge = edge
        self.flight = deque()
        self.packets = self.left = 0
        self.woken, self.closed = False, False
        self.stopped_by = SLOW_START
        self.srtt_us8, self.min_rtt_us = rtt_us << 3, max(rtt_us, 1)
        self.mdev_us4 = rtt_us << 1
        self.rttvar_us = self.mdev_max_us = max(self.mdev_us4, LEAST_RTO_US)
        self.rtt_end = 0
        self.probe_ns, self.probed = NEVER_NS, 0
        self.pacing_bytes_s = 0
        self._pace()
        self.last_sent_ns = -10 * DEFER_NS
        self.cwnd_limited = False
        self.most_packets = self.usage_end = self.cwnd_used = 0
        self.cwnd_stamp = 0
        per_mss = mss_bytes + TIMESTAMP_BYTES + SENT_HEADER_BYTES + SHARED_INFO_BYTES
        self.per_segment = (1 << (per_mss - 1).bit_length()) + SK_BUFF_BYTES
        if not self.locked:
            self._expand()

    # What may leave.

    def _transmit_some(
        self, now_ns: int, nagle: int, push_one: bool = False, probes: bool = False
    ) -> None:
        mss, unsent, cwnd = self.mss, self.unsent, self.control.cwnd
        most_packets, largest = cwnd + self.left, min(cwnd >> 1, self.most_segments)
        sent, stopped = 0, ""
        while unsent:
            quota = most_packets - self.packets
            if quota <= 0 and not probes:
                stopped = SLOW_START if cwnd < self.control.ssthresh else CONGESTION_WINDOW
                break
            quota = quota if quota < largest else largest
            if quota < 1:
                quota = 1
            if self.grows_packets and unsent[0] < quota * mss and len(unsent) > 1:
                self._grow_head(quota * mss)
            length = unsent[0]
            if self.nxt + (length if length < mss else mss) > self.edge:
                stopped = RECEIVE_WINDOW
                break
            if length <= mss:
                if length < mss and len(unsent) == 1 and not self.closed and self._held(nagle):
                    stopped = NAGLE_HOLDS
                    break
                limit = mss
            else:
                if not push_one and self.flight and now_ns - self.last_sent_ns <= DEFER_NS:
                    stopped = self._deferred_by(now_ns, length)
                    if stopped:
                        break
                limit = self._split_point(length, quota, nagle)
            if length > limit:
                unsent[0] = length - limit
                self.queued += self.overhead
                length = limit
                if not length:
                    unsent.appendleft(0)
                    break
            elif not length:
                break
            else:
                unsent.popleft()
            self.nxt += length
            segments = -(-length // mss)
            packet = Sent(self.nxt, length, segments, now_ns)
            self.flight.append(packet)
            self.packets += segments
            self.last_sent_ns = now_ns
            if length < segments * mss:
                self.small_end = self.nxt
            sent += segments
            marked = bool(self.marks) and self.marks[0] <= self.nxt and self._marked()
            if not self.transmit(now_ns, packet, marked or segments > 1):
                self._refused(packet)
                break
            if self.no_space:
                self._check_space()
            if push_one:
                break
        self._stopped(now_ns, stopped, sent, self.packets >= most_packets, probes)

    def _stopped(self, now_ns: int, by: str, sent: int, full: bool, probes: bool) -> None:
        """Note what stopped the sender (`full`: the congestion window), after so many segments."""
        limited = full or by == CONGESTION_WINDOW
        if not by or (by == NAGLE_HOLDS and self.no_space):
            by = SEND_BUFFER if self.queued >= self.sndbuf else WAKE_UP
        self.stopped_by = by
        if sent or limited:
            self._validate(now_ns, limited)
        if sent and not probes:
            self._schedule_probe(now_ns)

    def transmit(self, now_ns: int, packet: Sent, push: bool) -> bool:
        """Put a packet on the link, with or without the flag PSH, and return whether it was
        queued."""
        return self.link.send(now_ns, packet, push, self.heard_ns // 1_000_000, self.stopped_by)

    def _refused(self, packet: Sent) -> None:
        """The sender's own queue has no room: the packet is sent later."""
        self.flight.pop()
        self.packets -= packet.segments
        self.nxt -= packet.length
        self.unsent.appendleft(packet.length)

    def _marked(self) -> bool:
        """Whether the flag PSH is due at the end of this packet. (It is always set on packets of
        several segments.)"""
        marked = False
        while self.marks and self.marks[0] <= self.nxt:
            marked = self.marks.popleft() == self.nxt
        return marked

    def _grow_head(self, wanted: int) -> None:
        """tcp_grow_skb(): a short head takes bytes from the next packet, and keeps its PSH."""
        missing = wanted - self.unsent[0]
        if missing > 0:
            unsent = self.unsent
            moved = min(missing, unsent[1])
            if self.marks and self.marks[0] == self.nxt + unsent[0]:
                self.marks[0] += moved
                if len(self.marks) > 1 and self.marks[1] == self.marks[0]:
                    self.marks.popleft()
            grown = unsent.popleft() + moved
            unsent[0] -= moved
            if unsent[0]:
                unsent.appendleft(grown)
            else:
                unsent[0] = grown
                self.queued -= self.overhead

    def _held(self, nagle: int) -> bool:
        if nagle == NAGLE:
            return self.packets > 0 and self.una < self.small_end <= self.nxt
        return nagle == CORK

    def _split_point(self, length: int, most_segments: int, nagle: int) -> int:
        window = self.edge - self.nxt
        most = self.mss * most_segments
        if most <= window and len(self.unsent) > 1:
            return most
        needed = min(length, window)
        if most <= needed:
            return most
        partial = needed % self.mss
        return needed - partial if partial and self._held(nagle) else needed

    def _deferred_by(self, now_ns: int, length: int) -> str:
        """The window for which to wait for more to send; empty to send now. (Something was sent
        within the last millisecond, and is in flight.)"""
        mss, cwnd = self.mss, self.control.cwnd
        window = self.edge - self.nxt
        congestion = (cwnd + self.left - self.packets) * mss
        limit = window if window < congestion else congestion
        if limit >= self.most_segments * mss or (limit >= length and len(self.unsent) > 1):
            return ""
        usable = self.edge - self.una
        if usable > cwnd * mss:
            usable = cwnd * mss
        if limit >= usable // TSO_WIN_DIVISOR:
            return ""
        srtt_ns = self.srtt_us8 * 125
        ack_in_ns = self.flight[0].sent_ns + srtt_ns - now_ns
        if ack_in_ns > DEFER_NS or ack_in_ns > srtt_ns >> 1:
            return ""
        by_cwnd = congestion < window and congestion <= length
        return CONGESTION_WINDOW if by_cwnd else RECEIVE_WINDOW

    def _validate(self, now_ns: int, limited: bool) -> None:
        if (
            limited
            or self.una >= self.usage_end
            or (not self.cwnd_limited and self.packets > self.most_packets)
        ):
            self.cwnd_limited, self.most_packets = limited, self.packets
            self.usage_end = self.nxt
        tick = now_ns // TICK_NS
        if self._is_limited():
            self.cwnd_used, self.cwnd_stamp = 0, tick
            return
        if self.packets > self.cwnd_used:
            self.cwnd_used = self.packets
        if tick - self.cwnd_stamp >= ticks((self.srtt_us8 >> 3) + self.rttvar_us):
            if not self.no_space:
                used = max(self.cwnd_used, INITIAL_WINDOW_SEGMENTS)
                if used < self.control.cwnd:
                    self.control.ssthresh = max(self.control.ssthresh, self.control.cwnd * 3 >> 2)
                    self.control.cwnd = self.control.cwnd + used >> 1
                self.cwnd_used = 0
            self.cwnd_stamp = tick

    def _is_limited(self) -> bool:
        if self.cwnd_limited:
            return True
        cwnd = self.control.cwnd
        return cwnd < self.control.ssthresh and cwnd < 2 * self.most_packets

    # What acknowledgements change.

    @abstractmethod
    def _schedule_probe(self, now_ns: int) -> None:
        """Set the timer for the case that no ACK arrives."""

    def _rtt(self, now_ns: int, sent_ns: int) -> None:
        sample = max(1, now_ns // 1000 - sent_ns // 1000)
        if sample < self.min_rtt_us:
            self.min_rtt_us = sample
        error = sample - (self.srtt_us8 >> 3)
        self.srtt_us8 += error
        change = abs(error) - (self.mdev_us4 >> 2)
        # A falling RTT changes the estimate slowly.
        self.mdev_us4 += change >> 3 if error < 0 < change else change
        if self.mdev_us4 > self.mdev_max_us:
            self.mdev_max_us = self.mdev_us4
            self.rttvar_us = max(self.rttvar_us, self.mdev_max_us)
        if self.una > self.rtt_end:
            if self.mdev_max_us < self.rttvar_us:
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2
            self.rtt_end, self.mdev_max_us = self.nxt, LEAST_RTO_US

    def _pace(self) -> None:
        """tcp_update_pacing_rate(), and how many segments the longest packet holds then."""
        cwnd, packets = self.control.cwnd, self.packets
        ratio = SLOW_START_PACE_PCT if cwnd < self.control.ssthresh // 2 else LATER_PACE_PCT
        most = cwnd if cwnd > packets else packets
        rate = self.mss * (1_000_000 // 100 << 3) * ratio * most
        self.pacing_bytes_s = rate // max(self.srtt_us8, 1)
        size = self.pacing_bytes_s >> PACING_SHIFT
        shift = self.min_rtt_us >> RTT_SHIFT
        if shift < LARGEST_RTT_SHIFT and self.sizes_by_rtt:
            size += GSO_MAX_BYTES >> shift
        if size > GSO_MAX_BYTES:
            size = GSO_MAX_BYTES
        segments = size // self.mss
        self.most_segments = segments if segments > LEAST_TSO_SEGMENTS else LEAST_TSO_SEGMENTS

    def _check_space(self, now_ns: int = -1) -> None:
        if not self.locked and self.packets < self.control.cwnd + self.left:
            self._expand()
            if now_ns >= 0:
                self.cwnd_stamp = now_ns // TICK_NS
        if self.writeable():
            self.no_space, self.woken = False, True

    def _expand(self) -> None:
        if self.sndbuf != self.largest:
            wanted = 2 * max(INITIAL_WINDOW_SEGMENTS, self.control.cwnd) * self.per_segment
            if self.sndbuf < wanted:
                self.sndbuf = min(wanted, self.largest)
