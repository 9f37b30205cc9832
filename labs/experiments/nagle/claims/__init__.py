"""Article 3 judged: Nagle's algorithm, the delayed ACK, and the stall of 40 ms."""

from __future__ import annotations

from collections.abc import Mapping

from labs.experiments.nagle.claims import stalled_requests
from labs.read.claims.judge import Judge

JUDGES: Mapping[str, Judge] = {
    "mean_time": stalled_requests.mean_time,
    "on_the_machine": stalled_requests.on_the_machine,
    "sequence": stalled_requests.sequence,
    "kept_connections": stalled_requests.kept_connections,
    "quick_acks": stalled_requests.quick_acks,
    "joined": stalled_requests.joined,
}
