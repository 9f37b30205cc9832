"""What differs between kernels: default sizes, the growth of a receive buffer, the end of slow
start. One row per kernel; studies without runs are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.experiments.buffers.conditions import BOTH_RAISED, DEFAULT
from labs.read.display.rich_output import Table
from labs.read.readings.bulk_transfer import RMEM, RMEM_MAX, WMEM, WMEM_MAX, sysctl_sizes, window
from labs.read.theory.windows import series

if TYPE_CHECKING:
    from labs.read.runs.run import Run
    from labs.read.study import Study

LIMIT_OUTPUT = "net.ipv4.tcp_limit_output_bytes"
ENDS = {"TrainDetect": "a long train of ACKs", "DelayDetect": "a longer RTT"}


def defaults_by_kernel(*studies: Study) -> Table:
    """The sizes that the kernel chose itself, in bytes, before the condition set any."""
    rows = []
    for run in _of_each(studies, DEFAULT):
        before = run.sysctls["client"]["before"]
        rows.append(
            {
                "Linux": run.kernel.release,
                "tcp_rmem, maximum": sysctl_sizes(before[RMEM])[-1],
                "tcp_wmem, maximum": sysctl_sizes(before[WMEM])[-1],
                "rmem_max": int(before[RMEM_MAX]),
                "wmem_max": int(before[WMEM_MAX]),
                "tcp_limit_output_bytes": int(before[LIMIT_OUTPUT]),
            }
        )
    return Table(rows)


def grown_by_kernel(*studies: Study, condition: str = DEFAULT) -> Table:
    """How large automatic sizing made both buffers, and the window that was offered, in bytes."""
    rows = []
    for run in _of_each(studies, condition):
        found = window(run)
        if found is not None:
            rows.append(
                {
                    "Linux": run.kernel.release,
                    "Receive buffer": found.receive_buffer_bytes,
                    "Largest window": found.offered_bytes,
                    "Window / buffer": found.offered_bytes / found.receive_buffer_bytes,
                    "Send buffer": found.send_buffer_bytes,
                    "Usually in flight": found.usually_in_flight_bytes,
                }
            )
    return Table(rows)


def slow_start_by_kernel(*studies: Study, condition: str = BOTH_RAISED) -> Table:
    """Why HyStart ended slow start, and with which congestion window, as the sender counted it."""
    rows = []
    for run in _of_each(studies, condition):
        counted = run.nstat("server")
        for name, why in ENDS.items():
            if counted.get(f"TcpExtTCPHystart{name}", 0):
                cwnd = counted[f"TcpExtTCPHystart{name.replace('Detect', 'Cwnd')}"]
                rows.append(
                    {
                        "Linux": run.kernel.release,
                        "Slow start ended by": why,
                        "Congestion window (segments)": int(cwnd),
                    }
                )
    return Table(rows)


def _of_each(studies: tuple[Study, ...], condition: str) -> list[Run]:
    """The run of a condition on each kernel, oldest kernel first."""
    found = [run for study in studies for run in study.runs if run.condition == condition]
    return sorted(found, key=lambda run: series(run.kernel.release))
