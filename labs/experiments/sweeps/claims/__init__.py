"""Article 5 judged: the sizes that a kernel grants, goodput against buffers, and what the article
recommends. This module names the judging functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from labs.experiments.sweeps.claims import advice, goodput, sizes
from labs.experiments.sweeps.results import parameter

if TYPE_CHECKING:
    from labs.read.claims.judge import Judge

__all__ = ["JUDGES", "parameter"]

JUDGES: Mapping[str, Judge] = {
    "default_buffers": sizes.default_buffers,
    "twice_the_request": sizes.twice_the_request,
    "smallest_buffers": sizes.smallest_buffers,
    "largest_buffers": sizes.largest_buffers,
    "beyond_the_largest": sizes.beyond_the_largest,
    "too_small_to_fill": goodput.too_small_to_fill,
    "send_buffer_alone": goodput.send_buffer_alone,
    "receive_buffer_alone": goodput.receive_buffer_alone,
    "both_buffers": goodput.both_buffers,
    "fall": goodput.fall,
    "best_pairs": goodput.best_pairs,
    "receive_buffer_falls_short": advice.receive_buffer_falls_short,
    "sender_alone": advice.sender_alone,
    "equal_choices": advice.equal_choices,
    "full_queue": advice.full_queue,
    "write_returns": advice.write_returns,
}
