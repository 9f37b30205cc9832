"""Judging function: what a shaper lets through, and why it may be less than its rate."""

from __future__ import annotations

from labs.drive.units import MIB
from labs.read.claims.evidence import Evidence
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HARDWARE, Finding
from labs.read.display.format import in_three_digits
from labs.read.theory.bdp import line_goodput_bytes_s

COLUMN = "goodput_mib_s"
LATE = "a shaper whose timer fires late loses rate, because tc's default cburst is one packet"


def shaper_ceiling(claim: Claim, seen: Evidence) -> Finding:
    """The goodput through the shaper without delay, and the effect of its burst.

    While htb's timer is late, a class gains tokens only up to burst and cburst, and tc's default
    for cburst is one packet: what exceeds it is lost (net/sched/sch_htb.c htb_accnt_ctokens).
    """
    name, short, large = (
        claim.arguments[which] for which in ("shaped", "articles_burst", "large_burst")
    )
    rate_mbit = float(claim.arguments["rate_mbit"])
    line = line_goodput_bytes_s(rate_mbit) / MIB
    virtual = any(seen.run(one).testbed == "virtual" for one in seen.matching(*claim.conditions))
    with_short, with_large = _speed(seen, short), _speed(seen, large)
    if with_short is None or with_large is None:
        effect = f"the conditions {short} and {large} measure how much on two machines"
    elif virtual:
        effect = (
            f"in virtual time no timer is late: {short} reaches {in_three_digits(with_short)} "
            f"MiB/s, {large} {in_three_digits(with_large)}"
        )
    else:
        effect = (
            f"at {seen.run(short).link.asked.rate_mbit:g} Mbit/s, with the article's burst "
            f"{in_three_digits(with_short)} MiB/s, with one that covers late timers "
            f"{in_three_digits(with_large)}, a ratio of {with_short / with_large:.2f}"
        )
    reason = f"{LATE}: {effect}"
    if virtual:
        levels = [100 * level / line for level in _levels(claim)]
        reason += (
            f". The article's three downloads that fill the link reach the same ceiling, "
            f"{min(levels):.0f} to {max(levels):.0f} % of the {in_three_digits(line)} MiB/s of "
            f"payload that {rate_mbit:g} Mbit/s carry"
        )
    return Finding(verdict=HARDWARE, measured=_speed(seen, name), reason=reason)


def _speed(seen: Evidence, name: str) -> float | None:
    """The goodput of a condition in MiB/s; None if it was not run."""
    value = seen.row(name)[COLUMN] if name in seen.runs else None
    return None if value is None else float(value)


def _levels(claim: Claim) -> list[float]:
    """The article's three figures of downloads that fill its link."""
    return [claim.figure, *map(float, claim.arguments["same_ceiling"])]
