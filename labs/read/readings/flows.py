"""The flows of a run with several: what each carried over time, their shares, and how fairly.

Flow i is the connection from the client's port FIRST_PORT + i to the server's SERVER_PORT
(`labs/guest/flows.py`). What a flow carried is what its receiving program read; the receiver's
kernel and, where there is one, its capture count the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labs.errors import BadInput, Damaged
from labs.guest.flows import FIRST_PORT, Flow, Traffic, traffic_from_json
from labs.guest.units import MB, SECOND_NS
from labs.read import capture
from labs.read.parse.reports import StreamReport
from labs.read.runs.raw_files import STREAMS
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory.sharing import PROBE_RTT_EVERY_S, PROBE_RTT_SEGMENTS, jain

if TYPE_CHECKING:
    from pandas import DataFrame

WINDOW_S = 1.0
"""The windows in which shares are compared."""
FAIR_WITHIN = 0.1
"""A flow has its fair share if it is this close to it."""
LEAST_CUT = 0.05
"""A window that falls by more than this from one sample to the next was cut."""
FAIR_WINDOW_S = 2.0
PORT_AT = {"server": "peer_port", "client": "local_port"}
"""The column of a host's samples with the client's port."""
AS_PLANNED, UNFINISHED = ("size", "stop"), "run"
"""How the ends of a flow end (labs/guest/programs/stream.py). A reader whose last segment was lost
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

    @property
    def port(self) -> int:
        """The client's port."""
        return FIRST_PORT + self.index

    @property
    def sender(self) -> str:
        """The host that sends."""
        return "server" if self.flow.direction == "down" else "client"

    @cached_property
    def _curve(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The moments of its timeline in order, and the payload received by each."""
        points = [(self.received.begin_ns, 0), *self.received.timeline]
        if self.received.end_ns:  # else it was still reading when the run ended
            points.append((self.received.end_ns, self.received.bytes))
        times, sizes = np.array(sorted(points), dtype=float).T
        return times, np.maximum.accumulate(sizes)

    def bytes_by(self, at_ns: Any) -> npt.NDArray[np.float64]:
        """The payload that was received by these moments."""
        received: npt.NDArray[np.float64] = np.interp(at_ns, *self._curve)
        return received

    @property
    def failure(self) -> str:
        """Why a flow ended otherwise than planned, in words; empty if it did not."""
        for ending in (self.sent.ended, self.received.ended):
            if ending not in (*AS_PLANNED, UNFINISHED):
                return ending
        return "it did not end" if self.sent.ended == UNFINISHED else ""

    def mbit(self, from_ns: float, until_ns: float) -> float:
        """The goodput between two moments, in Mbit/s."""
        first, last = self.bytes_by((from_ns, until_ns))
        return 8 * float(last - first) / MB / ((until_ns - from_ns) / SECOND_NS)


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
        for host in PORT_AT
        for report in run.read(f"{host}/stream.json", STREAMS)
    }
    try:
        return tuple(
            Carried(index, flow, reports[index, "send"], reports[index, "receive"])
            for index, flow in enumerate(traffic_of(run).flows)
        )
    except KeyError as error:
        index, _ = error.args[0]
        raise Damaged(f"{run.name}: flow {index} has no report of both ends") from error


def downward(run: Run) -> tuple[Carried, ...]:
    """The flows from server to client; all flows if there are none."""
    every = carried(run)
    return tuple(flow for flow in every if flow.flow.direction == "down") or every


def begin_ns(run: Run) -> int:
    """The moment from which the times of the traffic count."""
    return run.moments["begin"]


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


def steady_s(run: Run) -> tuple[float, float]:
    """The same from the start of the traffic."""
    from_ns, until_ns = steady_ns(run)
    begin = begin_ns(run)
    return (from_ns - begin) / SECOND_NS, (until_ns - begin) / SECOND_NS


def in_steady_state(run: Run, rows: DataFrame) -> DataFrame:
    """The rows of the steady state, by `t_s` from the start of the traffic."""
    return rows[rows["t_s"].between(*steady_s(run))]


def goodputs_mbit(run: Run, flows: Iterable[Carried] | None = None) -> tuple[float, ...]:
    """The goodput of each flow in the steady state."""
    span = steady_ns(run)
    return tuple(flow.mbit(*span) for flow in (downward(run) if flows is None else flows))


def _bytes_in_steps(flows: Iterable[Carried], edges_ns: Any) -> npt.NDArray[np.float64]:
    """What was received between moments: a row per flow."""
    return np.diff([flow.bytes_by(edges_ns) for flow in flows], axis=1)


def over_time(run: Run, step_s: float = 0.5) -> DataFrame:
    """The goodput of each flow in equal steps: `t_s` (the end of a step, from the start of the
    traffic), `flow` (its name), `goodput_mbit`."""
    from pandas import DataFrame  # noqa: PLC0415  results need only numpy

    flows, count = carried(run), int(traffic_of(run).duration_s / step_s)
    steps = np.arange(count + 1)
    sizes = _bytes_in_steps(flows, begin_ns(run) + steps * step_s * SECOND_NS)
    rates = DataFrame(8 * sizes.T / MB / step_s, columns=[flow.name for flow in flows])
    rates["t_s"] = steps[1:] * step_s
    return rates.melt("t_s", var_name="flow", value_name="goodput_mbit")


def jain_in_windows(run: Run) -> tuple[float, ...]:
    """Jain's index of each whole window of the steady state; one window if that is shorter."""
    from_ns, until_ns = steady_ns(run)
    count = max(1, int((until_ns - from_ns) / SECOND_NS / WINDOW_S))
    length_ns = min(WINDOW_S * SECOND_NS, until_ns - from_ns)
    sizes = _bytes_in_steps(downward(run), from_ns + np.arange(count + 1) * length_ns)
    return tuple(jain(column) for column in sizes.T.tolist())


def fair_after_s(run: Run) -> float | None:
    """How long after the last start every flow is first within 10 % of an equal share, in a window
    that begins then; None for a single flow, for flows with a size, and if that never happens."""
    flows, plans = downward(run), [flow.flow for flow in downward(run)]
    if len(plans) < 2 or any(plan.size_bytes is not None for plan in plans):
        return None
    last_s = max(plan.start_s for plan in plans)
    until_s = min(plan.stop_s or traffic_of(run).duration_s for plan in plans)
    step_s = FAIR_WINDOW_S / 4
    after_s = np.arange(int((until_s - FAIR_WINDOW_S - last_s) // step_s) + 1) * step_s
    begins = begin_ns(run) + (last_s + after_s) * SECOND_NS
    ends = begins + FAIR_WINDOW_S * SECOND_NS
    sizes = np.array([flow.bytes_by(ends) - flow.bytes_by(begins) for flow in flows])
    equal = sizes.mean(axis=0)
    fair = (equal > 0) & (abs(sizes - equal) <= FAIR_WITHIN * equal).all(axis=0)
    return float(after_s[fair.argmax()]) if fair.any() else None


def sockets(run: Run) -> DataFrame:
    """The samples of each flow's sender: those of `Run.samples`, with `flow` (its name) and `t_s`
    from the start of the traffic."""
    from pandas import concat  # noqa: PLC0415

    parts = []
    for flow in carried(run):
        samples = run.samples(flow.sender)
        own = samples[PORT_AT[flow.sender]] == flow.port
        parts.append(samples[own].assign(flow=flow.name))
    rows = concat(parts, ignore_index=True)
    return rows.assign(t_s=(rows["at_ns"] - begin_ns(run)) / SECOND_NS)


def retransmitted_pct(run: Run) -> float | None:
    """The share of the payload sent that was sent again, over all flows; None without samples."""
    samples = sockets(run)
    if samples.empty:
        return None
    last = samples.groupby("flow")[["bytes_sent", "bytes_retrans"]].max()
    sent, again = map(float, last.sum())
    return 100 * again / sent if sent else None


def captured_bytes(run: Run) -> dict[int, int]:
    """The payload of each flow in its receiver's capture, retransmissions counted once; of the
    flows that a capture has."""
    by_flow: dict[int, int] = {}
    for host, direction, way in (("client", "down", 1), ("server", "up", 0)):
        path = run.capture(host)
        if path is None:
            continue
        segments, ports = capture.read(path), capture.connections(path)["client_port"]
        data = segments[(segments["payload_bytes"] > 0) & (segments["direction"] == way)]
        ends = data["seq_rel"] + data["payload_bytes"] - 1
        by_port = ends.groupby(data["connection"].map(ports)).max()
        by_flow |= {
            flow.index: int(by_port[flow.port])
            for flow in carried(run)
            if flow.flow.direction == direction and flow.port in by_port
        }
    return by_flow


def apart_pct(run: Run) -> float | None:
    """The largest deviation, in %, of the receiver's kernel (of a flow that ended) and of its
    capture from what the receiving program counted, over all flows; None if neither counted."""
    seen = captured_bytes(run)
    apart = [
        100 * abs(size / flow.received.bytes - 1)
        for flow in carried(run)
        if flow.received.bytes
        for size in (flow.received.kernel_bytes, seen.get(flow.index))
        if size is not None
    ]
    return max(apart, default=None)


def mean_rtts_ms(run: Run) -> tuple[float | None, ...]:
    """The mean RTT of each flow down in the steady state, as its sender measures it, with the
    queue; None for a flow without samples."""
    means = in_steady_state(run, sockets(run)).groupby("flow")["rtt_us"].mean() / 1e3
    return tuple(means.get(flow.name) for flow in downward(run))


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
    for before, window, threshold in zip(windows, windows[1:], thresholds[1:], strict=False):
        highest = max(highest, before)
        fell, falls = falls, window < (1 - LEAST_CUT) * before
        if falls and not fell and threshold < highest:
            cuts.append(threshold / highest)
            highest = 0.0
    return tuple(cuts)


def outside_probe_rtt_pct(run: Run) -> float | None:
    """The share of the samples after the first ten seconds in which BBR's window is above the four
    segments of ProbeRTT; None without a BBR flow."""
    samples = sockets(run)
    rows = samples[samples["flow"].str.endswith(" bbr") & (samples["t_s"] >= PROBE_RTT_EVERY_S)]
    if rows.empty:
        return None
    return 100 * float((rows["snd_cwnd_segments"] > PROBE_RTT_SEGMENTS).mean())
