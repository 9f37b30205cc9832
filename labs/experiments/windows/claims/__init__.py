"""Article 4 judged: what a receive buffer holds, and how its window opens. This module names the
judging functions."""

from __future__ import annotations

from collections.abc import Mapping

from labs.experiments.windows.claims import memory, window
from labs.read.claims.judge import Judge

__all__ = ["JUDGES"]

JUDGES: Mapping[str, Judge] = {
    "drops_in_open_window": memory.drops_in_open_window,
    "coalesced_then_collapsed": memory.coalesced_then_collapsed,
    "collapsed_by_small_packets": memory.collapsed_by_small_packets,
    "metadata_per_packet": memory.metadata_per_packet,
    "whole_buffer_as_window": memory.whole_buffer_as_window,
    "half_of_the_free_buffer": window.half_of_the_free_buffer,
    "filled_through_half": window.filled_through_half,
    "saw_tooth": window.saw_tooth,
    "linear_opening": window.linear_opening,
    "first_round_trip": window.first_round_trip,
    "smaller_batches": window.smaller_batches,
}
