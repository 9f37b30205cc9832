"""The evidence of somebody who has neither runs nor recorded data."""

from __future__ import annotations

from collections.abc import Mapping

from labs.drive.parameters.declare import Scalar
from labs.read.exercises.exercise import Measured
from labs.read.runs.run import Run


class NoRuns:
    """Evidence without runs, on one kernel."""

    def __init__(self, kernel: str = "6.1", drawn: Mapping[str, Scalar] | None = None) -> None:
        self.drawn = drawn or {}
        self.kernel = str(self.drawn.get("kernel", kernel))

    def run(self, condition: str, **parameters: Scalar) -> Run | None:
        return None

    def measured(self, condition: str, column: str, **parameters: Scalar) -> Measured:
        return Measured()
