"""The right answers of the exercises about receive buffers, as the kernel's rules give them."""

from __future__ import annotations

from labs.catalog import find
from labs.read.exercises.exercise import Evidence, of_lab
from labs.read.theory.receiver import LISTENS, Receiver, Setup


def test_expected_is_the_value_of_the_kernel_rules() -> None:
    """The other ways of the notebook: the packets one by one, and the simulated receiver."""
    used, packets = 0, 0
    while used <= 65_536:
        used, packets = used + 2_304, packets + 1
    setup = Setup(
        kernel="6.1",
        role=LISTENS,
        rcvbuf_bytes=2 * 24_576,
        locked=True,
        mss_bytes=1024,
        adv_win_scale=3,
        rmem_max_bytes=6_291_456,
        core_max_bytes=212_992,
    )
    right = {
        exercise.name: exercise.expected(Evidence("6.1")).low
        for exercise in of_lab(find("windows"))[0]
    }
    assert (packets, Receiver(setup, now_ns=0).wnd) == (
        right["accepted_packets"],
        right["scaled_window_bytes"],
    )
