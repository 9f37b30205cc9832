"""What a notebook calls besides the study and the charts, as `labs.buffers.NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.experiments.buffers.buffer_sizes import advice, to_paste
from labs.experiments.buffers.conditions import DEFAULT
from labs.experiments.buffers.kernel_changes import (
    defaults_by_kernel,
    grown_by_kernel,
    slow_start_by_kernel,
)
from labs.experiments.buffers.narrative import NEEDED, computed_size, tell_httping, tell_kernels
from labs.experiments.buffers.prediction import expected
from labs.experiments.buffers.printed import as_printed, by_client
from labs.experiments.buffers.results import article, parameter
from labs.experiments.buffers.sweep import smallest, tell_smallest
from labs.read.claims.ledger import figure_of_claim
from labs.read.display.beside import Guess, guesses
from labs.read.display.rich_output import Table, Words
from labs.read.theory.advice import advise
from labs.read.theory.bdp import bdp_bytes, utilisation_pct
from labs.read.theory.mathis import mathis_bytes_s
from labs.read.theory.windows import receive_window_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.study import Study

__all__ = [
    "advice",
    "as_printed",
    "bdp_bytes",
    "by_client",
    "defaults_by_kernel",
    "expected",
    "grown_by_kernel",
    "guessed_sizes",
    "mathis_bytes_s",
    "receive_window_bytes",
    "slow_start_by_kernel",
    "tell_computed_size",
    "tell_httping",
    "tell_kernels",
    "tell_smallest",
    "to_paste",
    "utilisation_pct",
]


def tell_computed_size(study: Study) -> Words:
    """The buffer that httping's time suggests, and the smallest of the sweep that fills the link;
    compared with the article's only if the runs have the article's parameters."""
    own = (figure_of_claim(article(), run, NEEDED, parameter) for run in study.runs)
    return computed_size(study.results(), next((mb for mb in own if mb is not None), None))


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
