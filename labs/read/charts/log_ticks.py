"""Ticks of a logarithmic axis."""

from __future__ import annotations

from math import floor, log10

FEW_TENS = 1000


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times each power of ten from `low` to `high`, above three decades the powers
    alone; both are above 0."""
    tens = range(floor(log10(low)), floor(log10(high)) + 1)
    digits = (1, 2, 5) if high <= FEW_TENS * low else (1,)
    return [
        digit * 10.0**power
        for power in tens
        for digit in digits
        if low <= digit * 10.0**power <= high
    ]
