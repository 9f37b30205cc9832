"""The reader of httping, on what it printed; 200 ms, loopback, refused, and with its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse.httping import Httping, httping

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
# What article 1 shows of its own: two digits more than the summary, and a space before short ones.
ARTICLE = """\
PING 192.168.247.129:80 (/):
connected to 192.168.247.129:80 (426 bytes), seq=0 time= 17.37 ms
connected to 192.168.247.129:80 (426 bytes), seq=1 time=  1.22 ms
^CGot signal 2
--- http://192.168.247.129/ ping statistics ---
2 connects, 2 ok, 0.00% failed, time 5480ms
round-trip min/avg/max = 1.2/9.3/17.4 ms
"""


def read(name: str) -> Httping:
    return httping((FIXTURES / f"httping-{name}.txt").read_text())


def test_two_hundred_milliseconds() -> None:
    """Virtual testbed, 200 ms of delay: two round trips of 200.0 ms and what nginx takes."""
    found = read("200ms")
    assert found.times_ms == (400.22, 400.20, 400.20, 400.18, 400.20)
    assert (found.connects, found.answered) == (5, 5)
    assert (found.min_ms, found.mean_ms, found.max_ms) == (400.2, 400.2, 400.2)


def test_the_summary_is_that_of_the_times() -> None:
    for name in ("200ms", "loopback", "split"):
        found = read(name)
        assert found.answered == len(found.times_ms)
        assert (found.min_ms, found.max_ms) == pytest.approx(
            (min(found.times_ms), max(found.times_ms)), abs=0.06
        )
        assert found.mean_ms == pytest.approx(sum(found.times_ms) / len(found.times_ms), abs=0.06)


def test_the_article_s_lines() -> None:
    found = httping(ARTICLE)
    assert found.times_ms == (17.37, 1.22)
    assert found.mean_ms == 9.3


def test_refused_connections_have_no_times() -> None:
    assert read("refused") == Httping((), 2, 0, None, None, None)


def test_what_is_none_is_damage() -> None:
    for text in ("", "httping: command not found", "round-trip min/avg/max = 1.2/9.3/17.4 ms"):
        with pytest.raises(Damaged, match="not the output of httping"):
            httping(text)
