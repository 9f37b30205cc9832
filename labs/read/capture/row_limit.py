"""How much memory a table may take."""

from __future__ import annotations

from pathlib import Path

from labs.errors import Missing

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
IN_PARTS = "take a part of the capture, such as one host's: tcpdump -r FILE -w PART host ADDRESS"


def available_bytes() -> int | None:
    """What the system can give without swapping, or a container within its limit; None where
    neither is said (not Linux)."""
    said = [found for found in (_in_the_system(), _in_the_container()) if found is not None]
    return min(said, default=None)


def _in_the_system() -> int | None:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _in_the_container() -> int | None:
    """By the control group that a container sees as the topmost one (cgroup v2); what it keeps of
    files gives way."""
    try:
        most = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return max(0, int(most) - used + int(stat["inactive_file"])) if most.isdigit() else None


def must_fit(wanted_bytes: int, what: str, instead: str, free_bytes: int | None = None) -> None:
    """Raise Missing where `what` takes more than there is (`free_bytes`, or what the system has);
    `instead` is what to do then."""
    free = available_bytes() if free_bytes is None else free_bytes
    if free is not None and wanted_bytes > free:
        raise Missing(
            f"{what} take {wanted_bytes / 1e6:,.0f} MB of memory, and "
            f"{free / 1e6:,.0f} MB are there; {instead}"
        )
