"""What ab (ApacheBench) leaves: its report and its percentiles (-e).

ab sends a request when the one before it was answered, so a stall holds back the requests that
would have met it: its percentiles are those of the requests that were made, not of moments.
Source: httpd, support/ab.c output_results().
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import Damaged

_BEGIN = "This is ApacheBench, Version "
_PERCENTILES = "Percentage served,Time in ms"
_FIGURE = re.compile(
    r"^(?P<name>[A-Z][A-Za-z0-9 -]{2,40}): +(?P<value>\d{1,15}(?:\.\d{1,9})?)"
    r"(?P<unit>$| .*$)",
    re.ASCII | re.MULTILINE,
)
_MEAN = re.compile(
    r"^Time per request: +(\d{1,12}\.\d{1,6}) \[ms\] \(mean\)$", re.ASCII | re.MULTILINE
)
_PERCENTS = frozenset(map(str, range(1, 100)))
_PERCENTILE = re.compile(r"(\d{1,3}),(\d{1,12}\.\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class Report:
    """What ab printed; None for what it did not come to print.

    `mean_ms` is its "Time per request (mean)": the whole time times the concurrency over the
    requests. `failed` are those that broke off or had another length, `refused` the answers with a
    status that is not 2xx; `head_bytes` is what came with each document beyond it, on average.
    """

    concurrency: int | None
    took_s: float | None
    complete: int | None
    failed: int | None
    refused: int
    keep_alive: int
    document_bytes: int | None
    head_bytes: float | None
    mean_ms: float | None


def report(text: str) -> Report:
    """Read what ab printed; Damaged when it is not ab's."""
    if not text.startswith(_BEGIN):
        raise Damaged(f"not the output of ab: it does not begin with {_BEGIN!r}")
    found = {row["name"]: row["value"] for row in reversed(list(_FIGURE.finditer(text)))}
    mean = _MEAN.search(text)
    took = found.get("Time taken for tests")
    return Report(
        concurrency=_whole(found, "Concurrency Level"),
        took_s=None if took is None else float(took),
        complete=_whole(found, "Complete requests"),
        failed=_whole(found, "Failed requests"),
        refused=_whole(found, "Non-2xx responses") or 0,
        keep_alive=_whole(found, "Keep-Alive requests") or 0,
        document_bytes=_whole(found, "Document Length"),
        head_bytes=_head(text, found),
        mean_ms=None if mean is None else float(mean[1]),
    )


def _head(text: str, found: dict[str, str]) -> float | None:
    total, documents = (
        re.search(rf"^{name} transferred: +(\d{{1,15}}) bytes$", text, re.ASCII | re.MULTILINE)
        for name in ("Total", "HTML")
    )
    complete = _whole(found, "Complete requests")
    if total is None or documents is None or not complete:
        return None
    return (int(total[1]) - int(documents[1])) / complete


def _whole(found: dict[str, str], name: str) -> int | None:
    value = found.get(name)
    return int(value) if value is not None and value.isdigit() else None


def percentiles(text: str, requests: int) -> dict[int, float]:
    """Read the file that `-e` wrote for so many complete requests: percent of the requests -> the
    time within which they were served, in ms to the microsecond.

    ab sorts the times and rounds each percentage to the nearest index. With 50 requests or fewer
    the highest percentages have the index after the slowest request, and ab prints whatever its
    memory holds there. These rows are not read: they get the time of the slowest request.
    Damaged for a line that is not a row, and for a file without rows or without that of 100 %.
    """
    lines = text.split("\n")
    if lines[0] != _PERCENTILES or len(lines) < 3 or lines[-1]:
        raise Damaged(f"not a file of ab: it has no line {_PERCENTILES!r} with rows below it")
    found, past = {}, []
    for number, line in enumerate(lines[1:-1], start=2):
        percent = line.partition(",")[0]
        if percent in _PERCENTS and _place(int(percent), requests) >= requests:
            past.append(int(percent))
            continue
        read = _PERCENTILE.fullmatch(line)
        if read is None:
            raise Damaged(f"line {number} of ab's file is not one of its rows")
        found[int(read[1])] = float(read[2])
    if past and 100 not in found:
        raise Damaged("ab's file has no row for 100 %")
    return dict(sorted({**found, **dict.fromkeys(past, found[100])}.items()))


def _place(percent: int, requests: int) -> int:
    """The index of the sorted time that ab prints for a percentage other than 0 and 100."""
    return int(0.5 + requests * percent / 100)
