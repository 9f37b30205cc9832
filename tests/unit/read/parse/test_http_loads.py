"""wrk and vegeta: recorded output, and the requests that wrk adds, for any histogram."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.errors import Damaged
from labs.read.parse.http_loads import Hit, intended_us, vegeta, without_added, wrk

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
RATE_PER_S = 250
"""Of vegeta-open.csv: 50 % of what a server with 2 ms per request can do."""


@pytest.mark.parametrize("name", ["wrk-1.txt", "wrk-100.txt"])
def test_wrk_counts_each_response_once(name: str) -> None:
    text = (FIXTURES / name).read_text()
    found = wrk(text)
    assert found.failed == 0
    assert sum(found.latencies_us.values()) == found.requests
    printed = sum(int(line.split(",")[1]) for line in text.split("count\n")[1].splitlines())
    assert printed > found.requests  # wrk has added some


@pytest.mark.parametrize("name", ["wrk-1.txt", "wrk-100.txt"])
def test_wrk_mean_with_added_requests_is_the_printed_one(name: str) -> None:
    """wrk prints two decimals in us or ms: half of the last digit is its rounding."""
    text = (FIXTURES / name).read_text()
    match = re.search(r"Latency +([\d.]+)(us|ms)", text)
    assert match is not None
    unit = {"us": 1, "ms": 1000}[match[2]]
    assert wrk(text).added_mean_us == pytest.approx(float(match[1]) * unit, abs=0.005 * unit)


def corrected(counts: dict[int, int], interval: int) -> dict[int, int]:
    """What stats_correct of wrk 4.1 (src/stats.c) does to a histogram."""
    found = dict(counts)
    for value in range(2 * interval, max(counts) + 1):
        added = value - interval
        while found.get(value) and added > interval:
            found[added] = found.get(added, 0) + found[value]
            added -= interval
    return found


@given(
    counts=st.dictionaries(st.integers(1, 400), st.integers(1, 50), min_size=1),
    interval=st.integers(1, 300),
)
def test_without_added_inverts_the_correction_of_any_histogram(
    counts: dict[int, int], interval: int
) -> None:
    assert without_added(corrected(counts, interval), interval) == dict(sorted(counts.items()))


def test_without_added_refuses_a_histogram_that_was_not_corrected() -> None:
    with pytest.raises(Damaged, match="not one that wrk corrected"):
        without_added({10: 5, 100: 1}, 10)


@pytest.mark.parametrize("cut", ["requests,", "duration_us,", "latency_us", " connections\n"])
def test_wrk_refuses_an_output_without_a_part(cut: str) -> None:
    text = (FIXTURES / "wrk-1.txt").read_text()
    with pytest.raises(Damaged):
        wrk(text.replace(cut, "", 1))


def test_vegeta_has_every_request_in_order() -> None:
    hits = vegeta((FIXTURES / "vegeta-open.csv").read_text())
    assert [one.sequence for one in hits] == list(range(RATE_PER_S))  # of one second
    assert all(one.status == 200 and one.latency_ns > 0 for one in hits)
    assert sorted(one.began_ns for one in hits) == [one.began_ns for one in hits]


def test_intended_latency_is_never_below_the_one_from_sending() -> None:
    hits = vegeta((FIXTURES / "vegeta-open.csv").read_text())
    intended, sent = intended_us(hits, RATE_PER_S), intended_us(hits, 0)
    assert all(one >= other for one, other in zip(intended, sent, strict=True))
    assert sent == [one.latency_ns // 1000 for one in hits]
    span_ns = hits[-1].began_ns - hits[0].began_ns
    assert span_ns == pytest.approx((len(hits) - 1) * 1e9 / RATE_PER_S, rel=0.05)


def test_intended_latency_counts_the_wait_of_a_late_request() -> None:
    """Intended at 0, 10 and 20 ms, all answered in 1 ms; the second one is sent 7 ms late."""
    hits = [Hit(0, 0, 10**6, 200), Hit(1, 17 * 10**6, 10**6, 200), Hit(2, 20 * 10**6, 10**6, 200)]
    assert intended_us(hits, 100) == [1000, 8000, 1000]


@pytest.mark.parametrize("text", ["", "1,2,3\n", "a,200,1,0,0,,,,0,GET,u,\n"])
def test_vegeta_refuses_other_text(text: str) -> None:
    with pytest.raises(Damaged):
        vegeta(text)


def test_vegeta_refuses_a_gap() -> None:
    lines = (FIXTURES / "vegeta-open.csv").read_text().splitlines(keepends=True)
    with pytest.raises(Damaged, match="without a gap"):
        vegeta("".join(lines[:10] + lines[11:]))
