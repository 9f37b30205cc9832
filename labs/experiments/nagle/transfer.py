"""Goodput and header overhead of a single response."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.experiments.nagle.prediction import settings_of
from labs.experiments.nagle.requests import answered
from labs.read.readings.latency import latency
from labs.read.runs.run import Run

HEADERS_BYTES = FRAME_BYTES - MSS_BYTES
"""Ethernet, IPv4 and TCP with timestamps."""


@dataclass(frozen=True)
class Transfer:
    """The goodput of the body, from the request to its last byte; the server's segments; and the
    share of their bytes that is payload."""

    goodput_mbit: float
    segments: float
    payload_pct: float


def transfer(run: Run) -> Transfer:
    """The figures of a run with one request."""
    settings, segments = settings_of(run), answered(run).segments
    payload = sum(settings.written_bytes)
    return Transfer(
        goodput_mbit=8e-3 * settings.page_bytes / latency(run).mean_ms,
        segments=segments,
        payload_pct=100 * payload / (payload + segments * HEADERS_BYTES),
    )
