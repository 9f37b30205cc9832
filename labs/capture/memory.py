"""How much memory a table may take."""

from __future__ import annotations

from pathlib import Path

from labs.errors import Missing

MEMINFO = Path("/proc/meminfo")
IN_PARTS = ("take a part of the capture, such as one host's: "
            "tcpdump -r FILE -w PART host ADDRESS")


def available_bytes() -> int | None:
    """What the system can give without swapping; None where it does not say (not Linux)."""
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def must_fit(wanted_bytes: int, what: str, instead: str, free_bytes: int | None = None) -> None:
    """Raise Missing where `what` takes more than there is (`free_bytes`, or what the system has);
    `instead` is what to do then."""
    free = available_bytes() if free_bytes is None else free_bytes
    if free is not None and wanted_bytes > free:
        raise Missing(f"{what} take {wanted_bytes / 1e6:,.0f} MB of memory, and "
                      f"{free / 1e6:,.0f} MB are there; {instead}")
