"""The graded exercises of the notebook about the network stack: a server that serves requests one
after another."""

from __future__ import annotations

from labs.read.exercises.exercise import Exercise, GuessedValue, around
from labs.read.theory.queueing import capacity_per_s, closed_loop_us, evenly_spaced_us

NOTEBOOK = "05-stack-latency"
WORK_MS, CONNECTIONS = 2.0, 16
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
"""The median of the recorded closed loop in shares of connections times WORK_MS."""

CAPACITY_PER_S = capacity_per_s(1000 * WORK_MS)
CLOSED_LOOP_MS = closed_loop_us(CONNECTIONS, 1000 * WORK_MS) / 1000
AT_LOAD_MS = 1000 * DURATION_S * (1 - 100 / LOAD_PCT)
LAST_MS, MEASURED_LAST_MS = (
    evenly_spaced_us(LOAD_PCT / 100 * CAPACITY_PER_S, 1000 * WORK_MS / share, DURATION_S) / 1000
    for share in (1, MEASURED_SHARE)
)

RECORDED = "the capacity measured in the recorded closed loop"
HIGHEST_RATE = (
    around(
        *(CAPACITY_PER_S, MEASURED_SHARE * CAPACITY_PER_S),
        checked=f"one request after another; down to {RECORDED}",
        pct=0.5,
    )
    .mistake(CAPACITY_PER_S / 1000, "This is per millisecond.")
    .mistake(CONNECTIONS * CAPACITY_PER_S, "One thread serves the connections one after another.")
)
CLOSED_LOOP = (
    around(
        *(MEASURED_WAIT * CLOSED_LOOP_MS, CLOSED_LOOP_MS / MEASURED_SHARE),
        checked=f"Little's law at the plain limit or {RECORDED}, and its median",
        pct=0.5,
    )
    .mistake(WORK_MS, "The other connections have requests in flight, too.")
    .mistake((CONNECTIONS - 1) * WORK_MS, "This is the wait. The latency includes the request.")
    .mistake((CONNECTIONS + 1) * WORK_MS / 2, "Each connection sends its next request at once.")
)
LAST_WAIT = (
    around(
        *(LAST_MS, MEASURED_LAST_MS),
        checked=f"evenly spaced requests at the plain limit or {RECORDED}",
        pct=0.5,
    )
    .mistake(LAST_MS / 2, "This is the median. The last request waits for all before it.")
    .mistake(AT_LOAD_MS, "Those that wait at the end are served at the rate of the server.")
    .mistake(WORK_MS, "More requests arrive than can be served, so they wait.")
)
STOPPED = around(CONNECTIONS, checked="one request in flight per connection").mistake(
    RATE_PER_S * STOP_MS / 1000, "This is for an open loop. A closed loop does not send them."
)
WAKE_UP_RATIO = around(
    (SLOWER_US + WAKE_UP_US) / SLOWER_US, checked="a constant added to both", pct=1.0
).mistake(
    (POLLING_US + WAKE_UP_US) / POLLING_US,
    "The time to wake a thread is added to the latency, not multiplied.",
)

EXERCISES = (
    Exercise("highest_rate_s", NOTEBOOK, "requests per s at 2 ms each", HIGHEST_RATE, "per s"),
    Exercise("closed_loop_ms", NOTEBOOK, "latency of 16 connections", CLOSED_LOOP, "ms"),
    Exercise("last_wait_ms", NOTEBOOK, "wait of the last request at 120 %", LAST_WAIT, "ms"),
    Exercise("stopped_requests", NOTEBOOK, "requests delayed by a stop", STOPPED, "requests"),
    Exercise("wake_up_ratio", NOTEBOOK, "blocking over polling at 180 µs", WAKE_UP_RATIO, "ratio"),
)
# In real time each machine has latencies of its own.
GUESSES = (
    *(
        GuessedValue(f"guess_{way}_ratio", NOTEBOOK, "ratio")
        for way in ("blocking", "many", "rules")
    ),
    *(GuessedValue(f"guess_open_{load_pct}_ms", NOTEBOOK, "ms") for load_pct in (50, 80, 120)),
)
