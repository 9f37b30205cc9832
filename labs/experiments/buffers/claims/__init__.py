"""Article 1 judged: how socket buffers affect TCP throughput."""

from __future__ import annotations

from collections.abc import Mapping

from labs.experiments.buffers.claims import granted, receive_window, round_trips, sweeps
from labs.experiments.buffers.claims.explain import changed_since, explain
from labs.experiments.buffers.socket_buffers import parameter
from labs.read.claims.judge import Judge

__all__ = ["JUDGES", "changed_since", "explain", "parameter"]

JUDGES: Mapping[str, Judge] = {
    "no_effect": sweeps.no_effect,
    "httping_times": round_trips.httping_times,
    "round_trip": round_trips.round_trip,
    "buffer_needed": sweeps.buffer_needed,
    "window_share": receive_window.window_share,
    "growth": receive_window.growth,
    "defaults": granted.defaults,
    "doubling": granted.doubling,
    "cap": granted.cap,
    "by_hand": granted.by_hand,
    "loss_and_control": sweeps.loss_and_control,
    "stop_and_wait": round_trips.stop_and_wait,
}
