"""The conditions of the lab `queues`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from labs.drive.condition import Condition, Group, as_settings
from labs.drive.flows import Flow, Requests, Traffic
from labs.drive.testbed.path import Direction, NetworkPath, Queue
from labs.experiments.queues.parameters import Queues
from labs.experiments.queues.settings import Settings

BUFFERS = Group("buffers", "One flow, a FIFO of different sizes")
AQM = Group("aqm", "One flow and requests, different queues")
FLOWS = Group("flows", "Four flows")
DIRECTIONS = Group("directions", "A download and an upload")
ACKS = Group("acks", "A slow or lossy reverse path")
LOSS = Group("loss", "Random loss on the forward path")
LONGER = Group("longer", "One flow and PIE, for longer")
GROUPS = (BUFFERS, AQM, FLOWS, DIRECTIONS, ACKS, LOSS, LONGER)

CONTROLS = ("reno", "cubic", "bbr")
SIZES_BDP = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
AQM_S = 20.0
"""The duration of flows at the higher rate, which cost more packets."""
LOSS_TIMES, LONGEST_S = 8, 1000.0
"""Flows with random losses last this many times as long. In 240 s they lose about 650 packets, and
their goodput varies by a few percent from seed to seed; in 30 s it varies by a quarter. A queue
of ACKs takes as long to fill, and random drops of PIE decide in a short run."""
SAMPLE_MS, RARE_MS = 100, 1000
"""A longer run has fewer samples, for data to be small."""
IDLE_S = 3.0
"""How long requests are sent before the flows start."""
REQUESTS = Requests(every_ms=100.0, size_bytes=1000)
SLOW_BACK_MBIT = 0.15
"""A reverse path for 284 ACKs per second, a third of what two segments per ACK need here."""
BACK_PACKETS, BACK_MANY_PACKETS = 20, 5000
"""A queue of the reverse path that drops ACKs, and one in which all of them find room."""
UPLOAD_MBIT = 5.0
LOST_PCT = 1.0
LOSS_RUN = 4.0

SMALL = (
    *(f"{control}-{size}bdp" for control in ("reno", "cubic") for size in ("0.1", "0.5", "1")),
    *("bbr-0.1bdp", "bbr-1bdp"),
    *("fifo", "fifo-bbr", "codel", "fq-codel", "fq-codel-ecn", "pie", "cake"),
    *("four-fifo", "four-fq-codel"),
    *("updown-fifo", "updown-fq-codel"),
    *("acks-slow", "acks-queued", "acks-lost", "acks-thinned"),
    *("loss-random", "loss-bursty"),
    "pie-long",
)


@dataclass(frozen=True)
class Plan:
    """The parts of a condition that differ within a group."""

    name: str
    queue: Queue
    flows: tuple[Flow, ...]
    group: Group
    up: Direction | None = None
    requests: Requests | None = None
    loss_pct: float = 0.0
    loss_run: float | None = None
    lasts_long: bool = False
    sample_ms: int = SAMPLE_MS
    queue_ms: int = SAMPLE_MS


def conditions(p: Queues) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    every = {plan.name: plan for plan in _every(p)}
    names = p.chosen(tuple(every)) if p.only or p.size == "full" else SMALL
    return tuple(_condition(every[name], p) for name in names)


def _every(p: Queues) -> Iterator[Plan]:
    yield from _buffers()
    yield from _queues(p)
    yield from _four_flows()
    yield from _two_directions()
    yield from _slow_acks()
    yield from _losses()
    yield _long_pie()


def _condition(plan: Plan, p: Queues) -> Condition:
    compared = plan.group is AQM or plan.queue.kind == "pie"
    rate = p.aqm_mbit if compared else p.bottleneck_mbit
    half_ms = p.path_rtt_ms / 2
    down = Direction(
        rate, half_ms, loss_pct=plan.loss_pct, loss_run=plan.loss_run, queue=plan.queue
    )
    starts_s = IDLE_S if plan.requests else 0.0
    duration_s = starts_s + p.duration_s
    if plan.group is AQM:
        duration_s = starts_s + min(AQM_S, p.duration_s)
    elif plan.lasts_long:
        duration_s = min(LOSS_TIMES * p.duration_s, LONGEST_S)
    traffic = Traffic(
        NetworkPath(down, replace(plan.up or Direction(), delay_ms=half_ms)),
        tuple(replace(flow, start_s=starts_s) for flow in plan.flows),
        duration_s,
        plan.requests,
        sample_ms=plan.sample_ms,
        queue_ms=plan.queue_ms,
        capture=p.capture,
    )
    settings = Settings(
        duration_s=duration_s,
        path_rtt_ms=p.path_rtt_ms,
        bottleneck_mbit=None if compared else rate,
        aqm_mbit=rate if compared else None,
    )
    return traffic.condition(
        plan.name, p.testbed, settings=as_settings(settings), group=plan.group.name
    )


def _buffers() -> Iterator[Plan]:
    for control in CONTROLS:
        for size in SIZES_BDP:
            yield Plan(f"{control}-{size:g}bdp", Queue(bdp=size), (Flow(control),), BUFFERS)


def _queues(p: Queues) -> Iterator[Plan]:
    """One CUBIC flow: the queues at their defaults, and those that mark packets."""
    large = p.fifo_packets
    for name, queue in (
        ("fifo", Queue("pfifo", packets=large)),
        ("red", Queue("red", packets=large)),
        ("codel", Queue("codel")),
        ("pie", Queue("pie")),
        ("fq", Queue("fq")),
        ("fq-codel", Queue("fq_codel")),
        ("fq-pie", Queue("fq_pie")),
        ("cake", Queue("cake")),
    ):
        yield Plan(name, queue, (Flow(),), AQM, requests=REQUESTS)
        if queue.kind in ("codel", "pie", "fq_codel"):
            marking = replace(queue, ecn=True)
            yield Plan(f"{name}-ecn", marking, (Flow(ecn=True),), AQM, requests=REQUESTS)
    yield Plan("fifo-bbr", Queue("pfifo", packets=large), (Flow("bbr"),), AQM, requests=REQUESTS)


def _four_flows() -> Iterator[Plan]:
    for name, queue in (
        ("four-fifo", Queue(bdp=0.5)),
        ("four-codel", Queue("codel")),
        ("four-fq-codel", Queue("fq_codel")),
    ):
        yield Plan(name, queue, (Flow("reno"),) * 4, FLOWS)


def _two_directions() -> Iterator[Plan]:
    """Each direction's ACKs wait in the other's queue."""
    flows = (Flow(), Flow(direction="up"))
    for name, kind in (("updown-fifo", "pfifo"), ("updown-fq-codel", "fq_codel")):
        back = Queue("pfifo", packets=100) if kind == "pfifo" else Queue(kind)
        queue = Queue("pfifo", bdp=1.0) if kind == "pfifo" else Queue(kind)
        yield Plan(name, queue, flows, DIRECTIONS, Direction(UPLOAD_MBIT, queue=back))


def _slow_acks() -> Iterator[Plan]:
    one = (Flow(),)
    fifo = Queue(bdp=1.0)
    slow = Direction(SLOW_BACK_MBIT, queue=Queue("pfifo", packets=BACK_PACKETS))
    yield Plan("acks-slow", fifo, one, ACKS, slow)
    patient = replace(slow, queue=Queue("pfifo", packets=BACK_MANY_PACKETS))
    queued = Plan("acks-queued", fifo, one, ACKS, patient, lasts_long=True)
    yield replace(queued, sample_ms=RARE_MS, queue_ms=RARE_MS)
    filtered = replace(slow, queue=Queue("cake", options="ack-filter"))
    yield Plan("acks-slow-filtered", fifo, one, ACKS, filtered)
    yield Plan("acks-lost", fifo, one, ACKS, Direction(loss_pct=30.0))
    yield Plan("acks-thinned", fifo, one, ACKS, Direction(drop_every=2))


def _losses() -> Iterator[Plan]:
    """The same share of packets lost, one by one or in runs."""
    for name, run in (("loss-random", None), ("loss-bursty", LOSS_RUN)):
        plan = Plan(name, Queue(bdp=1.0), (Flow("reno"),), LOSS, loss_pct=LOST_PCT, loss_run=run)
        yield replace(plan, lasts_long=True)


def _long_pie() -> Plan:
    plan = Plan("pie-long", Queue("pie"), (Flow(),), LONGER, lasts_long=True, sample_ms=RARE_MS)
    return replace(plan, queue_ms=2 * SAMPLE_MS)
