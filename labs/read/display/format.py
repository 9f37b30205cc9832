"""Numbers and sizes as people read them."""

from __future__ import annotations

KIB, MIB = 1 << 10, 1 << 20
RTT_BELOW_MS = 0.1
"""A measured round trip below this is only said to be below it."""


def in_three_digits(value: float) -> str:
    """A figure as one reads it: 13.4, 114, 2,140."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def size_in_words(size: float) -> str:
    """A size as one reads it: 64 KiB, 23.8 MiB; nothing for NaN."""
    if size != size:
        return ""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            share = size / unit
            return f"{share:,.0f} {name}" if share >= 999.5 else f"{share:.3g} {name}"
    return f"{size:.0f} bytes"


def milliseconds(value: float, below_ms: float = RTT_BELOW_MS) -> str:
    """A time in ms as one reads it: 200.0 ms, 3.1 ms, "below 0.1 ms" for what is shorter."""
    return f"{value:.1f} ms" if value >= below_ms else f"below {below_ms:g} ms"


def is_known(value: float | None) -> bool:
    """Whether a cell of a table has a number."""
    return value is not None and value == value
