"""The figures that the exercises of the notebook about queues name."""

from __future__ import annotations

from labs.read.exercises import exercise
from labs.read.theory.queues import full_buffer_bdp, reno_utilisation


class Figures(exercise.Figures):
    """The buffer that CUBIC needs, and what Reno uses of a link with a quarter of a BDP."""

    cubic_bdp = full_buffer_bdp("cubic")
    quarter_pct = 100 * reno_utilisation(0.25)
