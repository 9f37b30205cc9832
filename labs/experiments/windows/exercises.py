"""The graded exercises of the notebook about receive buffers."""

from __future__ import annotations

from labs.drive.units import KIB
from labs.experiments.windows.results import Results
from labs.experiments.windows.settings import Settings
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Measured, around, guesses
from labs.read.runs.run import Run
from labs.read.theory.windows import granted_bytes

NOTEBOOK = "04-receive-window"
REQUESTED_BYTES, CORE_MAX_BYTES = 98 * KIB, 212_992
BUFFER_BYTES, PAYLOAD_BYTES, TRUESIZE_BYTES = 64 * KIB, 1024, 2304
FIT = BUFFER_BYTES // TRUESIZE_BYTES
SMALL_BYTES, SCALE = 24 * KIB, 3
"""SO_RCVBUF and tcp_adv_win_scale of the third question."""
SMALL_GRANTED_BYTES = granted_bytes(SMALL_BYTES, CORE_MAX_BYTES, "receive")
RESERVED_BYTES = SMALL_GRANTED_BYTES >> SCALE
FIRST_RETRANSMISSION_S, NEXT_INTERVAL_S, LATER_S = 1.3, 1.25, 120.0
"""Given in the fourth question; TCPRcvQDrop is asked for LATER_S after the first drop."""
DROPPED = "article-scale0"
CHECKED_S = 130.0
"""A run of this length has the drops until LATER_S."""
OUT_OF_ORDER = 3
"""Drops of the packets after the first one, which are counted as TCPOFODrop."""

GRANTED_BYTES = granted_bytes(REQUESTED_BYTES, CORE_MAX_BYTES, "receive")
GRANTED = (
    around(GRANTED_BYTES, checked="the kernel's rule for SO_RCVBUF")
    .mistake(REQUESTED_BYTES, "The kernel doubles the requested size.")
    .mistake(CORE_MAX_BYTES, "The limit applies to the requested size, which is below it.")
    .mistake(2 * CORE_MAX_BYTES, "The request is below the limit, so the limit has no effect.")
)
ACCEPTED = (
    around(FIT + 1, checked="the true size of each packet")
    .mistake(FIT, "One more is accepted: memory is checked before the packet is added.")
    .mistake(BUFFER_BYTES // PAYLOAD_BYTES, "This counts the payload only, not the true size.")
)
SCALED_WINDOW = (
    around(SMALL_GRANTED_BYTES - RESERVED_BYTES, checked="the rule of kernels up to 6.5")
    .mistake(RESERVED_BYTES, "This is the reserved share. The rest is window.")
    .mistake(SMALL_BYTES - (SMALL_BYTES >> SCALE), "The kernel doubles the requested size.")
    .mistake(SMALL_GRANTED_BYTES / 2, "This is the window with the default value, 1.")
    .mistake(SMALL_GRANTED_BYTES, "This is the window with the value 0.")
)


def drops(runs: Evidence) -> Expected:
    """TCPRcvQDrop some time after the first drop: the intervals double."""
    count, after_s, interval_s = 1, FIRST_RETRANSMISSION_S, NEXT_INTERVAL_S
    while after_s <= LATER_S:
        count, after_s, interval_s = count + 1, after_s + interval_s, 2 * interval_s
    measured, run = Measured(), runs.run(DROPPED, duration_s=CHECKED_S)
    if run is not None and (times := counted_drops(run)):
        measured = Measured(f"{run.name}, with {times} drops of that packet in that time", times)
    return (
        around(count, measured, checked="doubling intervals")
        .mistake(count - 1, "This counts only the retransmissions. The first drop counts, too.")
        .mistake(count + OUT_OF_ORDER, "The packets after the first one count as TCPOFODrop.")
    )


def counted_drops(run: Run) -> int:
    """How often the packet that is dropped first is dropped within LATER_S; 0 if the run is too
    short to tell."""
    if run.settings_as(Settings).duration_s < CHECKED_S:
        return 0
    dropped = Results(run).drops
    first = dropped[dropped["seq"] == dropped["seq"].min()]
    return int((first["time_s"] - first["time_s"].min() <= LATER_S).sum())


EXERCISES = (
    Exercise("granted_bytes", NOTEBOOK, "SO_RCVBUF of 98 KiB", GRANTED, "bytes"),
    Exercise("accepted_packets", NOTEBOOK, "packets that fit into 64 KiB", ACCEPTED, "packets"),
    Exercise(
        "scaled_window_bytes", NOTEBOOK, "window with tcp_adv_win_scale 3", SCALED_WINDOW, "bytes"
    ),
    Exercise("dropped_packets", NOTEBOOK, "TCPRcvQDrop after 120 s", drops, "packets"),
)
GUESSED = {f"guess_{name}_bytes": f"article-{name}" for name in ("scale0", "scale1", "1m")}
GUESSES = guesses(NOTEBOOK, "recv_q", GUESSED)
