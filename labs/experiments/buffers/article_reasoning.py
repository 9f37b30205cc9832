"""Why the article's number for the buffer is what it is: its own reckoning, and the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labs.experiments.buffers.sweep import FULL_PCT, Smallest, smallest
from labs.read.display.format import milliseconds
from labs.read.display.notebook import Words
from labs.read.theory.bdp import bdp_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

RIGHT_PCT = 15.0


def tell_httping(table: DataFrame) -> Words:
    """What httping says beside the handshake on the same link; says so where it was not run."""
    rows = table[table["httping_ms"].notna()]
    if rows.empty:
        return Words("No run here started httping.")
    row = rows.iloc[0]
    said, rtt = float(row["httping_ms"]), float(row["rtt_ms"])
    if rtt <= 0:
        return Words("The link has no round trip to speak of.")
    return Words(
        f"`httping` says **{milliseconds(said)}**. A TCP handshake on the same port takes "
        f"**{milliseconds(rtt)}**. That is {said / rtt:.2f} times as much: httping's time is that "
        "of a connection *and* of a request on it, two round trips one after the other."
    )


def tell_reckoning(table: DataFrame) -> Words:
    """The buffer that follows from httping's time, the true BDP, and the one that was enough."""
    timed, found = table[table["httping_ms"].notna()], smallest(table)
    if timed.empty or not found:
        return Words("This needs a run of `httping` and a sweep over buffer sizes.")
    row, rate = timed.iloc[0], float(found[0].rate_mbit)
    believed = bdp_bytes(rate, float(row["httping_ms"]))
    told = (
        f"With httping's {milliseconds(float(row['httping_ms']))} for the round trip the BDP "
        f"would be {_mb(believed)}. It is {_mb(found[0].bdp_bytes)}."
    )
    return Words(" ".join([told, *(_enough(one, believed) for one in _one_a_kernel(found))]))


def _enough(found: Smallest, believed: float) -> str:
    if found.buffer_bytes is None or found.of_the_bdp is None:
        return (
            f"On Linux {found.kernel} no buffer that was tried filled the link, so the runs "
            "do not say which would."
        )
    said = (
        f"On Linux {found.kernel} the smallest of the {found.points} sizes that reaches "
        f"{FULL_PCT:.0f} % of the line is {_mb(found.buffer_bytes)}, "
        f"{found.of_the_bdp:.2f} times the BDP{_below(found)}."
    )
    apart = 100 * (found.buffer_bytes / believed - 1)
    if abs(apart) <= RIGHT_PCT:
        return said + (
            " So the number that was reckoned is right, within "
            f"{RIGHT_PCT:.0f} %, and its reason is not: the round trip was taken "
            f"{believed / found.bdp_bytes:.2f} times too long{_kept_back(found)}."
        )
    word = "more" if apart < 0 else "less"
    share = 100 * abs(believed / found.buffer_bytes - 1)
    return said + f" The number that was reckoned is {share:.0f} % {word} than that."


def _kept_back(found: Smallest) -> str:
    if found.below_share_pct is None:
        return ""
    return (
        f", and of a buffer no more than {found.below_share_pct:.0f} % come to be under way; "
        "the two cancel out"
    )


def _below(found: Smallest) -> str:
    if found.below_bytes is None or found.below_pct is None:
        return ""
    return f" ({_mb(found.below_bytes)} come to {found.below_pct:.0f} %)"


def _one_a_kernel(found: list[Smallest]) -> list[Smallest]:
    first: dict[str, Smallest] = {}
    for one in found:
        first.setdefault(one.kernel, one)
    return list(first.values())


def _mb(size: float) -> str:
    return f"{size / 1e6:.3g} MB"
