"""The graded exercises of the notebook about buffer sweeps; each right answer is computed from the
theory and, where they exist, from runs."""

from __future__ import annotations

from labs.drive.units import KIB, MIB
from labs.experiments.sweeps.results import Results
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.exercises.guess import Guess
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.bulk import LINK, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER
from labs.read.theory.windows import granted_bytes

NOTEBOOK = "02-iperf-buffer-sweeps"
REQUESTED_BYTES, CORE_MAX_BYTES = 512 * KIB, 212_992
ARTICLE_RATE_MBIT, ARTICLE_RTT_MS, SLOWER_MBIT = 40_000.0, 0.2, 250.0
RATE_MBIT, DELAY_MS = 1000.0, 8.0
"""The link with which the notebook starts."""
CONDITION, SMALLER_KIB, LARGER_KIB = "writes-14480", 64, 128
"""A condition whose send buffer is SNDBUF_KIB: at the beginning, and in the third question."""
WRITE_BYTES, TRANSFER_BYTES = 14_480, 8 * MIB
OLDEST = "6.1"
LIMITS = (LINK, RECEIVE_WINDOW, SEND_BUFFER)
SEND_BYTES, RECEIVE_BYTES = 8 * MIB, 128 * KIB
"""Requested at the ends, in the last question."""


def granted(runs: Evidence) -> Expected:
    """What getsockopt returns after a request of 512 KiB."""
    found = granted_bytes(REQUESTED_BYTES, CORE_MAX_BYTES, "send")
    return around(
        (found / KIB,),
        0.0,
        "the kernel's rule for SO_SNDBUF",
        Mistake(2 * REQUESTED_BYTES / KIB, "The request is limited to wmem_max first."),
        Mistake(CORE_MAX_BYTES / KIB, "The kernel doubles the limited request."),
        Mistake(REQUESTED_BYTES / KIB, "The kernel limits the request, and then doubles it."),
    )


def same_bdp(runs: Evidence) -> Expected:
    """The RTT at which a slower link has the article's BDP."""
    article = bdp_bytes(ARTICLE_RATE_MBIT, ARTICLE_RTT_MS)
    found = ARTICLE_RTT_MS * ARTICLE_RATE_MBIT / SLOWER_MBIT
    assert bdp_bytes(SLOWER_MBIT, found) == article
    return around(
        (found,),
        1.0,
        "BDP = rate x RTT",
        Mistake(DELAY_MS, "This is the RTT for 1 Gbit/s."),
        Mistake(found / 8, "Rates are in bits per second, the BDP in bytes."),
    )


def larger_goodput(runs: Evidence) -> Expected:
    """The steady goodput of CONDITION with twice the send buffer."""
    values = [_steady_mib_s(runs.kernel, LARGER_KIB)]
    checked = "the model of a bulk transfer"
    run = runs.run(CONDITION, sndbuf_kib=LARGER_KIB)
    if run is not None and (measured := Results(run).steady_mib_s):
        values.append(measured)
        checked += f"; the run {run.name}, with {measured:.1f} MiB/s"
    granted_mib = 2 * LARGER_KIB * KIB / MIB
    line = line_goodput_bytes_s(RATE_MBIT) / MIB
    return around(
        tuple(values),
        5.0,
        checked,
        Mistake(
            round(_steady_mib_s(runs.kernel, SMALLER_KIB), 1), "This is the goodput for 64 KiB."
        ),
        Mistake(
            round(granted_mib / DELAY_MS * 1e3, 1),
            "Not all of the granted buffer is payload, and it is not always full.",
        ),
        Mistake(round(line, 1), "A send buffer below the BDP does not fill the link."),
    )


def _steady_mib_s(kernel: str, sndbuf_kib: int) -> float:
    """The steady goodput of CONDITION."""
    flow = Flow(
        rate_mbit=RATE_MBIT,
        rtt_ms=DELAY_MS,
        kernel=kernel,
        sndbuf_bytes=2 * sndbuf_kib * KIB,
        write_bytes=WRITE_BYTES,
    )
    return transfer(flow, TRANSFER_BYTES).steady_bytes_s / MIB


def limit(runs: Evidence) -> Expected:
    """What limits a transfer with a large send buffer and a small receive buffer."""
    flow = Flow(
        rate_mbit=RATE_MBIT,
        rtt_ms=DELAY_MS,
        kernel=OLDEST,
        sndbuf_bytes=2 * SEND_BYTES,
        rcvbuf_bytes=2 * RECEIVE_BYTES,
    )
    return Expected(
        "the model of a bulk flow",
        choice=transfer(flow, TRANSFER_BYTES).bound,
        mistakes=(
            Mistake(SEND_BUFFER, "The send buffer is larger than the receive buffer."),
            Mistake(LINK, "One of the buffers is smaller than the BDP."),
        ),
    )


EXERCISES = (
    Exercise("granted_kib", NOTEBOOK, "send buffer after a request of 512 KiB", granted, "KiB"),
    Exercise("same_bdp_ms", NOTEBOOK, "RTT with the article's BDP at 250 Mbit/s", same_bdp, "ms"),
    Exercise("larger_mib_s", NOTEBOOK, "goodput with SNDBUF_KIB = 128", larger_goodput, "MiB/s"),
    Exercise("limit", NOTEBOOK, "limit with 8 MiB to send, 128 KiB to receive", limit, "", LIMITS),
)
GUESSES = tuple(
    Guess(f"guess_{one}_mib_s", NOTEBOOK, f"{one}-256k", "steady_mib_s")
    for one in ("sender", "receiver", "both")
)
