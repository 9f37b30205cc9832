"""The graded exercises of the notebook about sharing a link."""

from __future__ import annotations

from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import bytes_per_second
from labs.experiments.sharing.conditions import Parameters
from labs.read.exercises.exercise import Evidence, Exercise, Expected, around, guesses
from labs.read.theory.bbr_against_loss_based import bbr_share
from labs.read.theory.buffer_sizing import needed_bdp
from labs.read.theory.fair_queueing import jain
from labs.read.theory.rtt_unfairness import independent, synchronised

NOTEBOOK = "12-sharing-a-link"
P = Parameters()
PER_S = bytes_per_second(P.bottleneck_mbit) / FRAME_BYTES
"""The frames that the link carries per second."""
TWICE = 2.0
"""How many times longer the RTT of the distant flow is in the exercise."""
RTTS_MS = (TWICE * P.path_rtt_ms, P.path_rtt_ms)
CROWD = 25
RATES_MBIT = (8.0, 1.0, 1.0)
DEEP_BDP = 8.0
SHARE_PCT = 12.0
"""Relative tolerance of a share: the model of synchronised losses, and the phase of sawtooths."""


def far_share(runs: Evidence) -> Expected:
    """The share of a Reno flow whose RTT is twice that of the other."""
    model = synchronised(("reno", "reno"), RTTS_MS, PER_S, PER_S * P.path_rtt_ms / 1e3)
    measured = runs.measured("rtts-reno", "share_pct", far_times=TWICE)
    theory, checked = 100 * model.shares[0], "the theory of synchronised losses"
    inverse = 100 * independent(RTTS_MS, model.queue_ms)[0]
    return (
        around(theory, measured, pct=SHARE_PCT, checked=checked)
        .mistake(100 / (1 + TWICE**2), "This leaves out the queue, which makes RTTs more alike.")
        .mistake(50.0, "Equal shares need equal RTTs.")
        .mistake(inverse, "This is the inverse ratio of the RTTs: that of independent losses.")
    )


CROWD_BUFFER = (
    around(needed_bdp(CROWD), pct=2.0, checked="the square-root rule")
    .mistake(1 / CROWD, "The rule has the square root of the number of flows.")
    .mistake(1.0, "This is the buffer for one flow.")
)
JAIN_OF_THREE = (
    around(jain(RATES_MBIT), pct=2.0, checked="Jain's index")
    .mistake(1 / len(RATES_MBIT), "This is the least index of three flows: one gets everything.")
    .mistake(100 * max(RATES_MBIT) / sum(RATES_MBIT), "This is the largest share.")
)
BBR_DEEP = around(
    100 * bbr_share(DEEP_BDP, PER_S, P.path_rtt_ms), pct=5.0, checked="the model of Ware and others"
).mistake(50.0, "This is the limit for a very deep buffer.")

EXERCISES = (
    Exercise("far_reno_pct", NOTEBOOK, "Reno over twice the RTT", far_share, "%"),
    Exercise("crowd_bdp", NOTEBOOK, "a buffer for 25 flows", CROWD_BUFFER, "BDP"),
    Exercise("jain_index", NOTEBOOK, "Jain's index of 8, 1 and 1", JAIN_OF_THREE, "index"),
    Exercise("bbr_deep_pct", NOTEBOOK, "BBR in 8 BDPs, by the model", BBR_DEEP, "%"),
)
GUESSED = {
    "guess_bbr_small": "cubic-bbr-0.5bdp",
    "guess_bbr_two": "cubic-bbr-2bdp",
    "guess_bbr_deep": "cubic-bbr-16bdp",
}
GUESSES = guesses(NOTEBOOK, "share_pct", GUESSED)
