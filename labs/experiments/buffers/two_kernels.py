"""Two kernels under the same conditions: what differs, and why, in words with the runs' figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.experiments.buffers.narrative import BOUNDS
from labs.experiments.buffers.sweep import in_words, smallest
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.notebook import Words
from labs.read.theory.bounds import RECEIVE_WINDOW
from labs.read.theory.kernel_version import series
from labs.read.theory.windows import RATIO_SINCE

if TYPE_CHECKING:
    from pandas import DataFrame

# The receiver sizes its buffer up to tcp_rmem's third value; `wmem` leaves that alone.
SENDERS_ONLY = "wmem"


@dataclass(frozen=True)
class _Seen:
    """One kernel's run with the sender's buffer raised."""

    kernel: str
    speed_mib_s: float
    under_way_bytes: float
    share: float
    bound: str

    @property
    def by_packets(self) -> bool:
        return series(self.kernel) >= RATIO_SINCE


def tell_kernels(table: DataFrame, other: DataFrame) -> Words:
    """Why one kernel is faster than the other where only the sender's buffer was raised.

    Both are `study.results()`; every figure is from their runs. Says so where a run is missing.
    """
    found = [_seen(one) for one in (table, other)]
    told = [
        _why(*sorted(filter(None, found), key=lambda one: one.speed_mib_s))
        if None not in found
        else f"There are no two kernels here with a run of “{SENDERS_ONLY}” that had settled."
    ]
    told += [in_words(one) for one in _sweeps(table, other)]
    return Words("\n\n".join(told))


def _sweeps(*tables: DataFrame) -> list[Any]:
    found = [one for table in tables if not table.empty for one in smallest(table)]
    first = {one.kernel: one for one in reversed(found)}
    return [one for one in found if first[one.kernel] is one]


def _seen(table: DataFrame) -> _Seen | None:
    if table.empty:
        return None
    rows = table[(table["condition"] == SENDERS_ONLY) & table["steady_mib_s"].notna()]
    if rows.empty:
        return None
    row = rows.iloc[0]
    under_way = float(row["steady_bytes_s"]) * float(row["rtt_ms"]) / 1e3
    return _Seen(
        str(row["kernel"]),
        float(row["steady_mib_s"]),
        under_way,
        under_way / float(row["receive_most_bytes"]),
        str(row["bound"]),
    )


def _why(slow: _Seen, fast: _Seen) -> str:
    if slow.kernel == fast.kernel:
        return f"Both tables are of Linux {slow.kernel}."
    speeds = (
        f"With the sender's buffer raised alone (“{SENDERS_ONLY}”), Linux {slow.kernel} "
        f"comes to {in_three_digits(slow.speed_mib_s)} MiB/s and Linux {fast.kernel} to "
        f"{in_three_digits(fast.speed_mib_s)}."
    )
    if slow.bound == fast.bound != RECEIVE_WINDOW:
        return speeds + f" On both it is {BOUNDS.get(slow.bound, 'something else')} that decides."
    if slow.bound != fast.bound:
        return speeds + (
            f" On the first it is {BOUNDS.get(slow.bound, 'something else')} that "
            f"holds the sender back, on the second "
            f"{BOUNDS.get(fast.bound, 'something else')}."
        )
    held = (
        f" On both the receiver's window holds the sender back: "
        f"{size_in_words(slow.under_way_bytes)} and {size_in_words(fast.under_way_bytes)} "
        f"are under way, which is {100 * slow.share:.0f} % and {100 * fast.share:.0f} % of the "
        f"largest receive buffer, {size_in_words(slow.under_way_bytes / slow.share)}."
    )
    if slow.by_packets == fast.by_packets:
        return speeds + held
    old, new = (fast, slow) if fast.by_packets is False else (slow, fast)
    return (
        speeds
        + held
        + (
            f" Linux {old.kernel} keeps back a fixed share of a buffer for what is around the "
            f"payload "
            f"(tcp_adv_win_scale); Linux {new.kernel} measures on the first full packet how "
            f"much of "
            "the memory is payload, and gives that share to the window. Packets that come joined "
            "two by two have little around them, so the same buffer makes a larger window."
        )
    )
