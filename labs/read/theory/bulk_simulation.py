"""Both ends of a bulk flow and its link, from the first write to the last arrival."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from labs.drive.record.sources import TRANSLATOR, digest_of_code, of_this_python
from labs.guest.units import SECOND_NS, bytes_per_second
from labs.read.native.objects import performed_as_c
from labs.read.theory.bdp import HEADER_BYTES
from labs.read.theory.bulk_flow import CUBIC, RENO, Flow, buffers
from labs.read.theory.bulk_link import NEVER_NS, NO_LIMIT, Link
from labs.read.theory.bulk_programs import Blocks, File, Reader, Writer
from labs.read.theory.bulk_receiver import BulkReceiver
from labs.read.theory.bulk_recovery import RecoveringSender
from labs.read.theory.kernels import WRITES_SOONER, default_core_max_bytes
from labs.read.theory.receiver import CONNECTS, TIMESTAMP_BYTES, Setup

DIGEST = of_this_python(digest_of_code("labs.read.theory.bulk", TRANSLATOR))
"""Of the model as this process has imported it, whoever edits it later."""
HTB_CBURST_BYTES = 1600
"""The bytes that the shaped class may send at once after a pause: htb's cburst, as tc sets it."""
READING_NS, WRITING_NS = 300, 2800
"""How long after its kernel woke it a program reads or writes: on virtual time some readings of the
clock, of 256 ns each, and on machines not much more."""
READS_BETWEEN_PACKETS = 0.5
"""With `reads_by_chance`, how often a program reads before the next packet of a burst arrives. On
virtual time these are 0 to 0.8 us apart."""
SLOW_WRITING_NS = 9500
"""Before `WRITES_SOONER`."""
LEAST_PACKETS, MOST_ARRIVED = 2500, 0.3
EPOCH_ROUND_TRIPS, BUSY_EPOCHS = 4, 2
SAME_EPOCHS, SAME = 5, 0.002
MANY_EPOCHS, SAME_MANY = 6, 0.001
"""A flow is settled if the link was not idle for two periods of four round trips, if its rate was
the same, within 0.2 %, in five of them, or in six as in the six before, within 0.1 %. What is left
is then computed, unless fewer than 2,500 packets or more than 30 % of the transfer have arrived."""


@dataclass(slots=True)
class Note:
    """The progress of a flow at one time: the payload that arrived, and how often the link was
    idle."""

    at_ns: int
    received: int
    idle: int


class Epochs:
    """The progress of a flow at the ends of periods of some round trips."""

    notes: deque[Note]

    def __init__(self, link: Link, *, enabled: bool) -> None:
        self.link = link
        self.length_ns = EPOCH_ROUND_TRIPS * link.rtt_ns
        self.ends_ns = 0 if enabled else NEVER_NS
        self.notes = deque()
        self.bytes_per_ns = 0.0

    def settled(self, now_ns: int, received: int) -> bool:
        """Note the progress, and return whether the rate no longer changes: the link was never
        idle, the last periods are the same, or many of them the same as as many before."""
        self.ends_ns = now_ns + self.length_ns
        notes = self.notes
        last = len(notes)
        notes.append(Note(now_ns, received, len(self.link.idle_ns)))
        if last >= BUSY_EPOCHS and notes[last].idle == notes[last - BUSY_EPOCHS].idle:
            self.bytes_per_ns = self._rate(last - BUSY_EPOCHS, last)
            return self.bytes_per_ns > 0
        if last >= SAME_EPOCHS:
            least = most = self._rate(last - 1, last)
            for note in range(last - SAME_EPOCHS, last - 1):
                rate = self._rate(note, note + 1)
                least, most = min(least, rate), max(most, rate)
            if most - least <= SAME * most:
                self.bytes_per_ns = self._rate(last - SAME_EPOCHS, last)
                return self.bytes_per_ns > 0
        if last >= 2 * MANY_EPOCHS:
            before = self._rate(last - 2 * MANY_EPOCHS, last - MANY_EPOCHS)
            after = self._rate(last - MANY_EPOCHS, last)
            if abs(after - before) <= SAME_MANY * after:
                self.bytes_per_ns = self._rate(last - 2 * MANY_EPOCHS, last)
                return self.bytes_per_ns > 0
        return False

    def _rate(self, first: int, last: int) -> float:
        """Bytes per nanosecond between two notes."""
        begin, end = self.notes[first], self.notes[last]
        return (end.received - begin.received) / (end.at_ns - begin.at_ns)


class Simulation:
    """Both ends and the link, from the first write on; with `drops` the link loses what the flow
    says, by chance or because its queue is full."""

    def __init__(
        self,
        flow: Flow,
        transfer_bytes: int,
        *,
        drops: bool = False,
        seed: int = 0,
        credit_bytes: int = HTB_CBURST_BYTES,
        phase_ns: int = 0,
        writing_ns: int | None = None,
        reading_ns: int = READING_NS,
        reads_by_chance: int = 0,
    ) -> None:
        self.flow, self.transfer_bytes = flow, transfer_bytes
        soon = WRITES_SOONER.holds(flow.kernel)
        self.writing_ns = writing_ns or (WRITING_NS if soon else SLOW_WRITING_NS)
        self.reading_ns = reading_ns
        self.by_chance, self.chance = reads_by_chance > 0, Random(reads_by_chance)
        self.rtt_ns = round(flow.rtt_ms * 1e6)
        began_ns = 2 * self.rtt_ns + phase_ns
        limit_s = flow.limit_s
        self.ends_ns = NEVER_NS if limit_s is None else began_ns + round(limit_s * SECOND_NS)
        self.drops = drops
        self.link = self._link(credit_bytes, Random(seed))
        self.receiver = BulkReceiver(self._setup(), self, now_ns=began_ns)
        self.sender = self._sender(began_ns)
        self.writer: Writer = (
            File(self.sender, flow.kernel, flow.header_bytes, transfer_bytes, flow.keep_alive)
            if flow.header_bytes
            else Blocks(self.sender, flow.write_bytes, flow.writes_per_wake, flow.nodelay)
        )
        self.reader = Reader(flow, self.receiver)
        if flow.header_bytes:
            # The ACK of the request.
            spent_ns = self.link.byte_ns * (HEADER_BYTES - credit_bytes)
            self.link.free_ns = began_ns + self.rtt_ns + spent_ns
        self.settles, self.now_ns = False, 0
        self.settled_ns: int | None = None
        self.times_ns: array[int] = array("q")
        self.had_bytes: array[int] = array("q")

    def _link(self, credit_bytes: int, random: Random) -> Link:
        flow, limited = self.flow, self.drops and self.flow.queue_packets is not None
        return Link(
            self.rtt_ns,
            1e9 / bytes_per_second(flow.rate_mbit),
            credit_bytes,
            0 if flow.offloads else flow.mss_bytes,
            limit=(flow.queue_packets or 0) if limited else NO_LIMIT,
            loss=flow.loss_pct / 100 if self.drops else 0.0,
            random=random,
        )

    def _setup(self) -> Setup:
        """The receiver is the end that connects: wget, and iperf3 with -R."""
        flow, (rmem, _) = self.flow, buffers(self.flow)
        return Setup(
            kernel=flow.kernel,
            role=CONNECTS,
            mss_bytes=flow.mss_bytes + TIMESTAMP_BYTES,
            timestamps=True,
            rcvbuf_bytes=rmem[1] if flow.rcvbuf_bytes is None else flow.rcvbuf_bytes,
            locked=flow.rcvbuf_locked,
            rmem_max_bytes=rmem[2],
            core_max_bytes=flow.core_max_bytes or default_core_max_bytes(flow.kernel),
            adv_win_scale=flow.adv_win_scale,
            rtt_ms=flow.rtt_ms,
        )

    def _sender(self, now_ns: int) -> RecoveringSender:
        flow, (_, wmem) = self.flow, buffers(self.flow)
        return RecoveringSender(
            flow.kernel,
            mss_bytes=flow.mss_bytes,
            tcp_wmem=wmem,
            sndbuf_bytes=wmem[1] if flow.sndbuf_bytes is None else flow.sndbuf_bytes,
            locked=flow.sndbuf_locked,
            edge=self.receiver.acknowledge()[1],
            rtt_us=self.rtt_ns // 1000,
            reno=flow.congestion == RENO,
            link=self.link,
            heard_ns=now_ns,
        )

    def run(self, *, whole: bool = False) -> None:
        """Run until the receiver has all (a writer without a file would continue), or until the
        flow is settled, unless the `whole` transfer is wanted: what is left arrives at its rate."""
        extrapolates = not (whole or self.drops or self.flow.pause_ms or self.flow.limit_s)
        self.epochs = Epochs(self.link, enabled=extrapolates)
        if not performed_as_c(self._events):
            self._events()
        if self.settles:
            self._extrapolate(self.now_ns, self.epochs.bytes_per_ns)

    def _events(self) -> None:
        """One event after the other: an arrival, a read, a write, or a timer of either end."""
        packets, receiver, sender = self.link.packets, self.receiver, self.sender
        reader, writer, epochs = self.reader, self.writer, self.epochs
        transfer_bytes, ends_ns = self.transfer_bytes, self.ends_ns
        writer.write(self.sender.heard_ns)
        reads_ns = writes_ns = NEVER_NS
        while receiver.nxt < transfer_bytes:
            now_ns = arrives_ns = packets[0].arrives_ns if packets else NEVER_NS
            timer_ns = receiver.delayed_until_ns or NEVER_NS
            if timer_ns < now_ns:
                now_ns = timer_ns
            if sender.probe_ns < now_ns:
                now_ns = sender.probe_ns
            if writes_ns < now_ns:
                now_ns = writes_ns
            if reads_ns < now_ns:
                now_ns = reads_ns
            if now_ns >= ends_ns:
                if now_ns == NEVER_NS:
                    raise RuntimeError("no packet is in flight and no timer is set")
                return
            if now_ns == arrives_ns and not (self.by_chance and now_ns == reads_ns):
                if now_ns >= epochs.ends_ns:
                    settled = epochs.settled(now_ns, receiver.nxt)
                    enough = len(self.had_bytes) >= LEAST_PACKETS
                    if settled and enough and receiver.nxt <= MOST_ARRIVED * transfer_bytes:
                        self.settles, self.now_ns = True, now_ns
                        return
                self._arrive()
                if reads_ns == NEVER_NS and receiver.copied < receiver.nxt:
                    reads_ns = now_ns + self.reading_ns
                    if self.by_chance and self.chance.random() < READS_BETWEEN_PACKETS:
                        reads_ns = now_ns
            elif now_ns == reads_ns:
                acknowledges, reads_ns = reader.read(now_ns)
                if acknowledges:
                    self.acknowledge(now_ns)
            elif now_ns == writes_ns:
                writes_ns = NEVER_NS
                writer.write(now_ns)
            elif now_ns == timer_ns:
                receiver.timer()
                self.acknowledge(now_ns)
            else:
                sender.probe(now_ns)
            if sender.woken:
                sender.woken = False
                writes_ns = now_ns + self.writing_ns

    def _extrapolate(self, now_ns: int, bytes_per_ns: float) -> None:
        """The rest of the transfer, at a rate, as one arrival."""
        left = self.transfer_bytes - self.receiver.nxt
        left = min(left, int((self.ends_ns - now_ns) * bytes_per_ns))
        self.settled_ns = now_ns
        self.times_ns.append(now_ns + round(left / bytes_per_ns))
        self.had_bytes.append(self.receiver.nxt + left)

    def mean_bytes(self) -> float:
        """The mean size of the packets that arrived."""
        return self.receiver.nxt / (len(self.had_bytes) - (self.settled_ns is not None))

    def _arrive(self) -> None:
        """The next packet arrives."""
        packet, receiver = self.link.packets.popleft(), self.receiver
        now_ns, length, push = packet.arrives_ns, packet.length, packet.push
        acknowledges = receiver.segment(
            now_ns, packet.begin, length, self.flow.mss_bytes, push, packet.echoed_ms
        )
        self.times_ns.append(now_ns)
        self.had_bytes.append(receiver.nxt)
        if acknowledges or receiver.compressed_is_due(now_ns):
            self.acknowledge(now_ns)

    def acknowledge(self, now_ns: int) -> None:
        """The receiver sends an ACK, which the sender takes at once: the link's delay is all on the
        way to the receiver."""
        receiver = self.receiver
        receiver.report()
        ack, edge = receiver.acknowledge()
        self.sender.acknowledged(now_ns, ack, edge, receiver.reported)


def samples() -> Iterator[Simulation]:
    """One simulation of each kind, of which `labs.read.native.build` makes programs."""
    for congestion in (CUBIC, RENO):
        for header_bytes in (0, 300):
            flow = Flow(
                rate_mbit=100.0,
                rtt_ms=10.0,
                kernel="6.12",
                congestion=congestion,
                header_bytes=header_bytes,
            )
            made = Simulation(flow, 1_000_000)
            made.epochs = Epochs(made.link, enabled=True)
            yield made
