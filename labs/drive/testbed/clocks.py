"""The clocks of two hosts that each have their own: how far apart, and how they are brought near.

Machines that no time server tells the time start up to seconds apart, and times of both stand in
one run. The difference is read between two readings of the server's clock, so it is known to half
the time between these.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.testbed.contract import Host

READINGS = 8
NEAR_NS = 5_000_000
# Relative, so it does not matter how long the command takes to start.
STEP = (
    "import sys, time; clock = time.CLOCK_REALTIME; "
    "time.clock_settime_ns(clock, time.clock_gettime_ns(clock) + int(sys.argv[1]))"
)


@dataclass(frozen=True)
class Apart:
    """How far the client's clock is ahead of the server's, and how exactly that is known."""

    client_ahead_ns: int
    within_ns: int


def apart(server: Host, client: Host) -> Apart:
    """Compare the clocks: the reading that took least is the best one."""
    found = []
    for _ in range(READINGS):
        before_ns, there_ns, after_ns = server.clock_ns(), client.clock_ns(), server.clock_ns()
        found.append(Apart(there_ns - (before_ns + after_ns) // 2, (after_ns - before_ns) // 2))
    return min(found, key=lambda one: one.within_ns)


def bring_near(server: Host, client: Host) -> None:
    """Set the client's clock to the server's, unless it is as near as can be told."""
    found = apart(server, client)
    if abs(found.client_ahead_ns) > max(NEAR_NS, found.within_ns):
        client.run(("python3", "-I", "-S", "-c", STEP, str(-found.client_ahead_ns)))
