"""The graded exercises of the notebook about receive buffers; each right answer is computed from
the theory and, where they exist, from runs."""

from __future__ import annotations

from labs.drive.units import KIB
from labs.experiments.windows.results import results
from labs.read.exercises.exercise import Evidence, Exercise, Expected, Mistake, around
from labs.read.theory.windows import RATIO_SINCE, before, granted_bytes, series

NOTEBOOK = "04-receive-window"
REQUESTED_BYTES, CORE_MAX_BYTES = 100_000, 212_992
BUFFER_BYTES, PAYLOAD_BYTES, TRUESIZE_BYTES = 64 * KIB, 1024, 2304
SCALE = 2
"""The tcp_adv_win_scale of the third question."""
OLD, NEW, ALL, NONE = (f"up to {before(RATIO_SINCE)}", "from 6.6 on", "all", "none")
KERNELS = (OLD, NEW, ALL, NONE)


def granted(runs: Evidence) -> Expected:
    """What getsockopt returns after SO_RCVBUF."""
    found = granted_bytes(REQUESTED_BYTES, CORE_MAX_BYTES, "receive")
    return around(
        (found,),
        0.0,
        "the kernel's rule for SO_RCVBUF",
        Mistake(REQUESTED_BYTES, "The kernel doubles the requested size."),
        Mistake(CORE_MAX_BYTES, "The limit applies to the requested size, which is below it."),
        Mistake(2 * CORE_MAX_BYTES, "The request is below the limit, so that is not used."),
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
    """The window that an empty buffer offers on a kernel that heeds tcp_adv_win_scale."""
    share = BUFFER_BYTES - (BUFFER_BYTES >> SCALE)
    return around(
        (share,),
        2.0,
        "the rule of kernels up to 6.5",
        Mistake(BUFFER_BYTES >> SCALE, "This is the reserved share. The rest is window."),
        Mistake(BUFFER_BYTES / 2, "This is the window with the default value, 1."),
        Mistake(BUFFER_BYTES, "This is the window with the value 0."),
    )


def dropping(runs: Evidence) -> Expected:
    """On which kernels the article's rig drops packets, from the run of the kernel in question."""
    run = runs.run("article-scale0")
    checked = "the rules of the kernels"
    if run is not None and (drops := results(run).rcv_q_drop) is not None:
        old = series(run.kernel.release) < RATIO_SINCE
        if bool(drops) == old:
            checked += f"; the run {run.name} with {drops} dropped packets"
    return Expected(
        checked,
        choice=OLD,
        mistakes=(
            Mistake(NEW, "From 6.6 on tcp_adv_win_scale has no effect."),
            Mistake(ALL, "From 6.6 on tcp_adv_win_scale has no effect."),
            Mistake(NONE, "Look at TCPRcvQDrop on Linux 6.1."),
        ),
    )


EXERCISES = (
    Exercise("granted_bytes", NOTEBOOK, "SO_RCVBUF of 100,000 bytes", granted, "bytes"),
    Exercise("accepted_packets", NOTEBOOK, "packets that fit into 64 KiB", accepted, "packets"),
    Exercise(
        "scale2_window_bytes", NOTEBOOK, "window with tcp_adv_win_scale 2", scaled_window, "bytes"
    ),
    Exercise("dropping_kernels", NOTEBOOK, "kernels that drop", dropping, choices=KERNELS),
)
