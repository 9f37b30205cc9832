"""The readers of ab, on what it left: a virtual kernel, loopback, other lengths, 404, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.errors import Damaged
from labs.read.parse.ab import Report, percentiles, report

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"


def text(name: str) -> str:
    return (FIXTURES / f"ab-{name}").read_text()


def test_keep_alive_with_a_thousand_requests() -> None:
    """Virtual testbed, tcp_nodelay off; 100 at a time."""
    assert report(text("keepalive.txt")) == Report(
        concurrency=100,
        took_s=0.397,
        complete=1000,
        failed=0,
        refused=0,
        keep_alive=1000,
        document_bytes=612,
        head_bytes=238,
        mean_ms=39.665,
    )


def test_the_mean_is_the_time_of_all_over_the_requests() -> None:
    for name in ("keepalive.txt", "loopback.txt", "lengths.txt", "not-found.txt"):
        found = report(text(name))
        assert found.mean_ms and found.took_s and found.concurrency and found.complete
        assert found.mean_ms == pytest.approx(
            1e3 * found.took_s * found.concurrency / found.complete, rel=0.1
        )  # took_s is rounded


def test_failures_of_two_kinds() -> None:
    lengths, missing = report(text("lengths.txt")), report(text("not-found.txt"))
    assert (lengths.complete, lengths.failed, lengths.refused) == (12, 8, 0)
    assert (missing.complete, missing.failed, missing.refused) == (12, 0, 12)
    assert (lengths.keep_alive, missing.document_bytes) == (0, 100)


def test_a_refused_connection_leaves_no_figure() -> None:
    found = report(text("refused.txt"))
    assert (found.complete, found.failed, found.mean_ms) == (None, None, None)


def test_percentiles_go_up_from_the_fastest_to_the_slowest() -> None:
    found = percentiles(text("keepalive.csv"), 1000)
    assert list(found) == list(range(101))
    assert list(found.values()) == sorted(found.values())
    assert (found[0], found[50], found[99]) == (0.335, 43.975, 44.147)


def test_rows_past_the_slowest_of_few_requests_are_not_read() -> None:
    """Of 10 requests ab printed 0.257 ms for 95 to 99 %, less than for any other: its index is
    (int)(0.5 + 10 * 95 / 100) = 10, and its array ends at 9 (httpd, support/ab.c)."""
    written = text("10-requests.csv")
    assert "\n94,6.554\n95,0.257\n" in written and "\n99,0.257\n100,6.554\n" in written
    found = percentiles(written, 10)
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
        assert percentiles(written.replace("0.257", printed), 10) == found
    with pytest.raises(Damaged, match="no row for 100 %"):
        percentiles(written.replace("100,6.554\n", ""), 10)


def test_of_51_requests_every_row_is_read() -> None:
    written = text("51-requests.csv")
    rows = [line.split(",") for line in written.splitlines()[1:]]
    assert percentiles(written, 51) == {int(percent): float(ms) for percent, ms in rows}


@pytest.mark.parametrize("reader", [report, lambda text: percentiles(text, 1000)])
def test_what_is_none_is_damage(reader: object) -> None:
    assert callable(reader)
    for other in ("", "ab: command not found", text("refused.txt")[1:], "Percentage served\n1,1"):
        with pytest.raises(Damaged, match="ab"):
            reader(other)


def test_a_row_that_is_none_is_named() -> None:
    with pytest.raises(Damaged, match="line 5 of ab's file"):
        percentiles(text("keepalive.csv").replace("\n3,", "\n3;"), 1000)
