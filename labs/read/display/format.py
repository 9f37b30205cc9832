"""Numbers, sizes and cells of tables as people read them; nothing else turns one into text.

Text from data (names of files, versions of tools, release names of kernels) may contain control
characters, with which it could rewrite what a terminal shows. `printable` replaces them by escapes.
The cells and values of this module are printable; `PrintableOutput` does the same for a stream.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import isfinite
from numbers import Integral, Real
from typing import Any, TextIO

from labs.guest.units import KIB, MB, MIB

RTT_BELOW_MS = 0.1
"""A measured round trip below this is only said to be below it."""
SMALLEST = 0.0005
WHOLE = 10_000
"""A number of at least this size is written without decimals in a cell of a notebook."""
SHOWN_DIGITS = 12
LINES = "\n\t"
"""The control characters of a text of several lines."""
NBSP = "\N{NO-BREAK SPACE}"
"""Between a number and its unit in a cell that a notebook may wrap."""
_NOT_ASCII = re.compile(r"[^ -~]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
UNITS = {
    "_mib_s": "MiB/s",
    "_bytes_s": "bytes/s",
    "_mbit": "Mbit/s",
    "_mib": "MiB",
    "_bytes": "bytes",
    "_pct": "%",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
}
"""The unit that the ending of a column's name means; longer endings first."""
ABBREVIATIONS = {
    "acks": "ACKs",
    "bdp": "BDP",
    "cpu": "CPU",
    "p50": "median",
    "p99": "99th percentile",
    "rtt": "RTT",
}
_UNIT_IN_WORDS = re.compile(r"(.+?),? (MiB/s|Mbit/s|MiB|KiB|bytes|ms|s|%)")


def printable(text: str, keep: str = "") -> str:
    """The text with every character that Python does not print as an escape, such as `\\x1b`:
    control characters (newlines too), bidirectional and other format controls, separators other
    than the blank, and undecodable bytes of file names. `keep` names those that may stay."""

    def escaped(match: re.Match[str]) -> str:
        stays = match[0].isprintable() or match[0] in keep
        return match[0] if stays else match[0].encode("unicode_escape").decode("ascii")

    return text if text.isprintable() else _NOT_ASCII.sub(escaped, text)


class PrintableOutput:
    """A stream that passes on printable text, in lines; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text, LINES))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def in_three_digits(value: float) -> str:
    """A figure: 13.4, 114, 2,140."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def in_digits(value: float) -> str:
    """A figure in four digits, whole numbers whole: 0.5, 13.4, 114, 52,427,352."""
    is_whole = isfinite(value) and (value == int(value) or abs(value) >= 1000)
    return f"{value:,.0f}" if is_whole else f"{value:.4g}"


def figures_in_words(figure: float | str | Mapping[str, float | str] | None) -> str:
    """One figure or several by name: `13.4`; `mean: 77.8, end: 92.7`; empty for None."""
    if figure is None:
        return ""
    if isinstance(figure, Mapping):
        named = {printable(name): figures_in_words(value) for name, value in figure.items()}
        return ", ".join(f"{name}: {value}" for name, value in named.items())
    return printable(figure) if isinstance(figure, str) else in_digits(figure)


def size_in_words(size: float) -> str:
    """A size: 64 KiB, 23.8 MiB; empty for NaN."""
    if size != size:
        return ""
    if size < KIB:
        return f"{size:.0f} bytes"
    share, unit = (size / MIB, "MiB") if size >= MIB else (size / KIB, "KiB")
    return f"{share:,.0f} {unit}" if share >= 999.5 else f"{share:.3g} {unit}"


def size_in_mb(size: float) -> str:
    """A size in decimal megabytes, as articles have it: 25 MB, 50.2 MB."""
    return f"{size / MB:.3g} MB"


def milliseconds(value: float, below_ms: float = RTT_BELOW_MS) -> str:
    """A time: 200.0 ms, 3.1 ms, "below 0.1 ms" for what is shorter."""
    return f"{value:.1f} ms" if value >= below_ms else f"below {below_ms:g} ms"


def unit_of(name: str) -> str:
    """The unit that the ending of a column's name means; empty for none."""
    return next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "")


def heading(name: str, unit_of_values: str = "") -> str:
    """A column's name as a heading: "Goodput (MiB/s)" for goodput_mib_s, "Least (ms)" for "least,
    ms". `unit_of_values` is the unit of a column whose name has none."""
    ending = next(filter(name.endswith, UNITS), "")
    words, unit = name.removesuffix(ending), UNITS.get(ending, unit_of_values)
    if not ending and (match := _UNIT_IN_WORDS.fullmatch(name)):
        words, unit = match.groups()
    if "_" in words or " " not in words:
        words = " ".join(ABBREVIATIONS.get(word, word) for word in words.split("_"))
    return words[:1].upper() + words[1:] + (f" ({unit})" if unit else "")


def is_known(value: float | None) -> bool:
    """Whether a cell of a table has a number."""
    return value is not None and value == value


def notebook_cell(value: object) -> str:
    """A cell of a table in a notebook: four digits, empty where there is nothing."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, Real):
        return printable(str(value), LINES + NBSP)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    number = float(value)
    if 0 < abs(number) < SMALLEST:
        return "<0.001"
    return f"{number:,.0f}" if round(abs(number)) >= WHOLE else f"{number:.4g}"


def terminal_cell(value: object) -> str:
    """A cell of a table on a terminal: three decimals, "-" where there is nothing."""
    if value is None or value != value:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    return printable(str(value))


def terminal_table(
    rows: Sequence[Mapping[str, object]], columns: Sequence[str], titles: Sequence[str] = ()
) -> str:
    """The columns of the rows, heads first; numbers to the right with three decimals at most.

    `titles` has one per row: rows of one title stand below it, if there are several.
    """
    padded = []
    for column in columns:
        values = [row.get(column) for row in rows]
        words = [column, *map(terminal_cell, values)]
        width = max(map(len, words))
        numeric = all(isinstance(value, int | float | None) for value in values)
        padded.append([word.rjust(width) if numeric else word.ljust(width) for word in words])
    head, *lines = ("  ".join(words).rstrip() for words in zip(*padded, strict=True))
    if len(set(titles)) < 2:
        return "\n".join([head, *lines])
    text, last = head, None
    for title, line in zip(titles, lines, strict=True):
        text += f"\n{line}" if title == last else f"\n\n{title}\n{line}"
        last = title
    return text


def input_value(value: object) -> str:
    """An input of a run: numbers in full, of a sha256 its first digits, "none" for nothing."""
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={below}" for name, below in value.items()) or None
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.10g}"
    text = str(value)
    return text[:SHOWN_DIGITS] if _SHA256.fullmatch(text) else printable(text)


def few(words: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first words of a list: `a, b and 3 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return separator.join(words[:most]) + more


def counted(count: int, what: str) -> str:
    """`1 point`, `2 points`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def in_runs(count: int) -> str:
    """`1 run`, `2 runs`."""
    return counted(count, "run")


def command_lines(commands: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    """Commands to paste, each with its host ('' for the machine that has both), below its host."""
    lines: list[str] = []
    for host, group in groupby(commands, key=lambda command: command[0]):
        lines.append(f"# on the {host}" if host else "# on the machine that runs both hosts")
        lines += [shlex.join(argv) for _, argv in group]
    return lines
