"""The BDP, slow start, and blocks sent one by one: figures of the article and of textbooks."""

from __future__ import annotations

import pytest

from labs.read.theory.bdp import (
    bdp_bytes,
    mean_goodput_bytes_s,
    of_the_wait_pct,
    payload_share,
    sending_ms,
    utilisation_pct,
)

MB = 1e6


def test_utilisation_pct_of_one_block_at_a_time() -> None:
    """A1.18: 1 MB at 100 MB/s takes 10 ms; the article divides by the wait alone."""
    assert sending_ms(MB, 100 * MB) == pytest.approx(10)
    assert of_the_wait_pct(MB, 100 * MB, 400) == pytest.approx(2.5)
    assert of_the_wait_pct(MB, 100 * MB, 200) == pytest.approx(5)
    assert utilisation_pct(MB, 100 * MB, 400) == pytest.approx(100 * 10 / 410)
    assert utilisation_pct(MB, 100 * MB, 200) == pytest.approx(100 * 10 / 210)


def test_utilisation_pct_of_the_textbook() -> None:
    """1000 bytes at 1 Gbit/s over 30 ms: the line is busy for 0.027 % of the time."""
    assert utilisation_pct(1000, 1e9 / 8, 30) == pytest.approx(0.027, abs=0.0005)
    assert utilisation_pct(1000, 1e9 / 8, 0) == 100
    assert of_the_wait_pct(30e6, 1e9 / 8, 30) > 100


def test_bdp_bytes_and_payload_share() -> None:
    assert bdp_bytes(1000, 200) == 25e6
    assert bdp_bytes(1000, 400) == 50e6
    assert payload_share() == 1448 / 1514
    assert payload_share(1460, 54) == 1460 / 1514


def test_mean_goodput_of_short_transfers() -> None:
    # Ten segments come one round trip after the request; thirty after two.
    assert mean_goodput_bytes_s(1e9, 100, transfer_bytes=14480) == pytest.approx(144_800)
    assert mean_goodput_bytes_s(1e9, 100, transfer_bytes=43440) == pytest.approx(217_200)
    assert mean_goodput_bytes_s(1e9, 100, duration_s=0.15) == pytest.approx(14480 / 0.15)
    assert mean_goodput_bytes_s(1e6, 0, transfer_bytes=1e6) == pytest.approx(1e6)
    with pytest.raises(ValueError, match="not both"):
        mean_goodput_bytes_s(1e6, 100)
