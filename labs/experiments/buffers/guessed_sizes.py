"""Guesses of the BDP and of the smallest buffer, next to the theory and the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import DEFAULT
from labs.experiments.buffers.sweep import smallest
from labs.read.display.guesses import Guess, guesses
from labs.read.display.rich_output import Table
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes

if TYPE_CHECKING:
    from pandas import DataFrame


def guessed_sizes(
    table: DataFrame, rate_mbit: float, delay_ms: float, *, bdp_mib: Guess, buffer_mib: Guess
) -> Table:
    """Two rows: the BDP, and the smallest buffer at both ends that fills the link.

    `table` is `study.results()`; the link is as requested, for the prediction.
    """
    kernel = str(table["kernel"].iloc[0])
    needed = advise(rate_mbit, delay_ms, kernel)
    rows = table[(table["condition"] == DEFAULT) & table["rate_mbit"].notna()]
    found = smallest(table)
    size = found[0].buffer_bytes if found else None
    measured = [
        bdp_bytes(rate, rtt) for rate, rtt in zip(rows["rate_mbit"], rows["rtt_ms"], strict=True)
    ]
    return guesses(
        {
            "BDP": (
                bdp_mib,
                bdp_bytes(rate_mbit, delay_ms) / MIB,
                measured[0] / MIB if measured else None,
            ),
            "smallest buffer": (
                buffer_mib,
                max(needed.receive_bytes, needed.send_bytes) / MIB,
                None if size is None else size / MIB,
            ),
        },
        "MiB",
    )
