"""What the machines of a run are, and what else they did while it went on: `machines.json`.

Only runs on real time have it. It is kept with the run, and sealed, because it decides whether the
run counts: one that its machine disturbed does not. On virtual time a machine disturbs nothing.

    {"here": {...}, "server": {...}, "client": {...}}      here: the machine that drives the run

Each has `before` and `after` the measurement, and what it is, all as the kernel and ethtool print
it; an entry that a machine does not have is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from labs.drive.testbed.contract import Host, Testbed
from labs.errors import LabError

FILE = "machines.json"
HERE = "here"
# What is read at a moment, and how the lines begin that are kept ("": all).
AT_A_MOMENT = {
    "/proc/stat": ("cpu",),
    "/proc/loadavg": ("",),
    "/proc/timer_list": ("now at", "jiffies:"),
}
ALWAYS_SO = {"/proc/cpuinfo": ("model name",), "/proc/sys/kernel/osrelease": ("",)}
ABOUT_A_DEVICE = {"driver": "-i", "offloads": "-k"}

Kept = dict[str, dict[str, str]]
Read = Callable[[str], bytes]


def moments(testbed: Testbed) -> Kept:
    """What every machine says of its work till now."""
    return {
        HERE: _said(_read_here, AT_A_MOMENT),
        **{name: _said(host.read, AT_A_MOMENT) for name, host in testbed.hosts().items()},
    }


def keep(testbed: Testbed, before: Kept, folder: Path) -> None:
    """Write what the machines said before, say now, and what they are, into the run's folder."""
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
            continue  # another system than Linux, or a file for root alone
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
            continue  # no ethtool there, or a device that says nothing of it
    return found
