"""The functions that a notebook calls as `labs.sweeps.NAME`: sizes by condition and by request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.errors import BadInput
from labs.experiments.sweeps.old_kernels import (
    connected_send_bytes,
    granted_send_bytes,
    smallest_bytes,
)
from labs.experiments.sweeps.results import grants, sender_rows, written_ahead_bytes
from labs.read.display.rich_output import Table
from labs.read.readings.instruments import shaper_drops
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.windows import granted_bytes, series

if TYPE_CHECKING:
    from labs.read.study import Study

__all__ = [
    "bdp_bytes",
    "connected_send_bytes",
    "granted",
    "granted_bytes",
    "granted_send_bytes",
    "sizes",
    "smallest_bytes",
    "unseen",
]

SIZE_COLUMNS = {
    "condition": "Condition",
    "kernel": "Linux",
    "requested_send_kib": "Requested to send (KiB)",
    "granted_send_kib": "Granted to send (KiB)",
    "used_send_kib": "Used to send (KiB)",
    "requested_receive_kib": "Requested to receive (KiB)",
    "granted_receive_kib": "Granted to receive (KiB)",
    "used_receive_kib": "Used to receive (KiB)",
    "advertised_kib": "Advertised (KiB)",
    "in_flight_kib": "In flight (KiB)",
    "steady_mib_s": "Steady goodput (MiB/s)",
}


def sizes(*studies: Study, conditions: tuple[str, ...] = ()) -> Table:
    """One row per run: each buffer as requested, granted and used, the window, and the payload in
    flight. Empty cells: nothing was requested, or nothing was transferred. A study without runs is
    left out."""
    rows = [
        {name: row[column] for column, name in SIZE_COLUMNS.items()}
        for study in studies
        if study.runs
        for row in study.results().to_dict("records")
        if not conditions or row["condition"] in conditions
    ]
    return Table(rows, columns=list(SIZE_COLUMNS.values()))


def granted(condition: str, *studies: Study) -> Table:
    """One row per request of a condition that only requests buffers: what getsockopt returned, on
    the kernel of each study. BadInput for a condition that requests none."""
    by_kernel = {}
    for study in studies:
        if condition in study.conditions:
            run = study.run(condition)
            by_kernel[run.kernel.release] = grants(run)
    if not any(by_kernel.values()):
        raise BadInput(f"{condition} requests no buffers. Use setsockopt or setsockopt-raised")
    requests = sorted({size for found in by_kernel.values() for size in found})
    table: dict[str, list[int | None]] = {"Requested (bytes)": list(requests)}
    for release in sorted(by_kernel, key=series):
        for socket, what in (("send", "to send"), ("receive", "to receive")):
            table[f"Linux {release}, {what} (bytes)"] = [
                by_kernel[release].get(size, {}).get(socket) for size in requests
            ]
    return Table(table)


def unseen(study: Study, *conditions: str) -> Table:
    """One row per condition with a transfer: what the program that writes does not learn from its
    writes."""
    rows = []
    for name in conditions:
        run = study.run(name)
        samples, ahead_bytes = sender_rows(run), written_ahead_bytes(run)
        if samples is None or ahead_bytes is None:
            raise BadInput(f"{name} transferred nothing. Use a condition with a transfer")
        rows.append(
            {
                "Condition": name,
                "Written, not acknowledged (MiB)": ahead_bytes / MIB,
                "Dropped by the sender's queue": shaper_drops(run),
                "Counted as retransmitted": int(samples["total_retrans_segments"].max()),
                "Arrived (MiB)": samples["bytes_acked"].max() / MIB,
            }
        )
    return Table(rows)
