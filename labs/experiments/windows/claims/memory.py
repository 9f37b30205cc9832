"""Claims about the memory of a receive buffer: drops, coalescing, collapsing, metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pandas import DataFrame

from labs.experiments.windows.packets import Collapse, collapses, drop_times, packets, printed_drops
from labs.experiments.windows.settings import Settings
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.runs.run import Run

SEVERAL = 3
"""At least this many collapses are several."""


def budget_exceeded(claim: Claim, seen: Evidence) -> Finding:
    """The memory in use at the end, and how far it is above the budget; below 0 if it is within."""
    row = seen.row(claim.conditions[0])
    used, above = float(row["skmem_r"]), float(row["skmem_r"] - row["skmem_rb"])
    measured = {"in use": used, "above the budget": above}
    if above > 0:
        return compared(claim, measured, None, seen)
    return Finding(
        verdict=DIFFERS,
        factor=used / claim.figures["in use"],
        measured=measured,
        reason=f"the budget is not exceeded: {in_digits(used)} of {in_digits(row['skmem_rb'])} "
        f"bytes are in use, {in_digits(-above)} below it",
    )


def drops_in_open_window(claim: Claim, seen: Evidence) -> Finding:
    """The window that is open at the first drop, and how many drops the author's program counts:
    in one run, and in several runs in one network namespace."""
    name, repeated = claim.conditions
    row, run = seen.row(name), seen.run(name)
    table = packets(run)
    dropped = table[table["dropped"].fillna(0) > 0]
    if dropped.empty:
        return Finding(
            verdict=WRONG, measured={"dropped": 0}, reason=f"nothing is dropped: {_use(row)}"
        )
    before = table.loc[max(0, dropped.index[0] - 1)]
    left = float(before["window_left_bytes"])
    found = compared(claim.without(["dropped"]), {"window left": left}, None, seen)
    program_s = float(claim.arguments["program_s"])
    times = drop_times(run)
    counted = sum(time_s <= program_s for time_s in times)
    said = (
        f"{_counted(claim, times, counted, seen.run(repeated))}. The first drop is packet "
        f"{int(dropped['packet'].iloc[0])}, with a window of {in_digits(left)} bytes; "
        f"{row['dropped_in_window']} of {len(dropped)} dropped packets fit the window; "
        f"{_backoff(dropped)}"
    )
    measured = {"dropped": float(counted), "window left": left}
    return replace(found, measured=measured, reason=f"{said}. {found.reason}")


def _backoff(dropped: DataFrame) -> str:
    """The intervals at which the packet that was dropped first is retransmitted."""
    times = dropped[dropped["seq"] == dropped["seq"].min()]["time_s"].tolist()
    waits = ", ".join(f"{later - one:.2f}" for one, later in pairwise(times))
    return f"the first of them is retransmitted at intervals of {waits} s"


def _counted(claim: Claim, times: Sequence[float], counted: int, repeated: Run) -> str:
    """What TCPRcvQDrop is when the author's program prints it, and how many of its runs add up to
    the article's value."""
    program_s, wanted = claim.arguments["program_s"], int(claim.figures["dropped"])
    runs, total = 1 + repeated.settings_as(Settings).earlier, printed_drops(repeated).split()[1]
    later = f" (the next after {times[counted]:.2f} s)" if counted < len(times) else ""
    return (
        f"one run of the author's program counts {counted} in its {program_s:g} s{later}, and "
        f"nstat -az adds up all runs: {total} after {runs}. So {wanted} is the total of at least "
        f"{-(-wanted // (counted + 1))} runs in one network namespace; how many cannot be told"
    )


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
    row, at = seen.row(name), collapses(seen.run(name))
    falls = sum(one.falls for one in at)
    levels = ", ".join(f"{in_digits(one.before)} to {in_digits(one.after)}" for one in at)
    reason = (
        f"rcv_ssthresh falls at {falls} of {len(at)} collapses{f' ({levels})' if at else ''}. The "
        f"first packet needs {in_digits(row['first_metadata_bytes'])} bytes besides its payload; "
        f"{_coalesced(row, at)}"
    )
    measured = {"collapses": len(at), "rcv_ssthresh falls": falls}
    if not at or falls < len(at):
        return Finding(verdict=WRONG, measured=measured, reason=reason)
    if len(at) < SEVERAL:
        factor = len(at) / SEVERAL
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    return Finding(verdict=HOLDS, measured=measured, reason=reason)


def collapsed_by_published_program(claim: Claim, seen: Evidence) -> Finding:
    """How often the author's program collapses the queue of the buffer that it has here. The
    article does not give the buffer of its chart, so this is not judged."""
    name = claim.conditions[0]
    row, at = seen.row(name), collapses(seen.run(name))
    found = not_judged(
        f"the article does not say with which buffer its chart was made. With one of "
        f"{in_digits(row['skmem_rb'])} bytes {_coalesced(row, at)}, and the queue is collapsed "
        f"{len(at)} times"
    )
    return replace(found, measured={"collapses": len(at), "coalesced": int(row["coalesced"])})


def _coalesced(row: Mapping[str, Any], at: Sequence[Collapse]) -> str:
    said = f"{row['coalesced']} of {row['packets']} packets are coalesced"
    return f"{said}, {at[0].coalesced} of them before the first collapse" if at else said


def collapsed_by_slow_reader(claim: Claim, seen: Evidence) -> Finding:
    """How often the queue is collapsed by messages that are read slowly, how much is copied for
    that, and whether full segments that nobody reads are collapsed."""
    name, full = claim.conditions
    row, at = seen.row(name), collapses(seen.run(name))
    copied = sum(one.queued for one in at)
    received = int(packets(seen.run(name))["received_bytes"].max())
    full_segments = int(seen.row(full)["collapsed"])
    share = f", {copied / received:.1f} times the {in_digits(received)} that arrived"
    return Finding(
        verdict=HOLDS if len(at) >= SEVERAL and not full_segments else WRONG,
        measured={"collapses": len(at), "bytes copied": copied},
        reason=f"{len(at)} collapses in {row['packets']} packets copy at most {in_digits(copied)} "
        f"bytes in total{share}. With full segments that nobody reads "
        f"({full}) {full_segments} buffers are collapsed. Virtual time cannot show "
        "how long a copy takes",
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
    row = seen.row(claim.conditions[0])
    fitted, beyond = int(row["dropped_in_window"]), int(row["beyond_window"])
    return Finding(
        verdict=HOLDS if fitted and not beyond else WRONG,
        measured={"dropped in an open window": fitted, "beyond the window": beyond},
        reason=f"{fitted} of {row['dropped']} dropped packets fit the window, and {beyond} of "
        f"{row['packets']} packets were sent beyond it; {_use(row)}",
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
