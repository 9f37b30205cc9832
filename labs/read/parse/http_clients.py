"""What HTTP clients print or write: ab (ApacheBench), httping, wget, and the two of the labs.

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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from labs.drive.units import MIB
from labs.errors import Damaged

_AB_BEGIN = "This is ApacheBench, Version "
_AB_PERCENTILES = "Percentage served,Time in ms"
_AB_FIGURE = re.compile(
    r"^(?P<name>[A-Z][A-Za-z0-9 -]{2,40}): +(?P<value>\d{1,15}(?:\.\d{1,9})?)"
    r"(?P<unit>$| .*$)",
    re.ASCII | re.MULTILINE,
)
_AB_MEAN = re.compile(
    r"^Time per request: +(\d{1,12}\.\d{1,6}) \[ms\] \(mean\)$", re.ASCII | re.MULTILINE
)
_AB_PERCENTS = frozenset(map(str, range(1, 100)))
_AB_PERCENTILE = re.compile(r"(\d{1,3}),(\d{1,12}\.\d{1,6})", re.ASCII)

_HTTPING_BEGIN = re.compile(r"^PING \S", re.ASCII | re.MULTILINE)
_HTTPING_ANSWER = re.compile(
    # With -S the parts of the time stand before it: "time=  0.01+  5.71+  0.43=  6.15 ms".
    r"^connected to .*?\bseq=\d{1,9} time=(?:[ \d.+]{1,99}=)? *(?P<time>\d{1,9}(?:\.\d{1,9})?) ms",
    re.ASCII | re.MULTILINE,
)
_HTTPING_COUNTS = re.compile(
    r"^(?P<connects>\d{1,9}) connects, (?P<ok>\d{1,9}) ok,", re.ASCII | re.MULTILINE
)
_HTTPING_SUMMARY = re.compile(
    r"^round-trip min/avg/max = (?P<min>\d{1,9}(?:\.\d{1,9})?)/(?P<mean>\d{1,9}(?:\.\d{1,9})?)"
    r"/(?P<max>\d{1,9}(?:\.\d{1,9})?) ms",
    re.ASCII | re.MULTILINE,
)

_FETCH_WHOLE = ("connect_ns", "first_byte_ns", "end_ns", "bytes")
# What earlier versions of the client did not write.
_FETCH_LATER = ("before_ns", "request_ns", "length", "status", "rcvbuf_bytes", "reads")
_LONGEST_MS = 1e12

_WGET_BEGIN = re.compile(r"^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--  ", re.ASCII | re.MULTILINE)
_WGET_LENGTH = re.compile(r"^Length: (\d{1,20})\b", re.ASCII | re.MULTILINE)
_WGET_STATUS = re.compile(r"awaiting response\.\.\. (\d{3})\b", re.ASCII)
_WGET_SAVED = re.compile(
    r"\((?P<rate>\d{1,9}(?:\.\d{1,9})?) (?P<unit>[KMGT]?[Bb])/s\) - [^\n]{0,4096} saved "
    r"\[(?P<bytes>\d{1,20})(?:/\d{1,20})?\]",
    re.ASCII,
)
_WGET_ROW = re.compile(
    r"^ {0,20}(?P<start_kib>\d{1,12})K(?P<dots>[ .,+]{0,99}?)(?: {1,20}(?P<percent>\d{1,3})%)?"
    r" {1,20}(?P<rate>\d{1,9}(?:\.\d{1,9})?)(?P<unit>[KMGT]?)"
    r"(?:=(?P<took>[\dhdms.]{1,20})| {1,20}(?P<left>[\dhdms.]{1,20}))? {0,20}$",
    re.ASCII | re.MULTILINE,
)
_WGET_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_WGET_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_WGET_TIME_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([dhms])", re.ASCII)


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
    figures = {row["name"]: row["value"] for row in reversed(list(_AB_FIGURE.finditer(text)))}
    mean = _AB_MEAN.search(text)
    complete = _ab_whole(figures, "Complete requests")
    if mean is None or not complete:
        raise Damaged("a report of ab without 'Time per request' or complete requests")
    total, documents = (_ab_whole(figures, f"{name} transferred") for name in ("Total", "HTML"))
    return Ab(
        concurrency=_ab_whole(figures, "Concurrency Level"),
        took_s=float(_ab_value(figures, "Time taken for tests")),
        complete=complete,
        failed=_ab_whole(figures, "Failed requests"),
        refused=_ab_whole(figures, "Non-2xx responses", "0"),
        keep_alive=_ab_whole(figures, "Keep-Alive requests", "0"),
        document_bytes=_ab_whole(figures, "Document Length"),
        head_bytes=(total - documents) / complete,
        mean_ms=float(mean[1]),
    )


def _ab_value(figures: dict[str, str], name: str, default: str = "") -> str:
    value = figures.get(name, default)
    if not value:
        raise Damaged(f"a report of ab without {name!r}")
    return value


def _ab_whole(figures: dict[str, str], name: str, default: str = "") -> int:
    value = _ab_value(figures, name, default)
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
        times_ms=tuple(float(answer["time"]) for answer in _HTTPING_ANSWER.finditer(text)),
        connects=None if counts is None else int(counts["connects"]),
        answered=None if counts is None else int(counts["ok"]),
        min_ms=None if summary is None else float(summary["min"]),
        mean_ms=None if summary is None else float(summary["mean"]),
        max_ms=None if summary is None else float(summary["max"]),
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
    status, length, saved = (
        _WGET_STATUS.search(text),
        _WGET_LENGTH.search(text),
        _WGET_SAVED.search(text),
    )
    rows = list(_WGET_ROW.finditer(text))
    if _WGET_BEGIN.search(text) is None:
        raise Damaged("not a log of wget: it does not begin with a line '--<date>--  <address>'")
    in_bits = saved is not None and saved["unit"].endswith("b")
    took = [row["took"] for row in rows if row["took"]]
    return Wget(
        status=None if status is None else int(status[1]),
        length_bytes=None if length is None else int(length[1]),
        saved_bytes=None if saved is None else int(saved["bytes"]),
        mean_mib_s=None
        if saved is None
        else _wget_mib_s(saved["rate"], saved["unit"][:-1], in_bits),
        duration_s=_wget_seconds(took[-1]) if took else None,
        rows=tuple(_wget_row(row, in_bits) for row in rows),
    )


def _wget_mib_s(rate: str, prefix: str, in_bits: bool) -> float:
    power = _WGET_UNITS[prefix]
    if in_bits:
        # --report-speed=bits counts in powers of 1,000.
        return float(rate) * float(1000**power) / 8 / MIB
    return float(rate) * 1024.0 ** (power - 2)


def _wget_row(row: re.Match[str], in_bits: bool) -> WgetRow:
    return WgetRow(
        start_bytes=int(row["start_kib"]) * 1024,
        percent=None if row["percent"] is None else int(row["percent"]),
        rate_mib_s=_wget_mib_s(row["rate"], row["unit"], in_bits),
    )


def _wget_seconds(text: str) -> float | None:
    """`4.2s`, `76s`, `1m16s`, `1h2m`, as wget writes a duration."""
    parts = _WGET_TIME_PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(value) * _WGET_SECONDS[unit] for value, unit in parts)


def fetch(report: object) -> dict[str, Any]:
    """Return what labs/drive/programs/fetch.py wrote, once it can have written that; else Damaged.

    Times are in order, and the timeline rises in time and in bytes, up to the body's.
    """
    if not isinstance(report, dict):
        raise Damaged("not the output of the labs' client: not a JSON object")
    for name in (*_FETCH_WHOLE, *(name for name in _FETCH_LATER if name in report)):
        if not _is_whole(report.get(name)):
            raise Damaged(f"{name} is not a whole number from 0 to 2^63 - 1")
    points = report.get("timeline")
    if not isinstance(points, list) or not all(map(_is_point, points)):
        raise Damaged("timeline is not a list of moments and bytes")
    moments = [report[name] for name in ("connect_ns", "first_byte_ns", "end_ns")]
    last = [report["end_ns"], report["bytes"]]
    if moments != sorted(moments) or report.get("before_ns", 0) > report["connect_ns"]:
        raise Damaged("its times are not in order")
    steps = pairwise([*points, last])
    if any(at > later or had > more for (at, had), (later, more) in steps):
        raise Damaged("timeline does not increase to end_ns and bytes")
    return report


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_point(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_whole, value))


def ask(report: object) -> tuple[float, ...]:
    """Read the times, in ms, that labs/drive/programs/ask.py wrote; Damaged for other content."""
    times = report.get("times_ms") if isinstance(report, dict) else None
    if not isinstance(times, list) or not times or not all(map(_is_time, times)):
        raise Damaged("times_ms is not a list of times in ms")
    return tuple(map(float, times))


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= float(value) < _LONGEST_MS  # type: ignore[arg-type]
