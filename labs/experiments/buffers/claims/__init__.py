"""Article 1 judged: how socket buffers affect TCP throughput.

This module names the judging functions, and explains figures that differ from the article's by the
theory of buffers.
"""

from __future__ import annotations

from collections.abc import Mapping

from labs.experiments.buffers.claims import (
    across_conditions,
    congestion_control,
    kernel_sizes,
    memory_pressure,
    receive_window,
    round_trips,
    shaper,
)
from labs.experiments.buffers.prediction import TOLERANCE_PCT, Prediction, expected, receive_buffer
from labs.experiments.buffers.results import parameter
from labs.read.claims.judge import Judge
from labs.read.display.format import in_digits, size_in_words
from labs.read.readings.bulk_transfer import bdp_bytes
from labs.read.runs.run import Run
from labs.read.theory.bulk import LINK

__all__ = ["JUDGES", "explain", "parameter"]

JUDGES: Mapping[str, Judge] = {
    "shaper_ceiling": shaper.shaper_ceiling,
    "no_effect": across_conditions.no_effect,
    "restored": across_conditions.restored,
    "twice_as_much": across_conditions.twice_as_much,
    "httping_times": round_trips.httping_times,
    "round_trip": round_trips.round_trip,
    "buffer_needed": across_conditions.buffer_needed,
    "deeper_queue": across_conditions.deeper_queue,
    "window_share": receive_window.window_share,
    "growth": receive_window.growth,
    "defaults": kernel_sizes.defaults,
    "doubling": kernel_sizes.doubling,
    "cap": kernel_sizes.cap,
    "by_hand": kernel_sizes.by_hand,
    "bbr_over_cubic": congestion_control.bbr_over_cubic,
    "few_losses": congestion_control.few_losses,
    "buffers_over_choice": congestion_control.buffers_over_choice,
    "where_it_acts": congestion_control.where_it_acts,
    "stop_and_wait": round_trips.stop_and_wait,
    "memory_pressure": memory_pressure.memory_pressure,
}


def explain(run: Run, measured: Mapping[str, float]) -> str:
    """Why a speed differs from the article's, as far as the theory explains it."""
    theory = expected(run)
    if theory is None:
        return "no prediction for this run (loss, jitter or no rate limit)"
    best = max(measured.values())
    if not _agrees(theory, best):
        return (
            f"not explained: the prediction is {in_digits(theory.goodput_mib_s)} MiB/s, limited "
            f"by the {theory.bound}"
        )
    if theory.bound == LINK:
        return (
            f"the run reaches the rate of the link, {in_digits(theory.goodput_mib_s)} MiB/s "
            "of payload"
            + ("; in virtual time no machine limits it" if run.testbed == "virtual" else "")
            + _admitted(run, theory)
        )
    return (
        f"as predicted for Linux {run.kernel.release}: "
        f"{in_digits(theory.goodput_mib_s)} MiB/s, limited by the {theory.bound}"
    )


def _admitted(run: Run, theory: Prediction) -> str:
    """What the receiver's buffer admits on this kernel, if the link has a BDP."""
    bdp, largest = bdp_bytes(run), receive_buffer(run).most_bytes
    if bdp is None:
        return ""
    return (
        f". The receive buffer may grow to {size_in_words(largest)} on Linux {run.kernel.release}, "
        f"which admits {size_in_words(theory.window_bytes)} of payload in flight for a BDP of "
        f"{size_in_words(bdp)}"
    )


def _agrees(theory: Prediction, mib_s: float) -> bool:
    return abs(mib_s / theory.goodput_mib_s - 1) <= TOLERANCE_PCT / 100
