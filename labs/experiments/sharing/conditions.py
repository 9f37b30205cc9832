"""The conditions of the lab `sharing`, computed from its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labs.drive.condition import Condition, Group, as_settings
from labs.drive.flows import Flow, Traffic
from labs.drive.testbed.path import Direction, NetworkPath, Queue
from labs.drive.units import KIB
from labs.experiments.sharing.parameters import Sharing
from labs.experiments.sharing.settings import Settings

AGAINST_BBR = Group("against_bbr", "BBR against CUBIC, buffers of different sizes")
CONTROLS = Group("controls", "Pairs of congestion controls")
RTTS = Group("rtts", "Two flows with different RTTs")
STARTS = Group("starts", "A flow that starts later")
CROWDS = Group("crowds", "Many flows")
INCAST = Group("incast", "Many senders at the same moment")
GROUPS = (AGAINST_BBR, CONTROLS, RTTS, STARTS, CROWDS, INCAST)

SIZES_BDP = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
LONGEST_S = 3600.0
"""The longest run of flows (labs.drive.flows)."""
DEEP, DEEP_TIMES = "cubic-bbr-16bdp", 4
"""In a deep buffer shares need minutes to settle: this condition is longer, with fewer samples."""
RTTS_TIMES = 4
"""Flows with different RTTs last this many times as long. In 60 s the phase of their sawtooths
decides: the share of a distant Reno flow is 22 to 25 %, in 240 s 23 to 24 %."""
LARGE_MBIT, LARGE_RTT_MS, LARGE_S = 20.0, 100.0, 200.0
"""A path on which CUBIC is outside its Reno-friendly region: by equations 1 and 4 of RFC 9438,
W_cubic returns to the last maximum before W_est if that is above (1.6 s / RTT)^(3/2) segments. At
the RTT of the near flow with half of the queue, 150 ms, these are 35; equal windows have 186."""
DELAYED = ("vegas", "lp", "dctcp")
LATE_S = 10.0
CROWD = 16
CROWD_BDP = (0.1, 0.25, 1.0)
CROWD_RTT_MS = 80.0
CROWD_S, AGAINST_CROWD_S = 20.0, 100.0
"""A BBR flow against a crowd lasts longer: every ProbeRTT, one per 10 s, changes its share."""
STAGGER_S = 0.25
"""Flows of a crowd start one after another, so that their sawtooths differ in phase."""
INCAST_FLOWS, INCAST_BYTES, INCAST_RTT_MS = 32, 128 * KIB, 10.0
INCAST_PACKETS = 64
"""The buffer per port of a small switch, in packets."""
BLOCK_BYTES, BLOCK_MBIT, BLOCK_RTT_MS, BLOCK_PACKETS = 1024 * KIB, 1000.0, 0.1, 21
"""A block of 1 MB split over all servers, a gigabit, and a port with 32 kB."""
INCAST_S = 5.0
SHORT_BYTES = 8 * KIB
"""Responses so short that no transfer hides a timeout of 200 ms."""
PAIR_MS, CROWD_SAMPLE_MS = 200, 1000
"""The intervals of samples: small enough for a sawtooth of seconds, and for data to be small."""

SMALL = (
    *(f"cubic-bbr-{size:g}bdp" for size in SIZES_BDP),
    *("reno-cubic", "cubic-vegas", "cubic-lp"),
    *("rtts-reno", "rtts-cubic", "rtts-bbr", "rtts-fq-codel", "rtts-cubic-large"),
    *("late-reno", "late-cubic", "late-bbr"),
    *("crowd-0.25bdp", "crowd-1bdp", "crowd-one-bbr", "pair-one-bbr"),
    *("incast-fifo", "incast-fq-codel", "incast-short", "incast-block"),
)


@dataclass(frozen=True)
class Plan:
    """The parts of a condition that differ within a group."""

    name: str
    group: Group
    flows: tuple[Flow, ...]
    queue: Queue
    mbit: float
    rtt_ms: float
    duration_s: float
    sample_ms: int
    queue_ms: int


def conditions(p: Sharing) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    every = {plan.name: plan for plan in _every(p)}
    names = p.chosen(tuple(every)) if p.only or p.size == "full" else SMALL
    return tuple(_condition(every[name], p) for name in names)


def _condition(plan: Plan, p: Sharing) -> Condition:
    half_ms = plan.rtt_ms / 2
    path = NetworkPath(Direction(plan.mbit, half_ms, queue=plan.queue), Direction(delay_ms=half_ms))
    traffic = Traffic(
        path,
        plan.flows,
        plan.duration_s,
        sample_ms=plan.sample_ms,
        queue_ms=plan.queue_ms,
        capture=p.capture,
    )
    many = plan.group in (CROWDS, INCAST)
    settings = Settings(
        duration_s=plan.duration_s,
        bottleneck_mbit=None if many else plan.mbit,
        crowd_mbit=plan.mbit if many else None,
        path_rtt_ms=None if many else plan.rtt_ms,
    )
    return traffic.condition(
        plan.name, p.testbed, settings=as_settings(settings), group=plan.group.name
    )


def _every(p: Sharing) -> Iterator[Plan]:
    for name, group, flows, queue in _pairs(p):
        times = DEEP_TIMES if name == DEEP else RTTS_TIMES if group is RTTS else 1
        interval_ms = DEEP_TIMES * PAIR_MS if name == DEEP else PAIR_MS
        yield Plan(
            name,
            group,
            flows,
            queue,
            p.bottleneck_mbit,
            p.path_rtt_ms,
            min(times * p.duration_s, LONGEST_S),
            interval_ms,
            interval_ms,
        )
    pair = (Flow(extra_delay_ms=(p.far_times - 1) * LARGE_RTT_MS), Flow())
    large = (LARGE_MBIT, LARGE_RTT_MS, LARGE_S, CROWD_SAMPLE_MS, CROWD_SAMPLE_MS)
    yield Plan("rtts-cubic-large", RTTS, pair, Queue(bdp=1.0), *large)
    yield from _crowds(p)
    yield from _incast(p)


def _pairs(p: Sharing) -> Iterator[tuple[str, Group, tuple[Flow, ...], Queue]]:
    """Two flows; the one whose share is the question comes first."""
    for size in SIZES_BDP:
        pair = (Flow("bbr"), Flow("cubic"))
        yield f"cubic-bbr-{size:g}bdp", AGAINST_BBR, pair, Queue(bdp=size)
    yield "cubic-bbr-fq-codel", AGAINST_BBR, (Flow("bbr"), Flow("cubic")), Queue("fq_codel")
    yield "reno-cubic", CONTROLS, (Flow("cubic"), Flow("reno")), Queue(bdp=1.0)
    for control in DELAYED:
        marks = control == "dctcp"
        pair = (Flow(control, ecn=marks), Flow("cubic"))
        yield f"cubic-{control}", CONTROLS, pair, Queue(bdp=2.0)
    yield "dctcp-dctcp", CONTROLS, (Flow("dctcp", ecn=True),) * 2, Queue("codel", ecn=True)
    extra_ms = (p.far_times - 1) * p.path_rtt_ms
    for control in ("reno", "cubic", "bbr"):
        pair = (Flow(control, extra_delay_ms=extra_ms), Flow(control))
        yield f"rtts-{control}", RTTS, pair, Queue(bdp=1.0)
    pair = (Flow("reno", extra_delay_ms=extra_ms), Flow("reno"))
    yield "rtts-fq-codel", RTTS, pair, Queue("fq_codel")
    for control in ("reno", "cubic", "bbr"):
        pair = (Flow(control, start_s=LATE_S), Flow(control))
        yield f"late-{control}", STARTS, pair, Queue(bdp=1.0)


def _crowds(p: Sharing) -> Iterator[Plan]:
    crowd = tuple(Flow("reno", start_s=STAGGER_S * place) for place in range(CROWD))
    cubic = tuple(Flow("cubic", start_s=flow.start_s) for flow in crowd[1:])
    for name, flows, queue, lasts_s in (
        *((f"crowd-{size:g}bdp", crowd, Queue(bdp=size), CROWD_S) for size in CROWD_BDP),
        ("crowd-fq-codel", crowd, Queue("fq_codel"), CROWD_S),
        ("crowd-one-bbr", (Flow("bbr"), *cubic), Queue(bdp=2.0), AGAINST_CROWD_S),
        ("pair-one-bbr", (Flow("bbr"), cubic[0]), Queue(bdp=2.0), AGAINST_CROWD_S),
    ):
        yield Plan(
            name, CROWDS, flows, queue, p.crowd_mbit, CROWD_RTT_MS, lasts_s, CROWD_SAMPLE_MS, 100
        )


def _incast(p: Sharing) -> Iterator[Plan]:
    small = Queue("pfifo", packets=INCAST_PACKETS)
    usual = (p.crowd_mbit, INCAST_RTT_MS)
    for name, size_bytes, queue, path in (
        ("incast-fifo", INCAST_BYTES, small, usual),
        ("incast-large", INCAST_BYTES, Queue("pfifo", packets=16 * INCAST_PACKETS), usual),
        ("incast-fq-codel", INCAST_BYTES, Queue("fq_codel"), usual),
        ("incast-short", SHORT_BYTES, small, usual),
        (
            "incast-block",
            BLOCK_BYTES // INCAST_FLOWS,
            Queue("pfifo", packets=BLOCK_PACKETS),
            (BLOCK_MBIT, BLOCK_RTT_MS),
        ),
    ):
        flows = (Flow(start_s=1.0, size_bytes=size_bytes),) * INCAST_FLOWS
        yield Plan(name, INCAST, flows, queue, *path, INCAST_S, 100, 20)
