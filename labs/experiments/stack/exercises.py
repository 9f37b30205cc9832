"""The graded exercises of the notebook about the network stack; each right answer is computed from
the theory of a server that serves requests one after another."""

from __future__ import annotations

from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.exercises.guess import GuessedValue
from labs.read.theory.queueing import capacity_per_s, closed_loop_us, evenly_spaced_us

NOTEBOOK = "05-stack-latency"
WORK_US, CONNECTIONS = 2000, 16
"""CPU time per request, and connections of the closed loop."""
LOAD_PCT, DURATION_S = 120, 3
STOP_MS, RATE_PER_S = 100, 400
"""A server that stops for a while, and an open loop below its capacity."""
POLLING_US, WAKE_UP_US, SLOWER_US = 25.0, 9.0, 180.0
"""Latency while polling, and what blocking adds; the latency while polling on a slower machine."""
MEASURED_SHARE = 0.972
"""The capacity of the recorded loops over the plain limit: 972 of 1,000 requests per second. A
request also costs system calls and the kernel's work. The notebook uses both rates."""
MEASURED_WAIT = 0.963
"""The median of the recorded closed loop in shares of connections times WORK_US."""


def highest_rate(runs: Evidence) -> Expected:
    """What one thread can serve at most."""
    found = capacity_per_s(WORK_US)
    return around(
        (found, MEASURED_SHARE * found),
        0.5,
        "one request after another; down to the capacity measured in the recorded closed loop",
        Mistake(found / 1000, "This is per millisecond."),
        Mistake(CONNECTIONS * found, "One thread serves the connections one after another."),
    )


def closed_loop(runs: Evidence) -> Expected:
    """The latency of a closed loop at capacity: all but one of its requests wait."""
    found_ms = closed_loop_us(CONNECTIONS, WORK_US) / 1000
    return around(
        (MEASURED_WAIT * found_ms, found_ms, found_ms / MEASURED_SHARE),
        0.5,
        "Little's law with the plain limit or with the measured capacity, and the median of the "
        "recorded closed loop",
        Mistake(WORK_US / 1000, "The other connections have requests in flight, too."),
        Mistake(
            (CONNECTIONS - 1) * WORK_US / 1000,
            "This is the wait. The latency includes the request.",
        ),
        Mistake(
            (CONNECTIONS + 1) * WORK_US / 2000, "Each connection sends its next request at once."
        ),
    )


def last_wait(runs: Evidence) -> Expected:
    """The latency of the last request of an open loop beyond the capacity."""
    rate_per_s = LOAD_PCT / 100 * capacity_per_s(WORK_US)
    found_ms, measured_ms = (
        evenly_spaced_us(rate_per_s, service_us, DURATION_S) / 1000
        for service_us in (WORK_US, WORK_US / MEASURED_SHARE)
    )
    return around(
        (found_ms, measured_ms),
        0.5,
        "evenly spaced requests, served one after another: at the plain limit, or at the capacity "
        "measured in the recorded closed loop",
        Mistake(
            found_ms / 2,
            "This is the median. The last request waits for all that were sent before it.",
        ),
        Mistake(
            1000 * DURATION_S * (1 - 100 / LOAD_PCT),
            "The requests that wait at the end are served at the rate of the server.",
        ),
        Mistake(WORK_US / 1000, "More requests arrive than can be served, so they wait."),
    )


def stopped(runs: Evidence) -> Expected:
    """How many requests of a closed loop are delayed if the server stops for a while."""
    intended = RATE_PER_S * STOP_MS / 1000
    return around(
        (CONNECTIONS,),
        0.0,
        "each connection of a closed loop has one request in flight",
        Mistake(intended, "This is the number in an open loop. A closed loop does not send them."),
    )


def wake_up_ratio(runs: Evidence) -> Expected:
    """The ratio of blocking to polling on a machine where the rest of a request takes longer."""
    return around(
        ((SLOWER_US + WAKE_UP_US) / SLOWER_US,),
        1.0,
        "a constant added to both",
        Mistake(
            (POLLING_US + WAKE_UP_US) / POLLING_US,
            "The time to wake a thread is added to the latency. It does not multiply it.",
        ),
    )


EXERCISES = (
    Exercise("highest_rate_s", NOTEBOOK, "requests per s at 2 ms each", highest_rate, "per s"),
    Exercise("closed_loop_ms", NOTEBOOK, "latency of 16 connections", closed_loop, "ms"),
    Exercise("last_wait_ms", NOTEBOOK, "wait of the last request at 120 %", last_wait, "ms"),
    Exercise("stopped_requests", NOTEBOOK, "requests delayed by a stop", stopped, "requests"),
    Exercise("wake_up_ratio", NOTEBOOK, "blocking over polling at 180 µs", wake_up_ratio, "ratio"),
)
# In real time each machine has latencies of its own.
GUESSES = (
    *(
        GuessedValue(f"guess_{one}_ratio", NOTEBOOK, "ratio", lambda _: (None, None))
        for one in ("blocking", "many", "rules")
    ),
    *(
        GuessedValue(f"guess_open_{load_pct}_ms", NOTEBOOK, "ms", lambda _: (None, None))
        for load_pct in (50, 80, 120)
    ),
)
