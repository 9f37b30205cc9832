"""Article 1 judged: how socket buffers affect TCP throughput."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labs.experiments.buffers.claims import (
    granted as buffers_set,
)
from labs.experiments.buffers.claims import (
    receive_window as windows,
)
from labs.experiments.buffers.claims import (
    round_trips,
    sweeps,
)
from labs.read.claims.judge import Judge
from labs.read.claims.of_article import verdicts_on
from labs.read.claims.verdict import Verdict
from labs.read.runs.run import Run

ARTICLE = 1

JUDGES: Mapping[str, Judge] = {
    "no_effect": sweeps.no_effect,
    "httping_times": round_trips.httping_times,
    "round_trip": round_trips.round_trip,
    "buffer_needed": sweeps.buffer_needed,
    "window_share": windows.window_share,
    "growth": windows.growth,
    "defaults": buffers_set.defaults,
    "doubling": buffers_set.doubling,
    "cap": buffers_set.cap,
    "by_hand": buffers_set.by_hand,
    "loss_and_control": sweeps.loss_and_control,
    "stop_and_wait": round_trips.stop_and_wait,
}


def verdicts(runs: Iterable[Run]) -> tuple[Verdict, ...]:
    """A verdict on each claim of the article, in its order: see `verdicts_on`."""
    return verdicts_on(ARTICLE, JUDGES, runs)
