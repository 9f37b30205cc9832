"""The graded exercises of the notebook about sharing a link; each right answer is computed from the
theory and, where there is one, from a run."""

from __future__ import annotations

from collections.abc import Callable

from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import bytes_per_second
from labs.experiments.sharing.conditions import Parameters as Sharing
from labs.experiments.sharing.results import Results
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.exercises.guess import Guess
from labs.read.theory.bbr_against_loss_based import bbr_share
from labs.read.theory.buffer_sizing import needed_bdp
from labs.read.theory.fair_queueing import jain
from labs.read.theory.rtt_unfairness import independent, synchronised

NOTEBOOK = "12-sharing-a-link"
TWICE = 2.0
"""How many times longer the RTT of the distant flow is in the exercise."""
CROWD = 25
RATES_MBIT = (8.0, 1.0, 1.0)
DEEP_BDP = 8.0
SHARE_POINTS_PCT = 12.0
"""Relative tolerance of a share: the model of synchronised losses, and the phase of sawtooths."""


def far_share(control: str) -> Callable[[Evidence], Expected]:
    """The share of a flow whose RTT is twice that of the other."""

    def found(runs: Evidence) -> Expected:
        p = Sharing()
        per_s = bytes_per_second(p.bottleneck_mbit) / FRAME_BYTES
        rtts = (TWICE * p.path_rtt_ms, p.path_rtt_ms)
        size = per_s * p.path_rtt_ms / 1e3
        model = synchronised((control, control), rtts, per_s, size)
        theory = 100 * model.shares[0]
        linear = 100 * independent(rtts, model.queue_ms)[0]
        run = runs.run(f"rtts-{control}", far_times=TWICE)
        measured = None if run is None else Results(run).share_pct
        values = (theory,) if measured is None else (theory, measured)
        bare = 100 / (1 + TWICE**2)
        hints = (
            Mistake(bare, "This leaves out the queue, which makes the RTTs more alike."),
            Mistake(50.0, "Equal shares need equal RTTs."),
            Mistake(
                linear, "This is the inverse ratio of the RTTs, which holds for independent losses."
            ),
        )
        low, high = min(values) * 0.88, max(values) * 1.12
        return around(
            values,
            SHARE_POINTS_PCT,
            "the theory of synchronised losses" + ("" if run is None else f"; the run {run.name}"),
            *(one for one in hints if not low <= float(one.value) <= high),
        )

    return found


def crowd_bdp(runs: Evidence) -> Expected:
    """The buffer that 25 Reno flows need, in BDPs: one fifth."""
    return around(
        (needed_bdp(CROWD),),
        2.0,
        "the square-root rule",
        Mistake(1 / CROWD, "The rule has the square root of the number of flows."),
        Mistake(1.0, "This is the buffer for one flow."),
    )


def jain_of_three(runs: Evidence) -> Expected:
    """Jain's index of three rates."""
    equal = 100 * max(RATES_MBIT) / sum(RATES_MBIT)
    return around(
        (jain(RATES_MBIT),),
        2.0,
        "Jain's index",
        Mistake(
            1 / len(RATES_MBIT), "This is the least index of three flows: one gets everything."
        ),
        Mistake(equal, "This is the largest share."),
    )


def bbr_deep_pct(runs: Evidence) -> Expected:
    """BBR's share in a buffer of eight BDPs, by the model."""
    p = Sharing()
    per_s = bytes_per_second(p.bottleneck_mbit) / FRAME_BYTES
    theory = 100 * bbr_share(DEEP_BDP, per_s, p.path_rtt_ms)
    return around(
        (theory,),
        5.0,
        "the model of Ware and others",
        Mistake(100 * (0.5 + 1 / (2 * DEEP_BDP)), "This leaves out ProbeRTT and its packets.")
        if abs(theory - 100 * (0.5 + 1 / (2 * DEEP_BDP))) > 0.05 * theory
        else Mistake(50.0, "This is the limit for a very deep buffer."),
    )


EXERCISES = (
    Exercise("far_reno_pct", NOTEBOOK, "Reno over twice the RTT", far_share("reno"), "%"),
    Exercise("crowd_bdp", NOTEBOOK, "a buffer for 25 flows", crowd_bdp, "BDP"),
    Exercise("jain_index", NOTEBOOK, "Jain's index of 8, 1 and 1", jain_of_three, "index"),
    Exercise("bbr_deep_pct", NOTEBOOK, "BBR in 8 BDPs, by the model", bbr_deep_pct, "%"),
)
GUESSES = (
    Guess("guess_bbr_small", NOTEBOOK, "cubic-bbr-0.5bdp", "share_pct"),
    Guess("guess_bbr_two", NOTEBOOK, "cubic-bbr-2bdp", "share_pct"),
    Guess("guess_bbr_deep", NOTEBOOK, "cubic-bbr-16bdp", "share_pct"),
)
