"""Article 3 judged: what stalls, what follows its sequence of steps, what takes a stall away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.prediction import expected, hz_of, settings_of
from labs.experiments.nagle.requests import answered, following, requests_of
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, SILENCE, in_words
from labs.read.readings.latency import SMALLEST_MS
from labs.read.theory.nagle import wait

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.runs.run import Run

STALLS_PCT, FREE_PCT = 50.0, 0.5
"""A condition has the stall if at least half of its requests have it, and is free of it if at most
one in two hundred has."""
FEW_SHARE = 0.1
STEPS: Mapping[str, tuple[str, ...]] = {"off": ARTICLE_OFF, "on": ARTICLE_ON}


def mean_time(claim: Claim, seen: Evidence) -> Finding:
    """ab's mean time per request, beside the theory's and the article's."""
    name = seen.matching(*claim.conditions)[0]
    run, measured = seen.run(name), float(seen.row(name)["mean_ms"])
    theory = expected(run)
    factor = measured / claim.figure
    hz = hz_of(run)
    held = wait(hz)
    several = settings_of(run).on_a_connection
    reason = (
        f"{100 * (factor - 1):+.1f} %; a stall takes {in_digits(held.least_ms)} to "
        f"{in_digits(held.most_ms)} ms with {hz} ticks a second, "
        f"and {several - 1} of {several} requests on a connection have it"
    )
    predicted = theory.mean_ms if theory else None
    if abs(factor - 1) <= claim.allowed:
        return Finding(verdict=HOLDS, measured=measured, predicted=predicted, reason=reason)
    return Finding(
        verdict=DIFFERS, factor=factor, measured=measured, predicted=predicted, reason=reason
    )


def on_the_machine(claim: Claim, seen: Evidence) -> Finding:
    """A time of the author's own machines: shown beside ours, with no pass or fail."""
    names = seen.matching(*claim.conditions)
    reason = "it is the time that a hundred requests side by side took the author's machines"
    if not names:
        return Finding(
            verdict=HARDWARE, reason=f"{reason}; nothing was run here to stand beside it"
        )
    run, measured = seen.run(names[0]), float(seen.row(names[0])["mean_ms"])
    if run.testbed == "virtual" and measured < SMALLEST_MS:
        reason += (
            "; on virtual time work takes next to none, so nothing below 1 ms is measured there"
        )
        return Finding(verdict=HARDWARE, reason=reason)
    return Finding(verdict=HARDWARE, measured=measured, reason=reason)


def sequence(claim: Claim, seen: Evidence) -> Finding:
    """How many requests follow the article's steps, and what the others do.

    They should be all but the first of each connection, which meets quick ACKs; and a silence
    among the steps should be as long as the article's.
    """
    name = seen.matching(*claim.conditions)[0]
    table = requests_of(seen.run(name))
    if table.empty:
        return not_judged(f"the capture of {name} has no request")
    found = following(table, STEPS[name])
    first = float((table["request"] == 0).mean())
    measured, predicted = 100 * found.share, 100 * (1 - first)
    follow = table[table["steps"] == found.steps]
    reason = (
        f"{found.follow} of {found.requests} requests: {in_words(found.steps)}"
        f"{_silence(follow)}{_others(found.others)}"
    )
    figures: dict[str, Any] = {"measured": measured, "predicted": predicted, "reason": reason}
    if not found.follow:
        return Finding(verdict=WRONG, **figures)
    if measured < predicted - (claim.tolerance_pct or 0):
        return Finding(verdict=DIFFERS, factor=measured / predicted, **figures)
    if claim.arguments:
        median, given = float(follow["gap_ms"].median()), claim.arguments
        if not given["least_ms"] <= median <= given["most_ms"]:
            return Finding(verdict=DIFFERS, factor=median / given["silence_ms"], **figures)
    return Finding(verdict=HOLDS, **figures)


def _silence(follow: DataFrame) -> str:
    """How long the silences of these requests are, and who waits for whom; nothing for steps
    without one."""
    if follow.empty or SILENCE not in follow["steps"].iloc[0]:
        return ""
    one = follow.iloc[0]
    return (
        f"; the silence takes {follow['gap_ms'].min():.1f} to "
        f"{follow['gap_ms'].max():.1f} ms, the {one['waiting']} waits for the "
        f"{one['waited_for']}: {one['reason']}"
    )


def _others(others: Mapping[tuple[str, ...], int]) -> str:
    said = [f"{count}: {in_words(steps)}" for steps, count in others.items()]
    return f". The others, {'. '.join(said)}" if said else ""


def kept_connections(claim: Claim, seen: Evidence) -> Finding:
    """The stall with -k and without, and what keeps it away from a connection of one request."""
    kept, single = (answered(seen.run(name)) for name in claim.conditions)
    measured = {"with -k": kept.stalled_pct, "without": single.stalled_pct}
    if kept.stalled_pct < STALLS_PCT:
        return not_judged("there is no stall with -k either")
    reason = (
        f"without -k {single.stalled_pct:.3g} % of the requests stall, with it "
        f"{kept.stalled_pct:.3g} %, and of the first ones on their connection "
        f"{kept.first_stalled_pct:.3g} %: those meet quick ACKs"
    )
    if single.closing_pct:
        reason += (
            f"; there is a second cause without -k: in some answers the rest leaves with "
            "the FIN, for closing sends what was held back (how many is decided by work "
            f"below 1 ms: {single.closing_pct:.3g} % here)"
        )
    verdict = HOLDS if single.stalled_pct <= FREE_PCT else WRONG
    return Finding(
        verdict=verdict,
        measured=measured,
        reason=reason,
        predicted=dict(
            zip(measured, (_stalling_pct(seen.run(name)) for name in claim.conditions), strict=True)
        ),
    )


def quick_acks(claim: Claim, seen: Evidence) -> Finding:
    """The stall with quick ACKs by the route, and by setsockopt once and before every read."""
    plain, route, own, once, each = (
        answered(seen.run(name)).stalled_pct for name in claim.conditions
    )
    measured = {
        "no quick ACKs": plain,
        "by the route": route,
        "set once": once,
        "set before each read": each,
    }
    predicted = dict(
        zip(
            measured,
            (
                _stalling_pct(seen.run(name))
                for name in (claim.conditions[0], claim.conditions[1], *claim.conditions[3:])
            ),
            strict=True,
        )
    )
    if plain < STALLS_PCT or own < STALLS_PCT:
        return not_judged("there is no stall without it either")
    reason = (
        f"by the route, for all its connections, {route:.3g} % of the requests stall; by "
        f"setsockopt before every read {each:.3g} %"
    )
    reason += (
        f", but set once it does not last: {once:.3g} %"
        if once >= STALLS_PCT
        else f", set once {once:.3g} %"
    )
    return Finding(
        verdict=HOLDS if max(route, each) <= FREE_PCT else WRONG,
        measured=measured,
        predicted=predicted,
        reason=reason,
    )


def _stalling_pct(run: Run) -> float:
    """The share of the requests that the theory has stall: all but the first of a connection, or
    none."""
    theory, several = expected(run), settings_of(run).on_a_connection
    return 100 * (1 - 1 / several) if theory is not None and theory.stalls else 0.0


def joined(claim: Claim, seen: Evidence) -> Finding:
    """Segments per answer with Nagle's algorithm, by how fast ACKs come back."""
    parts = {name: answered(seen.run(name)).segments for name in claim.conditions}
    pieces = settings_of(seen.run("pieces")).pieces
    measured = {
        "two writes, delayed ACK": parts["off"],
        "two writes, quick ACK": parts["quickack"],
        f"{pieces} writes, delayed ACK": parts["pieces"],
        f"{pieces} writes, quick ACK": parts["pieces-quickack"],
    }
    fast = 1 - parts["pieces-quickack"] / pieces
    reason = (
        f"of {pieces} writes Nagle's algorithm makes {in_digits(parts['pieces'])} segments "
        f"where the ACK is delayed and {in_digits(parts['pieces-quickack'])} where it comes "
        f"at once; of the article's two writes it makes {in_digits(parts['off'])} and "
        f"{in_digits(parts['quickack'])}, and {in_digits(parts['on'])} are sent without it"
    )
    theory = {
        name: expected(seen.run(condition))
        for name, condition in zip(
            measured, ("off", "quickack", "pieces", "pieces-quickack"), strict=True
        )
    }
    return Finding(
        verdict=HOLDS if fast <= FEW_SHARE else WRONG,
        measured=measured,
        reason=reason,
        predicted={name: float(one.segments) for name, one in theory.items() if one is not None},
    )


JUDGES: Mapping[str, Judge] = {
    "mean_time": mean_time,
    "on_the_machine": on_the_machine,
    "sequence": sequence,
    "kept_connections": kept_connections,
    "quick_acks": quick_acks,
    "joined": joined,
}
