"""The results of a run with several flows, for every lab that has such runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy

from labs.drive.flows import Traffic
from labs.drive.result_columns import Note, column
from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import SECOND_NS, bytes_per_second
from labs.read.readings import bottleneck
from labs.read.readings.flows import (
    apart_pct,
    begin_ns,
    carried,
    downward,
    fair_after_s,
    goodputs_mbit,
    jain_in_windows,
    mean_rtts_ms,
    outside_probe_rtt,
    retransmitted_pct,
    traffic_of,
    window_cuts,
)
from labs.read.readings.instruments import ALLOWED_PCT, capture_losses, under_memory_pressure
from labs.read.readings.requests import request_latency
from labs.read.readings.traffic_prediction import first_ones, predicted
from labs.read.runs.raw_files import PATH
from labs.read.runs.run import Run
from labs.read.theory.bdp import payload_share
from labs.read.theory.fair_queueing import jain
from labs.read.theory.rtt_unfairness import power_of_rtt


@dataclass(frozen=True, kw_only=True)
class Results:
    """The figures of one run; None for those that it does not have. Steady state is the second half
    of the time in which all long flows run; `down` is from server to client."""

    goodput_mbit: float | None = column(
        "goodput of all flows down, steady state",
        unit="Mbit/s",
        predicted_by="predicted_goodput_mbit",
        headline=True,
    )
    predicted_goodput_mbit: float | None = column("predicted goodput", unit="Mbit/s")
    utilisation_pct: float | None = column(
        "share of the link's rate in use, steady state",
        unit="%",
        predicted_by="predicted_utilisation_pct",
    )
    predicted_utilisation_pct: float | None = column("predicted utilisation", unit="%")
    share_pct: float | None = column(
        "share of the first flow, or of all with its congestion control",
        unit="%",
        predicted_by="predicted_share_pct",
    )
    predicted_share_pct: float | None = column("predicted share", unit="%")
    jain: float | None = column("Jain's index of the goodputs in steady state")
    jain_1s: float | None = column("Jain's index, median of windows of 1 s")
    fair_after_s: float | None = column(
        "time from the last start until all flows are within 10 % of an equal share", unit="s"
    )
    queue_p50_ms: float | None = column(
        "delay in the queue, median over time", unit="ms", predicted_by="predicted_queue_ms"
    )
    queue_p95_ms: float | None = column("delay in the queue, 95th percentile", unit="ms")
    queue_p99_ms: float | None = column("delay in the queue, 99th percentile", unit="ms")
    queue_min_ms: float | None = column(
        "delay in the queue, 5th percentile: the standing queue", unit="ms", hidden=True
    )
    predicted_queue_ms: float | None = column("predicted median delay in the queue", unit="ms")
    lost_pct: float | None = column("packets that the queue dropped", unit="%")
    marked_pct: float | None = column("packets that the queue marked (ECN)", unit="%")
    retransmitted_pct: float | None = column("payload that was sent again", unit="%")
    request_idle_ms: float | None = column(
        "median latency of a request before the flows", unit="ms"
    )
    request_p50_ms: float | None = column(
        "median latency of a request beside the flows",
        unit="ms",
        predicted_by="predicted_request_ms",
    )
    request_p99_ms: float | None = column("99th percentile of that latency", unit="ms")
    request_ratio: float | None = column("latency beside the flows as a multiple of the idle one")
    predicted_request_ms: float | None = column("predicted median latency", unit="ms")
    completed_ms: float | None = column(
        "from the first start until the last flow with a size has arrived", unit="ms"
    )
    goodput_up_mbit: float | None = column("goodput of all flows up, steady state", unit="Mbit/s")
    beyond_transfer_ms: float | None = column(
        "time that flows with a size take beyond what the link needs for their bytes",
        unit="ms",
        hidden=True,
    )
    power_of_rtt: float | None = column(
        "power of 1/RTT by which the goodputs of two flows differ, from mean RTTs with the queue",
        hidden=True,
    )
    window_left: float | None = column(
        "window after a loss as a share of the one before, median of the first flow's losses after "
        "slow start",
        hidden=True,
    )
    window_cuts: int | None = column("number of these losses in the samples", hidden=True)
    outside_probe_rtt_pct: float | None = column(
        "share of the time that BBR's window is above the four segments of ProbeRTT",
        unit="%",
        hidden=True,
    )
    timeouts: int | None = column("retransmission timeouts of the server", hidden=True)
    loss_probes: int | None = column("tail loss probes of the server", hidden=True)
    theory: str | None = column("what the prediction is from", hidden=True)
    queue: str | None = column("the queue", hidden=True)
    buffer_bdp: float | None = column("size of the queue", unit="BDP", hidden=True)
    flows: int | None = column("number of flows", hidden=True)
    controls: str | None = column("congestion controls, in the order of the flows", hidden=True)
    instruments_pct: float | None = column(
        "largest deviation between the instruments", unit="%", hidden=True
    )
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run."""
    traffic, flows, theory = traffic_of(run), downward(run), predicted(traffic_of(run))
    rates = goodputs_mbit(run)
    total, chosen = sum(rates), first_ones([one.flow for one in flows])
    several = len(flows) > 1 and total > 0
    delays = bottleneck.delays_ms(run)
    at = {q: float(numpy.percentile(delays, q)) if delays else None for q in (5, 50, 95, 99)}
    took = request_latency(run)
    upward = [one for one in carried(run) if one.flow.direction == "up"]
    apart, counted = apart_pct(run), run.nstat("server")
    queue, took_ms = traffic.path.queue("down"), completed_ms(run)
    cuts, outside = window_cuts(run), outside_probe_rtt(run)
    return Results(
        goodput_mbit=total,
        predicted_goodput_mbit=theory.goodput_mbit,
        utilisation_pct=bottleneck.utilisation_pct(run),
        predicted_utilisation_pct=theory.utilisation_pct,
        share_pct=100 * sum(rates[place] for place in chosen) / total if several else None,
        predicted_share_pct=theory.share_pct,
        jain=jain(rates) if several else None,
        jain_1s=median(jain_in_windows(run)) if several else None,
        fair_after_s=fair_after_s(run),
        queue_p50_ms=at[50],
        queue_p95_ms=at[95],
        queue_p99_ms=at[99],
        queue_min_ms=at[5],
        predicted_queue_ms=theory.queue_ms,
        lost_pct=bottleneck.lost_pct(run),
        marked_pct=bottleneck.marked_pct(run),
        retransmitted_pct=retransmitted_pct(run),
        request_idle_ms=took.idle_p50_ms if took else None,
        request_p50_ms=took.p50_ms if took else None,
        request_p99_ms=took.p99_ms if took else None,
        request_ratio=took.ratio if took else None,
        predicted_request_ms=theory.request_ms,
        completed_ms=took_ms,
        goodput_up_mbit=sum(goodputs_mbit(run, upward)) if upward else None,
        beyond_transfer_ms=beyond_transfer_ms(traffic, took_ms),
        power_of_rtt=power_of_rtt_of(run),
        window_left=median(cuts) if cuts else None,
        window_cuts=len(cuts),
        outside_probe_rtt_pct=None if outside is None else 100 * outside,
        timeouts=counted.get("TcpExtTCPTimeouts"),
        loss_probes=counted.get("TcpExtTCPLossProbes"),
        theory=theory.theory or None,
        queue=queue.kind if queue else None,
        buffer_bdp=buffer_bdp(run),
        flows=len(traffic.flows),
        controls=", ".join(one.control for one in traffic.flows),
        instruments_pct=apart,
        notes=tuple(notes(run, apart)),
    )


def buffer_bdp(run: Run) -> float | None:
    """The size of the queue towards the client in BDPs; None if it has no size of its own."""
    path = traffic_of(run).path
    queue, bdp = path.queue("down"), path.bdp_bytes("down")
    if queue is None or not bdp:
        return None
    if queue.packets is not None:
        return queue.packets * FRAME_BYTES / bdp
    return None if queue.size_bytes is None else queue.size_bytes / bdp


def completed_ms(run: Run) -> float | None:
    """How long the flows with a size took together; None without any, or if one did not end."""
    sized = [one for one in carried(run) if one.flow.size_bytes is not None]
    if not sized or any(
        one.received.bytes < (one.flow.size_bytes or 0) or not one.received.end_ns for one in sized
    ):
        return None
    first_ns = begin_ns(run) + min(one.flow.start_s for one in sized) * SECOND_NS
    return (max(one.received.end_ns for one in sized) - first_ns) / 1e6


def beyond_transfer_ms(traffic: Traffic, took_ms: float | None) -> float | None:
    """How much of the time of flows with a size the link does not need for their bytes."""
    rate_mbit, size = traffic.path.down.rate_mbit, sum(one.size_bytes or 0 for one in traffic.flows)
    if took_ms is None or rate_mbit is None:
        return None
    needs_ms = 1e3 * size / (bytes_per_second(rate_mbit) * payload_share())
    return took_ms - needs_ms - traffic.path.rtt_ms


def power_of_rtt_of(run: Run) -> float | None:
    """The power of 1/RTT of the goodputs of two flows; None unless their paths' RTTs differ."""
    if len(downward(run)) != 2 or len({one.flow.extra_delay_ms for one in downward(run)}) != 2:
        return None
    (far, near), (far_ms, near_ms) = goodputs_mbit(run), mean_rtts_ms(run)
    return power_of_rtt((far, near), (far_ms, near_ms))


def notes(run: Run, apart: float | None) -> Iterator[Note]:
    """Notes on a run: a path off its target, instruments that disagree, lost packets, errors."""
    if not run.link.ok:
        yield Note("link", "link not as asked")
    for direction, about in run.read("path.json", PATH).items():
        problems = about.get("problems") if isinstance(about, Mapping) else None
        if isinstance(problems, list) and problems:
            yield Note("path", f"{direction} not as asked: {'; '.join(map(str, problems))}")
    if apart is not None and apart > ALLOWED_PCT:
        yield Note("instruments", f"instruments disagree by {apart:.2g} %")
    lost = capture_losses(run)
    if lost:
        yield Note("capture_lost", f"tcpdump lost {lost} packets")
    if under_memory_pressure(run):
        yield Note("memory_pressure", "TCP was under memory pressure")
    for one in carried(run):
        if one.failure:
            yield Note("flow_ended", f"flow {one.name} ended: {one.failure}")
    took = request_latency(run)
    if took is not None and took.unanswered:
        yield Note("unanswered", f"{took.unanswered} requests had no answer, and no latency")
