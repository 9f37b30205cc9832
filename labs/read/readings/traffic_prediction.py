"""What the theory expects of several flows over a path: which theory applies follows from the
queue, the congestion controls and the losses, not from the name of a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labs.guest.flows import Flow, Traffic
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.units import bytes_per_second
from labs.read.theory.bdp import (
    FOLLOWS_MATHIS,
    SEGMENTS_PER_ACK,
    bandwidth_ratio,
    clocked_goodput_bytes_s,
    loss_event_pct,
    mathis_utilisation,
    payload_share,
)
from labs.read.theory.queues import BETA, cycle, largest_queue_ms, many_flows_utilisation
from labs.read.theory.sharing import (
    PROBE_RTT_EVERY_S,
    PROBE_RTT_S,
    bbr_share,
    fair_shares,
    synchronised,
)

BBR = "bbr"
FIFOS = ("pfifo", "bfifo")
BY_FLOW = ("fq", "fq_codel", "fq_pie", "cake")
BY_CODEL = ("codel", "fq_codel")
MANY = 8
"""From so many flows on they are taken to lose packets at different moments."""


@dataclass(frozen=True)
class Prediction:
    """The expected figures of a run; None for what no theory here covers. `theory` names it.

    `share_pct` is the share of the flows in `first_ones`, `queue_ms` the median delay in the queue,
    `request_ms` the median latency of a request.
    """

    theory: str | None = None
    utilisation_pct: float | None = None
    goodput_mbit: float | None = None
    share_pct: float | None = None
    queue_ms: float | None = None
    request_ms: float | None = None


def first_ones(flows: Sequence[Flow]) -> tuple[int, ...]:
    """The flows whose share is the question: those with the congestion control of the first one if
    there are several controls, else the first alone."""
    if len({flow.control for flow in flows}) > 1:
        return tuple(i for i, flow in enumerate(flows) if flow.control == flows[0].control)
    return (0,)


def buffer_segments(traffic: Traffic) -> float | None:
    """The size of the queue towards the client in full segments; None if it has none of its own."""
    queue = traffic.path.queue("down")
    if queue is None:
        return None
    if queue.packets is not None:
        return float(queue.packets)
    return None if queue.size_bytes is None else queue.size_bytes / FRAME_BYTES


def predicted(traffic: Traffic) -> Prediction:
    """The prediction for a run of this traffic."""
    path, queue, back = traffic.path, traffic.path.queue("down"), traffic.path.queue("up")
    down = [flow for flow in traffic.flows if flow.direction == "down"] or [*traffic.flows]
    flows, rate = [flow for flow in down if flow.size_bytes is None], path.down.rate_mbit
    if queue is None or rate is None or not flows or path.changes:
        return Prediction()
    if back is not None and back.kind not in BY_FLOW and len(down) < len(traffic.flows):
        return Prediction()  # ACKs wait behind the data of the other direction
    per_s = bytes_per_second(rate) / FRAME_BYTES
    prediction = _of_loss(traffic, flows, per_s) or _of_slow_acks(traffic, rate)
    if prediction is None and len(flows) == 1:
        prediction = _alone(traffic, flows[0], queue.kind, per_s)
    elif prediction is None and queue.kind in BY_FLOW:
        prediction = _queued_fairly(flows, rate)
    elif prediction is None and queue.kind in FIFOS:
        prediction = _together(traffic, flows, per_s)
    return _completed(prediction or Prediction(), traffic, queue.kind, rate)


def _of_loss(traffic: Traffic, flows: Sequence[Flow], per_s: float) -> Prediction | None:
    """Random loss on the forward path, with one flow."""
    down = traffic.path.down
    if not down.loss_pct or len(flows) > 1:
        return None
    if flows[0].control not in FOLLOWS_MATHIS or not own_rtt_ms(traffic, flows[0]):
        return Prediction()
    events = loss_event_pct(down.loss_pct, down.loss_run or 1.0)
    share = mathis_utilisation(events, per_s * own_rtt_ms(traffic, flows[0]) / 1e3)
    return Prediction("Mathis and others 1997", 100 * share)


def _of_slow_acks(traffic: Traffic, rate: float) -> Prediction | None:
    """A reverse path that carries fewer ACKs than the flow causes."""
    back = traffic.path.up.rate_mbit
    if back is None or bandwidth_ratio(rate, back) <= SEGMENTS_PER_ACK:
        return None
    clocked = clocked_goodput_bytes_s(back) / payload_share()
    return Prediction("RFC 3449: clocked by ACKs", 100 * clocked / bytes_per_second(rate))


def _alone(traffic: Traffic, flow: Flow, kind: str, per_s: float) -> Prediction | None:
    """One flow: the sawtooth of a loss-based one, or BBR, which only ProbeRTT interrupts."""
    if flow.app_mbit is not None:
        return None
    if flow.control == BBR:
        idle = PROBE_RTT_S / PROBE_RTT_EVERY_S
        return Prediction("BBR: all but ProbeRTT", 100 * (1 - idle))
    segments = buffer_segments(traffic)
    rtt_ms = own_rtt_ms(traffic, flow)
    theory = "sawtooth in a FIFO"
    if kind in BY_CODEL:
        segments = largest_queue_ms(rtt_ms, per_s) / 1e3 * per_s
        theory = "sawtooth up to CoDel's first drop"
    if flow.control not in BETA or segments is None or kind not in (*FIFOS, *BY_CODEL):
        return None
    teeth = cycle(flow.control, per_s, rtt_ms, segments)
    return Prediction(theory, teeth.utilisation_pct, queue_ms=teeth.queue_percentile_ms(50))


def _queued_fairly(flows: Sequence[Flow], rate: float) -> Prediction:
    """Several flows in queues of their own; those that applications limit may leave a rest."""
    wanted = [
        None if flow.app_mbit is None else flow.app_mbit / payload_share() / rate for flow in flows
    ]
    shares = fair_shares(wanted)
    used = 1.0 if None in wanted else sum(shares)
    chosen = sum(shares[place] for place in first_ones(flows))
    return Prediction("fair queueing: max-min", 100 * used, share_pct=100 * chosen / used)


def _together(traffic: Traffic, flows: Sequence[Flow], per_s: float) -> Prediction | None:
    """Several flows in a FIFO; without a delay, only the hosts' own speed clocks them."""
    segments, rtts = buffer_segments(traffic), [own_rtt_ms(traffic, flow) for flow in flows]
    if segments is None or not all(rtts) or any(flow.app_mbit is not None for flow in flows):
        return None
    controls = [flow.control for flow in flows]
    kinds, size_bdp = {*controls}, segments / (per_s * rtts[0] / 1e3)
    if {BBR} < kinds <= {BBR, *BETA}:
        share = bbr_share(size_bdp, per_s, rtts[0], controls.count(BBR))
        share = share if controls[0] == BBR else 1 - share
        return Prediction("Ware and others 2019", share_pct=100 * share)
    if not kinds <= {*BETA}:
        return None
    if len(flows) >= MANY and kinds == {"reno"} and len({*rtts}) == 1:
        used = many_flows_utilisation(len(flows), size_bdp)
        return Prediction("square-root rule", 100 * used, share_pct=100 / len(flows))
    shared = synchronised(tuple(controls), tuple(rtts), per_s, segments)
    share = sum(shared.shares[place] for place in first_ones(flows))
    return Prediction(
        "synchronised losses",
        shared.utilisation_pct,
        share_pct=100 * share,
        queue_ms=shared.queue_ms,
    )


def _completed(prediction: Prediction, traffic: Traffic, kind: str, rate: float) -> Prediction:
    """With the goodput, and the latency of requests where the delay in the queue is known."""
    goodput, request_ms, requests = prediction.goodput_mbit, None, traffic.requests
    if prediction.utilisation_pct is not None:
        goodput = prediction.utilisation_pct / 100 * rate * payload_share()
    waits_ms = 0.0 if kind in BY_FLOW else prediction.queue_ms
    if requests is not None and waits_ms is not None:
        trips = 1 if requests.kept else 2
        sent_ms = 1e3 * requests.size_bytes / bytes_per_second(rate)
        request_ms = trips * (traffic.path.rtt_ms + waits_ms) + sent_ms
    return replace(prediction, goodput_mbit=goodput, request_ms=request_ms)


def own_rtt_ms(traffic: Traffic, flow: Flow) -> float:
    """The RTT of a flow without a queue."""
    return traffic.path.rtt_ms + flow.extra_delay_ms
