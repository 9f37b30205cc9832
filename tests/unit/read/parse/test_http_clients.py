"""The readers of ab, httping and wget, on what these tools printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse.http_clients import Httping, ab, ab_percentiles, httping, wget

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
MIB = 1 << 20
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


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


def httping_of(name: str) -> Httping:
    return httping(read(f"httping-{name}.txt"))


def test_ab_refuses_a_report_without_its_figures() -> None:
    whole = read("ab-keepalive.txt")
    for name in ("Complete requests", "Time per request", "Failed requests", "HTML transferred"):
        with pytest.raises(Damaged, match="a report of ab"):
            ab(whole.replace(name, "Other"))
    with pytest.raises(Damaged, match="a report of ab"):
        ab(read("ab-refused.txt"))
    with pytest.raises(Damaged, match=r"not a whole number: 1\.5"):
        ab(re.sub(r"(Failed requests: +)\d+", r"\g<1>1.5", whole))


def test_ab_percentiles_ignores_rows_past_the_slowest_request() -> None:
    """Of 10 requests ab printed 0.257 ms for 95 to 99 %, less than for any other: its index is
    (int)(0.5 + 10 * 95 / 100) = 10, and its array ends at 9 (httpd, support/ab.c)."""
    written = read("ab-10-requests.csv")
    assert "\n94,6.554\n95,0.257\n" in written and "\n99,0.257\n100,6.554\n" in written
    found = ab_percentiles(written, 10)
    assert list(found) == list(range(101))
    assert list(found.values()) == sorted(found.values())
    assert (found[50], found[94], found[95], found[99], found[100]) == (
        1.724,
        6.554,
        6.554,
        6.554,
        6.554,
    )
    for printed in ("-4611686018427.388", "9223372036854775.807", "-nan"):
        assert ab_percentiles(written.replace("0.257", printed), 10) == found
    with pytest.raises(Damaged, match="no row for 100 %"):
        ab_percentiles(written.replace("100,6.554\n", ""), 10)


def test_ab_percentiles_reads_every_row_of_51_requests() -> None:
    written = read("ab-51-requests.csv")
    rows = [line.split(",") for line in written.splitlines()[1:]]
    assert ab_percentiles(written, 51) == {int(percent): float(ms) for percent, ms in rows}


@pytest.mark.parametrize("reader", [ab, lambda text: ab_percentiles(text, 1000)])
def test_ab_refuses_other_text(reader: object) -> None:
    assert callable(reader)
    for other in (
        "",
        "ab: command not found",
        read("ab-refused.txt")[1:],
        "Percentage served\n1,1",
    ):
        with pytest.raises(Damaged, match="ab"):
            reader(other)


def test_ab_percentiles_names_a_broken_row() -> None:
    with pytest.raises(Damaged, match="line 5 of ab's file"):
        ab_percentiles(read("ab-keepalive.csv").replace("\n3,", "\n3;"), 1000)


def test_httping_summary_agrees_with_its_times() -> None:
    for name in ("200ms", "loopback", "split"):
        found = httping_of(name)
        assert found.answered == len(found.times_ms)
        assert (found.min_ms, found.max_ms) == pytest.approx(
            (min(found.times_ms), max(found.times_ms)), abs=0.06
        )
        assert found.mean_ms == pytest.approx(sum(found.times_ms) / len(found.times_ms), abs=0.06)


def test_httping_reads_the_articles_lines() -> None:
    found = httping(ARTICLE)
    assert found.times_ms == (17.37, 1.22)
    assert found.mean_ms == 9.3


def test_httping_refuses_other_text() -> None:
    for text in ("", "httping: command not found", "round-trip min/avg/max = 1.2/9.3/17.4 ms"):
        with pytest.raises(Damaged, match="not the output of httping"):
            httping(text)


def test_wget_reads_every_unit() -> None:
    assert wget(read("wget-200k.txt")).mean_mib_s == pytest.approx(375 / 1024)
    assert wget(read("wget-no-rows.txt")).mean_mib_s == pytest.approx(5.10 * 1024)
    bits = wget(read("wget-bits.txt"))
    assert bits.mean_mib_s == pytest.approx(14.3e9 / 8 / MIB)
    assert bits.rows[0].rate_mib_s == bits.mean_mib_s


def test_wget_with_default_dots() -> None:
    found = wget(read("wget-default-dots.txt"))
    assert len(found.rows) > 30
    assert found.rows[-1].percent == 100
    assert found.saved_bytes == 2_000_000
    slow = wget(read("wget-limited.txt"))
    assert slow.duration_s == 1.8


def test_wget_that_was_stopped_has_no_summary() -> None:
    found = wget(read("wget-stopped.txt"))
    assert not found.complete
    assert (found.saved_bytes, found.mean_mib_s, found.duration_s) == (None, None, None)
    assert found.length_bytes == 300 * MIB
    assert [row.start_bytes for row in found.rows] == [0, 32 * MIB]


def test_wget_of_a_failed_request() -> None:
    assert wget(read("wget-not-found.txt")).status == 404
    assert wget(read("wget-refused.txt")).status is None


def test_wget_refuses_other_text() -> None:
    with pytest.raises(Damaged, match="not a log of wget"):
        wget("curl: (7) Failed to connect")
