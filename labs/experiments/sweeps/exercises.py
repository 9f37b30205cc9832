"""The graded exercises of the notebook about buffer sweeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labs.drive.units import KIB, MIB
from labs.read.exercises.exercise import LIMITS, Evidence, Exercise, Expected, around, guesses
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import LINK, Transfer, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_sender import SEND_BUFFER
from labs.read.theory.windows import granted_bytes

NOTEBOOK = "02-iperf-buffer-sweeps"
REQUESTED_KIB, CORE_MAX_BYTES = 512, 212_992
GRANTED_KIB = granted_bytes(REQUESTED_KIB * KIB, CORE_MAX_BYTES, "send") / KIB
ARTICLE_RATE_MBIT, ARTICLE_RTT_MS, SLOWER_MBIT = 40_000.0, 0.2, 250.0
SAME_BDP_MS = ARTICLE_RTT_MS * ARTICLE_RATE_MBIT / SLOWER_MBIT
RATE_MBIT, DELAY_MS = 1000.0, 8.0
"""The link with which the notebook starts."""
CONDITION, SMALLER_KIB, LARGER_KIB, WRITE_BYTES = "writes-14480", 64, 128, 14_480
"""A condition whose send buffer is SNDBUF_KIB: at the beginning, and in the third question."""


def bulk(kernel: str, sndbuf_kib: int, **other: Any) -> Transfer:
    """A bulk transfer over the notebook's link with a requested send buffer."""
    link = Flow(rate_mbit=RATE_MBIT, rtt_ms=DELAY_MS, kernel=kernel)
    return transfer(replace(link, sndbuf_bytes=2 * sndbuf_kib * KIB, **other), 8 * MIB)


GRANTED = (
    around(GRANTED_KIB, checked="the kernel's rule for SO_SNDBUF")
    .mistake(2.0 * REQUESTED_KIB, "The request is limited to wmem_max first.")
    .mistake(CORE_MAX_BYTES / KIB, "The kernel doubles the limited request.")
    .mistake(float(REQUESTED_KIB), "The kernel limits the request, and then doubles it.")
)
SAME_BDP = (
    around(SAME_BDP_MS, pct=1.0, checked="BDP = rate x RTT")
    .mistake(DELAY_MS, "This is the RTT for 1 Gbit/s.")
    .mistake(SAME_BDP_MS / 8, "Rates are in bits per second, the BDP in bytes.")
)


def larger_goodput(runs: Evidence) -> Expected:
    """The steady goodput of CONDITION with twice the send buffer."""
    measured = runs.measured(CONDITION, "steady_mib_s", sndbuf_kib=LARGER_KIB)
    if measured.value is not None:
        measured = replace(measured, run=f"{measured.run}, with {measured.value:.1f} MiB/s")
    smaller, larger = (
        bulk(runs.kernel, kib, write_bytes=WRITE_BYTES).steady_bytes_s / MIB
        for kib in (SMALLER_KIB, LARGER_KIB)
    )
    granted_mib_s = round(2 * LARGER_KIB * KIB / MIB / DELAY_MS * 1e3, 1)
    line_mib_s = round(line_goodput_bytes_s(RATE_MBIT) / MIB, 1)
    return (
        around(larger, measured, pct=5.0, checked="the model of a bulk transfer")
        .mistake(round(smaller, 1), "This is the goodput for 64 KiB.")
        .mistake(granted_mib_s, "Not all of the granted buffer is payload, or always full.")
        .mistake(line_mib_s, "A send buffer below the BDP does not fill the link.")
    )


def limit(runs: Evidence) -> Expected:
    """What limits a transfer with 8 MiB to send and 128 KiB to receive."""
    bound = bulk("6.1", 8192, rcvbuf_bytes=2 * 128 * KIB).bound
    return (
        Expected("the model of a bulk flow", choice=bound)
        .mistake(SEND_BUFFER, "The send buffer is larger than the receive buffer.")
        .mistake(LINK, "One of the buffers is smaller than the BDP.")
    )


EXERCISES = (
    Exercise("granted_kib", NOTEBOOK, "send buffer after a request of 512 KiB", GRANTED, "KiB"),
    Exercise("same_bdp_ms", NOTEBOOK, "RTT with the article's BDP at 250 Mbit/s", SAME_BDP, "ms"),
    Exercise("larger_mib_s", NOTEBOOK, "goodput with SNDBUF_KIB = 128", larger_goodput, "MiB/s"),
    Exercise("limit", NOTEBOOK, "limit with 8 MiB to send, 128 KiB to receive", limit, "", LIMITS),
)
GUESSED = {f"guess_{end}_mib_s": f"{end}-256k" for end in ("sender", "receiver", "both")}
GUESSES = guesses(NOTEBOOK, "steady_mib_s", GUESSED)
