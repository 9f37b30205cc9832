"""The figures that the exercises of the notebook about sharing a link name."""

from __future__ import annotations

from labs.experiments.sharing.conditions import Parameters
from labs.guest.testbed.link import FRAME_BYTES
from labs.guest.units import bytes_per_second
from labs.read.exercises import exercise
from labs.read.theory.queues import needed_bdp
from labs.read.theory.sharing import bbr_share, independent, synchronised

P = Parameters()
PER_S = bytes_per_second(P.bottleneck_mbit) / FRAME_BYTES
"""The frames that the link carries per second."""
RTTS_MS = (2 * P.path_rtt_ms, P.path_rtt_ms)
MODEL = synchronised(("reno", "reno"), RTTS_MS, PER_S, PER_S * P.path_rtt_ms / 1e3)


class Figures(exercise.Figures):
    """Shares of the link in theory, and the buffer for 25 flows."""

    synchronised_pct = 100 * MODEL.shares[0]
    independent_pct = 100 * independent(RTTS_MS, MODEL.queue_ms)[0]
    crowd_bdp = needed_bdp(25)
    bbr_pct = 100 * bbr_share(8.0, PER_S, P.path_rtt_ms)
