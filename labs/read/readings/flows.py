"""The flows of a run with several: what each carried over time, their shares, and how fairly.

Flow i is the connection from the client's port FIRST_PORT + i to the server's SERVER_PORT
(`labs/drive/flows.py`). What a flow carried is what its receiving program read; the receiver's
kernel and, where there is one, its capture count the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy
import numpy.typing as npt

from labs.drive.flows import FIRST_PORT, Flow, Traffic, traffic_from_json
from labs.drive.units import MB, SECOND_NS
from labs.errors import BadInput, Damaged
from labs.read import capture
from labs.read.parse.traffic import StreamReport
from labs.read.runs.raw_files import STREAMS
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory.bbr_against_loss_based import PROBE_RTT_EVERY_S, PROBE_RTT_SEGMENTS
from labs.read.theory.fair_queueing import jain

if TYPE_CHECKING:
    from pandas import DataFrame

WINDOW_S = 1.0
"""The windows in which shares are compared."""
FAIR_WITHIN = 0.1
"""A flow has its fair share if it is this close to it."""
LEAST_CUT = 0.05
"""A window that falls by more than this from one sample to the next was cut."""
HOSTS = ("server", "client")
AS_PLANNED, UNFINISHED = ("size", "stop"), "run"
"""How the ends of a flow end (labs/drive/programs/stream.py). A reader whose last segment was lost
has not ended with the run."""


@dataclass(frozen=True)
class Carried:
    """What a flow carried: its plan and what its two ends reported."""

    index: int
    flow: Flow
    sent: StreamReport
    received: StreamReport

    @property
    def name(self) -> str:
        """`1 cubic`: the number from 1, and the congestion control."""
        return f"{self.index + 1} {self.flow.control}"

    @cached_property
    def _curve(self) -> tuple[npt.NDArray[numpy.float64], npt.NDArray[numpy.float64]]:
        """The moments of its timeline in order, and the payload received by each."""
        points = [(self.received.begin_ns, 0), *self.received.timeline]
        if self.received.end_ns:  # else it was still reading when the run ended
            points.append((self.received.end_ns, self.received.bytes))
        times, sizes = numpy.array(sorted(points), dtype=float).T
        return times, numpy.maximum.accumulate(sizes)

    def bytes_by(self, at_ns: Sequence[float]) -> list[float]:
        """The payload that was received by these moments."""
        received_bytes: list[float] = numpy.interp(at_ns, *self._curve).tolist()
        return received_bytes

    @property
    def failure(self) -> str:
        """Why a flow ended otherwise than planned, in words; empty if it did not."""
        endings = (self.sent.ended, self.received.ended)
        wrong = [ending for ending in endings if ending not in (*AS_PLANNED, UNFINISHED)]
        if not wrong and self.sent.ended == UNFINISHED:
            return "it did not end"
        return wrong[0] if wrong else ""

    def mbit(self, from_ns: float, until_ns: float) -> float:
        """The goodput between two moments, in Mbit/s."""
        first, last = self.bytes_by((from_ns, until_ns))
        return 8 * (last - first) / MB / ((until_ns - from_ns) / SECOND_NS)


def traffic_of(run: Run) -> Traffic:
    """The traffic that a run was requested with; Damaged for a run of another kind."""
    plan = run.condition_asked.plan
    if not plan:
        raise Damaged(f"{run.name} has no flows: it was performed by another lab")
    return traffic_of_plan(plan, run.name)


def traffic_of_plan(plan: Mapping[str, Any], name: str) -> Traffic:
    """The traffic of the run of this name; Damaged for a plan that is none."""
    try:
        return traffic_from_json(plan)
    except (BadInput, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{name} has a plan that is no traffic ({error})") from error


@lru_cache(maxsize=2 * KEPT_RUNS)
def carried(run: Run) -> tuple[Carried, ...]:
    """Every flow of a run, in order; Damaged if one of its ends reported nothing."""
    reports = {
        (report.flow, report.role): report
        for host in HOSTS
        for report in run.read(f"{host}/stream.json", STREAMS)
    }
    flows = []
    for index, flow in enumerate(traffic_of(run).flows):
        ends = [reports.get((index, role)) for role in ("send", "receive")]
        if ends[0] is None or ends[1] is None:
            raise Damaged(f"{run.name}: flow {index} has no report of both ends")
        flows.append(Carried(index, flow, ends[0], ends[1]))
    return tuple(flows)


def downward(run: Run) -> tuple[Carried, ...]:
    """The flows from server to client; all flows if there are none."""
    every = carried(run)
    return tuple(flow for flow in every if flow.flow.direction == "down") or every


def begin_ns(run: Run) -> int:
    """The moment from which the times of the traffic count."""
    return run.moments.get("begin", run.moments["start"])


def steady_ns(run: Run) -> tuple[float, float]:
    """The second half of the time in which all long flows run: slow start, and the time in which a
    flow that starts later finds its share, are over. If all flows have a size, the time from the
    first start to the last arrival."""
    traffic, begin = traffic_of(run), begin_ns(run)
    long_ones = [flow for flow in traffic.flows if flow.size_bytes is None]
    if not long_ones:
        first_s = min(flow.start_s for flow in traffic.flows)
        over_ns = begin + round(traffic.duration_s * SECOND_NS)
        ends = [flow.received.end_ns or over_ns for flow in carried(run)]
        return begin + first_s * SECOND_NS, float(max(ends))
    from_s = max(flow.start_s for flow in long_ones)
    until_s = min(flow.stop_s or traffic.duration_s for flow in long_ones)
    if until_s <= from_s:
        from_s, until_s = 0.0, traffic.duration_s
    return begin + (from_s + until_s) / 2 * SECOND_NS, begin + until_s * SECOND_NS


def goodputs_mbit(run: Run, flows: Iterable[Carried] | None = None) -> tuple[float, ...]:
    """The goodput of each flow in the steady state."""
    span = steady_ns(run)
    return tuple(flow.mbit(*span) for flow in (downward(run) if flows is None else flows))


def over_time(run: Run, step_s: float = 0.5) -> DataFrame:
    """The goodput of each flow in equal steps: `t_s` (the end of a step, from the start of the
    traffic), `flow` (its name), `goodput_mbit`."""
    from pandas import DataFrame  # noqa: PLC0415  results need only numpy

    traffic, begin = traffic_of(run), begin_ns(run)
    count = int(traffic.duration_s / step_s)
    edges = [begin + step * step_s * SECOND_NS for step in range(count + 1)]
    rows = []
    for flow in carried(run):
        sizes = numpy.diff(flow.bytes_by(edges))
        rows += [
            {"t_s": (step + 1) * step_s, "flow": flow.name, "goodput_mbit": 8 * size / MB / step_s}
            for step, size in enumerate(sizes.tolist())
        ]
    return DataFrame(rows)


def jain_in_windows(run: Run, window_s: float = WINDOW_S) -> tuple[float, ...]:
    """Jain's index of each whole window of the steady state; one window if that is shorter."""
    from_ns, until_ns = steady_ns(run)
    count = max(1, int((until_ns - from_ns) / SECOND_NS / window_s))
    length_ns = min(window_s * SECOND_NS, until_ns - from_ns)
    edges = [from_ns + step * length_ns for step in range(count + 1)]
    sizes = numpy.diff([flow.bytes_by(edges) for flow in downward(run)], axis=1)
    return tuple(jain(column) for column in sizes.T.tolist())


def fair_after_s(run: Run, window_s: float = 2 * WINDOW_S) -> float | None:
    """How long after the last start every flow is first within 10 % of an equal share, in a window
    that begins then; None for a single flow, for flows with a size, and if that never happens."""
    flows, traffic = downward(run), traffic_of(run)
    if len(flows) < 2 or any(flow.flow.size_bytes is not None for flow in flows):
        return None
    last_s = max(flow.flow.start_s for flow in flows)
    until_s = min(flow.flow.stop_s or traffic.duration_s for flow in flows)
    step_s = window_s / 4
    at_s = last_s
    while at_s + window_s <= until_s:
        from_ns = begin_ns(run) + at_s * SECOND_NS
        rates = [flow.mbit(from_ns, from_ns + window_s * SECOND_NS) for flow in flows]
        fair = sum(rates) / len(rates)
        if fair > 0 and all(abs(rate / fair - 1) <= FAIR_WITHIN for rate in rates):
            return at_s - last_s
        at_s += step_s
    return None


def sockets(run: Run) -> DataFrame:
    """The samples of each flow's sender: those of `Run.samples`, with `flow` (its name) and `t_s`
    from the start of the traffic."""
    from pandas import concat  # noqa: PLC0415

    parts = []
    for flow in carried(run):
        host = "server" if flow.flow.direction == "down" else "client"
        samples = run.samples(host)
        column = "peer_port" if host == "server" else "local_port"
        rows = samples[samples[column] == FIRST_PORT + flow.index]
        parts.append(rows.assign(flow=flow.name, t_s=(rows["at_ns"] - begin_ns(run)) / SECOND_NS))
    return concat(parts, ignore_index=True)


def retransmitted_pct(run: Run) -> float | None:
    """The share of the payload sent that was sent again, over all flows; None without samples."""
    samples = sockets(run)
    if samples.empty or "bytes_sent" not in samples:
        return None
    last = samples.groupby("flow")[["bytes_sent", "bytes_retrans"]].max()
    sent = float(last["bytes_sent"].sum())
    return 100 * float(last["bytes_retrans"].sum()) / sent if sent else None


def received_by_kernel(run: Run, flow: Carried) -> int | None:
    """The payload that the receiver's kernel counted for a flow: at its end, or for a report
    without it in the last sample. None for a flow that ends after that."""
    if flow.received.kernel_bytes is not None:
        return flow.received.kernel_bytes
    if flow.flow.size_bytes is not None or flow.flow.stop_s is not None:
        return None
    host = "client" if flow.flow.direction == "down" else "server"
    samples = run.samples(host)
    column = "local_port" if host == "client" else "peer_port"
    rows = samples[samples[column] == FIRST_PORT + flow.index] if column in samples else samples
    return None if rows.empty else int(rows["bytes_received"].max())


def captured_bytes(run: Run) -> dict[int, int]:
    """The payload of each flow in its receiver's capture, retransmissions counted once; of the
    flows that a capture has."""
    by_flow: dict[int, int] = {}
    for host, direction, way in (("client", "down", 1), ("server", "up", 0)):
        path = run.capture(host)
        if path is None:
            continue
        segments, ends = capture.read(path), capture.connections(path)
        ports = ends["client_port"].to_numpy()
        data = segments[(segments["payload_bytes"] > 0) & (segments["direction"] == way)]
        reached = (data["seq_rel"] + data["payload_bytes"] - 1).groupby(data["connection"]).max()
        by_port = {int(ports[at]): int(size) for at, size in reached.items()}  # type: ignore[call-overload]
        for flow in carried(run):
            if flow.flow.direction == direction and FIRST_PORT + flow.index in by_port:
                by_flow[flow.index] = by_port[FIRST_PORT + flow.index]
    return by_flow


def apart_pct(run: Run) -> float | None:
    """The largest deviation, in %, of the receiver's kernel and of its capture from what the
    receiving program counted, over all flows; None if nothing else counted."""
    seen = captured_bytes(run)
    apart = []
    for flow in carried(run):
        others = (received_by_kernel(run, flow), seen.get(flow.index))
        if flow.received.bytes:
            apart += [
                100 * abs(size / flow.received.bytes - 1) for size in others if size is not None
            ]
    return max(apart, default=None)


def mean_rtts_ms(run: Run) -> tuple[float | None, ...]:
    """The mean RTT of each flow down in the steady state, as its sender measures it, with the
    queue; None for a flow without samples."""
    samples, begin = sockets(run), begin_ns(run)
    from_s, until_s = ((at - begin) / SECOND_NS for at in steady_ns(run))
    inside = samples[(samples["t_s"] >= from_s) & (samples["t_s"] <= until_s)]
    means = inside.groupby("flow")["rtt_us"].mean() / 1e3
    return tuple(
        float(means[flow.name]) if flow.name in means.index else None for flow in downward(run)
    )


def window_cuts(run: Run) -> tuple[float, ...]:
    """What each loss after slow start left of the first flow's window (`cuts_of`)."""
    flow = downward(run)[0]
    if flow.flow.control == "bbr":  # its window falls for ProbeRTT, not at losses
        return ()
    samples = sockets(run)
    rows = samples[(samples["flow"] == flow.name) & (samples["snd_cwnd_segments"] > 0)]
    return cuts_of(rows["snd_cwnd_segments"].tolist(), rows["snd_ssthresh_segments"].tolist())[1:]


def cuts_of(windows: Sequence[float], thresholds: Sequence[float]) -> tuple[float, ...]:
    """The threshold at each loss divided by the largest window since the loss before. A loss is
    where the window begins to fall by more than 5 % from one sample to the next, and exceeded the
    threshold."""
    cuts, highest, falls = [], 0.0, False
    for place in range(1, len(windows)):
        highest = max(highest, windows[place - 1])
        fell, falls = falls, windows[place] < (1 - LEAST_CUT) * windows[place - 1]
        if falls and not fell and thresholds[place] < highest:
            cuts.append(thresholds[place] / highest)
            highest = 0.0
    return tuple(cuts)


def outside_probe_rtt(run: Run) -> float | None:
    """The share of the samples after the first ten seconds in which BBR's window is above the four
    segments of ProbeRTT; None without a BBR flow."""
    samples = sockets(run)
    rows = samples[samples["flow"].str.endswith(" bbr") & (samples["t_s"] >= PROBE_RTT_EVERY_S)]
    if rows.empty:
        return None
    return float((rows["snd_cwnd_segments"] > PROBE_RTT_SEGMENTS).mean())
