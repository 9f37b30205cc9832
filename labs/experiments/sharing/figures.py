"""What the notebook shows of the lab `sharing`: figures, tables, and runs in sentences."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from labs.experiments.sharing.conditions import AGAINST_BBR
from labs.experiments.sharing.results import Results
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.units import bytes_per_second
from labs.read.display.rich_output import Table
from labs.read.display.traffic import describe, describe_run, flows
from labs.read.figures.axes import POINTS, Axis
from labs.read.figures.declaration import in_group
from labs.read.figures.lines import Lines
from labs.read.figures.marks import Mark
from labs.read.figures.traffic import goodput, latency_against_throughput, phase, queue, windows
from labs.read.readings.flows import downward, in_steady_state, mean_rtts_ms, sockets
from labs.read.readings.traffic_prediction import buffer_segments, own_rtt_ms
from labs.read.theory.queues import needed_bdp
from labs.read.theory.sharing import PROBE_RTT_SEGMENTS, bbr_share, jain, synchronised

if TYPE_CHECKING:
    from labs.read.runs.run import Run
    from labs.read.study import Study

__all__ = ["bbr_share", "describe", "describe_run", "flows", "goodput", "jain"]
__all__ += ["latency_against_throughput", "needed_bdp", "phase", "queue", "synchronised", "windows"]

share_against_buffer = Lines(
    "BBR's share against one CUBIC flow",
    rows=in_group(AGAINST_BBR, having=["share_pct", "buffer_bdp"]),
    of=Results,
    empty="none of these runs has several flows",
    x=Axis("buffer_bdp", "size of the FIFO", log=True, ticks=POINTS),
    y=Axis("share_pct", "share of the goodput", range=(0, 103)),
    by="kernel",
    named="measured, Linux {}",
    marks=(Mark(50.0, "an equal share", axis="y"),),
    height=268,
)


def assumptions(study: Study, *conditions: str) -> Table:
    """What the model of BBR against CUBIC assumes, and what these runs have instead.

    It assumes a full queue, an estimate of the RTT that is the path's and the others' queue, and a
    window of two BDPs by these estimates. One row per condition, in steady state.
    """
    rows = ((condition, _of_bbr(study.run(condition))) for condition in conditions)
    return Table([{"Condition": condition, **row} for condition, row in rows if row]).round(1)


def _of_bbr(run: Run) -> dict[str, float | None]:
    """The row of one run; empty without a BBR flow in the first place, or a queue of a size."""
    results, bbr = Results(run), downward(run)[0]
    size, rate = buffer_segments(results.traffic), results.traffic.path.down.rate_mbit
    share_pct, outside_pct = results.share_pct, results.outside_probe_rtt_pct
    if bbr.flow.control != "bbr" or size is None or rate is None or share_pct is None:
        return {}
    sent_ms = 1e3 * FRAME_BYTES / bytes_per_second(rate)
    others = (1 - share_pct / 100) * size + PROBE_RTT_SEGMENTS
    samples = in_steady_state(run, sockets(run))
    samples = samples[samples["flow"] == bbr.name]
    return {
        "Predicted share (%)": results.predicted_share_pct,
        "Measured share (%)": share_pct,
        "Mean queue (% of the buffer)": 100 * mean(results.delays_ms) / (size * sent_ms),
        "RTT estimate (ms)": samples["bbr_min_rtt_us"].astype(float).median() / 1e3,
        "The model's (ms)": results.traffic.path.rtt_ms + others * sent_ms,
        "Window (segments)": samples["snd_cwnd_segments"].median(),
        "Time in ProbeRTT (%)": None if outside_pct is None else 100 - outside_pct,
    }


def powers(study: Study, *conditions: str) -> Table:
    """One row per condition with two flows: the ratios of their RTTs, without and with the queue,
    and of their goodputs, and the power of 1/RTT that the goodputs follow."""
    rows = []
    for condition in conditions:
        results = Results(study.run(condition))
        (far, near), (far_ms, near_ms) = results.goodputs, mean_rtts_ms(results.run)
        path_ms = [own_rtt_ms(results.traffic, flow.flow) for flow in results.flows_down]
        rows.append(
            {
                "Condition": condition,
                "Ratio of RTTs": path_ms[0] / path_ms[1],
                "With the queue": far_ms / near_ms if far_ms and near_ms else None,
                "Ratio of goodputs": near / far if far else None,
                "Power of 1/RTT": results.power_of_rtt,
                "Share of the distant flow (%)": results.share_pct,
                "Predicted (%)": results.predicted_share_pct,
            }
        )
    return Table(rows).round(2)
