"""The figures of a bulk transfer from the arrivals of its payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from labs.drive.units import SECOND_NS


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


def of_arrivals(times_ns: Any, had_bytes: Any, transfer_bytes: int | None = None) -> Arrivals:
    """The figures of a transfer from the times of its arrivals and the payload received by then.

    With `transfer_bytes` the transfer ends with the first arrival after which the receiver has that
    much. Between two arrivals the payload is interpolated, because the last third of the time
    rarely begins at an arrival.
    """
    if transfer_bytes is not None:
        count = int(numpy.searchsorted(had_bytes, transfer_bytes)) + 1
        times_ns, had_bytes = times_ns[:count], had_bytes[:count]
    first_ns, last_ns = int(times_ns[0]), int(times_ns[-1])
    payload_bytes, took_s = int(had_bytes[-1]), (last_ns - first_ns) / SECOND_NS
    if took_s <= 0:
        return Arrivals(first_ns, last_ns, payload_bytes, None, None)
    elapsed_ns = numpy.asarray(times_ns, dtype=numpy.int64) - first_ns
    before = float(numpy.interp((last_ns - first_ns) * 2 / 3, elapsed_ns, had_bytes))
    goodput, steady = payload_bytes / took_s, (payload_bytes - before) / (took_s / 3)
    return Arrivals(first_ns, last_ns, payload_bytes, goodput, steady)
