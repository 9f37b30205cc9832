"""The graded exercises of the notebook about Nagle's algorithm and delayed ACKs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labs.drive.parameters.declare import Scalar
from labs.drive.testbed.link import MSS_BYTES
from labs.experiments.nagle.conditions import Parameters
from labs.experiments.nagle.results import USUAL_HZ
from labs.experiments.nagle.results import expected as predicted
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.read.exercises.exercise import Evidence, Exercise, Expected, around, drawn, guesses
from labs.read.theory.nagle import answer, wait

NOTEBOOK = "03-nagle-and-delayed-ack"
SLOW_HZ = 100
"""The ticks per second of the first question; the runs have USUAL_HZ."""
FAR_MS = 20.0
"""The RTT of the exercise "A slower timer, and a distant client"."""
PAGE = Parameters()
WAYS: dict[str, dict[str, bool]] = {"off": {}, "on": {"nodelay": True}, "quickack": {"quick": True}}
"""The arguments with which the theory describes each condition."""
FEWER = "One round trip is missing: the held part is sent only when the ACK has arrived."
ALONE = "This is the timer alone. Add the round trips."
FIRST = "This is the mean, which includes the first request of each connection. Leave those out."
PCT = 2.0
"""Answers with two digits, and less than 1 ms of work per response in virtual time."""


def longest_wait_ms(runs: Evidence) -> Expected:
    """The longest silence on another kernel: the delay of an ACK, and one tick more."""
    hz = int(drawn(runs, "hz", SLOW_HZ))
    held = wait(hz)
    checked = f"the timer at {hz} Hz: {held.least_ms:g} to {held.most_ms:g} ms"
    usual_ms, usual = wait(USUAL_HZ).most_ms, f"{USUAL_HZ} ticks per second"
    return (
        around(held.most_ms, pct=PCT, checked=checked)
        .mistake(held.least_ms, "This is the shortest silence. The timer fires up to a tick later.")
        .mistake(usual_ms, f"This is the longest silence at {usual}.")
        .mistake(200.0, "This is the longest delay of an ACK. Here the shortest one applies.")
        .mistake(500.0, "This is the maximum that RFC 1122 permits. Linux waits less.")
    )


def far(condition: str) -> Callable[[Evidence], Expected]:
    """How long a request takes over a round trip of 20 ms, on a connection that is in use."""

    def expected(runs: Evidence) -> Expected:
        far_ms = drawn(runs, "delay_ms", FAR_MS)
        run = runs.run(condition, delay_ms=far_ms)
        hz = USUAL_HZ if run is None or run.kernel.hz is None else run.kernel.hz
        theory = (predicted(run) if run is not None else None) or answer(
            (NGINX_HEAD_BYTES, PAGE.page_bytes),
            MSS_BYTES,
            hz=hz,
            rtt_ms=far_ms,
            requests=PAGE.requests // PAGE.concurrency,
            **WAYS[condition],
        )
        assert theory is not None  # all round trips that are asked for are within its range
        held, most_ms = wait(hz), theory.steady_ms
        least_ms = most_ms - (held.most_ms - held.least_ms if theory.stalls else 0.0)
        median_ms, mean_ms = (
            runs.measured(condition, column, delay_ms=far_ms) for column in ("p50_ms", "mean_ms")
        )
        return (
            around(least_ms, most_ms, median_ms, pct=PCT, checked=f"the theory at {hz} Hz")
            .mistake(least_ms - far_ms if least_ms > far_ms else None, FEWER)
            .mistake(most_ms - far_ms if most_ms > far_ms else None, FEWER)
            .mistake(most_ms + far_ms, "One RTT too many: no handshake on a connection in use.")
            .mistake(mean_ms.value, FIRST)
            .mistake(held.least_ms if theory.stalls else None, ALONE)
            .mistake(held.most_ms if theory.stalls else None, ALONE)
        )

    return expected


DRAWN: Mapping[str, tuple[Scalar, ...]] = {
    "hz": (100, 300, 1000),
    "delay_ms": (10.0, 14.0, 24.0, 30.0),
}
"""What an examination draws from: ticks per second other than those of the runs, and RTTs at which
a delayed ACK is not mistaken for round trips."""
OVER = "How long does a request take on an established connection at an RTT of {delay_ms:g} ms, "
WITH = {
    "off": "with tcp_nodelay off, in ms? (250 ticks per second.)",
    "on": "with tcp_nodelay on, in ms?",
    "quickack": "with tcp_nodelay off and quick ACKs, in ms?",
}

EXERCISES = (
    Exercise("longest_wait_ms", NOTEBOOK, "the longest silence", longest_wait_ms, "ms").examined(
        DRAWN,
        "The client's kernel counts {hz} ticks per second. How long is the longest silence without "
        "delay on the link, in ms?",
    ),
    *(
        Exercise(
            f"far_{way}_ms", NOTEBOOK, f"a request over 20 ms, {way}", far(way), "ms"
        ).examined(DRAWN, OVER + words)
        for way, words in WITH.items()
    ),
)
WAITS = {f"guess_{name.replace('-', '_')}_ms": name for name in (*WAYS, "on-quickack")}
GUESSES = guesses(NOTEBOOK, "p50_ms", WAITS)
