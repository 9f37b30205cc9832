"""What HTTP clients print or write: ab (ApacheBench), httping and wget.

ab leaves a report and percentiles (-e). It sends a request when the one before it was answered, so
a stall holds back the requests that would have met it: its percentiles are those of the requests
that were made, not of moments. Source: httpd, support/ab.c output_results().

httping times a TCP connection and a request on it, so two round trips of the path.
Source: httping 2.5, main.c (the lines "connected to" and "round-trip min/avg/max").

wget logs (`-o FILE --progress=dot:giga`) how much, how long, how fast. It writes "MB/s" and means
2^20 bytes a second; the names here say MiB.
Source: wget, src/progress.c (dot_draw, print_row_stats), src/retr.c retr_rate(), src/http.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from labs.errors import Damaged
from labs.guest.units import MIB

_AB_BEGIN = "This is ApacheBench, Version "
_AB_PERCENTILES = "Percentage served,Time in ms"
_AB_FIGURE = re.compile(
    r"^([A-Z][A-Za-z0-9 -]{2,40}): +(\d{1,15}(?:\.\d{1,9})?)(?:$| .*$)", re.ASCII | re.MULTILINE
)
_AB_NAMES = {
    "concurrency": "Concurrency Level",
    "complete": "Complete requests",
    "failed": "Failed requests",
    "refused": "Non-2xx responses",
    "keep_alive": "Keep-Alive requests",
    "document_bytes": "Document Length",
    "total_bytes": "Total transferred",
    "html_bytes": "HTML transferred",
}
_AB_OPTIONAL = {"Non-2xx responses": "0", "Keep-Alive requests": "0"}
_AB_MEAN = re.compile(
    r"^Time per request: +(\d{1,12}\.\d{1,6}) \[ms\] \(mean\)$", re.ASCII | re.MULTILINE
)
_AB_PERCENTS = frozenset(map(str, range(1, 100)))
_AB_PERCENTILE = re.compile(r"(\d{1,3}),(\d{1,12}\.\d{1,6})", re.ASCII)

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_HTTPING_BEGIN = re.compile(r"^PING \S", re.ASCII | re.MULTILINE)
_HTTPING_ANSWER = re.compile(
    # With -S the parts of the time stand before it: "time=  0.01+  5.71+  0.43=  6.15 ms".
    rf"^connected to .*?\bseq=\d{{1,9}} time=(?:[ \d.+]{{1,99}}=)? *{_NUMBER} ms",
    re.ASCII | re.MULTILINE,
)
_HTTPING_COUNTS = re.compile(r"^(\d{1,9}) connects, (\d{1,9}) ok,", re.ASCII | re.MULTILINE)
_HTTPING_SUMMARY = re.compile(
    rf"^round-trip min/avg/max = {_NUMBER}/{_NUMBER}/{_NUMBER} ms", re.ASCII | re.MULTILINE
)

_WGET_BEGIN = re.compile(r"^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--  ", re.ASCII | re.MULTILINE)
_WGET_LENGTH = re.compile(r"^Length: (\d{1,20})\b", re.ASCII | re.MULTILINE)
_WGET_STATUS = re.compile(r"awaiting response\.\.\. (\d{3})\b", re.ASCII)
_WGET_SAVED = re.compile(
    rf"\({_NUMBER} ([KMGT]?)([Bb])/s\) - [^\n]{{0,4096}} saved \[(\d{{1,20}})(?:/\d{{1,20}})?\]",
    re.ASCII,
)
_WGET_ROW = re.compile(
    r"^ {0,20}(?P<start_kib>\d{1,12})K[ .,+]{0,99}?(?: {1,20}(?P<percent>\d{1,3})%)?"
    rf" {{1,20}}(?P<rate>{_NUMBER})(?P<prefix>[KMGT]?)"
    r"(?:=(?P<took>[\dhdms.]{1,20})| {1,20}[\dhdms.]{1,20})? {0,20}$",
    re.ASCII | re.MULTILINE,
)
_WGET_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_WGET_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_WGET_TIME_PART = re.compile(rf"{_NUMBER}([dhms])", re.ASCII)


@dataclass(frozen=True)
class Ab:
    """What ab printed at its end.

    `mean_ms` is its "Time per request (mean)": the whole time times the concurrency over the
    requests. `failed` are those that broke off or had another length, `refused` the answers with a
    status that is not 2xx; `head_bytes` is what came with each document beyond it, on average.
    """

    concurrency: int
    took_s: float
    complete: int
    failed: int
    refused: int
    keep_alive: int
    document_bytes: int
    head_bytes: float
    mean_ms: float


def ab(text: str) -> Ab:
    """Read what ab printed; Damaged for other text, and for a report without its figures, which
    ab does not print when it fails."""
    if not text.startswith(_AB_BEGIN):
        raise Damaged(f"not the output of ab: it does not begin with {_AB_BEGIN!r}")
    values = dict(reversed(_AB_FIGURE.findall(text)))
    mean = _AB_MEAN.search(text)
    figures = {field: _ab_whole(values, name) for field, name in _AB_NAMES.items()}
    total, documents = figures.pop("total_bytes"), figures.pop("html_bytes")
    if mean is None or not figures["complete"] or "Time taken for tests" not in values:
        raise Damaged("a report of ab without its times or complete requests")
    return Ab(
        **figures,
        took_s=float(values["Time taken for tests"]),
        head_bytes=(total - documents) / figures["complete"],
        mean_ms=float(mean[1]),
    )


def _ab_whole(values: Mapping[str, str], name: str) -> int:
    value = values.get(name, _AB_OPTIONAL.get(name))
    if value is None:
        raise Damaged(f"a report of ab without {name!r}")
    if not value.isdigit():
        raise Damaged(f"a report of ab in which {name!r} is not a whole number: {value}")
    return int(value)


def ab_percentiles(text: str, requests: int) -> dict[int, float]:
    """Read the file that `-e` wrote for so many complete requests: percent of the requests -> the
    time within which they were served, in ms to the microsecond.

    ab sorts the times and rounds each percentage to the nearest index. With 50 requests or fewer
    the highest percentages have the index after the slowest request, and ab prints whatever its
    memory holds there. These rows are not read: they get the time of the slowest request.
    Damaged for a line that is not a row, and for a file without one row per percentage.
    """
    lines = text.split("\n")
    if lines[0] != _AB_PERCENTILES or len(lines) < 3 or lines[-1]:
        raise Damaged(f"not a file of ab: it has no line {_AB_PERCENTILES!r} with rows below it")
    percentiles, past = {}, []
    for number, line in enumerate(lines[1:-1], start=2):
        percent = line.partition(",")[0]
        if percent in _AB_PERCENTS and _ab_place(int(percent), requests) >= requests:
            past.append(int(percent))
            continue
        read = _AB_PERCENTILE.fullmatch(line)
        if read is None:
            raise Damaged(f"line {number} of ab's file is not one of its rows")
        percentiles[int(read[1])] = float(read[2])
    if 100 not in percentiles:
        raise Damaged("ab's file has no row for 100 %")
    percentiles |= dict.fromkeys(past, percentiles[100])
    if percentiles.keys() != set(range(101)):
        raise Damaged("ab's file does not have one row for each of 0 to 100 %")
    return dict(sorted(percentiles.items()))


def _ab_place(percent: int, requests: int) -> int:
    """The index of the sorted time that ab prints for a percentage other than 0 and 100."""
    return int(0.5 + requests * percent / 100)


@dataclass(frozen=True)
class Httping:
    """The times of the requests that were answered, in ms, in their order.

    `connects` were tried and `answered` of them succeeded; `min_ms`, `mean_ms`, `max_ms` are
    httping's own summary. None for what it did not print.
    """

    times_ms: tuple[float, ...]
    connects: int | None
    answered: int | None
    min_ms: float | None
    mean_ms: float | None
    max_ms: float | None


def httping(text: str) -> Httping:
    """Read the output of one httping; Damaged if it is something else."""
    if _HTTPING_BEGIN.search(text) is None:
        raise Damaged("not the output of httping: no line begins with 'PING '")
    counts, summary = _HTTPING_COUNTS.search(text), _HTTPING_SUMMARY.search(text)
    return Httping(
        tuple(map(float, _HTTPING_ANSWER.findall(text))),
        *(map(int, counts.groups()) if counts else (None, None)),
        *(map(float, summary.groups()) if summary else (None, None, None)),
    )


@dataclass(frozen=True)
class WgetRow:
    """One row of dots: where in the file it begins, and the rate over the row."""

    start_bytes: int
    percent: int | None
    rate_mib_s: float


@dataclass(frozen=True)
class Wget:
    """What one wget logged; None for what it had not written when it was stopped.

    `mean_mib_s` is wget's own mean, `duration_s` its own duration (three digits at most);
    `rows` the progress, one entry for each full row of dots.
    """

    status: int | None
    length_bytes: int | None
    saved_bytes: int | None
    mean_mib_s: float | None
    duration_s: float | None
    rows: tuple[WgetRow, ...]

    @property
    def complete(self) -> bool:
        return self.saved_bytes is not None and self.length_bytes in (None, self.saved_bytes)


def wget(text: str) -> Wget:
    """Read the log of one download; Damaged if it is not a log of wget."""
    if _WGET_BEGIN.search(text) is None:
        raise Damaged("not a log of wget: it does not begin with a line '--<date>--  <address>'")
    status, length, saved = (
        pattern.search(text) for pattern in (_WGET_STATUS, _WGET_LENGTH, _WGET_SAVED)
    )
    rate, prefix, unit, saved_bytes = saved.groups() if saved else ("", "", "B", None)
    rows = list(_WGET_ROW.finditer(text))
    took = [row["took"] for row in rows if row["took"]]
    return Wget(
        status=int(status[1]) if status else None,
        length_bytes=int(length[1]) if length else None,
        saved_bytes=int(saved_bytes) if saved_bytes else None,
        mean_mib_s=_wget_mib_s(rate, prefix, unit) if rate else None,
        duration_s=_wget_seconds(took[-1]) if took else None,
        rows=tuple(
            WgetRow(
                start_bytes=int(row["start_kib"]) * 1024,
                percent=int(row["percent"]) if row["percent"] else None,
                rate_mib_s=_wget_mib_s(row["rate"], row["prefix"], unit),
            )
            for row in rows
        ),
    )


def _wget_mib_s(rate: str, prefix: str, unit: str) -> float:
    power = _WGET_POWERS[prefix]
    if unit == "b":
        # --report-speed=bits counts in powers of 1,000.
        return float(rate) * float(1000**power) / 8 / MIB
    return float(rate) * 1024.0 ** (power - 2)


def _wget_seconds(text: str) -> float | None:
    """`4.2s`, `76s`, `1m16s`, `1h2m`, as wget writes a duration."""
    parts = _WGET_TIME_PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(value) * _WGET_SECONDS[unit] for value, unit in parts)
