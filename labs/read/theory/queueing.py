"""The latency of requests that one thread serves one after another, each for the same time.

Evenly spaced requests (D/D/1) wait only beyond the capacity of the thread. Requests at random
moments (M/D/1) wait below it, too: Pollaczek-Khinchine formula (L. Kleinrock, "Queueing Systems",
volume 1, 1975, chapter 5). A closed loop cannot exceed the capacity: Little's law (J. D. C. Little,
"A proof for the queuing formula L = λW", Operations Research 9, 1961).
"""

from __future__ import annotations

SECOND_US = 1_000_000


def capacity_per_s(service_us: float) -> float:
    """The requests per second that one thread can serve at most."""
    return SECOND_US / service_us


def evenly_spaced_us(rate_per_s: float, service_us: float, after_s: float) -> float:
    """The latency of the request that is sent `after_s` after the first one, if requests are sent
    at a constant rate: beyond the capacity, those sent before it that are not yet served delay it.
    """
    waiting = max(0.0, rate_per_s - capacity_per_s(service_us)) * after_s
    return service_us * (1 + waiting)


def random_moments_us(rate_per_s: float, service_us: float) -> float | None:
    """The mean latency of requests that are sent at random moments (a Poisson process); None at
    the capacity and beyond it, where it grows without limit."""
    load = rate_per_s / capacity_per_s(service_us)
    return None if load >= 1 else service_us * (1 + load / (2 * (1 - load)))


def closed_loop_us(connections: int, service_us: float) -> float:
    """The mean latency of a closed loop whose connections send their next request at once: all but
    one of the requests wait."""
    return connections * service_us
