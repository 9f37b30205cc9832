"""One bulk flow without losses, simulated step by step: goodput, time, and what limits it.

No closed formula describes how a writer, the send buffer, pacing, acknowledgements and two growing
windows interact. Both ends are therefore simulated packet by packet, in the steps that the
kernel takes (`bulk_sender`, `bulk_receiver`, `cubic`), over a link with a rate and a delay.
The simulation takes milliseconds where a run takes seconds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate

from labs.read.stats.arrivals import Arrivals, of_arrivals
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk_flow import Flow, checked
from labs.read.theory.bulk_sender import (
    CONGESTION_WINDOW,
    NAGLE_HOLDS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
    WAKE_UP,
)
from labs.read.theory.bulk_simulation import HTB_CBURST_BYTES, LossySimulation, Simulation
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
        CONGESTION_WINDOW: sender.control.cwnd * flow.mss_bytes / rtt_s,
    }
    return tuple(Limit(name, rates.get(name), FUNCTIONS[name]) for name in FUNCTIONS)
