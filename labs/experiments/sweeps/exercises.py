"""The graded exercises of the notebook about buffer sweeps; each right answer is computed from the
theory and, where they exist, from runs."""

from __future__ import annotations

from labs.drive.units import KIB, MIB
from labs.experiments.sweeps.results import results
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.bulk import FIRST_SERIES, LINK, Flow, transfer
from labs.read.theory.bulk_sender import RECEIVE_WINDOW, SEND_BUFFER
from labs.read.theory.windows import granted_bytes, series

NOTEBOOK = "02-iperf-buffer-sweeps"
REQUESTED_BYTES, CORE_MAX_BYTES = 512 * KIB, 212_992
ARTICLE_RATE_MBIT, ARTICLE_RTT_MS, SLOWER_MBIT = 40_000.0, 0.2, 250.0
RATE_MBIT, DELAY_MS = 1000.0, 8.0
"""The link with which the notebook starts."""
LONGER_MS, CONDITION, WINDOW_BYTES = 16.0, "both-256k", 256 * KIB
TRANSFER_BYTES = 32 * MIB
WRITE_BYTES = 2000
OLDEST = "6.1"
LIMITS = (LINK, RECEIVE_WINDOW, SEND_BUFFER)
SEND_BYTES, RECEIVE_BYTES = 8 * MIB, 128 * KIB
"""Requested at the ends, in the last question."""


def granted(runs: Evidence) -> Expected:
    """What getsockopt returns after iperf3 -w 512K."""
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


def longer_goodput(runs: Evidence) -> Expected:
    """The steady goodput of both buffers at 256 KiB over twice the RTT."""
    values = [_steady_mib_s(runs.kernel, LONGER_MS)]
    checked = "the model of a bulk flow"
    run = runs.run(CONDITION, delay_ms=LONGER_MS)
    if run is not None and (measured := results(run).steady_mib_s):
        values.append(measured)
        checked += f"; the run {run.name}, with {measured:.1f} MiB/s"
    same, line = _steady_mib_s(runs.kernel, DELAY_MS), line_goodput_bytes_s(RATE_MBIT) / MIB
    return around(
        tuple(values),
        6.0,
        checked,
        Mistake(round(same, 1), "The same window is sent per round trip, which now takes longer."),
        Mistake(round(line, 1), "A window below the BDP does not fill the link."),
        Mistake(
            round(2 * WINDOW_BYTES / LONGER_MS * 1e3 / MIB, 1),
            "Only a part of the granted 512 KiB becomes window.",
        ),
    )


def _steady_mib_s(kernel: str, rtt_ms: float) -> float:
    """The steady goodput of CONDITION; for a kernel before those of the model, that of OLDEST."""
    flow = Flow(
        rate_mbit=RATE_MBIT,
        rtt_ms=rtt_ms,
        kernel=kernel if series(kernel) >= FIRST_SERIES else OLDEST,
        sndbuf_bytes=2 * WINDOW_BYTES,
        rcvbuf_bytes=2 * WINDOW_BYTES,
        sndbuf_locked=True,
        rcvbuf_locked=True,
        write_bytes=WRITE_BYTES,
    )
    return transfer(flow, TRANSFER_BYTES).steady_bytes_s / MIB


def limit(runs: Evidence) -> Expected:
    """What limits a large send buffer that meets a small receive buffer."""
    small, large = 2 * RECEIVE_BYTES, 2 * SEND_BYTES
    assert small < bdp_bytes(RATE_MBIT, DELAY_MS) < large
    return Expected(
        "the sizes of both buffers, and the BDP",
        choice=RECEIVE_WINDOW,
        mistakes=(
            Mistake(SEND_BUFFER, "The send buffer is larger than the receive buffer."),
            Mistake(LINK, "One of the buffers is smaller than the BDP."),
        ),
    )


EXERCISES = (
    Exercise("granted_kib", NOTEBOOK, "send buffer after iperf3 -w 512K", granted, "KiB"),
    Exercise("same_bdp_ms", NOTEBOOK, "RTT with the article's BDP at 250 Mbit/s", same_bdp, "ms"),
    Exercise("longer_mib_s", NOTEBOOK, "goodput of both-256k with 16 ms", longer_goodput, "MiB/s"),
    Exercise("limit", NOTEBOOK, "limit of 8 MiB to send and 128 KiB to receive", limit, "", LIMITS),
)
