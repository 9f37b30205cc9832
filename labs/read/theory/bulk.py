"""One bulk flow without losses, simulated step by step: goodput, time, and what limits it.

No closed formula describes how a writer, the send buffer, pacing, acknowledgements and two growing
windows interact. Both ends are therefore simulated packet by packet, in the steps that the
kernel takes (`bulk_sender`, `bulk_receiver`, `cubic`), over a link with a rate and a delay.
The simulation takes milliseconds where a run takes seconds.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise

from labs.drive.units import bytes_per_second
from labs.errors import BadInput
from labs.read.stats.arrivals import Arrivals, of_arrivals
from labs.read.theory.bdp import HEADER_BYTES, line_goodput_bytes_s
from labs.read.theory.bulk_receiver import Receiver
from labs.read.theory.bulk_sender import (
    CONGESTION_WINDOW,
    NAGLE_HOLDS,
    NEVER_NS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
    WAKE_UP,
    Sender,
    Sent,
)
from labs.read.theory.bulk_writers import Blocks, File, Writer
from labs.read.theory.defaults import DEFAULT_WMEM, default_core_max_bytes, default_rmem
from labs.read.theory.kept_answers import kept

LINK = "link"
FUNCTIONS = {
    LINK: "net/sched/sch_htb.c htb_dequeue()",
    RECEIVE_WINDOW: "net/ipv4/tcp_output.c tcp_select_window()",
    SEND_BUFFER: "include/net/sock.h sk_stream_memory_free()",
    WAKE_UP: "net/core/stream.c sk_stream_write_space()",
    CONGESTION_WINDOW: "net/ipv4/tcp_cubic.c bictcp_update()",
    SLOW_START: "net/ipv4/tcp_cong.c tcp_slow_start()",
    NAGLE_HOLDS: "net/ipv4/tcp_output.c tcp_nagle_check()",
}
"""What may limit a flow, and the kernel function that imposes the limit."""

IPERF3_WRITES = 10
"""iperf3 writes up to ten blocks after each select()."""
HTB_CBURST_BYTES = 1600
"""The bytes that the shaped class may send at once after a pause: htb's cburst, as tc sets it."""
READING_NS, READ_NS, WRITING_NS = 300, 1000, 2800
"""How long after its kernel woke it a program reads or writes: on virtual time some readings of the
clock, of 256 ns each, and on machines not much more."""
HEAD_BYTES = 4096
FULL_LINK_IDLE = 0.005
"""The share of the time for which a full link may be idle."""
STEADY_SHARE = 1 / 3
UNKNOWN: tuple[dict[str, int], ...] = (
    {"phase_ns": 2_500_000},
    {"phase_ns": 1_300_000, "writing_ns": 5000, "reading_ns": 600},
    {"phase_ns": 750_000, "credit_bytes": HTB_CBURST_BYTES - 200, "writing_ns": 1500},
    {"phase_ns": 3_700_000, "writing_ns": 9000, "reading_ns": 1500},
)
"""What is unknown beforehand: whether the shaper's credit has just been used, when the flow begins
within a tick of the kernel's clock (4 ms), and how fast the programs are. `interval` simulates some
combinations."""
LEAST_PACKETS, MOST_ARRIVED = 2500, 0.3
EPOCH_ROUND_TRIPS, BUSY_EPOCHS = 4, 2
SAME_EPOCHS, SAME = 5, 0.002
MANY_EPOCHS, SAME_MANY = 6, 0.001
"""A flow is settled if the link was not idle for two periods of four round trips, if its rate was
the same, within 0.2 %, in five of them, or in six as in the six before, within 0.1 %. What is left
is then computed, unless fewer than 2,500 packets or more than 30 % of the transfer have arrived."""


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One transfer by a program that writes blocks, to a program that reads at once.

    Buffers are granted sizes (twice the request); None is automatic. `sndbuf_locked` and
    `rcvbuf_locked`: set by the program with setsockopt, before the connection; otherwise a fixed
    buffer is set by the sysctls tcp_wmem and tcp_rmem. `tcp_rmem` and `tcp_wmem` None: the kernel's
    defaults. `mss_bytes` is payload per segment. The writer waits for room with select() after
    `writes_per_wake` blocks; 0: it blocks in each write. With `header_bytes` it is nginx, which
    sends a header of that size and then a file, of the size of the transfer, by sendfile().
    `read_bytes` is what the reader requests per read (None: as much as is written at once), and
    with `reads_whole` it waits for all of it (MSG_WAITALL).
    """

    rate_mbit: float
    rtt_ms: float
    kernel: str
    mss_bytes: int = 1448
    sndbuf_bytes: int | None = None
    rcvbuf_bytes: int | None = None
    sndbuf_locked: bool = False
    rcvbuf_locked: bool = False
    tcp_rmem: tuple[int, int, int] | None = None
    tcp_wmem: tuple[int, int, int] | None = None
    write_bytes: int = 131_072
    writes_per_wake: int = IPERF3_WRITES
    nodelay: bool = False
    header_bytes: int = 0
    keep_alive: bool = False
    read_bytes: int | None = None
    reads_whole: bool = False
    offloads: bool = True
    adv_win_scale: int = 1
    core_max_bytes: int | None = None


@dataclass(frozen=True)
class Limit:
    """What a flow cannot exceed, and the kernel function that sets it; None where no single number
    describes it."""

    name: str
    bytes_s: float | None
    function: str


@dataclass(frozen=True)
class Transfer:
    """The predicted transfer.

    `took_s` is the time from the first to the last arrival. `goodput_bytes_s` is all payload
    divided by it, and `steady_bytes_s` the goodput of its last third. `bound` is the reason for
    which the link was idle longest during that third, or the link. `waits` are the shares of that
    third during which the link was idle, by reason. `cannot_say` is empty, or says why there is no
    prediction.
    """

    goodput_bytes_s: float
    steady_bytes_s: float
    took_s: float
    bound: str
    bounds: tuple[Limit, ...]
    waits: dict[str, float]
    cannot_say: str = ""


@dataclass
class _Link:
    """The packets in flight, and when the shaper is free again. With `segment_bytes` packets are
    split into segments before the shaper."""

    rtt_ns: int
    byte_ns: float
    credit_bytes: int
    segment_bytes: int | None = None
    free_ns: float = 0.0
    packets: deque[tuple[int, int, bool, int]] = field(default_factory=deque)
    idle: list[tuple[int, float, str]] = field(default_factory=list)

    def send(self, now_ns: int, packet: Sent, push: bool, echoed_ms: int, waited: str) -> None:
        """htb sends a packet as a whole as soon as its class has credit."""
        ready_ns = float(now_ns + self.rtt_ns)
        last_ns = float(self.packets[-1][0]) if self.packets else 0.0
        goes_ns = max(ready_ns, self.free_ns, last_ns)
        if ready_ns > self.free_ns:
            self.idle.append((round(goes_ns), ready_ns - self.free_ns, waited))
        size = packet.length + packet.segments * HEADER_BYTES
        credit_ns = self.credit_bytes * self.byte_ns
        if self.segment_bytes is None:
            self.free_ns = max(self.free_ns, goes_ns - credit_ns) + size * self.byte_ns
            self.packets.append((round(goes_ns), packet.length, push, echoed_ms))
            return
        for begin in range(0, packet.length, self.segment_bytes):
            length = min(self.segment_bytes, packet.length - begin)
            goes_ns = max(goes_ns, self.free_ns)
            taken_ns = (length + HEADER_BYTES) * self.byte_ns
            self.free_ns = max(self.free_ns, goes_ns - credit_ns) + taken_ns
            last = begin + length == packet.length
            self.packets.append((round(goes_ns), length, push and last, echoed_ms))


class _Epochs:
    """The progress of a flow at the ends of periods of some round trips."""

    def __init__(self, link: _Link, *, enabled: bool) -> None:
        self.link = link
        self.length_ns = EPOCH_ROUND_TRIPS * link.rtt_ns
        self.ends_ns = 0 if enabled else NEVER_NS
        self.progress: deque[tuple[int, int, int]] = deque(maxlen=2 * MANY_EPOCHS + 1)
        self.bytes_per_ns = 0.0

    def settled(self, now_ns: int, received: int) -> bool:
        """Note the progress, and return whether the rate no longer changes: the link was never
        idle, the last periods are the same, or many of them the same as as many before."""
        self.ends_ns = now_ns + self.length_ns
        self.progress.append((now_ns, received, len(self.link.idle)))
        noted = list(self.progress)
        if len(noted) > BUSY_EPOCHS and noted[-1][2] == noted[-1 - BUSY_EPOCHS][2]:
            return self._at_rate(noted[-1 - BUSY_EPOCHS], noted[-1])
        if len(noted) > SAME_EPOCHS:
            rates = [_rate(*pair) for pair in pairwise(noted[-1 - SAME_EPOCHS :])]
            if max(rates) - min(rates) <= SAME * max(rates):
                return self._at_rate(noted[-1 - SAME_EPOCHS], noted[-1])
        if len(noted) > 2 * MANY_EPOCHS:
            before, after = (_rate(*pair) for pair in pairwise(noted[::MANY_EPOCHS]))
            if abs(after - before) <= SAME_MANY * after:
                return self._at_rate(noted[0], noted[-1])
        return False

    def _at_rate(self, first: tuple[int, int, int], last: tuple[int, int, int]) -> bool:
        self.bytes_per_ns = _rate(first, last)
        return self.bytes_per_ns > 0


def _rate(first: tuple[int, int, int], last: tuple[int, int, int]) -> float:
    """Bytes per nanosecond between two notes of the progress."""
    return (last[1] - first[1]) / (last[0] - first[0])


class Simulation:
    """Both ends and the link, from the first write on."""

    def __init__(
        self,
        flow: Flow,
        transfer_bytes: int,
        *,
        credit_bytes: int = HTB_CBURST_BYTES,
        phase_ns: int = 0,
        writing_ns: int = WRITING_NS,
        reading_ns: int = READING_NS,
    ) -> None:
        self.flow, self.transfer_bytes = flow, transfer_bytes
        self.writing_ns, self.reading_ns = writing_ns, reading_ns
        rmem, wmem = _buffers(flow)
        self.rtt_ns = round(flow.rtt_ms * 1e6)
        began_ns = 2 * self.rtt_ns + phase_ns
        self.link = _Link(self.rtt_ns, 1e9 / bytes_per_second(flow.rate_mbit), credit_bytes)
        self.link.segment_bytes = None if flow.offloads else flow.mss_bytes
        self.acknowledged_ns = began_ns
        self.receiver = Receiver(
            flow.kernel,
            mss_bytes=flow.mss_bytes,
            tcp_rmem=rmem,
            rcvbuf_bytes=rmem[1] if flow.rcvbuf_bytes is None else flow.rcvbuf_bytes,
            locked=flow.rcvbuf_locked,
            core_max_bytes=flow.core_max_bytes or default_core_max_bytes(flow.kernel),
            adv_win_scale=flow.adv_win_scale,
            rtt_ns=self.rtt_ns,
            now_ns=began_ns,
        )
        self.sender = Sender(
            flow.kernel,
            mss_bytes=flow.mss_bytes,
            tcp_wmem=wmem,
            sndbuf_bytes=wmem[1] if flow.sndbuf_bytes is None else flow.sndbuf_bytes,
            locked=flow.sndbuf_locked,
            edge=self.receiver.acknowledge()[1],
            rtt_us=self.rtt_ns // 1000,
            transmit=self._transmit,
        )
        self.writer: Writer = (
            File(self.sender, flow.kernel, flow.header_bytes, transfer_bytes, flow.keep_alive)
            if flow.header_bytes
            else Blocks(self.sender, flow.write_bytes, flow.writes_per_wake, flow.nodelay)
        )
        self.read_bytes = flow.read_bytes or flow.write_bytes
        self.block_end = 0
        if flow.header_bytes:
            # The ACK of the request.
            spent_ns = self.link.byte_ns * (HEADER_BYTES - credit_bytes)
            self.link.free_ns = began_ns + self.rtt_ns + spent_ns
        self.settled_ns: int | None = None
        self.times_ns: list[int] = []
        self.lengths: list[int] = []

    def run(self, *, whole: bool = False) -> None:
        """Run until the receiver has all (a writer without a file would continue), or until the
        flow is settled, unless the `whole` transfer is wanted: what is left arrives at its rate."""
        packets, receiver, sender = self.link.packets, self.receiver, self.sender
        self.writer.write(self.acknowledged_ns)
        reads_ns = writes_ns = NEVER_NS
        most_arrived = MOST_ARRIVED * self.transfer_bytes
        epochs = _Epochs(self.link, enabled=not whole)
        while receiver.nxt < self.transfer_bytes:
            arrives_ns = packets[0][0] if packets else NEVER_NS
            timer_ns = receiver.delayed_until_ns or NEVER_NS
            now_ns = min(arrives_ns, timer_ns, reads_ns, writes_ns, sender.probe_ns)
            if now_ns == NEVER_NS:
                raise RuntimeError("no packet is in flight and no timer is set")
            if now_ns == arrives_ns:
                if now_ns >= epochs.ends_ns:
                    settled = epochs.settled(now_ns, receiver.nxt)
                    enough = len(self.lengths) >= LEAST_PACKETS
                    if settled and enough and receiver.nxt <= most_arrived:
                        self._extrapolate(now_ns, epochs)
                        return
                self._arrive()
                if reads_ns == NEVER_NS:
                    reads_ns = now_ns + self.reading_ns
            elif now_ns == reads_ns:
                reads_ns = now_ns + READ_NS if self._read(now_ns) else NEVER_NS
            elif now_ns == writes_ns:
                writes_ns = NEVER_NS
                self.writer.write(now_ns)
            elif now_ns == timer_ns:
                receiver.timer()
                self._acknowledge(now_ns)
            else:
                sender.probe(now_ns)
            if sender.woken:
                sender.woken = False
                writes_ns = now_ns + self.writing_ns

    def _extrapolate(self, now_ns: int, epochs: _Epochs) -> None:
        """The rest of the transfer, at the rate of the last periods, as one arrival."""
        left = self.transfer_bytes - self.receiver.nxt
        self.settled_ns = now_ns
        self.times_ns.append(now_ns + round(left / epochs.bytes_per_ns))
        self.lengths.append(left)

    def _transmit(self, now_ns: int, packet: Sent, push: bool) -> None:
        echoed_ms = self.acknowledged_ns // 1_000_000
        self.link.send(now_ns, packet, push, echoed_ms, self.sender.stopped_by)

    def _arrive(self) -> None:
        """The next packet arrives."""
        now_ns, length, push, echoed_ms = self.link.packets.popleft()
        self.times_ns.append(now_ns)
        self.lengths.append(length)
        if self.receiver.arrives(now_ns, length, self.flow.mss_bytes, push, echoed_ms):
            self._acknowledge(now_ns)

    def _read(self, now_ns: int) -> bool:
        """The program reads once; whether something is left to read."""
        receiver, flow = self.receiver, self.flow
        if not receiver.copied and flow.header_bytes:
            # For the header fetch.py requests this much; wget looks first, and reads no more.
            self.block_end = HEAD_BYTES if flow.reads_whole else flow.header_bytes
        elif self.block_end <= receiver.copied or not flow.reads_whole:
            self.block_end = receiver.copied + self.read_bytes
        first = not receiver.copied
        if receiver.reads(now_ns, self.block_end - receiver.copied):
            self._acknowledge(now_ns)
        if first:
            self.block_end = receiver.copied
        return receiver.copied < receiver.nxt

    def _acknowledge(self, now_ns: int) -> None:
        self.acknowledged_ns = now_ns
        self.sender.acknowledged(now_ns, *self.receiver.acknowledge())


@lru_cache(maxsize=4096)
def transfer(flow: Flow, transfer_bytes: int) -> Transfer:
    """Goodput and time of one transfer, and what limits it. Raises BadInput for values without
    meaning. What was asked before, of this process or of another, is not simulated again."""
    checked(flow, transfer_bytes)
    asked = json.dumps([asdict(flow), transfer_bytes])
    answer = json.loads(kept(asked, lambda: json.dumps(asdict(simulated(flow, transfer_bytes)))))
    bounds = tuple(Limit(**one) for one in answer.pop("bounds"))
    return Transfer(**answer, bounds=bounds)


def simulated(flow: Flow, transfer_bytes: int) -> Transfer:
    """The transfer as it is simulated now, whatever was asked before."""
    simulation = Simulation(flow, transfer_bytes)
    found = _figures(simulation)
    if found.goodput_bytes_s is None or found.steady_bytes_s is None:
        return _unknown("all payload arrives at once")
    waits = _waits(simulation, found.first_ns, simulation.settled_ns or found.last_ns)
    full = sum(waits.values()) <= FULL_LINK_IDLE
    bound = LINK if full else max(waits, key=lambda name: waits[name])
    return Transfer(
        found.goodput_bytes_s, found.steady_bytes_s, found.took_s, bound, _limits(simulation), waits
    )


def _unknown(reason: str) -> Transfer:
    return Transfer(0.0, 0.0, 0.0, "", (), {}, reason)


def _figures(simulation: Simulation) -> Arrivals:
    simulation.run()
    had_bytes = list(accumulate(simulation.lengths))
    return of_arrivals(simulation.times_ns, had_bytes, simulation.transfer_bytes)


@dataclass(frozen=True)
class Interval:
    """The range of the predictions for one transfer under conditions that are not known
    beforehand: its goodput in steady state and over all, each from the lowest to the highest."""

    steady_bytes_s: tuple[float, float]
    goodput_bytes_s: tuple[float, float]

    @property
    def width(self) -> float:
        """The larger of the two widths, relative to the upper end."""
        return max(1 - low / high for low, high in (self.steady_bytes_s, self.goodput_bytes_s))


@lru_cache(maxsize=4096)
def interval(flow: Flow, transfer_bytes: int) -> Interval | None:
    """How far single packets may change the result (`UNKNOWN`); None if `transfer` cannot say."""
    nominal = transfer(flow, transfer_bytes)
    if nominal.cannot_say:
        return None

    def ranges() -> str:
        found = [_figures(Simulation(flow, transfer_bytes, **one)) for one in UNKNOWN]
        steady = [nominal.steady_bytes_s, *(one.steady_bytes_s or 0.0 for one in found)]
        goodput = [nominal.goodput_bytes_s, *(one.goodput_bytes_s or 0.0 for one in found)]
        return json.dumps([[min(steady), max(steady)], [min(goodput), max(goodput)]])

    asked = json.dumps([asdict(flow), transfer_bytes, "interval"])
    steady, goodput = json.loads(kept(asked, ranges))
    return Interval(tuple(steady), tuple(goodput))


def checked(flow: Flow, transfer_bytes: int) -> None:
    """BadInput for a link, an MSS, a block or a transfer that is impossible."""
    for name, value, allowed in (
        ("rate_mbit", flow.rate_mbit, "more than 0"),
        ("rtt_ms", flow.rtt_ms, "more than 0: without a round trip no buffer limits a flow"),
        ("mss_bytes", flow.mss_bytes, "at least 1"),
        ("write_bytes", flow.write_bytes, "at least 1"),
        ("transfer_bytes", transfer_bytes, "at least 1"),
    ):
        if value <= 0:
            raise BadInput(f"{name} is {value:g}. Allowed: {allowed}")


def _buffers(flow: Flow) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """tcp_rmem and tcp_wmem, which also fix a buffer that setsockopt does not fix."""
    rmem = flow.tcp_rmem or default_rmem(flow.kernel)
    wmem = flow.tcp_wmem or DEFAULT_WMEM
    if flow.rcvbuf_bytes is not None and not flow.rcvbuf_locked:
        rmem = (rmem[0], flow.rcvbuf_bytes, flow.rcvbuf_bytes)
    if flow.sndbuf_bytes is not None and not flow.sndbuf_locked:
        wmem = (wmem[0], flow.sndbuf_bytes, flow.sndbuf_bytes)
    return rmem, wmem


def _waits(simulation: Simulation, first_ns: int, last_ns: int) -> dict[str, float]:
    """The shares of the last third during which the link was idle, by reason."""
    span_ns = (last_ns - first_ns) * STEADY_SHARE
    idle: dict[str, float] = defaultdict(float)
    for at_ns, idle_ns, reason in simulation.link.idle:
        if at_ns > last_ns - span_ns:
            idle[reason] += min(idle_ns, at_ns - last_ns + span_ns)
    return {reason: value / span_ns for reason, value in idle.items()}


def _limits(simulation: Simulation) -> tuple[Limit, ...]:
    """The rates that link, windows and send buffer permit at the end, each on its own."""
    flow, sender, receiver = simulation.flow, simulation.sender, simulation.receiver
    rtt_s = flow.rtt_ms / 1e3
    mean_bytes = sum(simulation.lengths) / len(simulation.lengths)
    share = mean_bytes / (mean_bytes + sender.overhead)
    rates = {
        LINK: line_goodput_bytes_s(flow.rate_mbit, flow.mss_bytes),
        RECEIVE_WINDOW: (receiver.edge() - receiver.nxt) / rtt_s,
        SEND_BUFFER: sender.sndbuf * share / rtt_s,
        CONGESTION_WINDOW: sender.cubic.cwnd * flow.mss_bytes / rtt_s,
    }
    return tuple(Limit(name, rates.get(name), FUNCTIONS[name]) for name in FUNCTIONS)
