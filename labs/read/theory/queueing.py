"""The latency of requests that one thread serves one after another, each for the same time.

Evenly spaced requests (D/D/1) wait only beyond the capacity of the thread. Requests at random
moments (M/D/1) wait below it, too: Pollaczek-Khinchine formula (L. Kleinrock, "Queueing Systems",
volume 1, 1975, chapter 5). A closed loop cannot exceed the capacity: Little's law (J. D. C. Little,
"A proof for the queuing formula L = λW", Operations Research 9, 1961).
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Server:
    """A server with one thread under several loads: the time that it spends on one request, as
    requested and as measured in a closed loop, in which it never idles; the connections of that
    loop, and how long each load lasts."""

    work_us: int
    service_us: float
    connections: int
    duration_s: int

    @property
    def limit_per_s(self) -> float:
        """The plain limit of the thread, which does nothing but the requested work."""
        return capacity_per_s(self.work_us)

    @property
    def capacity_per_s(self) -> float:
        """The rate that the server can serve, as measured in the closed loop."""
        return capacity_per_s(self.service_us)

    @property
    def closed_loop_us(self) -> float:
        """The latency of the closed loop at the plain limit."""
        return closed_loop_us(self.connections, self.work_us)

    def evenly_spaced_us(self, rate_per_s: float, percent: float) -> float:
        """The predicted percentile of the latency at a constant rate."""
        after_s = percent / 100 * self.duration_s
        return evenly_spaced_us(rate_per_s, self.service_us, after_s)

    def random_moments_us(self, rate_per_s: float) -> float | None:
        """The predicted mean of the latency if the requests were sent at random moments."""
        return random_moments_us(rate_per_s, self.service_us)
