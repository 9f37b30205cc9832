"""The machines of a run in real time: what they are, their load, and their clocks.

`machines.json` is part of the sealed run, because it decides whether the run counts: one that its
machine disturbed does not. In virtual time a machine disturbs nothing, and there is no such file.

    {"here": {...}, "server": {...}, "client": {...}}      here: the machine that drives the run

Each has the state `before` and `after` the measurement, and a description of the machine, as
printed by the kernel and ethtool. Entries that a machine lacks are omitted.

Hosts that are machines have a clock each. Without a time server they may differ by seconds, and one
run contains times of both. The difference is determined from a reading of the client's clock
between two readings of the server's, so its uncertainty is half of the time between these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labs.errors import LabError
from labs.guest.testbed.contract import Host, Testbed

FILE = "machines.json"
HERE = "here"
# The files read before and after, and the beginnings of the lines to store ("": all lines).
AT_A_MOMENT = {
    "/proc/stat": ("cpu",),
    "/proc/loadavg": ("",),
    "/proc/timer_list": ("now at", "jiffies:"),
}
ALWAYS_SO = {"/proc/cpuinfo": ("model name",), "/proc/sys/kernel/osrelease": ("",)}
ABOUT_A_DEVICE = {"driver": "-i", "offloads": "-k"}
READINGS = 8
NEAR_NS = 5_000_000
# Relative, so the time that the command takes to start does not matter.
STEP = (
    "import sys, time; clock = time.CLOCK_REALTIME; "
    "time.clock_settime_ns(clock, time.clock_gettime_ns(clock) + int(sys.argv[1]))"
)

Kept = dict[str, dict[str, str]]
Read = Callable[[str], bytes]


def moments(testbed: Testbed) -> Kept:
    """The load counters of every machine at this moment."""
    return {
        HERE: _said(_read_here, AT_A_MOMENT),
        **{name: _said(host.read, AT_A_MOMENT) for name, host in testbed.hosts().items()},
    }


def keep(testbed: Testbed, before: Kept, folder: Path) -> None:
    """Write the load counters of before and now, and what the machines are, into the run folder."""
    after = moments(testbed)
    found: dict[str, dict[str, object]] = {HERE: {**_said(_read_here, ALWAYS_SO)}}
    for name, host in testbed.hosts().items():
        found[name] = {**_said(host.read, ALWAYS_SO), **_device(host)}
    for name, about in found.items():
        about |= {"before": before[name], "after": after[name]}
    (folder / FILE).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _said(read: Read, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    found = {}
    for path, begins in wanted.items():
        try:
            lines = read(path).decode("utf-8", "replace").splitlines()
        except (LabError, OSError):
            continue  # not Linux, or a file that only root can read
        kept = dict.fromkeys(line for line in lines if line.startswith(begins))
        found[path] = "".join(f"{line}\n" for line in kept)
    return found


def _read_here(path: str) -> bytes:
    return Path(path).read_bytes()


def _device(host: Host) -> dict[str, str]:
    found = {}
    for name, word in ABOUT_A_DEVICE.items():
        try:
            found[name] = host.run(("ethtool", word, host.device), log=False).text
        except LabError:
            continue  # no ethtool there, or a device without this information
    return found


@dataclass(frozen=True)
class Apart:
    """How far the client's clock is ahead of the server's, and the uncertainty of that."""

    client_ahead_ns: int
    within_ns: int


def apart(server: Host, client: Host) -> Apart:
    """Compare the clocks; of several readings the one that took the shortest time is used."""
    found = []
    for _ in range(READINGS):
        before_ns, there_ns, after_ns = server.clock_ns(), client.clock_ns(), server.clock_ns()
        found.append(Apart(there_ns - (before_ns + after_ns) // 2, (after_ns - before_ns) // 2))
    return min(found, key=lambda one: one.within_ns)


def bring_near(server: Host, client: Host) -> None:
    """Set the client's clock to the server's, unless the difference is within the uncertainty."""
    found = apart(server, client)
    if abs(found.client_ahead_ns) > max(NEAR_NS, found.within_ns):
        client.run(("python3", "-I", "-S", "-c", STEP, str(-found.client_ahead_ns)))
