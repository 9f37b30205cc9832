"""The graded exercises of the notebook about Nagle's algorithm and delayed ACKs; each right answer
is computed from the theory and, where they exist, from runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from labs.drive.parameters.declare import Scalar
from labs.drive.testbed.link import MSS_BYTES
from labs.experiments.nagle.conditions import Parameters as Nagle
from labs.experiments.nagle.results import USUAL_HZ, Results, expected
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around, drawn
from labs.read.exercises.guess import Guess
from labs.read.runs.run import Run
from labs.read.theory.nagle import answer, wait

NOTEBOOK = "03-nagle-and-delayed-ack"
SLOW_HZ = 100
"""The ticks per second of the first question; the runs have USUAL_HZ."""
FAR_MS = 20.0
"""The RTT of the exercise "A slower timer, and a distant client"."""
PAGE = Nagle()
WAYS: dict[str, dict[str, bool]] = {"off": {}, "on": {"nodelay": True}, "quickack": {"quick": True}}
"""The arguments with which the theory describes each condition."""
FEWER = "One round trip is missing: the held part is sent only when the ACK has arrived."
MORE = "One round trip too many: a connection in use needs no handshake."
ALONE = "This is the timer alone. Add the round trips."
FIRST = "This is the mean, which includes the first request of each connection. Leave those out."
TOLERANCE_PCT = 2.0
"""Answers with two digits, and less than 1 ms of work per response in virtual time."""


def longest_wait_ms(runs: Evidence) -> Expected:
    """The longest silence on another kernel: the delay of an ACK, and one tick more."""
    hz = int(drawn(runs, "hz", SLOW_HZ))
    held, usual = wait(hz), wait(USUAL_HZ)
    return around(
        (held.most_ms,),
        TOLERANCE_PCT,
        f"the timer at {hz} Hz: {held.least_ms:g} to {held.most_ms:g} ms",
        Mistake(held.least_ms, "This is the shortest silence. The timer fires up to a tick later."),
        Mistake(usual.most_ms, f"This is the longest silence at {USUAL_HZ} ticks per second."),
        Mistake(200.0, "This is the longest delay of an ACK. Here the shortest one applies."),
        Mistake(500.0, "This is the maximum that RFC 1122 permits. Linux waits less."),
    )


def far(condition: str) -> Callable[[Evidence], Expected]:
    """How long a request takes over a round trip of 20 ms, on a connection that is in use."""

    def found(runs: Evidence) -> Expected:
        far_ms = drawn(runs, "delay_ms", FAR_MS)
        run = runs.run(condition, delay_ms=far_ms)
        theory = expected(run) if run is not None else None
        hz = _hz(run)
        if theory is None:
            theory = answer(
                (NGINX_HEAD_BYTES, PAGE.page_bytes),
                MSS_BYTES,
                hz=hz,
                rtt_ms=far_ms,
                requests=PAGE.requests // PAGE.concurrency,
                **WAYS[condition],
            )
        assert theory is not None  # all round trips that are asked for are within its range
        held = wait(hz)
        least_ms = theory.steady_ms - (held.most_ms - held.least_ms if theory.stalls else 0.0)
        checked = f"the theory at {hz} Hz"
        return around(
            (least_ms, theory.steady_ms, *_median_ms(run)),
            TOLERANCE_PCT,
            checked if run is None else f"{checked}; the run {run.name}",
            *_round_trips(least_ms, theory.steady_ms, far_ms),
            *_mean(run, theory.steady_ms * (1 + TOLERANCE_PCT / 100)),
            *(Mistake(one, ALONE) for one in (held.least_ms, held.most_ms) if theory.stalls),
        )

    return found


DRAWN: Mapping[str, tuple[Scalar, ...]] = {
    "hz": (100, 300, 1000),
    "delay_ms": (10.0, 14.0, 24.0, 30.0),
}
"""What an examination draws from: ticks per second other than those of the runs, and RTTs at which
a delayed ACK is not mistaken for round trips."""
OVER = "How long does a request take on an established connection at an RTT of {delay_ms:g} ms, "

EXERCISES = (
    Exercise(
        "longest_wait_ms",
        NOTEBOOK,
        "the longest silence",
        longest_wait_ms,
        "ms",
        question="The client's kernel counts {hz} ticks per second. How long is the longest "
        "silence without delay on the link, in ms?",
        draws=DRAWN,
    ),
    Exercise(
        "far_off_ms",
        NOTEBOOK,
        "a request over 20 ms, off",
        far("off"),
        "ms",
        question=f"{OVER}with tcp_nodelay off, in ms? (250 ticks per second.)",
        draws=DRAWN,
    ),
    Exercise(
        "far_on_ms",
        NOTEBOOK,
        "a request over 20 ms, on",
        far("on"),
        "ms",
        question=f"{OVER}with tcp_nodelay on, in ms?",
        draws=DRAWN,
    ),
    Exercise(
        "far_quickack_ms",
        NOTEBOOK,
        "a request over 20 ms, quickack",
        far("quickack"),
        "ms",
        question=f"{OVER}with tcp_nodelay off and quick ACKs, in ms?",
        draws=DRAWN,
    ),
)
GUESSES = tuple(
    Guess(f"guess_{one.replace('-', '_')}_ms", NOTEBOOK, one, "p50_ms")
    for one in ("off", "on", "quickack", "on-quickack")
)


def _round_trips(least_ms: float, most_ms: float, rtt_ms: float) -> tuple[Mistake, ...]:
    """Answers with one round trip too few or too many."""
    fewer = [Mistake(one - rtt_ms, FEWER) for one in (least_ms, most_ms) if one > rtt_ms]
    return (*fewer, Mistake(most_ms + rtt_ms, MORE))


def _mean(run: Run | None, most_ms: float) -> tuple[Mistake, ...]:
    """The mean that the notebook's charts show, if it is no right answer, too."""
    found = None if run is None else Results(run).mean_ms
    return () if found is None or found <= most_ms else (Mistake(found, FIRST),)


def _hz(run: Run | None) -> int:
    return USUAL_HZ if run is None or run.kernel.hz is None else run.kernel.hz


def _median_ms(run: Run | None) -> tuple[float, ...]:
    """The client's median, unless it is too short to be meaningful in virtual time."""
    found = None if run is None else Results(run).p50_ms
    return () if found is None else (found,)
