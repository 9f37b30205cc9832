"""The shaped link of a bulk flow: a delay, a rate, and what it drops.

Source: net/sched/sch_netem.c netem_enqueue(); net/sched/sch_htb.c htb_dequeue(). Times are in
nanoseconds, sizes in bytes.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from random import Random

from labs.read.theory.bdp import HEADER_BYTES

NEVER_NS = NO_LIMIT = 1 << 62


@dataclass(slots=True, eq=False)
class Sent:
    """A packet that its sender keeps until it is acknowledged."""

    end: int
    length: int
    segments: int
    sent_ns: int
    state: int = 0


@dataclass(slots=True)
class Packet:
    """A packet in flight. `echoed_ms` is the time of the ACK whose timestamp it repeats."""

    arrives_ns: int
    begin: int
    length: int
    push: bool
    echoed_ms: int


class Link:
    """The packets in flight, and when the shaper is free again. With `segment_bytes` (0: no)
    packets are split into segments before the shaper. `most_queued` is the most packets that it
    held. `idle_until_ns`, `idle_ns` and `idle_because` say when the link was no longer idle, for
    how long it was, and why nothing was sent. Segments are dropped at random, with the probability
    `loss`, and if the queue holds `limit` of them: `overflowed` of the `dropped` ones."""

    packets: deque[Packet]
    idle_because: list[str]

    def __init__(
        self,
        rtt_ns: int,
        byte_ns: float,
        credit_bytes: int,
        segment_bytes: int,
        *,
        limit: int,
        loss: float,
        random: Random,
    ) -> None:
        self.rtt_ns, self.byte_ns = rtt_ns, byte_ns
        self.credit_bytes, self.segment_bytes = credit_bytes, segment_bytes
        self.limit, self.loss, self.random = limit, loss, random
        self.free_ns = 0.0
        self.most_queued = self.overflowed = self.dropped = 0
        self.packets, self.idle_because = deque(), []
        self.idle_until_ns: array[int] = array("q")
        self.idle_ns: array[float] = array("d")

    def send(self, now_ns: int, packet: Sent, push: bool, echoed_ms: int, waited: str) -> bool:
        """htb sends a packet as a whole as soon as its class has credit. Returns whether the packet
        was queued: what the sender's own queue refuses, the sender still has."""
        packets = self.packets
        if not self.segment_bytes and not self._takes():
            return False
        ready_ns = goes_ns = float(now_ns + self.rtt_ns)
        if self.free_ns > goes_ns:
            goes_ns = self.free_ns
        if packets and packets[-1].arrives_ns > goes_ns:
            goes_ns = float(packets[-1].arrives_ns)
        if ready_ns > self.free_ns:
            self.idle_until_ns.append(round(goes_ns))
            self.idle_ns.append(ready_ns - self.free_ns)
            self.idle_because.append(waited)
        begin = packet.end - packet.length
        if not self.segment_bytes:
            size = packet.length + packet.segments * HEADER_BYTES
            spent_ns = goes_ns - self.credit_bytes * self.byte_ns
            if self.free_ns > spent_ns:
                spent_ns = self.free_ns
            self.free_ns = spent_ns + size * self.byte_ns
            packets.append(Packet(round(goes_ns), begin, packet.length, push, echoed_ms))
        else:
            for at in range(begin, packet.end, self.segment_bytes):
                length = min(self.segment_bytes, packet.end - at)
                if not self._takes():
                    continue
                goes_ns = max(goes_ns, self.free_ns)
                spent_ns = goes_ns - self.credit_bytes * self.byte_ns
                taken_ns = (length + HEADER_BYTES) * self.byte_ns
                self.free_ns = max(self.free_ns, spent_ns) + taken_ns
                last = at + length == packet.end
                packets.append(Packet(round(goes_ns), at, length, push and last, echoed_ms))
        if len(packets) > self.most_queued:
            self.most_queued = len(packets)
        return True

    def holds(self, end: int) -> bool:
        """Whether a packet with this end is still in the sender's own queue
        (skb_still_in_host_queue())."""
        if not self.segment_bytes:
            for packet in self.packets:
                if packet.begin + packet.length == end:
                    return True
        return False

    def _takes(self) -> bool:
        """Whether the queue takes a segment."""
        lost = self.loss > 0 and self.random.random() < self.loss
        if lost or len(self.packets) >= self.limit:
            self.dropped += 1
            if not lost:
                self.overflowed += 1
            return False
        return True
