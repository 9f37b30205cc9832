"""The graded exercises of the notebook about queues."""

from __future__ import annotations

from labs.drive.testbed.link import FRAME_BYTES
from labs.drive.units import KIB, MIB, bytes_per_second
from labs.experiments.queues.conditions import Parameters
from labs.read.exercises.exercise import Evidence, Exercise, Expected, around, guesses
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.sawtooth import full_buffer_bdp, reno_utilisation

NOTEBOOK = "11-queues-and-latency"
P = Parameters()
BDP_BYTES = bdp_bytes(100.0, 60.0)
"""Of the link of the first two questions: 100 Mbit/s and 60 ms."""
CUBIC_BYTES = full_buffer_bdp("cubic") * BDP_BYTES
FIFO_MS = 1e3 * P.fifo_packets * FRAME_BYTES / bytes_per_second(P.aqm_mbit)
SMALL_BDP = 0.25
BITS = "This is in bits. A byte has 8."
PCT, SAWTOOTH = 3.0, "the theory of the sawtooth"
"""The tolerance of answers with two digits, and of KiB taken for kB."""

RENO_BUFFER = (
    around(BDP_BYTES / KIB, BDP_BYTES / 1e3, pct=PCT, checked=SAWTOOTH)
    .mistake(8 * BDP_BYTES / KIB, BITS)
    .mistake(BDP_BYTES / 2 / KIB, "Reno halves a window that fills pipe and buffer together.")
    .mistake(BDP_BYTES / MIB, "This is in MiB.")
)
CUBIC_BUFFER = (
    around(CUBIC_BYTES / KIB, CUBIC_BYTES / 1e3, pct=PCT, checked=SAWTOOTH)
    .mistake(BDP_BYTES / KIB, "This is a BDP, which Reno needs. CUBIC keeps 0.7 of its window.")
    .mistake(0.3 * BDP_BYTES / KIB, "0.7 (1 + b) = 1 gives b = 1/0.7 - 1, not 0.3.")
)
FIFO_DELAY = (
    around(FIFO_MS, pct=PCT, checked=f"{P.fifo_packets} packets of {FRAME_BYTES} bytes")
    .mistake(FIFO_MS / 8, BITS)
    .mistake(FIFO_MS + P.path_rtt_ms, "This is the RTT. Give the queueing delay alone.")
    .mistake(FIFO_MS / 1e3, "This is in seconds.")
)


def quarter(runs: Evidence) -> Expected:
    """The utilisation of Reno with a quarter of a BDP."""
    measured = runs.measured(f"reno-{SMALL_BDP:g}bdp", "utilisation_pct")
    mean_pct = 100 * (1 + SMALL_BDP) * 0.75
    return (
        around(100 * reno_utilisation(SMALL_BDP), measured, checked="the closed form", pct=1.0)
        .mistake(75.0, "This is the utilisation without any buffer.")
        .mistake(mean_pct, "This is the mean window in BDPs. A link is used up to 100 % only.")
    )


EXERCISES = (
    Exercise("reno_buffer_kib", NOTEBOOK, "a FIFO for one Reno flow", RENO_BUFFER, "KiB"),
    Exercise("cubic_buffer_kib", NOTEBOOK, "a FIFO for one CUBIC flow", CUBIC_BUFFER, "KiB"),
    Exercise("fifo_delay_ms", NOTEBOOK, "the delay of a full FIFO", FIFO_DELAY, "ms"),
    Exercise("quarter_pct", NOTEBOOK, "Reno with a quarter of a BDP", quarter, "%"),
)
UTILISATION = {
    "guess_reno_small": "reno-0.1bdp",
    "guess_reno_half": "reno-0.5bdp",
    "guess_reno_bdp": "reno-1bdp",
    "guess_cubic_half": "cubic-0.5bdp",
}
REQUEST = {"guess_fifo": "fifo", "guess_codel": "codel", "guess_fq_codel": "fq-codel"}
GUESSES = (
    *guesses(NOTEBOOK, "utilisation_pct", UTILISATION),
    *guesses(NOTEBOOK, "request_p50_ms", REQUEST),
)
