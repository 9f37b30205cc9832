"""Kernels side by side, from runs and results of one condition: default sizes, the growth of a
receive buffer, the end of slow start, and why one kernel is faster than another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.rich_output import Table
from labs.read.display.transfer import BOUNDS
from labs.read.readings.bulk_transfer import window
from labs.read.theory.bulk_sender import RECEIVE_WINDOW
from labs.read.theory.kernels import RATIO, series

if TYPE_CHECKING:
    from labs.read.runs.run import Run
    from labs.read.study import Study

SIZES = {"net.ipv4.tcp_rmem": "tcp_rmem, maximum", "net.ipv4.tcp_wmem": "tcp_wmem, maximum"}
CORE = ("net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_limit_output_bytes")
ENDS = {"TrainDetect": "a long train of ACKs", "DelayDetect": "a longer RTT"}
RULES = (
    " Linux {old} reserves a fixed share of a buffer for overhead (tcp_adv_win_scale). Linux {new} "
    "measures on the first full packet how much of the memory is payload, and uses that share as "
    "window. Packets that are coalesced in pairs (GRO), as on this link, have little overhead, so "
    "the same buffer yields a larger window. With another network card the share may differ."
)
"""How two kernels make a window of a buffer, if they do not do it alike."""
Row = dict[str, Any]


@dataclass(frozen=True)
class ByKernel:
    """A table of the studies that it is called with, oldest kernel first: the rows of each run of a
    condition. Studies without runs are left out."""

    rows: Callable[[Run], Iterator[Row]]
    condition: str

    def __call__(self, *studies: Study, condition: str = "") -> Table:
        name = condition or self.condition
        runs = [run for study in studies for run in study.runs if run.condition == name]
        runs.sort(key=lambda run: series(run.kernel.release))
        return Table(
            [{"Linux": run.kernel.release, **row} for run in runs for row in self.rows(run)]
        )


def defaults(run: Run) -> Iterator[Row]:
    """The sizes that the kernel chose itself, in bytes, before the condition set any."""
    before = run.sysctls["client"]["before"]
    yield {
        **{words: int(before[name].split()[-1]) for name, words in SIZES.items()},
        **{name.rpartition(".")[2]: int(before[name]) for name in CORE},
    }


def grown(run: Run) -> Iterator[Row]:
    """How large automatic sizing made both buffers, and the window that was offered, in bytes."""
    if reached := window(run):
        yield {
            "Receive buffer": reached.receive_buffer_bytes,
            "Largest window": reached.offered_bytes,
            "Window / buffer": reached.offered_bytes / reached.receive_buffer_bytes,
            "Send buffer": reached.send_buffer_bytes,
            "Usually in flight": reached.usually_in_flight_bytes,
        }


def slow_start_ends(run: Run) -> Iterator[Row]:
    """Why HyStart ended slow start, and with which congestion window, as the sender counted it."""
    counted = run.nstat("server")
    for name, why in ENDS.items():
        if counted.get(f"TcpExtTCPHystart{name}", 0):
            cwnd = counted[f"TcpExtTCPHystart{name.replace('Detect', 'Cwnd')}"]
            yield {"Slow start ended by": why, "Congestion window (segments)": int(cwnd)}


def describe_difference(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> str:
    """Why one kernel is faster than another with an enlarged send buffer, from the rows of their
    results for that condition."""
    slow, fast = sorted((first, second), key=lambda row: float(row["steady_mib_s"]))
    speeds = (
        f"If only the send buffer is enlarged (`{slow['condition']}`), Linux {slow['kernel']} "
        f"reaches {in_three_digits(slow['steady_mib_s'])} MiB/s and Linux {fast['kernel']} "
        f"{in_three_digits(fast['steady_mib_s'])}."
    )
    limits = [BOUNDS.get(row["bound"], "unknown") for row in (slow, fast)]
    if slow["bound"] != fast["bound"]:
        return f"{speeds} The limit is {limits[0]} on the first, and {limits[1]} on the second."
    if slow["bound"] != RECEIVE_WINDOW:
        return f"{speeds} The limit is {limits[0]} on both."
    sizes = [row["steady_bytes_s"] * row["rtt_ms"] / 1e3 for row in (slow, fast)]
    slows, fasts = (
        100 * size / row["receive_most_bytes"]
        for size, row in zip(sizes, (slow, fast), strict=True)
    )
    old, new = sorted((slow["kernel"], fast["kernel"]), key=series)
    rules = RULES.format(old=old, new=new) * (RATIO.holds(new) and not RATIO.holds(old))
    return (
        f"{speeds} The limit is the receive window on both: "
        f"{' and '.join(map(size_in_words, sizes))} are in flight, which is {slows:.0f} % and "
        f"{fasts:.0f} % of the largest receive buffer, {size_in_words(slow['receive_most_bytes'])}."
        f"{rules}"
    )
