"""The right answers of the exercises about receive buffers, as the kernel's rules give them."""

from __future__ import annotations

from labs.catalog import find
from labs.read.exercises.exercise import Evidence, of_lab
from labs.read.theory.receive_window import Setup, accepted
from labs.read.theory.receive_window_kernels import rules


def test_expected_is_the_value_of_the_kernel_rules() -> None:
    """The other ways of the notebook: the packets one by one, and the simulated receiver."""
    used, packets = 0, 0
    while used <= 65_536:
        used, packets = used + 2_304, packets + 1
    setup = Setup(
        rules=rules("6.1"),
        listen_rcvbuf_bytes=2 * 24_576,
        listen_locked=True,
        mss_bytes=1024,
        adv_win_scale=3,
    )
    right = {
        exercise.name: exercise.expected(Evidence("6.1")).low
        for exercise in of_lab(find("windows"))[0]
    }
    assert (packets, accepted(setup).rcv_wnd) == (
        right["accepted_packets"],
        right["scaled_window_bytes"],
    )
