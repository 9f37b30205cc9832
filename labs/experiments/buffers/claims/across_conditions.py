"""Judging functions that compare conditions: the effect of larger buffers, and the size needed."""

from __future__ import annotations

from pandas import DataFrame

from labs.drive.units import MB
from labs.experiments.buffers.sweep import FULL_PCT, NEARLY_FULL_PCT, Smallest, smallest
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import compared, not_judged, unsettled
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, RIGHT_NUMBER, WRONG, Finding
from labs.read.display.format import (
    RTT_BELOW_MS,
    in_digits,
    in_three_digits,
    milliseconds,
    size_in_words,
)
from labs.read.readings.bulk_transfer import SYSCTL, bdp_bytes, window
from labs.read.readings.goodput import own_socket
from labs.read.readings.instruments import shaper_drops
from labs.read.runs.run import Run
from labs.read.theory.bdp import bdp_bytes as bdp_of

END, WHOLE = "end", "whole file"
COLUMNS = {END: "steady_mib_s", WHOLE: "goodput_mib_s"}
PREDICTED = {END: "predicted_mib_s", WHOLE: "predicted_mean_mib_s"}


def no_effect(claim: Claim, seen: Evidence) -> Finding:
    """The deviation of goodput with fixed buffers from goodput with the default ones."""
    alone = str(claim.arguments["beside"])
    rows = [seen.row(name) for name in seen.matching(*claim.conditions) if name != alone]
    plain = seen.row(alone)["goodput_mib_s"]
    if plain is None or any(row["goodput_mib_s"] is None for row in rows):
        return not_judged("a run has no goodput")
    apart = {
        size_in_words(row["buffer_bytes"]): 100 * (row["goodput_mib_s"] / plain - 1)
        for row in sorted(rows, key=lambda row: row["buffer_bytes"])
    }
    measured = max(apart.values(), key=abs)
    told = ", ".join(f"{size} {pct:+.2g} %" for size, pct in apart.items())
    rtt = milliseconds(max(seen.row(alone)["rtt_ms"], RTT_BELOW_MS))
    reason = f"at an RTT of {rtt}, from {in_digits(plain)} MiB/s with default buffers: {told}"
    if abs(measured) > (claim.tolerance_pct or 0):
        reason += _larger_bdp(seen.run(alone))
        return Finding(verdict=WRONG, measured=measured, reason=reason)
    return Finding(verdict=HOLDS, measured=measured, reason=reason + _small_bdp(seen.run(alone)))


def _small_bdp(run: Run) -> str:
    """Why buffers have no effect without delay, and that it is not the article's reason."""
    found = run.link.measured
    if found.rate_mbit is None:
        return ""
    below = "below " if found.rtt_ms < RTT_BELOW_MS else ""
    bdp = bdp_of(found.rate_mbit, max(found.rtt_ms, RTT_BELOW_MS))
    return (
        f". The reason is the BDP, {below}{size_in_words(bdp)} at an RTT of "
        f"{milliseconds(found.rtt_ms)}; the article's reason, that reading is faster than "
        "writing, also applies with delay, where the size does matter"
    )


def _larger_bdp(run: Run) -> str:
    """Why small buffers do have an effect."""
    bdp = bdp_bytes(run)
    if bdp is None:
        return ""
    return f". The BDP is {size_in_words(bdp)}, and only a part of a buffer becomes window"


def restored(claim: Claim, seen: Evidence) -> Finding:
    """The speed with enlarged buffers over the speed without delay."""
    raised, undelayed = claim.arguments["raised"], claim.arguments["undelayed"]
    return unsettled((raised, undelayed), seen) or _ratios(claim, seen, raised, undelayed)


def _ratios(claim: Claim, seen: Evidence, over: str, under: str) -> Finding:
    """The figures of one condition over those of another, compared with the article's ratios."""
    wanted = list(claim.figures)
    measured = {name: _ratio(seen, COLUMNS[name], over, under) for name in wanted}
    known = {name: ratio for name, ratio in measured.items() if ratio is not None}
    if len(known) < len(wanted):
        return not_judged(f"{over} or {under} has no goodput")
    predicted = {
        name: ratio
        for name in wanted
        if (ratio := _ratio(seen, PREDICTED[name], over, under)) is not None
    }
    return compared(claim, known, predicted or None, seen)


def _ratio(seen: Evidence, column: str, over: str, under: str) -> float | None:
    above, below = seen.row(over)[column], seen.row(under)[column]
    return float(above) / float(below) if above and below else None


def twice_as_much(claim: Claim, seen: Evidence) -> Finding:
    """Whether a receive buffer of twice the size is faster, and when it helps.

    With `keeps_up`, a download that differs only in its reader, nothing is judged if the smaller
    buffer already reaches its speed.
    """
    more, less = claim.arguments["more"], claim.arguments["less"]
    if END in claim.texts and (restless := unsettled((more, less), seen)) is not None:
        return restless
    measured = {name: _ratio(seen, COLUMNS[name], more, less) for name in claim.texts}
    known = {name: ratio for name, ratio in measured.items() if ratio is not None}
    if len(known) < len(measured):
        return not_judged(f"{more} or {less} has no goodput")
    gain = max(known.values()) - 1 > claim.allowed
    if not gain and (room := _nothing_to_gain(claim, seen)) is not None:
        return room
    which = next(iter(known))
    speeds = " and ".join(
        f"{in_three_digits(seen.row(name)[COLUMNS[which]])} MiB/s with {name}"
        for name in (less, more)
    )
    where = "near the end" if which == END else "over the whole file"
    return Finding(
        verdict=HOLDS if gain else WRONG,
        measured=known,
        reason=f"{where} {speeds}{'' if gain else _why_no_gain(seen, less, more)}",
    )


def _nothing_to_gain(claim: Claim, seen: Evidence) -> Finding | None:
    """Why the reader's pauses do not test the claim; None if they slow the download down."""
    if "keeps_up" not in claim.arguments:
        return None
    less, keeps_up = claim.arguments["less"], claim.arguments["keeps_up"]
    ratio = _ratio(seen, COLUMNS[WHOLE], less, keeps_up)
    if ratio is None or ratio < 1 - claim.allowed:
        return None
    speeds = [in_three_digits(seen.row(name)[COLUMNS[WHOLE]]) for name in (less, keeps_up)]
    return not_judged(
        f"on this link the pauses do not slow the download ({speeds[0]} MiB/s with them, "
        f"{speeds[1]} without), so a larger buffer has nothing to gain"
    )


def _why_no_gain(seen: Evidence, less: str, more: str) -> str:
    """The windows of the two buffers, their unread data, and when the larger one helps."""
    run = seen.run(less)
    small, large, bdp = window(run), window(seen.run(more)), bdp_bytes(run)
    if small is None or large is None or bdp is None:
        return ""
    rate_bytes_s = bdp / (run.link.measured.rtt_ms / 1e3)
    pauses = [max(0.0, one.offered_bytes - bdp) / rate_bytes_s for one in (small, large)]
    said = (
        f": the smaller one already admits a window of {size_in_words(small.offered_bytes)} for a "
        f"BDP of {size_in_words(bdp)}, and a reader that keeps up leaves at most "
        f"{size_in_words(_unread_bytes(seen.run(more)))} unread"
    )
    if pauses[1] > pauses[0]:
        said += (
            ". In theory the additional room helps a reader that pauses: it may pause for "
            f"{1e3 * pauses[1]:.0f} ms instead of {1e3 * pauses[0]:.0f} ms before the window "
            "limits the sender"
        )
    drops = shaper_drops(seen.run(more))
    packets = "1 packet" if drops == 1 else f"{drops} packets"
    return said + (f". It overflows the shaper's queue: {packets} dropped" if drops else "")


def _unread_bytes(run: Run) -> float:
    """The largest amount of receive buffer memory in use that was sampled."""
    rows = own_socket(run.samples("client"), "bytes_received")
    return float(rows["rmem_alloc_bytes"].max()) if "rmem_alloc_bytes" in rows else 0.0


def buffer_needed(claim: Claim, seen: Evidence) -> Finding:
    """The smallest buffer of the sweep that fills the link, and the BDP at the true RTT."""
    names = seen.matching(*claim.conditions)
    table = DataFrame([seen.row(name) for name in names])
    # One size at both ends, by sysctl, as in the article; setsockopt is the second series.
    table = table[table["series"] == SYSCTL]
    answers = smallest(table)
    if not answers:
        return not_judged("needs a sweep by sysctl in steady state")
    found = answers[0]
    if found.buffer_bytes is None:
        return not_judged(f"no buffer of the sweep reaches {FULL_PCT:g} % of the line rate")
    theory = smallest(table.assign(steady_mib_s=table["predicted_mib_s"]))[0].buffer_bytes
    believed, bdp, needed = (claim.figure, found.bdp_bytes / MB, (found.buffer_bytes / MB))
    edges = [believed * (1 + sign * claim.allowed) for sign in (-1, 1)]
    if between := [edge for edge in edges if (found.below_bytes or 0) / MB < edge < needed]:
        return not_judged(f"needs a sweep with a size near {between[0]:g} MB")
    right = abs(needed / believed - 1) <= claim.allowed
    reasoned = abs(bdp / believed - 1) <= claim.allowed
    suffices = believed >= needed
    rtt_ms = float(table["rtt_ms"].iloc[0])
    enough = str(table.loc[table["buffer_bytes"] == found.buffer_bytes, "condition"].iloc[0])
    verdict = (HOLDS if reasoned else RIGHT_NUMBER) if right else DIFFERS if suffices else WRONG
    return Finding(
        verdict=verdict,
        factor=needed / believed if verdict == DIFFERS else None,
        measured=needed,
        predicted=None if theory is None else theory / MB,
        reason=("" if right else _sufficient(believed, needed))
        + f"the RTT is {rtt_ms:.1f} ms, so the BDP is {bdp:.1f} MB; the smallest "
        f"buffer of the sweep that reaches {FULL_PCT:g} % of the line rate is "
        f"{needed:.1f} MB, {needed / bdp:.2f} times the BDP{_next_below(found)}; "
        f"{_of_the_limit(found, smallest(table, NEARLY_FULL_PCT)[0])}{_share(seen, enough)}",
    )


def _of_the_limit(found: Smallest, lower: Smallest) -> str:
    """How far the answer depends on the share of the line that counts as full."""
    if found.below_pct is None or lower.buffer_bytes is None:
        return ""
    return (
        f"it is the same for every limit above {found.below_pct:.2f} up to "
        f"{found.of_the_line_pct:.2f} %, and {lower.buffer_bytes / MB:.2f} MB for "
        f"{NEARLY_FULL_PCT:g} %; "
    )


def _sufficient(believed: float, needed: float) -> str:
    """Whether the size that an article computed is enough, and by how much."""
    if believed < needed:
        return f"not sufficient: {needed:.1f} MB are needed; "
    return f"sufficient, {believed / needed:.2f} times what is needed, for a wrong reason; "


def _next_below(found: Smallest) -> str:
    if found.below_bytes is None:
        return " (there is no smaller one in the sweep)"
    return (
        f" (the next smaller one, {found.below_bytes / MB:.1f} MB, reaches {found.below_pct:.1f} %)"
    )


def _share(seen: Evidence, name: str) -> str:
    """The share of the buffer that becomes window, as measured with the buffer that suffices."""
    found, kernel = window(seen.run(name)), seen.run(name).kernel.release
    if found is None or not found.receive_buffer_bytes:
        return f"measured on {kernel}"
    share = found.offered_bytes / found.receive_buffer_bytes
    return f"on {kernel} {100 * share:.0f} % of a receive buffer becomes window"


def deeper_queue(claim: Claim, seen: Evidence) -> Finding:
    """Goodput with default buffers and a long queue at the bottleneck, over that without one."""
    plain, deep, short = (
        seen.row(claim.arguments[which])["steady_mib_s"] for which in ("alone", "deep", "short")
    )
    if not plain or not deep or not short:
        return not_judged("a run has no steady goodput")
    packets = {
        which: seen.run(claim.arguments[which]).link.asked.queue_packets
        for which in ("deep", "short")
    }
    return Finding(
        verdict=HOLDS if deep / plain - 1 > claim.allowed else WRONG,
        measured={"long queue": deep / plain, "short queue": short / plain},
        reason=f"with default buffers {in_three_digits(plain)} MiB/s; a queue of "
        f"{packets['deep']:,} packets on the path does not raise it "
        f"({in_three_digits(deep)}), and one of {packets['short']:,} overflows in slow start "
        f"({in_three_digits(short)}): what is in flight is limited by the ends",
    )
