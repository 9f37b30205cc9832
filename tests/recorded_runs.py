"""The recorded study of the lab `nagle`, as a notebook opens it."""

from __future__ import annotations

from functools import cache

from labs.experiments.nagle.parameters import Nagle
from labs.read.runs.run import Run
from labs.studies.study import Study, study


@cache
def recorded_nagle(kernel: str = "6.1", only: str = "", size: str = "small") -> Study:
    """Those of size small on 6.1, or what is asked for."""
    return study(Nagle(testbed="recorded", kernel=kernel, only=only, size=size))


def nagle_run(condition: str) -> Run:
    """The run of a condition."""
    return recorded_nagle().run(condition)
