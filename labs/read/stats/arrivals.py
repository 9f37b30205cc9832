"""The figures of a bulk transfer from the arrivals of its payload."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from labs.guest.units import SECOND_NS


@dataclass(frozen=True)
class Arrivals:
    """The payload of one connection at its receiver, from the first arrival to the last.

    `goodput_bytes_s` is all payload per time; `steady_bytes_s` that of the last third of the time.
    Both are None for a single arrival.
    """

    first_ns: int
    last_ns: int
    payload_bytes: int
    goodput_bytes_s: float | None
    steady_bytes_s: float | None

    @property
    def took_s(self) -> float:
        return (self.last_ns - self.first_ns) / SECOND_NS


def of_arrivals(
    times_ns: Sequence[int], had_bytes: Sequence[int], transfer_bytes: int | None = None
) -> Arrivals:
    """The figures of a transfer from the times of its arrivals and the payload received by then.

    With `transfer_bytes` the transfer ends with the first arrival after which the receiver has that
    much. Between two arrivals the payload is interpolated, because the last third of the time
    rarely begins at an arrival.
    """
    last = len(times_ns) - 1
    if transfer_bytes is not None:
        last = min(bisect_left(had_bytes, transfer_bytes), last)
    first_ns, last_ns = int(times_ns[0]), int(times_ns[last])
    payload_bytes, took_s = int(had_bytes[last]), (last_ns - first_ns) / SECOND_NS
    if took_s <= 0:
        return Arrivals(first_ns, last_ns, payload_bytes, None, None)
    from_ns = first_ns + (last_ns - first_ns) * 2 / 3
    after = bisect_right(times_ns, from_ns, hi=last)
    begin_ns, end_ns = int(times_ns[after - 1]), int(times_ns[after])
    begin_bytes, end_bytes = int(had_bytes[after - 1]), int(had_bytes[after])
    share = (from_ns - begin_ns) / (end_ns - begin_ns)
    before = begin_bytes + share * (end_bytes - begin_bytes)
    goodput, steady = payload_bytes / took_s, (payload_bytes - before) / (took_s / 3)
    return Arrivals(first_ns, last_ns, payload_bytes, goodput, steady)
