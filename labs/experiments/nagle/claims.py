"""The judging functions of article 3: times, sequences of steps, stalls, held segments, goodput."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from labs.experiments.nagle.requests import (
    Answered,
    answered,
    autocorked,
    following,
    held_segment,
    packets_of,
    requests_of,
    table_of,
    typical,
)
from labs.experiments.nagle.results import article, expected, goodput_mbit, hz_of
from labs.experiments.nagle.settings import Settings
from labs.read.capture.segment_table import PSH
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.rules import compared, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits, milliseconds
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON, SILENCE, in_words
from labs.read.readings.latency import SMALLEST_MS
from labs.read.theory.nagle import wait

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.read.runs.run import Run

STALLS_PCT, FREE_PCT = 50.0, 0.5
"""A condition stalls if at least half of its requests do; it does not if at most 1 in 200 does."""
STEPS: Mapping[str, tuple[str, ...]] = {"off": ARTICLE_OFF, "on": ARTICLE_ON}


def mean_time(claim: Claim, seen: Evidence) -> Finding:
    """The mean time per request that ab prints, with the theory's and the article's."""
    name = seen.matching(*claim.conditions)[0]
    run, measured = seen.run(name), float(seen.row(name)["mean_ms"])
    theory = expected(run)
    factor = measured / claim.figure
    hz = hz_of(run)
    held = wait(hz)
    several = run.settings_as(Settings).on_a_connection
    holds = abs(factor - 1) <= claim.allowed
    reason = (
        f"{100 * (factor - 1):+.1f} %, {'within' if holds else 'not within'} "
        f"{claim.tolerance_pct:g} %; a stall takes {in_digits(held.least_ms)} to "
        f"{in_digits(held.most_ms)} ms at {hz} Hz, and {several - 1} of {several} requests per "
        "connection stall"
    )
    return Finding(
        verdict=HOLDS if holds else DIFFERS,
        factor=None if holds else factor,
        measured=measured,
        predicted=theory.mean_ms if theory else None,
        reason=reason,
    )


def on_the_machine(claim: Claim, seen: Evidence) -> Finding:
    """A time of the author's own machines: shown with ours, without a verdict."""
    names = seen.matching(*claim.conditions)
    reason = "the time that the author's machines needed for 100 concurrent requests"
    if not names:
        return Finding(verdict=HARDWARE, reason=f"{reason}; there is no run to compare")
    own = article().parameters
    if any(seen.parameter(names[0], name) not in (None, own[name]) for name in claim.parameters):
        return Finding(verdict=HARDWARE, reason=f"{reason}; this run has other parameters")
    run, measured = seen.run(names[0]), float(seen.row(names[0])["mean_ms"])
    if run.testbed == "virtual" and measured < SMALLEST_MS:
        reason += "; in virtual time computation takes no time, so this is not measured there"
        return Finding(verdict=HARDWARE, reason=reason)
    return Finding(verdict=HARDWARE, measured=measured, reason=reason)


def sequence(claim: Claim, seen: Evidence) -> Finding:
    """How many requests follow the article's steps, and the steps of the others.

    All should, except the first of each connection, which is acknowledged at once; and the silence
    should be as long as the article's.
    """
    name = seen.matching(*claim.conditions)[0]
    table = requests_of(seen.run(name))
    if table.empty:
        return not_judged(f"the capture of {name} contains no request")
    found = following(table, STEPS[name])
    first = float((table["request"] == 0).mean())
    measured, predicted = 100 * found.share, 100 * (1 - first)
    follow = table[table["steps"] == found.steps]
    reason = (
        f"{found.follow} of {found.requests} requests follow this sequence: "
        f"{in_words(found.steps)}{_silence(follow)}{_others(found.others)}"
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
    """The length of the silences of these requests, and who waits for whom; empty without one."""
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
    """The stall with and without -k, and why new connections do not stall."""
    kept, single = (answered(seen.run(name)) for name in claim.conditions)
    measured = {"with -k": kept.stalled_pct, "without": single.stalled_pct}
    if kept.stalled_pct < STALLS_PCT:
        return not_judged("no stall with -k either")
    reason = (
        f"without -k {single.stalled_pct:.3g} % of requests stall, with -k {kept.stalled_pct:.3g} "
        "%. The lab's explanation: a new connection starts in quick ACK mode; with -k, "
        f"{kept.first_stalled_pct:.3g} % of the first requests of a connection stall"
    )
    if single.closing_pct:
        reason += (
            ". Without -k the server also closes the connection, which sends what was held back: "
            f"in {single.closing_pct:.3g} % of responses the rest has the FIN (the share depends "
            "on work below 1 ms)"
        )
    return Finding(
        verdict=HOLDS if single.stalled_pct <= FREE_PCT else WRONG,
        measured=measured,
        reason=reason,
        predicted=_predicted_stalls(measured, claim.conditions, seen),
    )


def quick_acks(claim: Claim, seen: Evidence) -> Finding:
    """The stall after setsockopt(TCP_QUICKACK), which the article advises without saying how often:
    the advice holds if the option helps when it is set before each read."""
    plain, once, each, route = (answered(seen.run(name)).stalled_pct for name in claim.conditions)
    measured = {
        "never set": plain,
        "set once": once,
        "set before each read": each,
        "by the route": route,
    }
    if plain < STALLS_PCT:
        return not_judged("no stall without TCP_QUICKACK either")
    holds = each <= FREE_PCT
    how = "holds if repeated" if holds and once > FREE_PCT else "set before each read"
    reason = (
        f"{how}: {each:.3g} % of requests stall if the option is set before each read, "
        f"{once:.3g} % if it is set once, {plain:.3g} % without it. The kernel delays ACKs again "
        "once the client sends its next request (net/ipv4/tcp_output.c tcp_event_data_sent()). "
        f"With the route option quickack, for all connections of ab, {route:.3g} % stall"
    )
    return Finding(
        verdict=HOLDS if holds else WRONG,
        measured=measured,
        predicted=_predicted_stalls(measured, claim.conditions, seen),
        reason=reason,
    )


def _predicted_stalls(
    names: Iterable[str], conditions: Iterable[str], seen: Evidence
) -> dict[str, float]:
    """The theory's share of requests that stall, by the names of the measured figures."""
    runs = (seen.run(condition) for condition in conditions)
    return dict(zip(names, map(_stalling_pct, runs), strict=True))


def _stalling_pct(run: Run) -> float:
    """The theory's share of requests that stall: all but the first of a connection, or none."""
    theory, several = expected(run), run.settings_as(Settings).on_a_connection
    return 100 * (1 - 1 / several) if theory is not None and theory.stalls else 0.0


def coalesced(claim: Claim, seen: Evidence) -> Finding:
    """Segments per response with Nagle's algorithm, with delayed and with quick ACKs."""
    parts = {name: answered(seen.run(name)).segments for name in claim.conditions}
    fast = seen.run("pieces-quickack")
    writes = fast.settings_as(Settings).pieces
    shown = {
        "two writes, delayed ACK": "off",
        "two writes, quick ACK": "quickack",
        f"{writes} writes, delayed ACK": "pieces",
        f"{writes} writes, quick ACK": "pieces-quickack",
    }
    theory = {name: expected(seen.run(condition)) for name, condition in shown.items()}
    reason = (
        f"{writes} writes become {in_digits(parts['pieces'])} segments with delayed ACKs and "
        f"{in_digits(parts['pieces-quickack'])} with quick ACKs; the article's two writes "
        f"{in_digits(parts['off'])} and {in_digits(parts['quickack'])}, and "
        f"{in_digits(parts['on'])} without Nagle's algorithm"
    )
    if joined := autocorked(fast):
        reason += (
            ". The first response of each connection is not counted: there the kernel itself "
            f"joined writes (TCPAutoCorking: {joined}), because the previous segment was still "
            "with the device (net/ipv4/tcp.c tcp_should_autocork())"
        )
    return Finding(
        verdict=HOLDS if 1 - parts["pieces-quickack"] / writes <= claim.allowed else WRONG,
        measured={name: parts[condition] for name, condition in shown.items()},
        reason=reason,
        predicted={name: float(one.segments) for name, one in theory.items() if one is not None},
    )


def timeout_of_nagle(claim: Claim, seen: Evidence) -> Finding:
    """When a held segment is sent if no ACK arrives: with tail loss probes and without.

    It is a timeout of Nagle's algorithm only if it expires without tail loss probes, too.
    """
    probing, plain = (held_segment(table_of(seen.run(name))) for name in claim.conditions)
    if probing is None or plain is None:
        return not_judged("the held segment was not sent in these runs")
    measured = {
        "tail loss probes off": plain.held_ms,
        "tail loss probes on (default)": probing.held_ms,
    }
    if not plain.acknowledged:
        reason = f"the segment is sent after {plain.held_ms:,.1f} ms without any ACK"
        return Finding(verdict=HOLDS, measured=measured, reason=reason)
    alone = (
        f"Without tail loss probes the first part is retransmitted {plain.retransmissions} times, "
        f"and the held part is sent only with the first ACK, after {plain.held_ms:,.1f} ms"
    )
    reason = f"no timer of Nagle's algorithm releases it. {alone}"
    if not probing.acknowledged:
        reason = (
            "Nagle's algorithm has no timer. The segment is released after "
            f"{probing.held_ms:,.1f} ms, but by the timer of the tail loss probe (RFC 8985; "
            f"net/ipv4/tcp_output.c tcp_send_loss_probe()). {alone}"
        )
    return Finding(verdict=WRONG, measured=measured, reason=reason)


def utilisation(claim: Claim, seen: Evidence) -> Finding:
    """The payload share of the bytes of all packets, with Nagle's algorithm and without."""
    off, on = (answered(seen.run(name)) for name in claim.conditions)
    gain = off.payload_pct / on.payload_pct - 1
    reason = (
        f"{off.payload_pct:.1f} % of the bytes on the link are payload with off, "
        f"{on.payload_pct:.1f} % with on: {_in_packets(off, on)}"
    )
    return Finding(
        verdict=HOLDS if gain > claim.allowed else WRONG,
        measured={"off": off.payload_pct, "on": on.payload_pct},
        reason=reason,
    )


def _in_packets(off: Answered, on: Answered) -> str:
    """The packets per response, and which of them are the response and its ACKs."""
    packets, segments, acks = (
        [in_digits(round(getattr(one, name), 2)) for one in (off, on)]
        for name in ("packets", "segments", "acks")
    )
    return (
        f"{packets[0]} packets per response with off, {packets[1]} with on (segments of the "
        f"response: {' and '.join(segments)}; ACKs of the client: {' and '.join(acks)})"
    )


def still_low(claim: Claim, seen: Evidence) -> Finding:
    """The payload share of the bytes of all packets, where ACKs return fast: low is less than the
    share that the ledger says."""
    quick, delayed = (answered(seen.run(name)).payload_pct for name in claim.conditions)
    low_pct = claim.arguments["low_pct"]
    return Finding(
        verdict=HOLDS if quick < low_pct else WRONG,
        measured={"quick ACKs": quick, "delayed ACKs": delayed},
        reason=f"with quick ACKs {quick:.1f} % of the bytes on the link are payload, with delayed "
        f"ACKs {delayed:.1f} %; low is read as less than {low_pct} %",
    )


def long_delay(claim: Claim, seen: Evidence) -> Finding:
    """Goodput and segments of bulk data with Nagle's algorithm and without."""
    runs = [seen.run(name) for name in claim.conditions]
    asked = runs[0].link.asked
    goodputs, segments = (list(map(of, runs)) for of in (goodput_mbit, _segments))
    gain = goodputs[0] / goodputs[1] - 1
    none = "no difference was found: " if abs(gain) <= claim.allowed else ""
    reason = (
        f"{none}the goodput of bulk data with tcp_nodelay off differs by {100 * gain:+.1f} % at "
        f"{asked.rate_mbit:g} Mbit/s and {asked.delay_ms:g} ms, with {segments[0]:,.0f} segments "
        f"and {segments[1]:,.0f} with tcp_nodelay on: full segments are never held back"
    )
    return Finding(
        verdict=HOLDS if gain > claim.allowed else WRONG,
        measured={"off": goodputs[0], "on": goodputs[1]},
        reason=reason,
    )


def _segments(run: Run) -> float:
    return answered(run).segments


def more_packets(claim: Claim, seen: Evidence) -> Finding:
    """Whether a response takes more packets without Nagle's algorithm than with it."""
    off, on = (answered(seen.run(name)) for name in claim.conditions)
    return Finding(
        verdict=HOLDS if on.packets > off.packets * (1 + claim.allowed) else WRONG,
        measured={"off": off.packets, "on": on.packets},
        reason=_in_packets(off, on),
    )


def exchange(claim: Claim, seen: Evidence) -> Finding:
    """The packets per response, compared with those of the article's diagrams."""
    off, on = (answered(seen.run(name)) for name in claim.conditions)
    found = compared(claim, {"off": off.packets, "on": on.packets})
    return replace(found, reason=f"{_in_packets(off, on)}. {found.reason}")


def faster(claim: Claim, seen: Evidence) -> Finding:
    """The mean time of a request with Nagle's algorithm and without. A time that virtual time does
    not measure has its limit."""
    off, on = (float(seen.row(name)["mean_ms"]) for name in claim.conditions)
    unmeasured = on < SMALLEST_MS and seen.run(claim.conditions[1]).testbed == "virtual"
    return Finding(
        verdict=HOLDS if on < off * (1 - claim.allowed) else WRONG,
        measured={"off": off, "on": f"below {SMALLEST_MS:g}" if unmeasured else on},
        reason=f"{milliseconds(on, SMALLEST_MS)} instead of {milliseconds(off, SMALLEST_MS)}",
    )


def joins(claim: Claim, seen: Evidence) -> Finding:
    """Whether the option joins writes: fewer segments with it than without, in one pair of runs."""
    counts = [answered(seen.run(name)).segments for name in claim.conditions]
    small_off, small_on, off, on = counts
    joined = any(
        with_it < without * (1 - claim.allowed)
        for without, with_it in ((small_off, small_on), (off, on))
    )
    writes = seen.run(claim.conditions[0]).settings_as(Settings).pieces
    return Finding(
        verdict=HOLDS if joined else WRONG,
        measured={
            "small writes, off": small_off,
            "small writes, on": small_on,
            "off": off,
            "on": on,
        },
        reason=f"the opposite is true: tcp_nodelay on disables Nagle's algorithm. {writes:,} small "
        f"writes become {small_off:,.0f} segments with off, {small_on:,.0f} with on; the article's "
        f"two writes remain {in_digits(round(off, 2))} and {in_digits(round(on, 2))}. (Its other "
        "sentences use the option correctly.)",
    )


def header_first(claim: Claim, seen: Evidence) -> Finding:
    """What the server's segments carry, of which the article calls the first one an ACK."""
    run = seen.run(claim.conditions[0])
    requests, segments = requests_of(run), table_of(run)
    if requests.empty:
        return not_judged(f"the capture of {run.condition} contains no request")
    packets = segments.loc[packets_of(segments, typical(requests))]
    packets = packets[packets["direction"] == 1]
    first, *others = packets["payload_bytes"].astype(int)
    flags = " PSH" if int(packets["flags"].iloc[0]) & PSH else ""
    return Finding(
        verdict=WRONG if first else HOLDS,
        measured={"PSH,ACK": first, "http 200": sum(others)},
        reason=f"the first segment has the flags{flags} ACK and carries {first} bytes: it is the "
        f"header of the response. The body has {sum(others)} bytes. Every segment of an "
        "established connection has the flag ACK, and Wireshark names the response in the row of "
        "its last segment"
        if first
        else "the first segment carries no data",
    )


JUDGES: Mapping[str, Judge] = {
    "mean_time": mean_time,
    "on_the_machine": on_the_machine,
    "sequence": sequence,
    "kept_connections": kept_connections,
    "quick_acks": quick_acks,
    "coalesced": coalesced,
    "timeout_of_nagle": timeout_of_nagle,
    "utilisation": utilisation,
    "still_low": still_low,
    "long_delay": long_delay,
    "more_packets": more_packets,
    "faster": faster,
    "exchange": exchange,
    "joins": joins,
    "header_first": header_first,
}
