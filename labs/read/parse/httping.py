"""What httping prints: the time of each request, and its own summary.

httping times a TCP connection and a request on it, so two round trips of the path.
Source: httping 2.5, main.c (the lines "connected to" and "round-trip min/avg/max").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import Damaged

_BEGIN = re.compile(r"^PING \S", re.ASCII | re.MULTILINE)
_ANSWER = re.compile(
    # With -S the parts of the time stand before it: "time=  0.01+  5.71+  0.43=  6.15 ms".
    r"^connected to .*?\bseq=\d{1,9} time=(?:[ \d.+]{1,99}=)? *(?P<time>\d{1,9}(?:\.\d{1,9})?) ms",
    re.ASCII | re.MULTILINE,
)
_COUNTS = re.compile(
    r"^(?P<connects>\d{1,9}) connects, (?P<ok>\d{1,9}) ok,", re.ASCII | re.MULTILINE
)
_SUMMARY = re.compile(
    r"^round-trip min/avg/max = (?P<min>\d{1,9}(?:\.\d{1,9})?)/(?P<mean>\d{1,9}(?:\.\d{1,9})?)"
    r"/(?P<max>\d{1,9}(?:\.\d{1,9})?) ms",
    re.ASCII | re.MULTILINE,
)


@dataclass(frozen=True)
class Httping:
    """The times of the requests that were answered, in ms, in their order.

    `connects` were tried and `answered` of them succeeded; `min_ms`, `mean_ms`, `max_ms` are
    httping's own summary. None for what it did not come to print.
    """

    times_ms: tuple[float, ...]
    connects: int | None
    answered: int | None
    min_ms: float | None
    mean_ms: float | None
    max_ms: float | None


def httping(text: str) -> Httping:
    """Read the output of one httping; Damaged when it is none at all."""
    if _BEGIN.search(text) is None:
        raise Damaged("not the output of httping: no line begins with 'PING '")
    counts, summary = _COUNTS.search(text), _SUMMARY.search(text)
    return Httping(
        times_ms=tuple(float(answer["time"]) for answer in _ANSWER.finditer(text)),
        connects=None if counts is None else int(counts["connects"]),
        answered=None if counts is None else int(counts["ok"]),
        min_ms=None if summary is None else float(summary["min"]),
        mean_ms=None if summary is None else float(summary["mean"]),
        max_ms=None if summary is None else float(summary["max"]),
    )
