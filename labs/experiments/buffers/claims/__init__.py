"""Article 1 judged: how socket buffers affect TCP throughput.

Here: which function judges what, and what the theory of buffers can say of a figure that is another
than the article's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labs.experiments.buffers.claims import (
    across_conditions,
    kernel_sizes,
    receive_window,
    round_trips,
)
from labs.experiments.buffers.prediction import expected
from labs.experiments.buffers.socket_buffers import parameter
from labs.read.claims.judge import Judge
from labs.read.claims.ledger import Claim
from labs.read.display.format import in_digits
from labs.read.runs.run import Run
from labs.read.theory.bounds import LINE, Prediction
from labs.read.theory.windows import RATIO_SINCE, SMALL_HEADS_SINCE, before, series

__all__ = ["JUDGES", "changed_since", "explain", "parameter"]

JUDGES: Mapping[str, Judge] = {
    "no_effect": across_conditions.no_effect,
    "httping_times": round_trips.httping_times,
    "round_trip": round_trips.round_trip,
    "buffer_needed": across_conditions.buffer_needed,
    "window_share": receive_window.window_share,
    "growth": receive_window.growth,
    "defaults": kernel_sizes.defaults,
    "doubling": kernel_sizes.doubling,
    "cap": kernel_sizes.cap,
    "by_hand": kernel_sizes.by_hand,
    "loss_and_control": across_conditions.loss_and_control,
    "stop_and_wait": round_trips.stop_and_wait,
}
# What of the theory changed, and when: it may say why an article's figure is no longer measured.
CHANGES = {
    RATIO_SINCE: "from 6.6 on the share of a receive buffer that becomes window follows from the "
    "packets, and is larger",
    SMALL_HEADS_SINCE: "from 6.3 on a packet takes less of the send buffer",
}


def changed_since(claim: Claim, run: Run) -> tuple[str, str] | None:
    """The last series and what came after it, if the theory has the article's figure on earlier
    kernels and the measured one on the run's; None if it does not say so."""
    here = expected(run)
    if (
        claim.column != "steady_mib_s"
        or not isinstance(claim.expected, float | int)
        or (here is None)
    ):
        return None
    kernel = series(run.kernel.release)
    for since, what in CHANGES.items():
        then = expected(as_on(run, before(since)))
        if (
            kernel >= since
            and then is not None
            and (
                abs(then.goodput_mib_s / claim.expected - 1)
                <= claim.allowed
                < abs(here.goodput_mib_s / claim.expected - 1)
            )
        ):
            return before(since), (
                f"{what}: the theory has {in_digits(then.goodput_mib_s)} MiB/s up to "
                f"{before(since)} and {in_digits(here.goodput_mib_s)} on "
                f"{run.kernel.release}"
            )
    return None


def as_on(run: Run, kernel: str) -> Run:
    """The run as if it had been made on another kernel: for what the theory says of it there."""
    return replace(run, said={**run.said, "kernel": {**run.said["kernel"], "release": kernel}})


def explain(run: Run, measured: Mapping[str, float]) -> str:
    """Why a speed is another than the article's, as far as the theory of this run can say."""
    theory = expected(run)
    if theory is None:
        return "no prediction for this run (loss, jitter or no rate limit)"
    best = max(measured.values())
    if not _agrees(theory, best):
        return (
            f"not explained: the theory has {in_digits(theory.goodput_mib_s)} MiB/s, limited "
            f"by the {theory.bound}"
        )
    if theory.bound == LINE:
        return (
            f"the run reaches the rate of the link, {in_digits(theory.goodput_mib_s)} MiB/s "
            "of payload"
            + ("; on virtual time no machine limits it" if run.testbed == "virtual" else "")
        )
    return (
        f"as the theory has it on {run.kernel.release}: "
        f"{in_digits(theory.goodput_mib_s)} MiB/s, limited by the {theory.bound}"
    )


def _agrees(theory: Prediction, mib_s: float) -> bool:
    allowed = theory.tolerance_pct
    return allowed is not None and abs(mib_s / theory.goodput_mib_s - 1) <= allowed / 100
