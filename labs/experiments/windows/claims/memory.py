"""Claims about the memory of a receive buffer: drops, coalescing, collapsing, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pandas import DataFrame

from labs.experiments.windows.packets import packets
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HOLDS, WRONG, Finding
from labs.read.display.format import in_digits

DOUBLED = (1.8, 2.2)
"""A ratio of two retransmission intervals in this range counts as doubled: the timer has ticks."""

RTO_MAX_S = 120.0
"""TCP_RTO_MAX, the longest retransmission timeout (include/net/tcp.h)."""


def drops_in_open_window(claim: Claim, seen: Evidence) -> Finding:
    """How many packets are dropped, and the window that is open at the first drop."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    dropped = table[table["dropped"].fillna(0) > 0]
    if dropped.empty:
        return Finding(
            verdict=WRONG, measured={"dropped": 0}, reason=f"nothing is dropped: {_use(row)}"
        )
    before = table.loc[max(0, dropped.index[0] - 1)]
    left = float(before["window_left_bytes"])
    found = compared(claim.without(["dropped"]), {"window left": left}, None, seen)
    measured = {"dropped": float(row["rcv_q_drop"]), "window left": left}
    said = (
        f"the first drop is packet {int(dropped['packet'].iloc[0])}, with a window of "
        f"{in_digits(left)} bytes; {row['dropped_in_window']} of "
        f"{len(dropped)} dropped packets fit the window; {_backoff(dropped)}. "
        f"{_counted(claim, row, dropped)}"
    )
    return replace(found, measured=measured, reason=f"{said}. {found.reason}")


def _backoff(dropped: DataFrame) -> str:
    """How often the packet that was dropped first is retransmitted, and whether the intervals
    double until they reach their maximum of 120 s (TCP_RTO_MAX)."""
    times = _times(dropped)
    waits = [later - one for one, later in pairwise(times)]
    ratios = [later / one for one, later in pairwise(waits) if one > 0]
    doubled = sum(DOUBLED[0] <= ratio <= DOUBLED[1] for ratio in ratios)
    return (
        f"the first of them is retransmitted {len(times) - 1} times in "
        f"{times[-1] - times[0]:.1f} s; {doubled} of {len(ratios)} intervals are twice "
        "the previous one"
        + (", until they reach TCP_RTO_MAX" if max(waits, default=0.0) >= RTO_MAX_S else "")
    )


def _counted(claim: Claim, row: Mapping[str, Any], dropped: DataFrame) -> str:
    """How long it takes until TCPRcvQDrop has the article's value."""
    wanted, times = int(claim.figures["dropped"]), _times(dropped)
    said = (
        f"TCPRcvQDrop is {row['rcv_q_drop']} at the end: each retransmission of that packet adds 1"
    )
    if len(times) < wanted:
        return f"{said}, so that {wanted} takes a longer run"
    return f"{said}, so that {wanted} is reached after {times[wanted - 1] - times[0]:.0f} s"


def _times(dropped: DataFrame) -> list[float]:
    """When the packet that was dropped first was dropped, each time."""
    found: list[float] = dropped[dropped["seq"] == dropped["seq"].min()]["time_s"].tolist()
    return found


def _use(row: Mapping[str, Any]) -> str:
    """The largest memory in use, and the buffer."""
    return (
        f"at most {in_digits(row['skmem_r_max'])} of {in_digits(row['skmem_rb'])} bytes are in use"
    )


def coalesced_then_collapsed(claim: Claim, seen: Evidence) -> Finding:
    """The memory that coalescing saves, and the packet at which the queue is first collapsed."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    collapsed = table[table["collapsed"].fillna(0) > 0]
    saved = (
        f"{row['coalesced']} packets are coalesced: a packet needs "
        f"{in_digits(row['metadata_bytes'])} bytes besides its payload on average, instead of "
        f"{in_digits(row['first_metadata_bytes'])} like the first one"
    )
    if collapsed.empty:
        return Finding(
            verdict=WRONG,
            measured={"collapses": 0},
            reason=f"{saved}. Nothing is collapsed: {_use(row)}",
        )
    measured = {"first collapse at": float(collapsed["packet"].iloc[0])}
    found = compared(claim, measured, None, seen)
    times = f"The queue is collapsed {len(collapsed)} times, {_use(row)}"
    return replace(found, reason=f"{saved}. {times}. {found.reason}")


def collapsed_by_small_packets(claim: Claim, seen: Evidence) -> Finding:
    """How often small packets collapse the queue, and what rcv_ssthresh does each time."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    at = [int(place) for place in table.index[table["collapsed"].fillna(0) > 0]]
    before = [float(table["rcv_ssthresh_bytes"].iloc[max(0, place - 1)]) for place in at]
    after = [float(table["rcv_ssthresh_bytes"].iloc[place]) for place in at]
    falls = sum(new < old for old, new in zip(before, after, strict=True))
    levels = ", ".join(
        f"{in_digits(old)} to {in_digits(new)}" for old, new in zip(before, after, strict=True)
    )
    reason = (
        f"rcv_ssthresh falls at {falls} of {len(at)} collapses{f' ({levels})' if at else ''}. The "
        f"first packet needs {in_digits(row['first_metadata_bytes'])} bytes besides its "
        f"{in_digits(float(table['payload_bytes'].iloc[0]))} bytes of payload; TCPRcvCollapsed "
        f"is {row['collapsed']}, and {row['coalesced']} packets are coalesced"
    )
    return Finding(
        verdict=HOLDS if len(at) > 1 and falls == len(at) else WRONG,
        measured={"collapses": len(at), "rcv_ssthresh falls": falls},
        reason=reason,
    )


def metadata_per_packet(claim: Claim, seen: Evidence) -> Finding:
    """The least memory of a packet besides its payload, as this kernel charges it: that of the two
    structures, if the payload fills the rest of its buffer."""
    row = seen.row(claim.conditions[0])
    least, first = row["overhead_bytes"], row["first_metadata_bytes"]
    if least is None or first is None:
        return not_judged("this run did not measure the memory of packets. Repeat it: --fresh")
    found = compared(claim, {"": float(least)}, None, seen)
    reason = (
        f"a packet that fills its buffer is charged {in_digits(least)} bytes besides its payload. "
        f"The first packet of the flow is charged {in_digits(first)}, of which "
        f"{in_digits(first - least)} are room of its buffer that stays unused. {found.reason}"
    )
    return replace(found, measured=least, reason=reason)


def overflow(claim: Claim, seen: Evidence) -> Finding:
    """Packets that were dropped although they fit a window that the receiver had offered, and
    packets that a sender sent beyond every window offered."""
    rows = {name: seen.row(name) for name in claim.conditions}
    fitted = {name: int(row["dropped_in_window"]) for name, row in rows.items()}
    beyond = sum(int(row["beyond_window"]) for row in rows.values())
    drops = "; ".join(
        f"{name}: {count} of {rows[name]['dropped']} dropped packets fit the window, "
        f"{_use(rows[name])}"
        for name, count in fitted.items()
    )
    measured = {"dropped in an open window": sum(fitted.values()), "beyond the window": beyond}
    return Finding(
        verdict=HOLDS if any(fitted.values()) and not beyond else WRONG,
        measured=measured,
        reason=f"{sum(fitted.values())} packets that fit the window are dropped, and {beyond} were "
        f"sent beyond it. {drops}",
    )


def whole_buffer_as_window(claim: Claim, seen: Evidence) -> Finding:
    """Whether the buffer overflows with tcp_adv_win_scale = 0: over budget, collapsed, dropped."""
    row = seen.row(claim.conditions[0])
    measured = {
        "above the budget": float(row["overshoot_bytes"]),
        "collapsed": float(row["collapsed"]),
        "dropped": float(row["dropped"]),
    }
    reason = f"{_use(row)}; the largest window is {in_digits(row['window_max_bytes'])} bytes"
    return Finding(
        verdict=HOLDS if all(measured.values()) else WRONG, measured=measured, reason=reason
    )
