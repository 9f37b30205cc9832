"""Claims about the window of a receiver: its share of the buffer, its shape, its growth."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labs.experiments.windows.packets import packets
from labs.experiments.windows.round_trips import right_edge, round_trips
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.display.format import in_digits

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.claims.evidence import Evidence
    from labs.read.claims.ledger import Claim

HALF = 0.5
ONE_EACH = 1.05
"""At most this many packets per ACK count as an ACK per packet."""


def half_of_the_free_buffer(claim: Claim, seen: Evidence) -> Finding:
    """The largest window, and the largest share of the free buffer that an ACK promises."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    promised = table[table["acked_bytes"].diff() > 0]
    if promised.empty:
        return not_judged("no ACK was sent between the packets of this run")
    before = table.shift(1).loc[promised.index]
    free = before["rcvbuf_bytes"] - before["rmem_bytes"]
    shares = 100 * promised["window_left_bytes"] / free
    measured = {
        "share of the free buffer": float(shares.max()),
        "window": float(row["window_max_bytes"]),
    }
    over = {which: value for which, value in measured.items() if value > claim.figures[which]}
    reason = (
        f"the largest window is {in_digits(row['window_max_bytes'])} bytes of a buffer of "
        f"{in_digits(row['skmem_rb'])}; an ACK promises {shares.min():.1f} to {shares.max():.1f} % "
        "of the buffer that was free before its packet"
    )
    if not over:
        return Finding(verdict=HOLDS, measured=measured, reason=reason)
    worst = max(over, key=lambda which: over[which] / claim.figures[which])
    factor = over[worst] / claim.figures[worst]
    return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)


def filled_through_half(claim: Claim, seen: Evidence) -> Finding:
    """The queue at the end, the largest window, and the pause between window updates."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    pause, resume = longest_pause(table)
    measured = {
        "Recv-Q": float(row["recv_q"]),
        "largest window": float(row["window_max_bytes"]),
        "dropped": float(row["rcv_q_drop"]),
        "collapsed": float(row["collapsed"]),
        "pause at": float(pause),
        "resume at": float(resume),
    }
    exact = [which for which in ("Recv-Q", "dropped", "collapsed") if _off(claim, measured, which)]
    read_off = [
        which
        for which in ("pause at", "resume at")
        if abs(_off(claim, measured, which)) > claim.allowed * claim.figures[which]
    ]
    wide = measured["largest window"] > claim.figures["largest window"]
    reason = (
        f"{in_digits(row['recv_q'])} bytes are queued, {row['rcv_q_drop']} packets dropped and "
        f"{row['collapsed']} buffers collapsed; the window is at most "
        f"{in_digits(row['window_max_bytes'])} bytes; its right edge does not move from packet "
        f"{pause} to packet {resume}"
    )
    if exact:
        factor = measured["Recv-Q"] / claim.figures["Recv-Q"]
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    if wide:
        reason += ". So the figure is right, but not the window through which the data arrived"
        return Finding(verdict=RIGHT_NUMBER, measured=measured, reason=reason)
    if read_off:
        which = read_off[0]
        factor = measured[which] / claim.figures[which]
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    return Finding(verdict=HOLDS, measured=measured, reason=reason)


def _off(claim: Claim, measured: Mapping[str, float], which: str) -> float:
    return measured[which] - claim.figures[which]


def longest_pause(table: DataFrame) -> tuple[int, int]:
    """The first of the longest series of packets without a window update, and the packet with the
    next update; zeros if there is no update."""
    moved = table["packet"][right_edge(table).diff() > 0].astype(int).tolist()
    places = [int(table["packet"].iloc[0]), *moved]
    rests = [(one + 1, other) for one, other in pairwise(places)]
    return max(rests, key=lambda two: two[1] - two[0], default=(0, 0))


def saw_tooth(claim: Claim, seen: Evidence) -> Finding:
    """Packets per ACK, with delayed ACKs and with the route option."""
    delayed, quick = (_packets_per_ack(seen.row(name)) for name in claim.conditions)
    measured = {"delayed ACKs": delayed, "quickack 1": quick}
    reason = (
        f"with delayed ACKs there are {delayed:.2f} packets per ACK on average, with the route "
        f"option {quick:.2f}"
    )
    holds = quick <= ONE_EACH < delayed
    return Finding(verdict=HOLDS if holds else WRONG, measured=measured, reason=reason)


def _packets_per_ack(row: Mapping[str, Any]) -> float:
    return float(row["packets"]) / max(1, int(row["acks"]))


def linear_opening(claim: Claim, seen: Evidence) -> Finding:
    """The first window, its growth per packet, the largest window, and the packets that fit."""
    name = claim.conditions[0]
    row, table = seen.row(name), packets(seen.run(name))
    rounds = round_trips(seen.run(name))
    measured = {
        "first window": float(row["second_window_bytes"]),
        "growth per packet": growth_segments(table, float(row["mss_bytes"])),
        "largest window": float(row["window_max_bytes"]),
        "packets": float(row["first_flight_packets"]),
    }
    found = compared(claim, measured, None, seen)
    reason = (
        f"the window opens in {len(rounds)} round trips to {in_digits(row['window_max_bytes'])} "
        f"bytes; {in_digits(row['recv_q'])} bytes are queued in the end, and "
        f"{row['rcv_q_drop']} packets dropped. {found.reason}"
    )
    return Finding(verdict=found.verdict, factor=found.factor, measured=measured, reason=reason)


def growth_segments(table: DataFrame, mss_bytes: float) -> float:
    """The growth of rcv_ssthresh per packet, in full segments, from its first value to its largest;
    0 if it does not grow."""
    values = table["rcv_ssthresh_bytes"].astype(float)
    highest = int(values.argmax())
    if highest == 0:
        return 0.0
    return float(values.iloc[highest] - values.iloc[0]) / highest / mss_bytes


def first_round_trip(claim: Claim, seen: Evidence) -> Finding:
    """The window of the first ACK of data, without and with initrwnd."""
    plain, routed = (seen.row(name)["second_window_bytes"] for name in claim.conditions)
    limit = float(claim.arguments["window_bytes"])
    measured = {"without initrwnd": float(plain), "with initrwnd": float(routed)}
    ignored = abs(routed - plain) <= claim.allowed * plain
    effect = (
        "the route option initrwnd has no effect"
        if ignored
        else f"the route option initrwnd changes it to {in_digits(routed)}"
    )
    reason = f"the first ACK of data offers {in_digits(plain)} bytes; {effect}"
    if abs(plain - limit) > claim.allowed * limit:
        return Finding(
            verdict=DIFFERS, factor=float(plain) / limit, measured=measured, reason=reason
        )
    return Finding(verdict=HOLDS if ignored else WRONG, measured=measured, reason=reason)


def smaller_batches(claim: Claim, seen: Evidence) -> Finding:
    """The payload that arrives in each round trip, until the buffer is full.

    "window updates" is derived, not counted: one for each batch after the first.
    """
    rounds = round_trips(seen.run(claim.conditions[0]))
    batches = [int(value) for value in rounds["payload_bytes"] if value > 0]
    measured = {
        "round trips": float(len(batches)),
        "window updates": float(len(batches) - 1),
        "first batch": float(batches[0]),
    }
    found = compared(claim, measured, None, seen)
    return Finding(
        verdict=found.verdict,
        factor=found.factor,
        measured=measured,
        reason=f"{len(batches)} batches of {', '.join(map(in_digits, batches))} bytes. Each "
        "after the first needs a window update, which is how their number is derived (the right "
        f"edge moves {int(rounds['updates'].sum())} times, most of them while a batch arrives). "
        f"{found.reason}",
    )
