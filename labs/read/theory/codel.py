"""CoDel: how long packets wait, and how often it drops.

Source: RFC 8289 sections 3.3 (control loop), 4.2 and 4.3 (interval and target), 5 (pseudocode);
include/net/codel_impl.h codel_dequeue().
"""

from __future__ import annotations

from math import sqrt

TARGET_MS = 5.0
INTERVAL_MS = 100.0


def drop_times_ms(drops: int, interval_ms: float = INTERVAL_MS) -> tuple[float, ...]:
    """When packets are dropped, from the moment at which the delay exceeds the target for good: the
    first after an interval, later ones after interval / sqrt(n), n being the drops so far."""
    at_ms, times_ms = interval_ms, [interval_ms]
    for count in range(1, drops):
        at_ms += interval_ms / sqrt(count)
        times_ms.append(at_ms)
    return tuple(times_ms[:drops])


def largest_queue_ms(
    rtt_ms: float,
    capacity_per_s: float,
    target_ms: float = TARGET_MS,
    interval_ms: float = INTERVAL_MS,
) -> float:
    """The delay in the queue when a Reno flow alone reacts to CoDel's first drop.

    From the moment at which the delay reaches the target, the window grows by one segment per round
    trip, through an interval and the round trip of the loss. For CoDel this is what the buffer is
    for a FIFO.
    """
    round_ms = rtt_ms + target_ms
    segments = interval_ms / round_ms + 1
    return target_ms + 1e3 * segments / capacity_per_s
