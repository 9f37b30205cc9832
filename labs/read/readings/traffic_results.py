"""The results of a run with several flows, for every lab that has such runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from statistics import median

import numpy

from labs.drive.result_columns import Note, column, part
from labs.guest.flows import Traffic
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.testbed.path import DIRECTIONS, Queue
from labs.guest.units import SECOND_NS, bytes_per_second
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
    outside_probe_rtt_pct,
    retransmitted_pct,
    traffic_of,
    window_cuts,
)
from labs.read.readings.instruments import under_memory_pressure
from labs.read.readings.requests import request_latency
from labs.read.readings.run_results import RunResults, from_run, hidden, hidden_column
from labs.read.readings.traffic_prediction import Prediction, buffer_segments, first_ones, predicted
from labs.read.runs.raw_files import PATH
from labs.read.theory.bdp import payload_share
from labs.read.theory.sharing import jain, power_of_rtt


class TrafficResults(RunResults):
    """The figures of a run with several flows; None for those that it does not have. Steady state
    is the second half of the time in which all long flows run; `down` is from server to client."""

    traffic = from_run(traffic_of)

    @cached_property
    def prediction(self) -> Prediction:
        return predicted(self.traffic)

    flows_down = from_run(downward)
    goodputs = from_run(goodputs_mbit)

    @property
    def are_several(self) -> bool:
        """Whether several flows carried anything, so that shares have a meaning."""
        return len(self.flows_down) > 1 and sum(self.goodputs) > 0

    delays_ms = from_run(bottleneck.delays_ms)

    @cached_property
    def delay_ms(self) -> Mapping[str, float]:
        """Percentiles of the delay in the queue; none without a queue."""
        shares = (5, 50, 95, 99) if self.delays_ms else ()
        return {f"p{share}": float(numpy.percentile(self.delays_ms, share)) for share in shares}

    @property
    def queue_down(self) -> Queue | None:
        return self.traffic.path.queue("down")

    latency = from_run(request_latency)
    cuts = from_run(window_cuts)

    @cached_property
    def server_counters(self) -> dict[str, int]:
        return self.run.nstat("server")

    @column(
        "goodput of all flows down, steady state",
        unit="Mbit/s",
        predicted_by="predicted_goodput_mbit",
        headline=True,
    )
    def goodput_mbit(self) -> float | None:
        return sum(self.goodputs)

    predicted_goodput_mbit = part("prediction.goodput_mbit", "predicted goodput", unit="Mbit/s")
    utilisation_pct = part(
        bottleneck.utilisation_pct,
        "share of the link's rate in use, steady state",
        unit="%",
        predicted_by="predicted_utilisation_pct",
    )
    predicted_utilisation_pct = part(
        "prediction.utilisation_pct", "predicted utilisation", unit="%"
    )

    @column(
        "share of the first flow, or of all with its congestion control",
        unit="%",
        predicted_by="predicted_share_pct",
    )
    def share_pct(self) -> float | None:
        if not self.are_several:
            return None
        places = first_ones([carried.flow for carried in self.flows_down])
        return 100 * sum(self.goodputs[place] for place in places) / sum(self.goodputs)

    predicted_share_pct = part("prediction.share_pct", "predicted share", unit="%")

    @column("Jain's index of the goodputs in steady state")
    def jain(self) -> float | None:
        return jain(self.goodputs) if self.are_several else None

    @column("Jain's index, median of windows of 1 s")
    def jain_1s(self) -> float | None:
        return median(jain_in_windows(self.run)) if self.are_several else None

    fair_after_s = part(
        fair_after_s,
        "time from the last start until all flows are within 10 % of an equal share",
        unit="s",
        costly=True,
    )

    queue_p50_ms = part(
        "delay_ms.p50",
        "delay in the queue, median over time",
        unit="ms",
        predicted_by="predicted_queue_ms",
    )
    queue_p95_ms = part("delay_ms.p95", "delay in the queue, 95th percentile", unit="ms")
    queue_p99_ms = part("delay_ms.p99", "delay in the queue, 99th percentile", unit="ms")
    queue_min_ms = hidden(
        "delay_ms.p5", "delay in the queue, 5th percentile: the standing queue", unit="ms"
    )
    predicted_queue_ms = part(
        "prediction.queue_ms", "predicted median delay in the queue", unit="ms"
    )
    lost_pct = part(bottleneck.lost_pct, "packets that the queue dropped", unit="%")
    marked_pct = part(bottleneck.marked_pct, "packets that the queue marked (ECN)", unit="%")
    retransmitted_pct = part(
        retransmitted_pct, "payload that was sent again", unit="%", costly=True
    )
    request_idle_ms = part(
        "latency.idle_p50_ms", "median latency of a request before the flows", unit="ms"
    )
    request_p50_ms = part(
        "latency.p50_ms",
        "median latency of a request beside the flows",
        unit="ms",
        predicted_by="predicted_request_ms",
    )
    request_p99_ms = part("latency.p99_ms", "99th percentile of that latency", unit="ms")
    request_ratio = part("latency.ratio", "latency beside the flows as a multiple of the idle one")
    predicted_request_ms = part("prediction.request_ms", "predicted median latency", unit="ms")

    @column("from the first start until the last flow with a size has arrived", unit="ms")
    def completed_ms(self) -> float | None:
        sized = [flow for flow in carried(self.run) if flow.flow.size_bytes is not None]
        ends = [
            flow.received.end_ns if flow.received.bytes >= (flow.flow.size_bytes or 0) else 0
            for flow in sized
        ]
        if not ends or not all(ends):
            return None  # one did not end
        first_ns = begin_ns(self.run) + min(flow.flow.start_s for flow in sized) * SECOND_NS
        return (max(ends) - first_ns) / 1e6

    @column("goodput of all flows up, steady state", unit="Mbit/s")
    def goodput_up_mbit(self) -> float | None:
        upward = [flow for flow in carried(self.run) if flow.flow.direction == "up"]
        return sum(goodputs_mbit(self.run, upward)) if upward else None

    @column(
        "time that flows with a size take beyond what the link needs for their bytes",
        unit="ms",
        hidden=True,
    )
    def beyond_transfer_ms(self) -> float | None:
        return beyond_transfer_ms(self.traffic, self.completed_ms)

    @column(
        "power of 1/RTT by which the goodputs of two flows differ, from mean RTTs with the queue",
        hidden=True,
    )
    def power_of_rtt(self) -> float | None:
        delays = {flow.flow.extra_delay_ms for flow in self.flows_down}
        if len(self.flows_down) != 2 or len(delays) != 2:
            return None
        far, near = self.goodputs
        far_ms, near_ms = mean_rtts_ms(self.run)
        return power_of_rtt((far, near), (far_ms, near_ms))

    @column(
        "window after a loss as a share of the one before, median of the first flow's losses after "
        "slow start",
        hidden=True,
    )
    def window_left(self) -> float | None:
        return median(self.cuts) if self.cuts else None

    @hidden_column("number of these losses in the samples")
    def window_cuts(self) -> int | None:
        return len(self.cuts)

    outside_probe_rtt_pct = hidden(
        outside_probe_rtt_pct,
        "share of the time that BBR's window is above the four segments of ProbeRTT",
        unit="%",
    )
    timeouts = hidden("server_counters.TcpExtTCPTimeouts", "retransmission timeouts of the server")
    loss_probes = hidden("server_counters.TcpExtTCPLossProbes", "tail loss probes of the server")

    theory = hidden("prediction.theory", "what the prediction is from")
    queue = hidden("queue_down.kind", "the queue")

    @hidden_column("size of the queue", unit="BDP")
    def buffer_bdp(self) -> float | None:
        size, bdp = buffer_segments(self.traffic), self.traffic.path.bdp_bytes("down")
        return size * FRAME_BYTES / bdp if size and bdp else None

    @hidden_column("number of flows")
    def flows(self) -> int | None:
        return len(self.traffic.flows)

    @hidden_column("congestion controls, in the order of the flows")
    def controls(self) -> str | None:
        return ", ".join(flow.control for flow in self.traffic.flows)

    instruments_pct = hidden(
        "disagreement_pct", "largest deviation between the instruments", unit="%"
    )

    disagreement_pct = from_run(apart_pct)

    def lab_notes(self) -> Iterator[Note]:
        """A path off its target, little memory, errors."""
        for direction in DIRECTIONS:
            if problems := self.run.read("path.json", PATH)[direction]["problems"]:
                yield Note("path", f"{direction} not as asked: {'; '.join(problems)}")
        if under_memory_pressure(self.run):
            yield Note("memory_pressure", "TCP was under memory pressure")
        for flow in carried(self.run):
            if flow.failure:
                yield Note("flow_ended", f"flow {flow.name} ended: {flow.failure}")
        if self.latency is not None and self.latency.unanswered:
            text = f"{self.latency.unanswered} requests had no answer, and no latency"
            yield Note("unanswered", text)


def beyond_transfer_ms(traffic: Traffic, took_ms: float | None) -> float | None:
    """How much of the time of flows with a size the link does not need for their bytes."""
    rate_mbit = traffic.path.down.rate_mbit
    if took_ms is None or rate_mbit is None:
        return None
    size = sum(flow.size_bytes or 0 for flow in traffic.flows)
    needs_ms = 1e3 * size / (bytes_per_second(rate_mbit) * payload_share())
    return took_ms - needs_ms - traffic.path.rtt_ms
