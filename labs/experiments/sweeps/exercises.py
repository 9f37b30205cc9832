"""The figures that the exercises of the notebook about buffer sweeps name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labs.guest.units import KIB, MIB
from labs.read.exercises import exercise
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import Transfer, transfer
from labs.read.theory.bulk_flow import Flow

RATE_MBIT, DELAY_MS, WRITE_BYTES = 1000.0, 8.0, 14_480
"""The link with which the notebook starts, and the writes of its condition `writes-14480`."""


class Figures(exercise.Figures):
    """What the model says of bulk transfers over that link, by the requested buffers."""

    line_mib_s = line_goodput_bytes_s(RATE_MBIT) / MIB

    @property
    def smaller_mib_s(self) -> float:
        return self._transfer(64, write_bytes=WRITE_BYTES).steady_bytes_s / MIB

    @property
    def larger_mib_s(self) -> float:
        return self._transfer(128, write_bytes=WRITE_BYTES).steady_bytes_s / MIB

    @property
    def limit(self) -> str:
        return self._transfer(8192, rcvbuf_bytes=2 * 128 * KIB).bound

    def _transfer(self, sndbuf_kib: int, **other: Any) -> Transfer:
        link = Flow(rate_mbit=RATE_MBIT, rtt_ms=DELAY_MS, kernel=self.kernel)
        flow = replace(link, sndbuf_bytes=2 * sndbuf_kib * KIB, **other)
        return transfer(flow, 8 * MIB)
