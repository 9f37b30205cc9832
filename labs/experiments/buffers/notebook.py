"""What a notebook calls besides the study and the charts, as `labs.buffers.NAME`."""

from __future__ import annotations

from labs.experiments.buffers.buffer_sizes import advice, to_paste
from labs.experiments.buffers.guessed_sizes import guessed_sizes
from labs.experiments.buffers.kernel_changes import (
    defaults_by_kernel,
    grown_by_kernel,
    slow_start_by_kernel,
)
from labs.experiments.buffers.narrative import tell_httping, tell_kernels, tell_reckoning
from labs.experiments.buffers.prediction import expected
from labs.experiments.buffers.sweep import tell_smallest
from labs.read.theory.bdp import bdp_bytes, utilisation_pct
from labs.read.theory.mathis import mathis_bytes_s
from labs.read.theory.windows import receive_window_bytes

__all__ = [
    "advice",
    "bdp_bytes",
    "defaults_by_kernel",
    "expected",
    "grown_by_kernel",
    "guessed_sizes",
    "mathis_bytes_s",
    "receive_window_bytes",
    "slow_start_by_kernel",
    "tell_httping",
    "tell_kernels",
    "tell_reckoning",
    "tell_smallest",
    "to_paste",
    "utilisation_pct",
]
