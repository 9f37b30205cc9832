"""The open and closed loops of a study: measured latency, and what the theory predicts.

WORK_US alone gives the plain limit of one thread. The throughput of the closed loop, in which the
server never idles, gives its capacity: besides WORK_US a request costs system calls and the
kernel's work on its packets. The latency of the open loops is predicted from this capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from labs.experiments.stack.settings import Settings
from labs.read.stats.repetitions import Repeated
from labs.read.theory.queueing import (
    SECOND_US,
    capacity_per_s,
    closed_loop_us,
    evenly_spaced_us,
    random_moments_us,
)

CLOSED = "closed"


@dataclass(frozen=True)
class Loop:
    """A loop of requests: medians of its repetitions. `rate_per_s` is 0 in a closed loop."""

    condition: str
    rate_per_s: int
    responses_per_s: float
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Server:
    """What the loops have in common, such as the time that the server spends on one request, as
    requested and as measured."""

    work_us: int
    service_us: float
    connections: int
    duration_s: int

    @property
    def limit_per_s(self) -> float:
        """The plain limit of one thread, which does nothing but the requested work."""
        return capacity_per_s(self.work_us)

    @property
    def capacity_per_s(self) -> float:
        """The rate that the server can serve, as measured in the closed loop."""
        return capacity_per_s(self.service_us)

    def evenly_spaced_us(self, rate_per_s: float, percent: float) -> float:
        """The predicted percentile of the latency at a constant rate."""
        after_s = percent / 100 * self.duration_s
        return evenly_spaced_us(rate_per_s, self.service_us, after_s)

    def random_moments_us(self, rate_per_s: float) -> float | None:
        """The predicted mean of the latency if the requests were sent at random moments."""
        return random_moments_us(rate_per_s, self.service_us)

    @property
    def closed_loop_us(self) -> float:
        """The latency of the closed loop at the plain limit."""
        return closed_loop_us(self.connections, self.work_us)


def loops(repeated: Iterable[Repeated]) -> tuple[Loop, ...]:
    """The closed loop, then the open loops by rate. Loops without undisturbed runs are left out."""
    found = [_loop(one) for one in repeated if one.counted and is_loop(one)]
    return tuple(sorted(found, key=lambda one: one.rate_per_s))


def is_loop(one: Repeated) -> bool:
    """Whether a condition is the closed loop or an open one."""
    return one.condition == CLOSED or one.middle.settings_as(Settings).rate_per_s > 0


def server(repeated: Iterable[Repeated]) -> Server | None:
    """The server of the loops; None without undisturbed runs of the closed loop."""
    closed = next((one for one in repeated if one.condition == CLOSED and one.counted), None)
    if closed is None:
        return None
    settings: Settings = closed.middle.settings_as(Settings)
    return Server(
        settings.work_us,
        SECOND_US / median(closed.column("requests_s")),
        settings.connections,
        settings.duration_s,
    )


def _loop(one: Repeated) -> Loop:
    measured = {name: median(one.column(name)) for name in ("requests_s", "p50_us", "p99_us")}
    return Loop(
        one.condition,
        one.middle.settings_as(Settings).rate_per_s,
        measured["requests_s"],
        measured["p50_us"],
        measured["p99_us"],
    )
