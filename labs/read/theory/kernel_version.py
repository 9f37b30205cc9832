"""The series of a kernel, by which the formulas differ."""

from __future__ import annotations

import re

from labs.errors import BadInput

_SERIES = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\D.*)?", re.ASCII | re.DOTALL)


def series(kernel: str) -> tuple[int, int]:
    """`6.1.192-2` is (6, 1). BadInput for what is no version, such as a digest."""
    match = _SERIES.fullmatch(kernel)
    if match is None:
        raise BadInput(f"{kernel!r} is no kernel version: give one like 6.1 or 6.12.117")
    return int(match[1]), int(match[2])


def before(first: tuple[int, int]) -> str:
    """The last series without what `first` brought, of the same major number: (6, 6) is "6.5"."""
    major, minor = first
    return f"{major}.{minor - 1}"
