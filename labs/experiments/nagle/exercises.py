"""The figures that the exercises of the notebook about Nagle's algorithm and delayed ACKs name."""

from __future__ import annotations

from labs.experiments.nagle.conditions import Parameters
from labs.experiments.nagle.results import USUAL_HZ
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.guest.testbed.link import MSS_BYTES
from labs.read.exercises import exercise
from labs.read.theory.nagle import answer, wait

PAGE = Parameters()


class Figures(exercise.Figures):
    """The silence of a delayed ACK, and how long a request takes on a connection in use."""

    @property
    def shortest_ms(self) -> float:
        return wait(int(self.number("hz"))).least_ms

    @property
    def longest_ms(self) -> float:
        return wait(int(self.number("hz"))).most_ms

    @property
    def off_ms(self) -> float:
        return self._answered_ms()

    @property
    def on_ms(self) -> float:
        return self._answered_ms(nodelay=True)

    @property
    def quickack_ms(self) -> float:
        return self._answered_ms(quick=True)

    def _answered_ms(self, *, nodelay: bool = False, quick: bool = False) -> float:
        theory = answer(
            (NGINX_HEAD_BYTES, PAGE.page_bytes),
            MSS_BYTES,
            hz=USUAL_HZ,
            rtt_ms=self.number("delay_ms"),
            requests=PAGE.requests // PAGE.concurrency,
            nodelay=nodelay,
            quick=quick,
        )
        assert theory is not None  # all round trips that are asked for are within its range
        return theory.steady_ms
