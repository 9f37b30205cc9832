"""Parsers take time by the length of a text, whatever it repeats."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from labs.errors import Damaged
from labs.read.parse.http_clients import ab, httping, wget
from labs.read.parse.ss import blocks

LENGTH = 400_000
# Text that repeats this much took minutes with a pattern that looks for its end from everywhere.
MOST_S = 20.0
BEGIN = "--2020-04-13 14:01:33--  http://10.77.0.1/bigfile\n"
HEADER = (
    "State Recv-Q Send-Q Local Address:Port Peer Address:Port\nESTAB 0 0 10.0.0.1:80 10.0.0.2:1\n"
)


def repeated(begin: str, unit: str) -> str:
    return begin + unit * (LENGTH // len(unit))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (wget, repeated(BEGIN + "1K", " ")),
        (wget, repeated(BEGIN, "1K .")),
        (wget, repeated(BEGIN, "(1 MB/s) - ")),
        (blocks, repeated(HEADER + "\t ", "users:((")),
        (blocks, repeated(HEADER + "\t ", "inet-sockopt: (")),
        (blocks, repeated(HEADER + "\t ", 'opt:"x ')),
        (blocks, repeated(HEADER + "\t ", "skmem:(")),
        (ab, repeated("This is ApacheBench\n", "Time per request:  ")),
        (httping, repeated("PING 10.77.0.1:80 (/):\n", "connected to ")),
    ],
)
def test_parsers_take_time_by_length_alone(read: Callable[[str], object], text: str) -> None:
    begun = time.process_time()
    with contextlib.suppress(Damaged):
        read(text)
    assert time.process_time() - begun < MOST_S
