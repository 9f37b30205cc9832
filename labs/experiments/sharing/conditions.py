"""The lab `sharing`: how flows share a link, by control, RTT, start and number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labs.drive.bottleneck import Plan, path_rtt, planned, rate
from labs.drive.condition_table import Changes, Row, each, row, rows
from labs.drive.parameters.declare import LabParameters, parameter
from labs.drive.result_columns import Margin
from labs.guest import traffic
from labs.guest.condition import Condition, Group
from labs.guest.flows import Flow
from labs.guest.testbed.path import Queue
from labs.guest.units import KIB

AGAINST_BBR = Group("against_bbr", "BBR against CUBIC, buffers of different sizes")
CONTROLS = Group("controls", "Pairs of congestion controls")
RTTS = Group("rtts", "Two flows with different RTTs")
STARTS = Group("starts", "A flow that starts later")
CROWDS = Group("crowds", "Many flows")
INCAST = Group("incast", "Many senders at the same moment")
GROUPS = (AGAINST_BBR, CONTROLS, RTTS, STARTS, CROWDS, INCAST)
MARGIN = Margin(
    0.9,
    1.1,
    "the sum of the flows fills the link in both testbeds; on machines the moments of losses, "
    "and so the shares, differ from run to run",
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    """The path; each condition has flows that compete on it."""

    bottleneck_mbit: float = rate(10.0, help="rate of the bottleneck for pairs of flows")
    crowd_mbit: float = rate(50.0, help="rate of the bottleneck for crowds and incast")
    path_rtt_ms: float = path_rtt()
    far_times: float = parameter(
        4.0, low=1, high=20, help="RTT of the distant flow as a multiple, where RTTs differ"
    )
    duration_s: float = parameter(
        60.0,
        unit="s",
        low=10,
        high=1000,
        help="duration of the flows of a pair; a pair with two RTTs, or at a buffer of 16 BDP, "
        "lasts four times as long, up to 3600 s",
    )


SIZES_BDP = (0.5, 1.0, 2.0, 4.0, 8.0)
LONGEST_S = 3600.0
"""The longest run of flows (labs.guest.flows)."""
LONGER_TIMES = 4
"""In a deep buffer shares need minutes to settle: that condition is longer, with fewer samples.
Flows with different RTTs last longer, too. In 60 s the phase of their sawtooths decides: the share
of a distant Reno flow is 22 to 25 %, in 240 s 23 to 24 %."""
LARGE_RTT_MS = 100.0
LARGE: Changes = {"mbit": 20.0, "rtt_ms": LARGE_RTT_MS, "duration_s": 200.0}
"""A path on which CUBIC is outside its Reno-friendly region: by equations 1 and 4 of RFC 9438,
W_cubic returns to the last maximum before W_est if that is above (1.6 s / RTT)^(3/2) segments. At
the RTT of the near flow with half of the queue, 150 ms, these are 35; equal windows have 186."""
LATE_S = 10.0
CROWD = 16
CROWD_RTT_MS = 80.0
CROWD_S, AGAINST_CROWD_S = 20.0, 100.0
"""A BBR flow against a crowd lasts longer: every ProbeRTT, one per 10 s, changes its share."""
STAGGER_S = 0.25
"""Flows of a crowd start one after another, so that their sawtooths differ in phase."""
INCAST_FLOWS, INCAST_BYTES, INCAST_RTT_MS = 32, 128 * KIB, 10.0
INCAST_PACKETS = 64
"""The buffer per port of a small switch, in packets."""
BLOCK_BYTES, BLOCK_PACKETS = 1024 * KIB, 21
BLOCK_PATH: Changes = {"mbit": 1000.0, "rtt_ms": 0.1}
"""A block of 1 MB split over all servers, a gigabit, and a port with 32 kB."""
INCAST_S = 5.0
SHORT_BYTES = 8 * KIB
"""Responses so short that no transfer hides a timeout of 200 ms."""
FIFO, FAIR = Queue(bdp=1.0), Queue("fq_codel")
OF_CROWD = {"crowd_mbit": "mbit"}


def conditions(p: Parameters) -> tuple[Condition, ...]:
    """The conditions that the parameters select: those of `only`, or those of the size."""
    pair: Changes = {"mbit": p.bottleneck_mbit, "rtt_ms": p.path_rtt_ms}
    base = Plan(**pair, duration_s=p.duration_s, **_sampled(200))
    return planned(p, base, [*_pairs(p), *_round_trips(p), *_starts(), *_crowds(p), *_incast(p)])


def _sampled(every_ms: int) -> Changes:
    """Samples often enough for a sawtooth of seconds, and rare enough for data to be small."""
    return {"sample_ms": every_ms, "queue_ms": every_ms}


def _longer(p: Parameters) -> Changes:
    return {"duration_s": min(LONGER_TIMES * p.duration_s, LONGEST_S)}


def _pairs(p: Parameters) -> Iterator[Row]:
    """Two flows; the one whose share is the question comes first."""
    deep: Changes = {"queue": Queue(bdp=16.0), **_longer(p), **_sampled(800)}
    yield from rows(
        AGAINST_BBR,
        each("cubic-bbr-{:g}bdp", SIZES_BDP, small=True, queue=lambda size: Queue(bdp=size)),
        row("cubic-bbr-16bdp", small=True, **deep),
        row("cubic-bbr-fq-codel", queue=FAIR),
        flows=(Flow("bbr"), Flow("cubic")),
    )
    dctcp, cubic = Flow("dctcp", ecn=True), Flow("cubic")
    yield from rows(
        CONTROLS,
        row("reno-cubic", small=True, flows=(cubic, Flow("reno")), queue=FIFO),
        row("cubic-vegas", small=True, flows=(Flow("vegas"), cubic)),
        row("cubic-lp", small=True, flows=(Flow("lp"), cubic)),
        row("cubic-dctcp", flows=(dctcp, cubic)),
        row("dctcp-dctcp", flows=(dctcp, dctcp), queue=Queue("codel", ecn=True)),
        queue=Queue(bdp=2.0),
    )


def _round_trips(p: Parameters) -> Iterator[Row]:
    def pair(control: str, rtt_ms: float = p.path_rtt_ms) -> tuple[Flow, ...]:
        return Flow(control, extra_delay_ms=(p.far_times - 1) * rtt_ms), Flow(control)

    large: Changes = {"flows": pair("cubic", LARGE_RTT_MS), **LARGE, **_sampled(1000)}
    return rows(
        RTTS,
        each("rtts-{}", ("reno", "cubic", "bbr"), small=True, flows=pair),
        row("rtts-fq-codel", small=True, flows=pair("reno"), queue=FAIR),
        row("rtts-cubic-large", small=True, **large),
        **_longer(p),
    )


def _starts() -> Iterator[Row]:
    def pair(control: str) -> tuple[Flow, ...]:
        return Flow(control, start_s=LATE_S), Flow(control)

    return rows(STARTS, each("late-{}", ("reno", "cubic", "bbr"), small=True, flows=pair))


def _crowds(p: Parameters) -> Iterator[Row]:
    crowd = tuple(Flow("reno", start_s=STAGGER_S * place) for place in range(CROWD))
    cubic = tuple(Flow("cubic", start_s=flow.start_s) for flow in crowd[1:])
    against: Changes = {"queue": Queue(bdp=2.0), "duration_s": AGAINST_CROWD_S}
    return rows(
        CROWDS,
        row("crowd-0.1bdp", queue=Queue(bdp=0.1)),
        row("crowd-0.25bdp", small=True, queue=Queue(bdp=0.25)),
        row("crowd-1bdp", small=True, queue=FIFO),
        row("crowd-fq-codel", queue=FAIR),
        row("crowd-one-bbr", small=True, flows=(Flow("bbr"), *cubic), **against),
        row("pair-one-bbr", small=True, flows=(Flow("bbr"), cubic[0]), **against),
        mbit=p.crowd_mbit,
        recorded=OF_CROWD,
        flows=crowd,
        rtt_ms=CROWD_RTT_MS,
        duration_s=CROWD_S,
        sample_ms=1000,
        queue_ms=100,
    )


def _incast(p: Parameters) -> Iterator[Row]:
    def senders(size_bytes: int) -> tuple[Flow, ...]:
        return (Flow(start_s=1.0, size_bytes=size_bytes),) * INCAST_FLOWS

    block: Changes = {"flows": senders(BLOCK_BYTES // INCAST_FLOWS), **BLOCK_PATH}
    return rows(
        INCAST,
        row("incast-fifo", small=True),
        row("incast-large", queue=Queue(packets=16 * INCAST_PACKETS)),
        row("incast-fq-codel", small=True, queue=FAIR),
        row("incast-short", small=True, flows=senders(SHORT_BYTES)),
        row("incast-block", small=True, queue=Queue(packets=BLOCK_PACKETS), **block),
        mbit=p.crowd_mbit,
        recorded=OF_CROWD,
        flows=senders(INCAST_BYTES),
        queue=Queue(packets=INCAST_PACKETS),
        rtt_ms=INCAST_RTT_MS,
        duration_s=INCAST_S,
        sample_ms=100,
        queue_ms=20,
    )


tools, lines = traffic.tools, traffic.lines
