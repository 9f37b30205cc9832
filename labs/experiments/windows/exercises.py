"""The graded exercises of the notebook about receive buffers; each right answer is computed from
the theory and, where they exist, from runs."""

from __future__ import annotations

from labs.drive.units import KIB
from labs.experiments.windows.packets import packets
from labs.experiments.windows.settings import Settings
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.exercises.guess import Guess
from labs.read.runs.run import Run
from labs.read.theory.windows import granted_bytes

NOTEBOOK = "04-receive-window"
REQUESTED_BYTES, CORE_MAX_BYTES = 98 * KIB, 212_992
BUFFER_BYTES, PAYLOAD_BYTES, TRUESIZE_BYTES = 64 * KIB, 1024, 2304
SMALL_REQUEST_BYTES, SCALE = 24 * KIB, 3
"""SO_RCVBUF and tcp_adv_win_scale of the third question."""
FIRST_RETRANSMISSION_S, NEXT_INTERVAL_S, LATER_S = 1.3, 1.25, 120.0
"""Given in the fourth question; TCPRcvQDrop is asked for LATER_S after the first drop."""
DROPPED = "article-scale0"
CHECKED_S = 130.0
"""A run of this length has the drops until LATER_S."""
OUT_OF_ORDER = 3
"""Drops of the packets after the first one, which are counted as TCPOFODrop."""


def granted(runs: Evidence) -> Expected:
    """What getsockopt returns after SO_RCVBUF."""
    found = granted_bytes(REQUESTED_BYTES, CORE_MAX_BYTES, "receive")
    return around(
        (found,),
        0.0,
        "the kernel's rule for SO_RCVBUF",
        Mistake(REQUESTED_BYTES, "The kernel doubles the requested size."),
        Mistake(CORE_MAX_BYTES, "The limit applies to the requested size, which is below it."),
        Mistake(2 * CORE_MAX_BYTES, "The request is below the limit, so the limit has no effect."),
    )


def accepted(runs: Evidence) -> Expected:
    """How many packets are accepted while the memory in use does not exceed the buffer."""
    fit = BUFFER_BYTES // TRUESIZE_BYTES
    return around(
        (fit + 1,),
        0.0,
        "the true size of each packet",
        Mistake(fit, "One more is accepted: memory is checked before the packet is added."),
        Mistake(BUFFER_BYTES // PAYLOAD_BYTES, "This counts the payload only, not the true size."),
    )


def scaled_window(runs: Evidence) -> Expected:
    """The window of an empty buffer on a kernel that uses tcp_adv_win_scale."""
    buffer = granted_bytes(SMALL_REQUEST_BYTES, CORE_MAX_BYTES, "receive")
    requested = SMALL_REQUEST_BYTES
    return around(
        (buffer - (buffer >> SCALE),),
        0.0,
        "the rule of kernels up to 6.5",
        Mistake(buffer >> SCALE, "This is the reserved share. The rest is window."),
        Mistake(requested - (requested >> SCALE), "The kernel doubles the requested size."),
        Mistake(buffer / 2, "This is the window with the default value, 1."),
        Mistake(buffer, "This is the window with the value 0."),
    )


def drops(runs: Evidence) -> Expected:
    """TCPRcvQDrop some time after the first drop: the intervals double."""
    count, after_s, interval_s = 1, FIRST_RETRANSMISSION_S, NEXT_INTERVAL_S
    while after_s <= LATER_S:
        count, after_s, interval_s = count + 1, after_s + interval_s, 2 * interval_s
    counts, checked = [count], "doubling intervals"
    run = runs.run(DROPPED, duration_s=CHECKED_S)
    if run is not None and (counted := counted_drops(run)):
        counts.append(counted)
        checked += f"; the run {run.name}, with {counted} drops of that packet in that time"
    return around(
        tuple(counts),
        0.0,
        checked,
        Mistake(count - 1, "This counts only the retransmissions. The first drop counts, too."),
        Mistake(
            count + OUT_OF_ORDER,
            "This also counts the packets after the first one. Their counter is TCPOFODrop.",
        ),
    )


def counted_drops(run: Run) -> int:
    """How often the packet that is dropped first is dropped within LATER_S; 0 if the run is too
    short to tell."""
    if run.settings_as(Settings).duration_s < CHECKED_S:
        return 0
    table = packets(run)
    dropped = table[table["dropped"].fillna(0) > 0]
    first = dropped[dropped["seq"] == dropped["seq"].min()]
    return int((first["time_s"] - first["time_s"].min() <= LATER_S).sum())


EXERCISES = (
    Exercise("granted_bytes", NOTEBOOK, "SO_RCVBUF of 98 KiB", granted, "bytes"),
    Exercise("accepted_packets", NOTEBOOK, "packets that fit into 64 KiB", accepted, "packets"),
    Exercise(
        "scaled_window_bytes", NOTEBOOK, "window with tcp_adv_win_scale 3", scaled_window, "bytes"
    ),
    Exercise("dropped_packets", NOTEBOOK, "TCPRcvQDrop after 120 s", drops, "packets"),
)
GUESSES = tuple(
    Guess(f"guess_{one}_bytes", NOTEBOOK, f"article-{one}", "recv_q")
    for one in ("scale0", "scale1", "1m")
)
