"""Article 4 judged: what a receive buffer holds, and how its window opens. This module names the
judging functions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps

from labs.experiments.windows.claims import memory, window
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.rules import not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import Finding

__all__ = ["JUDGES"]


def packet_by_packet(judge: Judge) -> Judge:
    """A judge for runs in which each packet has a sample of its own. In real time packets arrive
    together, and these runs cannot judge."""

    @wraps(judge)
    def judged(claim: Claim, seen: Evidence) -> Finding:
        for name in claim.conditions:
            if lacking := seen.row(name)["unsampled_packets"]:
                return not_judged(f"{lacking} packets of {name} have no sample of their own")
        return judge(claim, seen)

    return judged


JUDGES: Mapping[str, Judge] = {
    "budget_exceeded": memory.budget_exceeded,
    "drops_in_open_window": packet_by_packet(memory.drops_in_open_window),
    "coalesced_then_collapsed": packet_by_packet(memory.coalesced_then_collapsed),
    "collapsed_by_small_packets": packet_by_packet(memory.collapsed_by_small_packets),
    "collapsed_by_published_program": packet_by_packet(memory.collapsed_by_published_program),
    "collapsed_by_slow_reader": packet_by_packet(memory.collapsed_by_slow_reader),
    "metadata_per_packet": memory.metadata_per_packet,
    "overflow": memory.overflow,
    "whole_buffer_as_window": memory.whole_buffer_as_window,
    "half_of_the_free_buffer": packet_by_packet(window.half_of_the_free_buffer),
    "clamped": window.clamped,
    "filled_through_half": packet_by_packet(window.filled_through_half),
    "saw_tooth": packet_by_packet(window.saw_tooth),
    "linear_opening": packet_by_packet(window.linear_opening),
    "first_round_trip": window.first_round_trip,
    "patched_window": window.patched_window,
    "default_buffer": window.default_buffer,
    "smaller_batches": window.smaller_batches,
    "round_trips_to_fill": window.round_trips_to_fill,
}
