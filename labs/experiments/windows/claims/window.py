"""Claims about the window of a receiver: its share of the buffer, its shape, its growth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from pandas import DataFrame

from labs.drive.units import KIB
from labs.experiments.windows.claims.memory import SEVERAL
from labs.experiments.windows.packets import packets, right_edge, round_trips, syn_ack
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.runs.run import Run

ONE_EACH = 1.05
"""At most this many packets per ACK count as an ACK per packet."""
TOOTH_PACKETS = 2
"""A sawtooth has several teeth, each of them higher than one packet."""


def half_of_the_free_buffer(claim: Claim, seen: Evidence) -> Finding:
    """The largest window, the largest share of a buffer that is offered as window, and the largest
    share of the free buffer that an ACK promises: of the claim's conditions, and of those of
    `further` that exist."""
    names = (*claim.conditions, *seen.matching(*claim.arguments["further"]))
    shares = {name: _largest_share(seen, name) for name in names}
    name = max(shares, key=lambda one: shares[one])
    window = float(seen.row(claim.conditions[0])["window_max_bytes"])
    measured = {"share of the free buffer": shares[name], "window": window}
    over = {which: value for which, value in measured.items() if value > claim.figures[which]}
    others = "; ".join(f"{one} {shares[one]:.1f} %" for one in names)
    reason = f"the largest share is {shares[name]:.1f} %, in {name}. Largest shares: {others}"
    if not over:
        return Finding(verdict=HOLDS, measured=measured, reason=reason)
    worst = max(over, key=lambda which: over[which] / claim.figures[which])
    factor = over[worst] / claim.figures[worst]
    return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)


def _largest_share(seen: Evidence, name: str) -> float:
    """The largest window in per cent of the buffer, or, if that is more, the largest window of an
    ACK in per cent of the buffer that was free before its packet."""
    row, table = seen.row(name), packets(seen.run(name))
    promised = table[table["acked_bytes"].diff() > 0]
    before = table.shift(1).loc[promised.index]
    free = before["rcvbuf_bytes"] - before["rmem_bytes"]
    shares = (promised["window_left_bytes"] / free).tolist()
    return 100 * float(max(row["window_max_bytes"] / row["skmem_rb"], *shares))


def clamped(claim: Claim, seen: Evidence) -> Finding:
    """The largest window with TCP_WINDOW_CLAMP, and without it."""
    limited, plain = (seen.row(name) for name in claim.conditions)
    clamp = int(limited["window_clamp_kib"]) * KIB
    largest, without = (int(row["window_max_bytes"]) for row in (limited, plain))
    return Finding(
        verdict=HOLDS if largest <= clamp < without else WRONG,
        measured={"with the clamp": largest, "without": without},
        reason=f"with TCP_WINDOW_CLAMP {in_digits(clamp)} the largest window is "
        f"{in_digits(largest)} bytes, without it {in_digits(without)}",
    )


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
    off = {which: abs(measured[which] - figure) for which, figure in claim.figures.items()}
    exact = [which for which in ("Recv-Q", "dropped", "collapsed") if off[which]]
    read_off = [
        which
        for which in ("pause at", "resume at")
        if off[which] > claim.allowed * claim.figures[which]
    ]
    reason = (
        f"{in_digits(row['recv_q'])} bytes are queued, {row['rcv_q_drop']} packets dropped and "
        f"{row['collapsed']} buffers collapsed; the window is at most "
        f"{in_digits(row['window_max_bytes'])} bytes; its right edge does not move from packet "
        f"{pause} to packet {resume}"
    )
    if not exact and measured["largest window"] > claim.figures["largest window"]:
        reason += ". So the figure is right, but not the window through which the data arrived"
        return Finding(verdict=RIGHT_NUMBER, measured=measured, reason=reason)
    if exact or read_off:
        which = "Recv-Q" if exact else read_off[0]
        factor = measured[which] / claim.figures[which]
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    return Finding(verdict=HOLDS, measured=measured, reason=reason)


def longest_pause(table: DataFrame) -> tuple[int, int]:
    """The first of the longest series of packets without a window update, and the packet with the
    next update; zeros if there is no update."""
    moved = table["packet"][right_edge(table).diff() > 0].astype(int).tolist()
    places = [int(table["packet"].iloc[0]), *moved]
    rests = [(one + 1, other) for one, other in pairwise(places)]
    return max(rests, key=lambda two: two[1] - two[0], default=(0, 0))


def saw_tooth(claim: Claim, seen: Evidence) -> Finding:
    """The teeth of the window left, and the packets per ACK, with delayed ACKs and with the route
    option."""
    delayed, quick = (teeth(packets(seen.run(name))) for name in claim.conditions)
    per_ack, per_quick_ack = (_packets_per_ack(seen.row(name)) for name in claim.conditions)
    measured = {
        "teeth": float(len(delayed)),
        "teeth, quickack 1": float(len(quick)),
        "packets per ACK": per_ack,
        "packets per ACK, quickack 1": per_quick_ack,
    }
    heights = ", ".join(map(in_digits, delayed)) or "none"
    reason = (
        f"the window falls and rises again {len(delayed)} times with delayed ACKs (by {heights} "
        f"bytes), and {len(quick)} times with quickack 1; {per_ack:.2f} and {per_quick_ack:.2f} "
        "packets per ACK"
    )
    holds = len(delayed) >= SEVERAL and not quick and per_quick_ack <= ONE_EACH < per_ack
    return Finding(verdict=HOLDS if holds else WRONG, measured=measured, reason=reason)


def teeth(table: DataFrame) -> list[int]:
    """The rises of the window left after a fall, in bytes, without those of less than two
    packets."""
    steps = [int(step) for step in table["window_left_bytes"].diff().dropna() if step]
    least = TOOTH_PACKETS * int(table["payload_bytes"].max())
    return [rise for fall, rise in pairwise(steps) if fall < 0 and rise >= least]


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
    return replace(found, reason=reason)


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


def patched_window(claim: Claim, seen: Evidence) -> Finding:
    """The first scaled window with initrwnd on a kernel with the patch, and the packets that fit.
    Only the digest of a kernel tells that it has the patch."""
    name = claim.conditions[0]
    run, row, wanted = seen.run(name), seen.row(name), str(claim.arguments["kernel"])
    if not str((run.inputs.get("kernel") or {}).get("digest", "")).startswith(wanted):
        return not_judged(
            f"needs the kernel {wanted}, which is built with initrwnd.patch (see that file)"
        )
    measured = {
        "first window": float(row["second_window_bytes"]),
        "packets": float(row["first_flight_packets"]),
    }
    found = compared(claim, measured, None, seen)
    reason = (
        f"the SYN-ACK offers {in_digits(row['first_window_bytes'])} bytes, the first ACK of data "
        f"{in_digits(row['second_window_bytes'])}; {in_digits(row['first_flight_packets'])} "
        f"packets fill the buffer in {row['round_trips']} round trips"
    )
    return replace(found, reason=f"{reason}. {found.reason}")


def default_buffer(claim: Claim, seen: Evidence) -> Finding:
    """The data in a buffer of the default size, with the MSS of the author's program; and, where
    it was run, with another one."""
    (name,) = claim.conditions
    found = compared(claim, {"": float(seen.row(name)["recv_q"])}, None, seen)
    others = "".join(
        f". With an MSS of {in_digits(row['mss_bytes'])} bytes: {in_digits(row['recv_q'])}"
        for row in map(seen.row, seen.matching(*claim.arguments["further"]))
    )
    mss = f"with an MSS of {in_digits(seen.row(name)['mss_bytes'])} bytes"
    return replace(found, reason=f"{mss}: {found.reason}{others}")


def smaller_batches(claim: Claim, seen: Evidence) -> Finding:
    """The payload of the first round trip with data, and whether that of each later one is
    smaller."""
    batches, _ = _batches(seen.run(claim.conditions[0]))
    found = compared(claim, {"": float(batches[0])}, None, seen)
    shrink = all(later < one for one, later in pairwise(batches))
    reason = (
        f"batches of {', '.join(map(in_digits, batches))} bytes"
        f"{'' if shrink else ', which do not become smaller'}. {found.reason}"
    )
    if not shrink:
        return replace(found, verdict=WRONG, factor=None, reason=reason)
    return replace(found, reason=reason)


def _batches(run: Run) -> tuple[list[int], list[int]]:
    """The payload of each round trip with data, and the window that the wire shows at its end."""
    rounds = round_trips(run)
    batches = [int(value) for value in rounds["payload_bytes"] if value > 0]
    left = [int(value) for value in rounds["window_left_bytes"]]
    return batches, left[: len(batches)]


def round_trips_to_fill(claim: Claim, seen: Evidence) -> Finding:
    """The windows that the wire shows after that of the SYN-ACK, and the round trips with the
    handshake. The article does not say how it counts, so this is not judged."""
    run = seen.run(claim.conditions[0])
    batches, windows = _batches(run)
    measured = {"window updates": len(windows), "round trips": 1 + len(batches)}
    equal = "these are" if measured == claim.figures else "these are not"
    articles = " and ".join(map(in_digits, claim.figures.values()))
    found = not_judged(
        f"the article does not say how it counts. After the {in_digits(syn_ack(run).window_bytes)} "
        f"of the SYN-ACK the wire shows {len(windows)} windows: "
        f"{', '.join(map(in_digits, windows))}. With the handshake there are {1 + len(batches)} "
        f"round trips, without it {len(batches)}. Counted so, {equal} the article's {articles}"
    )
    return replace(found, measured=measured)
