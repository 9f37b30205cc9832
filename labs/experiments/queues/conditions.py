"""The lab `queues`: the bottleneck queue of a link, its delay, and what its size changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from labs.drive.bottleneck import Plan, path_rtt, planned, rate
from labs.drive.condition_table import Changes, Row, each, row, rows
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.guest import traffic
from labs.guest.condition import Condition, Group
from labs.guest.flows import Flow, Requests
from labs.guest.testbed.path import Direction, Queue

BUFFERS = Group("buffers", "One flow, a FIFO of different sizes")
AQM = Group("aqm", "One flow and requests, different queues")
FLOWS = Group("flows", "Four flows")
DIRECTIONS = Group("directions", "A download and an upload")
ACKS = Group("acks", "A slow or lossy reverse path")
LOSS = Group("loss", "Random loss on the forward path")
LONGER = Group("longer", "One flow and PIE, for longer")
GROUPS = (BUFFERS, AQM, FLOWS, DIRECTIONS, ACKS, LOSS, LONGER)
MARGIN = Margin(
    0.9,
    1.1,
    "the queue decides the goodput in both testbeds; on machines the moments of losses, and so "
    "the phase of the sawtooth in the measured half, differ from run to run",
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """The path; each condition has a queue, and one to four flows."""

    bottleneck_mbit: float = rate(
        20.0, help="rate of the bottleneck, for conditions about buffers, directions, ACKs and loss"
    )
    aqm_mbit: float = rate(50.0, help="rate of the bottleneck, for conditions that compare queues")
    path_rtt_ms: float = path_rtt()
    fifo_packets: int = parameter(
        1000,
        unit="packets",
        low=1,
        high=100_000,
        help="size of the FIFO that is compared with other queues",
    )
    duration_s: float = parameter(
        30.0,
        unit="s",
        low=5,
        high=1000,
        help="duration of the flows; those that compare queues last at most 20 s, those with "
        "random loss eight times as long, up to 1000 s",
    )


SIZES_BDP = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
AQM_S = 20.0
"""The duration of flows at the higher rate, which cost more packets."""
OF_AQM = {"aqm_mbit": "mbit", "path_rtt_ms": "rtt_ms"}
LOSS_TIMES, LONGEST_S = 8, 1000.0
"""Flows with random losses last this many times as long. In 240 s they lose about 650 packets, and
their goodput varies by a few percent from seed to seed; in 30 s it varies by a quarter. A queue
of ACKs takes as long to fill, and random drops of PIE decide in a short run."""
RARE_MS = 1000
"""The interval of samples of a longer run, for data to be small."""
IDLE_S = 3.0
"""How long requests are sent before the flows start."""
REQUESTS = Requests(every_ms=100.0, size_bytes=1000)
UPLOAD, SLOW = Direction(5.0), Direction(0.15)
"""Reverse paths; the slow one carries 284 ACKs per second, a third of what two segments per ACK
need here."""
BACK_PACKETS, BACK_MANY_PACKETS = 20, 5000
"""A queue of the reverse path that drops ACKs, and one in which all of them find room."""
LOST_PCT, LOSS_RUN = 1.0, 4.0


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    base = Plan(mbit=p.bottleneck_mbit, rtt_ms=p.path_rtt_ms, duration_s=p.duration_s)
    table = [*_sizes(), *_queues(p), *_reverse_paths(p), *_losses(p)]
    return planned(p, base, table)


def _sizes() -> Iterator[Row]:
    controls = {"reno": (0.1, 0.5, 1.0), "cubic": (0.1, 0.5, 1.0), "bbr": (0.1, 1.0)}
    series = (
        each(
            control + "-{:g}bdp",
            SIZES_BDP,
            small=small,
            flows=(Flow(control),),
            queue=lambda size_bdp: Queue(bdp=size_bdp),
        )
        for control, small in controls.items()
    )
    return rows(BUFFERS, *series)


def _queues(p: Parameters) -> Iterator[Row]:
    """The queues at their defaults, and those that mark packets; four flows."""
    fifo, flow = Queue("pfifo", packets=p.fifo_packets), Flow(start_s=IDLE_S)
    marked = (replace(flow, ecn=True),)
    yield from rows(
        AQM,
        row("fifo", small=1, queue=fifo),
        row("red", queue=Queue("red", packets=p.fifo_packets)),
        row("codel", small=2, queue=Queue("codel")),
        row("codel-ecn", queue=Queue("codel", ecn=True), flows=marked),
        row("pie", small=3, queue=Queue("pie")),
        row("pie-ecn", queue=Queue("pie", ecn=True), flows=marked),
        row("fq", queue=Queue("fq")),
        row("fq-codel", small=2, queue=Queue("fq_codel")),
        row("fq-codel-ecn", small=2, queue=Queue("fq_codel", ecn=True), flows=marked),
        row("fq-pie", queue=Queue("fq_pie")),
        row("cake", small=3, queue=Queue("cake")),
        row("fifo-bbr", small=1, queue=fifo, flows=(replace(flow, control="bbr"),)),
        mbit=p.aqm_mbit,
        recorded=OF_AQM,
        duration_s=IDLE_S + min(AQM_S, p.duration_s),
        requests=REQUESTS,
        flows=(flow,),
    )
    yield from rows(
        FLOWS,
        row("four-fifo", small=True, queue=Queue(bdp=0.5)),
        row("four-codel", queue=Queue("codel")),
        row("four-fq-codel", small=True, queue=Queue("fq_codel")),
        flows=(Flow("reno"),) * 4,
    )


def _reverse_paths(p: Parameters) -> Iterator[Row]:
    """Two directions, where each one's ACKs wait in the other's queue; slow, lossy and thinned
    ACKs."""
    fair, fifo = Queue("fq_codel"), Queue("pfifo", packets=100)
    yield from rows(
        DIRECTIONS,
        row("updown-fifo", small=True, up=replace(UPLOAD, queue=fifo)),
        row("updown-fq-codel", small=True, up=replace(UPLOAD, queue=fair), queue=fair),
        flows=(Flow(), Flow(direction="up")),
    )
    dropping, patient = (Queue(packets=size) for size in (BACK_PACKETS, BACK_MANY_PACKETS))
    filtered = Queue("cake", options="ack-filter")
    rare: Changes = {"sample_ms": RARE_MS, "queue_ms": RARE_MS}
    yield from rows(
        ACKS,
        row("acks-slow", small=True, up=replace(SLOW, queue=dropping)),
        row("acks-queued", small=True, up=replace(SLOW, queue=patient), **_long(p), **rare),
        row("acks-slow-filtered", up=replace(SLOW, queue=filtered)),
        row("acks-lost", small=True, up=Direction(loss_pct=30.0)),
        row("acks-thinned", small=True, up=Direction(drop_every=2)),
    )


def _losses(p: Parameters) -> Iterator[Row]:
    """The same share of packets lost, one by one or in runs; random drops of PIE."""
    yield from rows(
        LOSS,
        row("loss-random", small=True),
        row("loss-bursty", small=True, loss_run=LOSS_RUN),
        flows=(Flow("reno"),),
        loss_pct=LOST_PCT,
        **_long(p),
    )
    pie: Changes = {"mbit": p.aqm_mbit, "recorded": OF_AQM, "queue": Queue("pie")}
    rare: Changes = {"sample_ms": RARE_MS, "queue_ms": 200}
    yield from rows(LONGER, row("pie-long", small=True, **pie, **_long(p), **rare))


def _long(p: Parameters) -> Changes:
    return {"duration_s": min(LOSS_TIMES * p.duration_s, LONGEST_S)}


tools, lines = traffic.tools, traffic.lines
