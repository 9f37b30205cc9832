"""The figures of article 1 that stand beside a measurement: condition by condition, MiB/s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.analysis.asked import receive_buffer, send_buffer
from labs.runs.run import Run

MIB = 1 << 20
TRANSFER_BYTES = 1 << 30


@dataclass(frozen=True)
class Article:
    """A figure of article 1 in MiB/s: the mean of the file, and what was seen in the long run.

    `send_mib` and `receive_mib` are the buffers it was seen with (None: sized by the kernel). One
    on the author's own `hardware` is shown beside a measurement, and judges nothing.
    """

    claim: str
    mean_mib_s: float
    steady_mib_s: float | None = None
    send_mib: int | None = None
    receive_mib: int | None = None
    delay_ms: float = 200.0
    hardware: bool = False


ARTICLES = {
    "unshaped": Article("A1.1", 337.0, hardware=True),
    "shaped": Article("A1.2", 91.6, delay_ms=0.0),
    "default": Article("A1.6", 13.4, 13.4),
    "wmem": Article("A1.7", 14.9, 15.0, send_mib=50),
    "both": Article("A1.8", 77.8, 92.7, send_mib=50, receive_mib=50),
    "rmem100": Article("A1.9", 76.9, 89.2, send_mib=50, receive_mib=100),
}


def article(run: Run) -> Article | None:
    """The article's figure for the run's condition; None where its link or buffers are others."""
    figure = ARTICLES.get(run.condition)
    settings = run.inputs["condition"]["settings"]
    if figure is None or settings["transfer_bytes"] != TRANSFER_BYTES:
        return None
    if figure.hardware:
        return figure
    articles_own: Mapping[str, Any] = {"rate_mbit": 1000, "delay_ms": figure.delay_ms,
                                       "loss_pct": 0, "jitter_ms": 0, "at": "server"}
    if any(run.link["asked"][name] != value for name, value in articles_own.items()):
        return None
    fits = (send_buffer(run).fixed_bytes == _bytes(figure.send_mib)
            and receive_buffer(run).fixed_bytes == _bytes(figure.receive_mib))
    return figure if fits else None


def _bytes(mib: int | None) -> int | None:
    return None if mib is None else mib * MIB
