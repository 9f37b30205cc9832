"""How well the predicted window agrees with the window on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Agreement:
    """The share of packets at which predicted and advertised window are equal, and the largest
    deviation; None if nothing is predicted."""

    equal_pct: float | None = None
    deviation_bytes: int | None = None


def agreement(table: DataFrame) -> Agreement:
    """The agreement in a table of packets."""
    both = table[["window_left_bytes", "predicted_window_left_bytes"]].astype(float).dropna()
    if both.empty:
        return Agreement()
    off = (both["window_left_bytes"] - both["predicted_window_left_bytes"]).abs()
    return Agreement(100 * float((off == 0).mean()), int(off.max()))
