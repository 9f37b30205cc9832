"""One bulk flow, simulated step by step: goodput, time, and what limits it.

No closed formula describes how a writer, the send buffer, pacing, acknowledgements and two growing
windows interact. Both ends are therefore simulated packet by packet, in the steps that the
kernel takes (`bulk_sender`, `bulk_receiver`, `cubic`), over a link with a rate and a delay, and
with losses if there are any (`bulk_recovery`). The simulation takes milliseconds where a run takes
seconds.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any

from labs.read.answers import kept
from labs.read.stats.arrivals import of_arrivals
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk_flow import RENO, Flow, checked
from labs.read.theory.bulk_sender import (
    CONGESTION_WINDOW,
    NAGLE_HOLDS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
    WAKE_UP,
)
from labs.read.theory.bulk_simulation import DIGEST, Simulation

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
LEAST_DRAWS, MOST_DRAWS, DRAWN_SEGMENTS = 5, 20, 400_000
"""How often a flow with random losses is drawn: more often if a draw is short."""
MOST_PACKETS, PART_PACKETS, LEAST_LOSSES = 400_000, 100_000, 10
"""A transfer with losses of more packets is simulated in part, and the rest computed from the last
third of this part, which must have enough losses for that."""
LEAST_QUEUE_PACKETS = 10
TOO_SHORT = f"a queue of fewer than {LEAST_QUEUE_PACKETS} packets overflows: single packets decide"
TOO_FEW = f"fewer than {LEAST_LOSSES} of {PART_PACKETS:,} segments are lost: chance decides"


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
    prediction. `overflows`: the queue of the link had no room for a packet.
    """

    goodput_bytes_s: float
    steady_bytes_s: float
    took_s: float
    bound: str
    bounds: tuple[Limit, ...]
    waits: dict[str, float]
    cannot_say: str = ""
    overflows: bool = False


@lru_cache(maxsize=4096)
def transfer(flow: Flow, transfer_bytes: int) -> Transfer:
    """Goodput and time of one transfer, and what limits it; under random loss those of the median
    draw. Raises BadInput for values without meaning. What was asked before, of this process or of
    another, is not simulated again."""
    checked(flow, transfer_bytes)
    if flow.loss_pct:
        return _median(draws(flow, transfer_bytes))
    return kept_transfers(flow, transfer_bytes, "", lambda: (simulated(flow, transfer_bytes),))[0]


@lru_cache(maxsize=4096)
def draws(flow: Flow, transfer_bytes: int) -> tuple[Transfer, ...]:
    """The transfer under random loss, several times with other seeds."""
    return kept_transfers(flow, transfer_bytes, "draws", lambda: _drawn(flow, transfer_bytes))


def _drawn(flow: Flow, transfer_bytes: int) -> tuple[Transfer, ...]:
    part_bytes = _part_bytes(flow, transfer_bytes, flow.mss_bytes)
    if part_bytes < transfer_bytes and flow.loss_pct / 100 * PART_PACKETS < LEAST_LOSSES:
        return (_unknown(TOO_FEW),)
    drawn, segments = [], 0
    for seed in range(MOST_DRAWS):
        simulation = Simulation(flow, part_bytes, drops=True, seed=seed)
        drawn.append(_continued(_outcome(simulation), simulation, transfer_bytes))
        segments += len(simulation.had_bytes)
        if len(drawn) >= LEAST_DRAWS and segments >= DRAWN_SEGMENTS:
            break
    return tuple(drawn)


def _median(drawn: tuple[Transfer, ...]) -> Transfer:
    """The draw in the middle, with the median of every figure; or one of which nothing is known."""
    for draw in drawn:
        if draw.cannot_say:
            return draw
    middle = sorted(drawn, key=lambda draw: draw.goodput_bytes_s)[len(drawn) // 2]
    goodput, steady = (
        median(getattr(draw, name) for draw in drawn)
        for name in ("goodput_bytes_s", "steady_bytes_s")
    )
    return replace(middle, goodput_bytes_s=goodput, steady_bytes_s=steady)


def kept_transfers(
    flow: Flow, transfer_bytes: int, of: str, answer: Callable[[], tuple[Transfer, ...]]
) -> tuple[Transfer, ...]:
    """What was answered before to this question about a transfer, or the answer now."""
    question = json.dumps([asdict(flow), transfer_bytes, of])
    made = kept(question, lambda: json.dumps([asdict(result) for result in answer()]), DIGEST)
    return tuple(
        Transfer(**stored | {"bounds": tuple(Limit(**bound) for bound in stored["bounds"])})
        for stored in json.loads(made)
    )


def simulated(flow: Flow, transfer_bytes: int, **unknown: Any) -> Transfer:
    """The transfer as it is simulated now, whatever was asked before. `unknown` are arguments of
    `Simulation`.

    A queue that never overflows is simulated as if it had no limit, which takes less time.
    """
    simulation = Simulation(flow, transfer_bytes, **unknown)
    predicted = _outcome(simulation)
    limit = flow.queue_packets
    if limit is None or (simulation.link.most_queued <= limit and _fits(simulation, limit)):
        return predicted
    packet_bytes = simulation.mean_bytes() if flow.offloads else flow.mss_bytes
    part_bytes = _part_bytes(flow, transfer_bytes, packet_bytes)
    lossy = Simulation(flow, part_bytes, drops=True, **unknown)
    return _continued(_outcome(lossy), lossy, transfer_bytes)


def _part_bytes(flow: Flow, transfer_bytes: int, packet_bytes: float) -> int:
    """How much of a transfer with losses is simulated."""
    most_bytes: float = transfer_bytes
    if flow.limit_s is not None:
        most_bytes = min(most_bytes, line_goodput_bytes_s(flow.rate_mbit) * flow.limit_s)
    if most_bytes <= MOST_PACKETS * packet_bytes:
        return transfer_bytes
    return int(PART_PACKETS * packet_bytes)


def _continued(part: Transfer, simulation: Simulation, transfer_bytes: int) -> Transfer:
    """The whole transfer, of which a part was simulated: the rest in steady state."""
    rest_bytes = transfer_bytes - simulation.transfer_bytes
    # Else the limit of the time ended the part, and there is no rest.
    whole = not part.cannot_say and simulation.receiver.nxt >= simulation.transfer_bytes
    if not (whole and rest_bytes):
        return part
    took_s, limit_s = part.took_s + rest_bytes / part.steady_bytes_s, simulation.flow.limit_s
    if limit_s is not None and took_s > limit_s:
        rest_bytes -= round((took_s - limit_s) * part.steady_bytes_s)
        took_s = limit_s
    goodput = (simulation.transfer_bytes + rest_bytes) / took_s
    return replace(part, goodput_bytes_s=goodput, took_s=took_s)


def _fits(simulation: Simulation, limit: int) -> bool:
    """Whether the queue cannot overflow in the part of a transfer that was computed either."""
    if simulation.settled_ns is None:
        return True
    window = simulation.receiver.edge() - simulation.receiver.wup
    most = min(window, simulation.sender.sndbuf) / simulation.mean_bytes()
    return most < limit


def _outcome(simulation: Simulation) -> Transfer:
    """Run a simulation, and return its figures."""
    simulation.run()
    if not simulation.times_ns:
        return _unknown("nothing arrives within the time limit")
    arrived = of_arrivals(simulation.times_ns, simulation.had_bytes, simulation.transfer_bytes)
    if arrived.goodput_bytes_s is None or arrived.steady_bytes_s is None:
        return _unknown("all payload arrives at once")
    waits = _waits(simulation, arrived.first_ns, simulation.settled_ns or arrived.last_ns)
    overflows = simulation.link.overflowed > 0
    if overflows and (simulation.flow.queue_packets or 0) < LEAST_QUEUE_PACKETS:
        return _unknown(TOO_SHORT)
    full = sum(waits.values()) <= FULL_LINK_IDLE
    bound = LINK if full else max(waits, key=lambda name: waits[name])
    return Transfer(
        *(arrived.goodput_bytes_s, arrived.steady_bytes_s, arrived.took_s),
        *(bound, _limits(simulation), waits),
        overflows=overflows,
    )


def _unknown(reason: str) -> Transfer:
    return Transfer(0.0, 0.0, 0.0, "", (), {}, reason)


def _waits(simulation: Simulation, first_ns: int, last_ns: int) -> dict[str, float]:
    """The shares of the last third during which the link was idle, by reason."""
    span_ns = (last_ns - first_ns) * STEADY_SHARE
    idle: dict[str, float] = defaultdict(float)
    link = simulation.link
    after = bisect_right(link.idle_until_ns, last_ns - span_ns)
    for until_ns, idle_ns, reason in zip(
        link.idle_until_ns[after:], link.idle_ns[after:], link.idle_because[after:], strict=True
    ):
        idle[reason] += min(idle_ns, until_ns - last_ns + span_ns)
    return {reason: value / span_ns for reason, value in idle.items()}


def _limits(simulation: Simulation) -> tuple[Limit, ...]:
    """The rates that link, windows and send buffer permit at the end, each on its own."""
    flow, sender, receiver = simulation.flow, simulation.sender, simulation.receiver
    rtt_s = flow.rtt_ms / 1e3
    mean_bytes = simulation.mean_bytes()
    share = mean_bytes / (mean_bytes + sender.overhead)
    rates = {
        LINK: line_goodput_bytes_s(flow.rate_mbit, flow.mss_bytes),
        RECEIVE_WINDOW: (receiver.edge() - receiver.nxt) / rtt_s,
        SEND_BUFFER: sender.sndbuf * share / rtt_s,
        CONGESTION_WINDOW: sender.control.cwnd * flow.mss_bytes / rtt_s,
    }
    functions = FUNCTIONS
    if flow.congestion == RENO:
        functions = FUNCTIONS | {CONGESTION_WINDOW: "net/ipv4/tcp_cong.c tcp_reno_cong_avoid()"}
    return tuple(Limit(name, rates.get(name), function) for name, function in functions.items())
