"""What a notebook calls as `labs.sharing.NAME`, besides the study and the charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import SECOND_NS, bytes_per_second
from labs.read.display.rich_output import Table
from labs.read.display.traffic import flows
from labs.read.readings.bottleneck import delays_ms
from labs.read.readings.flows import (
    begin_ns,
    downward,
    goodputs_mbit,
    mean_rtts_ms,
    outside_probe_rtt,
    sockets,
    steady_ns,
    traffic_of,
)
from labs.read.readings.traffic_prediction import buffer_segments, predicted
from labs.read.theory.bbr_against_loss_based import PROBE_RTT_SEGMENTS, bbr_share
from labs.read.theory.buffer_sizing import needed_bdp, utilisation
from labs.read.theory.fair_queueing import jain
from labs.read.theory.fair_queueing import shares as fair_shares
from labs.read.theory.rtt_unfairness import independent, power_of_rtt, synchronised

if TYPE_CHECKING:
    from labs.read.study import Study

__all__ = [
    "assumptions",
    "bbr_share",
    "fair_shares",
    "flows",
    "independent",
    "jain",
    "needed_bdp",
    "powers",
    "synchronised",
    "utilisation",
]


def assumptions(study: Study, *conditions: str) -> Table:
    """What the model of BBR against CUBIC assumes, and what these runs have instead.

    It assumes a full queue, an estimate of the RTT that is the path's and the others' queue, and a
    window of two BDPs by these estimates. One row per condition, in steady state.
    """
    rows = []
    for name in conditions:
        run = study.run(name)
        traffic = traffic_of(run)
        rate, size = traffic.path.down.rate_mbit, buffer_segments(traffic)
        bbr = next((one for one in downward(run) if one.flow.control == "bbr"), None)
        if bbr is None or rate is None or size is None:
            continue
        per_s = bytes_per_second(rate) / FRAME_BYTES
        samples, begin = sockets(run), begin_ns(run)
        own = samples[(samples["flow"] == bbr.name)]
        own = own[own["t_s"] >= (steady_ns(run)[0] - begin) / SECOND_NS]
        rates = goodputs_mbit(run)
        share = rates[downward(run).index(bbr)] / sum(rates)
        model_ms = traffic.path.rtt_ms + 1e3 * ((1 - share) * size + PROBE_RTT_SEGMENTS) / per_s
        full_ms = 1e3 * size / per_s
        delays = delays_ms(run)
        theory = predicted(traffic).share_pct
        outside = outside_probe_rtt(run)
        rows.append(
            {
                "Condition": name,
                "Predicted share (%)": theory,
                "Measured share (%)": 100 * share,
                "Mean queue (% of the buffer)": 100 * sum(delays) / len(delays) / full_ms,
                "RTT estimate (ms)": own["bbr_min_rtt_us"].astype(float).median() / 1e3,
                "The model's (ms)": model_ms,
                "Window (segments)": own["snd_cwnd_segments"].median(),
                "Time in ProbeRTT (%)": None if outside is None else 100 * (1 - outside),
            }
        )
    return Table(rows).round(1)


def powers(study: Study, *conditions: str) -> Table:
    """One row per condition with two flows: the ratios of their RTTs, without and with the queue,
    and of their goodputs, and the power of 1/RTT that the goodputs follow."""
    rows = []
    for name in conditions:
        run = study.run(name)
        traffic = traffic_of(run)
        (far, near), (far_ms, near_ms) = goodputs_mbit(run), mean_rtts_ms(run)
        own = [traffic.path.rtt_ms + one.flow.extra_delay_ms for one in downward(run)]
        ratio = far_ms / near_ms if far_ms and near_ms else None
        rows.append(
            {
                "Condition": name,
                "Ratio of RTTs": own[0] / own[1],
                "With the queue": ratio,
                "Ratio of goodputs": near / far if far else None,
                "Power of 1/RTT": power_of_rtt((far, near), (far_ms, near_ms)),
                "Share of the distant flow (%)": 100 * far / (far + near) if far + near else None,
                "Predicted (%)": predicted(traffic).share_pct,
            }
        )
    return Table(rows).round(2)
