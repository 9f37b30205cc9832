"""What of the lab `sweeps` only its link says."""

from __future__ import annotations

from labs.drive.units import bytes_carried
from labs.read.runs.run import Run


def parameter(run: Run, name: str) -> int | None:
    """The BDP of the requested link, in bytes; None for other names, or a link without a rate."""
    link = run.condition_asked.link
    if name != "bdp_bytes" or link.rate_mbit is None:
        return None
    return round(bytes_carried(link.rate_mbit, link.delay_ms))
