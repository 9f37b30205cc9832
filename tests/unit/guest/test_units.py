"""Units: what a rate carries in a time."""

from __future__ import annotations

from labs.guest.units import KIB, MIB, SECOND_NS, bytes_carried, bytes_per_second


def test_bytes_per_second_of_the_article_s_link() -> None:
    assert bytes_per_second(1000) == 125_000_000


def test_bytes_carried_in_a_round_trip_is_the_bdp() -> None:
    assert bytes_carried(1000, 200) == 25_000_000
    assert bytes_carried(0.1, 0) == 0
    assert bytes_carried(100, 1e3) == bytes_per_second(100)


def test_factors_follow_iec_80000_13() -> None:
    assert (MIB // KIB, MIB, SECOND_NS) == (1024, 1_048_576, 1_000_000_000)
