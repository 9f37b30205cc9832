"""The lab `queues`: the bottleneck queue of a link, its delay, and what its size changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from labs.drive import traffic
from labs.drive.condition import Condition, Group, as_settings
from labs.drive.condition_table import Changes, Row, each, row, rows, select
from labs.drive.flows import Flow, Requests, Traffic
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.drive.testbed.path import Direction, NetworkPath, Queue
from labs.experiments.queues.settings import Settings

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
    (
        "the queue decides the goodput in both testbeds; on machines the moments of losses, and so "
        "the phase of the sawtooth in the measured half, differ from run to run"
    ),
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """The path; each condition has a queue, and one to four flows."""

    bottleneck_mbit: float = parameter(
        20.0,
        unit="Mbit/s",
        low=1,
        high=1000,
        help="rate of the bottleneck, for conditions about buffers, directions, ACKs and loss",
    )
    aqm_mbit: float = parameter(
        50.0,
        unit="Mbit/s",
        low=1,
        high=1000,
        help="rate of the bottleneck, for conditions that compare queues",
    )
    path_rtt_ms: float = parameter(
        40.0, unit="ms", low=1, high=1000, help="RTT of the path without a queue"
    )
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
FIFO, UNSHAPED = Queue(bdp=1.0), Direction()
LOST_PCT = 1.0
LOSS_RUN = 4.0


@dataclass(frozen=True)
class Plan:
    """The parts of a condition that differ within a group."""

    queue: Queue = FIFO
    flows: tuple[Flow, ...] = (Flow(),)
    up: Direction = UNSHAPED
    requests: Requests | None = None
    loss_pct: float = 0.0
    loss_run: float | None = None
    lasts_long: bool = False
    sample_ms: int = SAMPLE_MS
    queue_ms: int = SAMPLE_MS


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    table = [*_forward_queues(p.fifo_packets), *_reverse_path_and_loss()]
    return tuple(_condition(entry, entry.change(Plan()), p) for entry in select(p, table))


def _condition(entry: Row, plan: Plan, p: Parameters) -> Condition:
    is_aqm = entry.group == AQM.name
    compared = is_aqm or plan.queue.kind == "pie"
    rate = p.aqm_mbit if compared else p.bottleneck_mbit
    half_ms = p.path_rtt_ms / 2
    down = Direction(
        rate, half_ms, loss_pct=plan.loss_pct, loss_run=plan.loss_run, queue=plan.queue
    )
    starts_s = IDLE_S if plan.requests else 0.0
    duration_s = starts_s + (min(AQM_S, p.duration_s) if is_aqm else p.duration_s)
    if plan.lasts_long:
        duration_s = min(LOSS_TIMES * p.duration_s, LONGEST_S)
    run = Traffic(
        NetworkPath(down, replace(plan.up, delay_ms=half_ms)),
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
    return run.condition(entry.name, p.testbed, settings=as_settings(settings), group=entry.group)


def _fifo(size_bdp: float) -> Queue:
    return Queue(bdp=size_bdp)


def _forward_queues(fifo_packets: int) -> Iterator[Row]:
    """One flow, and queues of different sizes; the queues at their defaults, and those that mark
    packets; four flows."""
    fifo = Queue("pfifo", packets=fifo_packets)
    marked = (Flow(ecn=True),)
    yield from rows(
        BUFFERS,
        each("reno-{:g}bdp", SIZES_BDP, small=(0.1, 0.5, 1.0), queue=_fifo, flows=(Flow("reno"),)),
        each("cubic-{:g}bdp", SIZES_BDP, small=(0.1, 0.5, 1.0), queue=_fifo),
        each("bbr-{:g}bdp", SIZES_BDP, small=(0.1, 1.0), queue=_fifo, flows=(Flow("bbr"),)),
    )
    yield from rows(
        AQM,
        row("fifo", small=1, queue=fifo),
        row("red", queue=Queue("red", packets=fifo_packets)),
        row("codel", small=2, queue=Queue("codel")),
        row("codel-ecn", queue=Queue("codel", ecn=True), flows=marked),
        row("pie", small=3, queue=Queue("pie")),
        row("pie-ecn", queue=Queue("pie", ecn=True), flows=marked),
        row("fq", queue=Queue("fq")),
        row("fq-codel", small=2, queue=Queue("fq_codel")),
        row("fq-codel-ecn", small=2, queue=Queue("fq_codel", ecn=True), flows=marked),
        row("fq-pie", queue=Queue("fq_pie")),
        row("cake", small=3, queue=Queue("cake")),
        row("fifo-bbr", small=1, queue=fifo, flows=(Flow("bbr"),)),
        requests=REQUESTS,
    )
    yield from rows(
        FLOWS,
        row("four-fifo", small=True, queue=Queue(bdp=0.5)),
        row("four-codel", queue=Queue("codel")),
        row("four-fq-codel", small=True, queue=Queue("fq_codel")),
        flows=(Flow("reno"),) * 4,
    )


def _reverse_path_and_loss() -> Iterator[Row]:
    """Two directions, where each one's ACKs wait in the other's queue; slow, lossy and thinned
    ACKs; the same share of packets lost, one by one or in runs."""
    upload, slow = Direction(UPLOAD_MBIT), Direction(SLOW_BACK_MBIT)
    fair = Queue("fq_codel")
    rare: Changes = {"sample_ms": RARE_MS, "lasts_long": True}

    def back(direction: Direction, kind: str, **given: Any) -> Direction:
        return replace(direction, queue=Queue(kind, **given))

    yield from rows(
        DIRECTIONS,
        row("updown-fifo", small=True, up=back(upload, "pfifo", packets=100)),
        row("updown-fq-codel", small=True, up=back(upload, "fq_codel"), queue=fair),
        flows=(Flow(), Flow(direction="up")),
    )
    patient = back(slow, "pfifo", packets=BACK_MANY_PACKETS)
    filtered = back(slow, "cake", options="ack-filter")
    yield from rows(
        ACKS,
        row("acks-slow", small=True, up=back(slow, "pfifo", packets=BACK_PACKETS)),
        row("acks-queued", small=True, up=patient, **rare, queue_ms=RARE_MS),
        row("acks-slow-filtered", up=filtered),
        row("acks-lost", small=True, up=Direction(loss_pct=30.0)),
        row("acks-thinned", small=True, up=Direction(drop_every=2)),
    )
    yield from rows(
        LOSS,
        row("loss-random", small=True),
        row("loss-bursty", small=True, loss_run=LOSS_RUN),
        flows=(Flow("reno"),),
        loss_pct=LOST_PCT,
        lasts_long=True,
    )
    pie = row("pie-long", small=True, queue=Queue("pie"), **rare, queue_ms=2 * SAMPLE_MS)
    yield from rows(LONGER, pie)


tools, lines = traffic.tools, traffic.lines
