"""What takes time: blocks that wait for their answer, a window that opens; and buffers set by
hand in the prediction. Held to the article's arithmetic, to textbooks' figures and to runs."""

from __future__ import annotations

from math import ceil, log2

import pytest

from labs.read.readings.goodput import download
from labs.read.theory.bdp import of_the_wait_pct, sending_ms, utilisation_pct
from labs.read.theory.bounds import RECEIVE_WINDOW, SEND_BUFFER, predict
from labs.read.theory.windows import RATIO_SINCE, SMALL_HEADS_SINCE, before, receive_window_bytes
from tests.real_runs import real

MB, MSS = 1e6, 1448
BIG = (4096, 131072, 100 << 20)
STEP_S = 0.2


def test_one_block_at_a_time_at_both_round_trips() -> None:
    """A1.18: 1 MB at 100 MB/s takes 10 ms; the article divides by the wait alone."""
    assert sending_ms(MB, 100 * MB) == pytest.approx(10)
    assert of_the_wait_pct(MB, 100 * MB, 400) == pytest.approx(2.5)
    assert of_the_wait_pct(MB, 100 * MB, 200) == pytest.approx(5)
    assert utilisation_pct(MB, 100 * MB, 400) == pytest.approx(100 * 10 / 410)
    assert utilisation_pct(MB, 100 * MB, 200) == pytest.approx(100 * 10 / 210)


def test_the_textbook_s_sender() -> None:
    """1000 bytes at 1 Gbit/s over 30 ms: the line is busy for 0.027 % of the time."""
    assert utilisation_pct(1000, 1e9 / 8, 30) == pytest.approx(0.027, abs=0.0005)
    assert utilisation_pct(1000, 1e9 / 8, 0) == 100
    assert of_the_wait_pct(30e6, 1e9 / 8, 30) > 100


def test_goodput_over_time_reaches_the_rate_after_slow_start() -> None:
    """50 MiB at both ends: the line is full 12 RTTs of 200 ms after the request: one RTT until the
    first data (10 segments, RFC 6928), and 11 doublings to 24 MB (RFC 5681 3.1)."""
    run = real("both-1gib")
    fetched = run.fetch()
    assert fetched is not None
    seen = download(run)
    steady = seen.third_bytes_s(2)
    assert steady is not None
    ends, speeds = seen.goodput_over_time(STEP_S)
    full = next(end for end, speed in zip(ends, speeds, strict=True) if speed >= 0.95 * steady)
    requested_s = (fetched["request_ns"] - seen.started_ns) / 1e9
    rtt_ms = run.link.measured.rtt_ms
    assert ceil(log2(steady * rtt_ms / 1e3 / (10 * MSS))) == 11
    assert full - STEP_S - requested_s == pytest.approx(2.4, abs=0.01)


@pytest.mark.parametrize("kernel", ["6.1.192", "6.12.117"])
def test_a_buffer_set_by_hand_stays_what_was_granted(kernel: str) -> None:
    """131072 asked for, 262144 granted; 129,624 of it are window on 6.1 (measured there)."""
    found = predict(
        rate_mbit=1000, rtt_ms=200, tcp_rmem=BIG, tcp_wmem=BIG, kernel=kernel, rcvbuf_bytes=262144
    )
    assert found is not None and found.bound == RECEIVE_WINDOW
    assert found.window_bytes == receive_window_bytes(262144, kernel)
    if kernel.startswith("6.1."):
        assert found.window_bytes == 129624
    sent = predict(
        rate_mbit=1000, rtt_ms=200, tcp_rmem=BIG, tcp_wmem=BIG, kernel=kernel, sndbuf_bytes=4 << 20
    )
    own = predict(
        rate_mbit=1000, rtt_ms=200, tcp_rmem=BIG, kernel=kernel, tcp_wmem=(4096, 16384, 4 << 20)
    )
    assert sent is not None and sent.bound == SEND_BUFFER
    assert sent == own


def test_the_series_before_a_change() -> None:
    assert (before(RATIO_SINCE), before(SMALL_HEADS_SINCE)) == ("6.5", "6.2")
