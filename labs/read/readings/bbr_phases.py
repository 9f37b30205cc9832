"""The states of BBR, version 1, from the gains in a flow's samples.

Every state of `bbr_update_gains` (net/ipv4/tcp_bbr.c) has gains of its own; ss and inet_diag report
both. The phases of ProbeBW differ in the pacing gain: UP (1.25), DOWN (0.75) and CRUISE (1), which
a flow that believes it is policed also has. A state that is shorter than the interval of the
samples can be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from labs.read.readings.flows import carried, sockets

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.runs.run import Run

STARTUP, DRAIN, PROBE_RTT = "STARTUP", "DRAIN", "PROBE_RTT"
UP, DOWN, CRUISE = "UP", "DOWN", "CRUISE"
PROBE_BW = (UP, DOWN, CRUISE)
HIGH_GAIN = 2.5
"""Between the gains for the window in ProbeBW (2) and in Startup and Drain (2.89)."""


@dataclass(frozen=True)
class Phase:
    """A stay in one state, from its first sample to the first of the next state (or the last).

    `samples` has the columns of `flow_samples`.
    """

    state: str
    begin_s: float
    end_s: float
    samples: DataFrame

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def state(pacing_gain: float, cwnd_gain: float) -> str:
    """The state with these gains."""
    if cwnd_gain > HIGH_GAIN:
        return STARTUP if pacing_gain > 1 else DRAIN
    if cwnd_gain == 1:
        return PROBE_RTT
    return CRUISE if pacing_gain == 1 else UP if pacing_gain > 1 else DOWN


def round_trips(samples: Iterable[tuple[float, float]]) -> Iterator[float]:
    """The round trips until each sample of (segments delivered or sent again, segments in flight).

    As in `bbr_update_bw`, a round ends when what was in flight at its start has arrived (or, here,
    was sent again because it was lost). Within a round, the share that has arrived counts.
    """
    count, size = 0, 0.0
    start: float | None = None
    for gone, in_flight in samples:
        if start is None:
            start, size = gone, max(in_flight, 1)
        while gone - start >= size:
            start, size, count = start + size, max(in_flight, 1), count + 1
        yield count + (gone - start) / size


def flow_samples(run: Run, index: int = 0) -> DataFrame:
    """The samples of a flow with BBR, from the first with gains: those of `flows.sockets`, with
    `state`, `in_flight_segments`, `bdp_segments` (by BBR's own bandwidth and RTT), `bw_mbit` and
    `rounds` (the round trips since the first sample)."""
    every = sockets(run)
    samples = every[every["flow"] == carried(run)[index].name]
    samples = samples[samples["bbr_cwnd_gain"] > 0].reset_index(drop=True)
    gains = zip(samples["bbr_pacing_gain"], samples["bbr_cwnd_gain"], strict=True)
    in_flight = samples["unacked_segments"] - samples["sacked_segments"] - samples["lost_segments"]
    bdp_bytes = samples["bbr_bw_bytes_s"] * samples["bbr_min_rtt_us"] / 1e6
    in_flight += samples["retrans_segments"]
    gone = samples["delivered_segments"] + samples["bytes_retrans"] / samples["snd_mss_bytes"]
    return samples.assign(
        state=[state(*pair) for pair in gains],
        in_flight_segments=in_flight,
        bdp_segments=bdp_bytes / samples["snd_mss_bytes"],
        bw_mbit=samples["bbr_bw_bytes_s"] * 8 / 1e6,
        rounds=list(round_trips(zip(gone, in_flight, strict=True))),
    )


def phases(samples: DataFrame) -> tuple[Phase, ...]:
    """The stays of `flow_samples`, in order."""
    change = samples["state"] != samples["state"].shift()
    stays = [stay for _, stay in samples.groupby(change.cumsum())]
    edges = [*(stay["t_s"].iloc[0] for stay in stays), samples["t_s"].iloc[-1]]
    return tuple(
        Phase(stay["state"].iloc[0], begin, end, stay)
        for stay, (begin, end) in zip(stays, pairwise(edges), strict=True)
    )
