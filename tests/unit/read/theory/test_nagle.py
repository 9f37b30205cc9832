"""Nagle's rule and the delayed ACK by arithmetic, at the edges and against the kernel's source."""

from __future__ import annotations

import pytest

from labs.read.theory.nagle import (
    Answer,
    Sent,
    acknowledged_at_once,
    answer,
    held_back,
    rcv_mss_bytes,
    sent,
    wait,
)

MSS = 1448
HEAD, PAGE = 238, 612  # what nginx 1.22 writes for the article's page


def of(
    *writes: int,
    nodelay: bool = False,
    joined: bool = False,
    quick: bool = False,
    closes: bool = False,
    rtt_ms: float = 0.0,
    hz: int = 250,
    requests: int = 10,
) -> Answer:
    found = answer(
        writes,
        MSS,
        hz=hz,
        rtt_ms=rtt_ms,
        requests=requests,
        nodelay=nodelay,
        joined=joined,
        quick=quick,
        closes=closes,
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("hz", "least", "most"),
    [
        # HZ/25 in whole ticks, and one tick more: 4 of 10 ms, 10 of 4, 12 of 3.33, 40 of 1.
        (100, 40, 50),
        (250, 40, 44),
        (300, 40, 43.333),
        (1000, 40, 41),
    ],
)
def test_wait_is_forty_milliseconds_and_up_to_a_tick(hz: int, least: float, most: float) -> None:
    found = wait(hz)
    assert (found.least_ms, found.most_ms) == pytest.approx((least, most), abs=0.001)


def test_acknowledged_at_once_above_one_full_segment() -> None:
    assert rcv_mss_bytes(100) == 536 and rcv_mss_bytes(PAGE) == PAGE
    assert acknowledged_at_once((HEAD, PAGE), PAGE, quick=False)
    assert not acknowledged_at_once((PAGE,), PAGE, quick=False)
    assert acknowledged_at_once((1,), MSS, quick=True)


def test_acknowledged_at_once_two_small_segments_below_the_estimate() -> None:
    """A page of 100 bytes in virtual time on Linux 5.10, 6.1, 6.12 and 7.2 (`labs run nagle --only
    on --page-bytes 100`): 337 bytes in two segments, below the first estimate of 536, get one ACK
    within 1 ms, although the client has nothing to send."""
    assert acknowledged_at_once((237, 100), rcv_mss_bytes(237), quick=False)
    assert not acknowledged_at_once((237,), rcv_mss_bytes(237), quick=False)


def test_held_back_small_after_an_unacknowledged_small() -> None:
    small = {"partial": True, "nodelay": False, "more_to_come": False, "small_unacked": True}
    assert held_back(**small)
    for other in ({"partial": False}, {"nodelay": True}, {"small_unacked": False}):
        assert not held_back(**{**small, **other})
    assert held_back(partial=True, nodelay=True, more_to_come=True, small_unacked=False)


@pytest.mark.parametrize(
    ("writes", "found"),
    [
        ((HEAD, PAGE), Sent((HEAD,), (PAGE,))),
        ((HEAD + PAGE,), Sent((HEAD + PAGE,), ())),
        ((HEAD, MSS - 1), Sent((HEAD,), (MSS - 1,))),
        ((HEAD, MSS), Sent((HEAD, MSS), ())),
        ((HEAD, MSS + 1), Sent((HEAD, MSS), (1,))),
        # A small end behind full segments alone is not held: Minshall's form of the rule.
        ((MSS + 1,), Sent((MSS, 1), ())),
        ((77,) * 10, Sent((77,), (693,))),
    ],
)
def test_sent_at_once_and_held(writes: tuple[int, ...], found: Sent) -> None:
    assert sent(writes, MSS) == found


def test_sent_with_joined_writes_and_with_nodelay() -> None:
    assert sent((HEAD, PAGE), MSS, joined=True) == Sent((HEAD + PAGE,), ())
    assert sent((HEAD, PAGE), MSS, nodelay=True) == Sent((HEAD, PAGE), ())
    assert sent((77,) * 10, MSS, acked_between=True) == Sent((77,) * 10, ())


def test_answer_of_nagle_and_delayed_ack_on_and_off() -> None:
    """Only Nagle's algorithm and the delayed ACK together stall: ten requests a connection, of
    which the first does not, at 250 ticks a second."""
    assert of(HEAD, PAGE).steady_ms == pytest.approx(44)
    assert of(HEAD, PAGE).mean_ms == pytest.approx(39.6)
    for other in (
        of(HEAD, PAGE, nodelay=True),
        of(HEAD, PAGE, quick=True),
        of(HEAD, PAGE, nodelay=True, quick=True),
    ):
        assert (other.stalls, other.steady_ms, other.segments) == (False, 0, 2)


def test_answer_of_a_server_that_closes() -> None:
    assert not of(HEAD, PAGE, closes=True).stalls


def test_answer_counts_two_round_trips_for_held_data() -> None:
    assert of(HEAD, PAGE, rtt_ms=20).steady_ms == pytest.approx(2 * 20 + 44)
    assert of(HEAD, PAGE, rtt_ms=20, quick=True).steady_ms == pytest.approx(2 * 20)
    assert of(HEAD, PAGE, rtt_ms=20, nodelay=True).steady_ms == pytest.approx(20)
    assert of(HEAD, PAGE, rtt_ms=20).first_ms == pytest.approx(3 * 20)


@pytest.mark.parametrize(
    ("rtt_ms", "steady_ms"),
    # Measured in virtual time on Linux 6.1 at 250 Hz; 2 * 45 ms are two ticks and a half.
    [(20, 83.9), (30, 103.9), (45, 132.05), (200, 443.98), (500, 1043.98), (1000, 2043.98)],
)
def test_answer_delays_the_ack_until_a_tick_at_any_rtt(rtt_ms: float, steady_ms: float) -> None:
    assert of(HEAD, PAGE, rtt_ms=rtt_ms).steady_ms == pytest.approx(steady_ms, abs=0.2)


def test_answer_without_the_handshake() -> None:
    found = answer((HEAD, PAGE), MSS, hz=250, rtt_ms=20, requests=20, handshake=False)
    assert found is not None
    assert found.first_ms == 2 * 20
    assert found.mean_ms == pytest.approx((40 + 19 * 84) / 20)


def test_answer_above_the_initial_window_is_nothing() -> None:
    """Ten segments (RFC 6928); without a round trip the window does not matter."""
    for size, known in ((10 * MSS, True), (10 * MSS + 1, False)):
        assert (answer((size,), MSS, hz=250, rtt_ms=20, requests=10) is not None) == known
        assert answer((size,), MSS, hz=250, rtt_ms=0, requests=10) is not None


def test_wait_after_a_tick_is_shorter_by_that_time() -> None:
    found = wait(250)
    assert [found.after_tick_ms(ms) for ms in (0, 1, 3, 4, 42)] == [44, 43, 41, 44, 42]


def test_answer_of_a_full_segment_after_the_header_does_not_stall() -> None:
    assert of(160, MSS - 1).stalls
    for body in (MSS, MSS + 1, 2 * MSS - 1, 2 * MSS):
        assert not of(160, body).stalls
    assert of(160, MSS + 1, rtt_ms=20).steady_ms == pytest.approx(40)


def test_answer_joins_pieces_at_a_long_round_trip() -> None:
    pieces = (77,) * 10
    assert of(*pieces).segments == 2
    assert of(*pieces, quick=True).segments == 10
    assert of(*pieces, quick=True, rtt_ms=20).segments == 2
    assert of(*pieces, nodelay=True).segments == 10
