"""The BDP, slow start, and blocks sent one by one: figures of the article and of textbooks."""

from __future__ import annotations

import pytest

from labs.read.theory.bdp import bdp_bytes, payload_share, sending_ms, utilisation_pct

MB = 1e6


def test_utilisation_pct_of_one_block_at_a_time() -> None:
    """A1.18: 1 MB at 100 MB/s takes 10 ms; the article divides by the wait alone."""
    assert sending_ms(MB, 100 * MB) == pytest.approx(10)
    assert utilisation_pct(MB, 100 * MB, 400) == pytest.approx(100 * 10 / 410)
    assert utilisation_pct(MB, 100 * MB, 200) == pytest.approx(100 * 10 / 210)


def test_utilisation_pct_of_the_textbook() -> None:
    """1000 bytes at 1 Gbit/s over 30 ms: the line is busy for 0.027 % of the time."""
    assert utilisation_pct(1000, 1e9 / 8, 30) == pytest.approx(0.027, abs=0.0005)
    assert utilisation_pct(1000, 1e9 / 8, 0) == 100


def test_bdp_bytes_and_payload_share() -> None:
    assert bdp_bytes(1000, 200) == 25e6
    assert bdp_bytes(1000, 400) == 50e6
    assert payload_share() == 1448 / 1514
    assert payload_share(1460, 54) == 1460 / 1514
