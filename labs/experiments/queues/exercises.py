"""The graded exercises of the notebook about queues; each right answer is computed from the theory
and, where there is one, from a run."""

from __future__ import annotations

from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import KIB, MIB, bytes_per_second
from labs.experiments.queues.conditions import Parameters as Queues
from labs.experiments.queues.results import Results
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.exercises.guess import Guess
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.sawtooth import full_buffer_bdp, reno_utilisation

NOTEBOOK = "11-queues-and-latency"
FAST_MBIT, FAR_MS = 100.0, 60.0
"""The link of the first two questions."""
SMALL_BDP = 0.25
BITS = "This is in bits. A byte has 8."
HALF = "This is half of it. Reno halves a window that fills pipe and buffer together."
WHOLE = "This is a BDP, which Reno needs. CUBIC keeps 0.7 of its window."
TOLERANCE_PCT = 3.0
"""Answers with two digits, and KiB taken for kB."""


def reno_buffer_kib(runs: Evidence) -> Expected:
    """The smallest FIFO that keeps the link busy for Reno: one BDP."""
    bdp = bdp_bytes(FAST_MBIT, FAR_MS)
    return around(
        (bdp / KIB, bdp / 1e3),
        TOLERANCE_PCT,
        "the theory of the sawtooth",
        Mistake(8 * bdp / KIB, BITS),
        Mistake(bdp / 2 / KIB, HALF),
        Mistake(bdp / MIB, "This is in MiB."),
    )


def cubic_buffer_kib(runs: Evidence) -> Expected:
    """The same for CUBIC: 3/7 of a BDP."""
    bdp = bdp_bytes(FAST_MBIT, FAR_MS)
    size = full_buffer_bdp("cubic") * bdp
    return around(
        (size / KIB, size / 1e3),
        TOLERANCE_PCT,
        "the theory of the sawtooth",
        Mistake(bdp / KIB, WHOLE),
        Mistake(0.3 * bdp / KIB, "0.7 (1 + b) = 1 gives b = 1/0.7 - 1, not 0.3."),
    )


def fifo_delay_ms(runs: Evidence) -> Expected:
    """The delay of a full FIFO of the default size at the rate of the comparison."""
    p = Queues()
    delay = 1e3 * p.fifo_packets * FRAME_BYTES / bytes_per_second(p.aqm_mbit)
    return around(
        (delay,),
        TOLERANCE_PCT,
        f"{p.fifo_packets} packets of {FRAME_BYTES} bytes",
        Mistake(delay / 8, BITS),
        Mistake(
            delay + p.path_rtt_ms,
            "This is the RTT. The question is about the queueing delay alone.",
        ),
        Mistake(delay / 1e3, "This is in seconds."),
    )


def quarter_pct(runs: Evidence) -> Expected:
    """The utilisation of Reno with a quarter of a BDP, by the closed form and the run."""
    theory = 100 * reno_utilisation(SMALL_BDP)
    run = runs.run(f"reno-{SMALL_BDP:g}bdp")
    measured = None if run is None else Results(run).utilisation_pct
    return around(
        (theory,) if measured is None else (theory, measured),
        1.0,
        "the closed form" if run is None else f"the closed form; the run {run.name}",
        Mistake(75.0, "This is the utilisation without any buffer."),
        Mistake(
            100 * (1 + SMALL_BDP) * 0.75,
            "This is the mean window in BDPs. A link with a queue is 100 % used, not more.",
        ),
    )


EXERCISES = (
    Exercise("reno_buffer_kib", NOTEBOOK, "a FIFO for one Reno flow", reno_buffer_kib, "KiB"),
    Exercise("cubic_buffer_kib", NOTEBOOK, "a FIFO for one CUBIC flow", cubic_buffer_kib, "KiB"),
    Exercise("fifo_delay_ms", NOTEBOOK, "the delay of a full FIFO", fifo_delay_ms, "ms"),
    Exercise("quarter_pct", NOTEBOOK, "Reno with a quarter of a BDP", quarter_pct, "%"),
)
GUESSES = (
    Guess("guess_reno_small", NOTEBOOK, "reno-0.1bdp", "utilisation_pct"),
    Guess("guess_reno_half", NOTEBOOK, "reno-0.5bdp", "utilisation_pct"),
    Guess("guess_reno_bdp", NOTEBOOK, "reno-1bdp", "utilisation_pct"),
    Guess("guess_cubic_half", NOTEBOOK, "cubic-0.5bdp", "utilisation_pct"),
    *(
        Guess(f"guess_{one.replace('-', '_')}", NOTEBOOK, one, "request_p50_ms")
        for one in ("fifo", "codel", "fq-codel")
    ),
)
