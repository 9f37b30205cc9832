"""Article 1 judged: how socket buffers affect TCP throughput."""

from __future__ import annotations

from collections.abc import Mapping

from labs.experiments.buffers.claims import (
    across_conditions,
    kernel_sizes,
    receive_window,
    round_trips,
)
from labs.experiments.buffers.claims.explain import changed_since, explain
from labs.experiments.buffers.socket_buffers import parameter
from labs.read.claims.judge import Judge

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
