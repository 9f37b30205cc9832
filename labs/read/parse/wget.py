"""The log of wget (`-o FILE --progress=dot:giga`): how much, how long, how fast.

wget writes "MB/s" and means 2^20 bytes a second; the names here say MiB.
Source: wget, src/progress.c (dot_draw, print_row_stats), src/retr.c retr_rate(), src/http.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labs.errors import Damaged

_BEGIN = re.compile(r"^--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--  ", re.ASCII | re.MULTILINE)
_LENGTH = re.compile(r"^Length: (\d{1,20})\b", re.ASCII | re.MULTILINE)
_STATUS = re.compile(r"awaiting response\.\.\. (\d{3})\b", re.ASCII)
_SAVED = re.compile(
    r"\((?P<rate>\d{1,9}(?:\.\d{1,9})?) (?P<unit>[KMGT]?[Bb])/s\) - .* saved "
    r"\[(?P<bytes>\d{1,20})(?:/\d{1,20})?\]",
    re.ASCII,
)
_ROW = re.compile(
    r"^ *(?P<start_kib>\d{1,12})K(?P<dots>[ .,+]*?)(?: +(?P<percent>\d{1,3})%)?"
    r" +(?P<rate>\d{1,9}(?:\.\d{1,9})?)(?P<unit>[KMGT]?)"
    r"(?:=(?P<took>[\dhdms.]+)| +(?P<left>[\dhdms.]+))? *$",
    re.ASCII | re.MULTILINE,
)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_TIME_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([dhms])", re.ASCII)


@dataclass(frozen=True)
class Row:
    """One row of dots: where in the file it begins, and the rate over the row."""

    start_bytes: int
    percent: int | None
    rate_mib_s: float


@dataclass(frozen=True)
class Download:
    """What one wget logged; None for what it did not come to write before it was stopped.

    `mean_mib_s` is wget's own mean, `duration_s` its own duration (three digits at most);
    `rows` the progress, one entry for each full row of dots.
    """

    status: int | None
    length_bytes: int | None
    saved_bytes: int | None
    mean_mib_s: float | None
    duration_s: float | None
    rows: tuple[Row, ...]

    @property
    def complete(self) -> bool:
        return self.saved_bytes is not None and self.length_bytes in (None, self.saved_bytes)


def download(text: str) -> Download:
    """Read the log of one download; Damaged when it is no log of wget at all."""
    status, length, saved = (_STATUS.search(text), _LENGTH.search(text), _SAVED.search(text))
    rows = list(_ROW.finditer(text))
    if _BEGIN.search(text) is None:
        raise Damaged("not a log of wget: it does not begin with a line '--<date>--  <address>'")
    in_bits = saved is not None and saved["unit"].endswith("b")
    took = [row["took"] for row in rows if row["took"]]
    return Download(
        status=None if status is None else int(status[1]),
        length_bytes=None if length is None else int(length[1]),
        saved_bytes=None if saved is None else int(saved["bytes"]),
        mean_mib_s=None if saved is None else _mib_s(saved["rate"], saved["unit"][:-1], in_bits),
        duration_s=_seconds(took[-1]) if took else None,
        rows=tuple(_row(row, in_bits) for row in rows),
    )


def _mib_s(rate: str, prefix: str, in_bits: bool) -> float:
    power = _UNITS[prefix]
    if in_bits:
        # --report-speed=bits counts in powers of 1,000.
        return float(rate) * float(1000**power) / 8 / (1 << 20)
    return float(rate) * 1024.0 ** (power - 2)


def _row(row: re.Match[str], in_bits: bool) -> Row:
    return Row(
        start_bytes=int(row["start_kib"]) * 1024,
        percent=None if row["percent"] is None else int(row["percent"]),
        rate_mib_s=_mib_s(row["rate"], row["unit"], in_bits),
    )


def _seconds(text: str) -> float | None:
    """`4.2s`, `76s`, `1m16s`, `1h2m`, as wget writes a duration."""
    parts = _TIME_PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(value) * _SECONDS[unit] for value, unit in parts)
