"""What the exercises of every lab must keep: the values by hand are right, and no mistake is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.catalog import LABS, find
from labs.drive.kernel.versions import SERIES
from labs.grading.grade_sheet import RunEvidence
from labs.read.exercises.exercise import Evidence, of_lab
from labs.read.exercises.graded_answer import RIGHT, WRONG, grade
from labs.read.theory.queueing import capacity_per_s, closed_loop_us, evenly_spaced_us

EXERCISES = {(lab, exercise.name): exercise for lab in LABS for exercise in of_lab(find(lab))[0]}
KERNEL = "6.1"
FULL = 125e6
"""Bytes per second of 1000 Mbit/s."""
PAYLOAD = 1448 / 1514
"""The share of payload in a frame."""
ADMITTED = 13.54 * 2**20
"""Bytes per second that the default buffers admit at 200 ms, as notebook 00 prints."""
LOSSY = 1448 / 0.04 / 0.001**0.5 / 2**20

# From the articles and the textbooks, by hand, and by every other way that a notebook offers: the
# BDP at the rate of the link or of the payload, the capacity of the recorded loops or the plain
# limit.
BY_HAND: dict[tuple[str, str], tuple[float | str, ...]] = {
    ("buffers", "bdp_mib"): (FULL * 0.022 / 2**20, FULL * PAYLOAD * 0.022 / 2**20),
    ("buffers", "limit"): ("link",),
    # What the buffers admit in 200 ms, and a run at 22.72 ms.
    ("buffers", "longest_rtt_ms"): (
        24.0,
        200 * ADMITTED / FULL,
        200 * ADMITTED / (FULL * PAYLOAD),
        22.72,
    ),
    ("buffers", "httping_ms"): (404.2, 400.0, 400.2),  # A1.4
    ("buffers", "wmem_limit"): ("receive window",),
    ("buffers", "buffer_mib"): (50e6 / 2**20, 2 * FULL * 0.2 * PAYLOAD / 2**20),  # A1.10
    ("buffers", "used_pct"): (100 * 10 / 210, 100 * 10 / 210.4),
    ("buffers", "scaled_mib_s"): (0.75 * 25e6 / 0.2 / 2**20,),
    ("buffers", "granted_kib"): (256.0,),
    ("buffers", "new_window_mib"): (0.75 * 32, 32 * 0.749),
    ("buffers", "granted_6_1_kib"): (2 * 208.0,),
    ("buffers", "granted_7_2_kib"): (2048.0,),
    ("buffers", "lossy_mib_s"): (1.31 * LOSSY, 1.22 * LOSSY),
    ("buffers", "lowest_rate_mbit"): (
        13.4 * 2**20 * 8 / 1e6 / PAYLOAD,
        8e-6 * ADMITTED,
        8e-6 * ADMITTED / PAYLOAD,
    ),
    # TCP_ATO_MIN is 40 ms (include/net/tcp.h), and a tick is 4 ms with HZ 250, 10 ms with HZ 100.
    # Over 20 ms, the part that was held back takes one round trip more.
    ("nagle", "longest_wait_ms"): (50.0,),
    ("nagle", "far_off_ms"): (2 * 20 + 40.0, 2 * 20 + 44.0),
    ("nagle", "far_on_ms"): (20.0,),
    ("nagle", "far_quickack_ms"): (2 * 20.0,),
    # 100 Mbit/s over 60 ms are 750,000 bytes; 3/7 of that for CUBIC; 1000 frames of 1514 bytes at
    # 50 Mbit/s; the window runs from 0.625 to 1.25 BDPs: (0.609 / 2 + 0.28125) / (0.375 + 0.28125).
    ("queues", "reno_buffer_kib"): (732.4,),
    ("queues", "cubic_buffer_kib"): (313.9,),
    ("queues", "fifo_delay_ms"): (242.2,),
    ("queues", "quarter_pct"): (89.3,),
    # A queue of one BDP holds about half of its 40 ms on average, so the RTTs are some 62 and
    # 102 ms, and the squares of their ratio 1 to 2.7; 1/sqrt(25); 100 / (3 * 66); 1/2 + 1/16, less
    # 4 packets of 264 and less ProbeRTT, 0.56 s of 10.
    ("sharing", "far_reno_pct"): (27.0,),
    ("sharing", "crowd_bdp"): (0.2,),
    ("sharing", "jain_index"): (0.505,),
    ("sharing", "bbr_deep_pct"): ((0.5 + 1 / 16 + 4 / 264) * 0.944 * 100,),
    # 1 s / 2 ms; 16 x 2 ms; 20 % of 3 s remain to be served; one request per connection; 9 us more
    # than 180 us; then the recorded loops, scaled from 1 ms to 2 ms, and the notebook's formulas.
    ("stack", "highest_rate_s"): (500.0, 486.0, 493.0, capacity_per_s(2000)),
    ("stack", "closed_loop_ms"): (32.0, 16e3 / 486, 30.8, closed_loop_us(16, 2000) / 1000),
    ("stack", "last_wait_ms"): (
        *(600.0, 602.0, 700.0),
        3000 * (600 / 486 - 1),
        evenly_spaced_us(600, 2000, 3) / 1000,
    ),
    ("stack", "stopped_requests"): (16.0,),
    ("stack", "wake_up_ratio"): (1.05, (180 + 34 - 25) / 180, 1 + (33.56 - 24.56) / 180),
    # 2 x 212,992 bytes; 0.2 ms x 40,000 / 250; two thirds of 256 KiB per 8 ms, because a writer is
    # woken when a third is free; the smaller buffer is the receiver's, and smaller than the BDP.
    ("sweeps", "granted_kib"): (416.0,),
    ("sweeps", "same_bdp_ms"): (32.0,),
    ("sweeps", "larger_mib_s"): (20.8, 20.512),  # the latter measured on Linux 6.1.192
    ("sweeps", "limit"): ("receive window",),
    # SO_RCVBUF doubles; 28 packets of 2,304 bytes are 64,512 of 65,536, so that a 29th is accepted;
    # 7/8 of 48 KiB; the first drop, and retransmissions after 1.3, 2.55, 5.05, 10.05, 20.05, 40.05
    # and 80.05 s.
    ("windows", "granted_bytes"): (200_704,),
    ("windows", "accepted_packets"): (29,),
    ("windows", "scaled_window_bytes"): (43_008,),
    ("windows", "dropped_packets"): (8,),
}
# Losses are random: the draws themselves lie up to 1.44 apart, 10 % more on each side. A share has
# the tolerance of its model, and a wait beyond the capacity magnifies a difference of capacities.
WIDEST = {"lossy_mib_s": 1.44 * 1.1 / 0.9, "far_reno_pct": 1.4, "last_wait_ms": 1.2}


def evidence(lab: str) -> Iterator[Evidence]:
    """Without runs, and the recorded ones."""
    yield from (Evidence(KERNEL), RunEvidence(KERNEL, find(lab)))


@pytest.mark.parametrize(("lab", "name"), EXERCISES)
def test_expected_contains_every_value_by_hand(lab: str, name: str) -> None:
    exercise = EXERCISES[lab, name]
    for runs in evidence(lab):
        expected = exercise.expected(runs)
        for value in BY_HAND[lab, name]:
            graded = grade(exercise, value, expected)
            assert (graded.verdict, graded.hint) == (RIGHT, ""), (value, expected)
        if not exercise.choices:
            assert expected.high <= expected.low * WIDEST.get(name, 1.12)


@pytest.mark.parametrize(("lab", "name"), EXERCISES)
def test_mistakes_are_wrong_and_have_their_hint(lab: str, name: str) -> None:
    """On every kernel."""
    exercise = EXERCISES[lab, name]
    for runs in (*evidence(lab), *map(Evidence, SERIES)):
        expected = exercise.expected(runs)
        for mistake in expected.mistakes:
            graded = grade(exercise, mistake.value, expected)
            assert graded.verdict == WRONG
            assert graded.hint in {other.hint for other in expected.mistakes}, mistake
        assert expected.choice in ("", *exercise.choices)


# Of each exercise, in order. A mistake that is a right answer would be left out of them.
MISTAKES = {
    "buffers": (1, 0, 2, 1, 0, 2, 3, 2, 2, 1, 2, 3, 3, 2),
    "nagle": (4, 5, 1, 2),
    "queues": (3, 2, 3, 2),
    "sharing": (3, 2, 2, 1),
    "stack": (2, 3, 3, 1, 1),
    "sweeps": (3, 2, 3, 2),
    "windows": (3, 2, 4, 2),
}


@pytest.mark.parametrize("lab", MISTAKES)
def test_no_mistake_is_a_right_answer(lab: str) -> None:
    declared = [exercise for (other, _), exercise in EXERCISES.items() if other == lab]
    counts = tuple(len(exercise.expected(Evidence(KERNEL)).mistakes) for exercise in declared)
    assert counts == MISTAKES[lab]
