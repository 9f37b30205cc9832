"""The judging functions of article 2: only ratios between runs on one machine are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labs.drive.host_load import HERE
from labs.experiments.stack.latencies import settings_of
from labs.experiments.stack.results import knobs
from labs.read.audit.differences import of_run
from labs.read.audit.items import Item
from labs.read.audit.machine import audit
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Finding
from labs.read.display.format import in_digits
from labs.read.runs.run import Run
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import FEWEST, Interval

MEDIAN = "p50_us"
UNDECIDED = "the interval includes 1, so these runs cannot decide"
BUILT_IN = (
    "For exact measurements the article recommends a kernel without CONFIG_NETFILTER; the kernel "
    "of these runs has it"
)
WIDE = "the interval extends beyond the tolerance, so these runs cannot show the lack of an effect"
FEW = (
    f"needs at least {FEWEST} undisturbed runs of each condition; `labs run` says what disturbed "
    "the others"
)
NONE_PCT = 5.0
"""An effect of which the whole interval is this close to 1 is none."""


def parameter(run: Run, name: str) -> int | None:
    """`many_connections`: the connections of a condition with many of them; None for others."""
    is_many = name == "many_connections" and run.condition.endswith("many")
    return settings_of(run).connections if is_many else None


def ratio(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of the first condition to the second, with its interval.

    A claim of no effect (`no_effect`) holds if the interval lies within the tolerance, any other if
    the interval overlaps the tolerance and excludes 1. An interval that is too wide for that is not
    judged. The tolerance is a factor: 10 % is from 1 / 1.1 to 1.1 times the article's figure.
    `setting` names a setting that must be applied on the machine, `threads` the
    article's number of them. Medians of the runs are compared; the article compares means.
    """
    over, under = claim.conditions
    threads, wanted = settings_of(seen.run(over)).threads, claim.arguments.get("threads")
    told = ""
    if wanted not in (None, threads):
        told = f"the article has {wanted} queues and threads, and these runs have {threads}. "
    ignored = _ignored(claim, seen, over) or _too_few_cpus(claim, seen, over)
    known = seen.ratio(over, under, MEDIAN)
    if ignored or known is None:
        return not_judged(f"{told}{ignored or FEW}")
    if told:
        return replace(not_judged(f"{told}{_words(known)}"), measured=known.middle)
    return _judged(claim, known)


def _judged(claim: Claim, known: Interval) -> Finding:
    """The finding for a known ratio."""
    low, high = claim.figure / (1 + claim.allowed), claim.figure * (1 + claim.allowed)
    reason = f"{_words(known)}; {in_digits(low)} to {in_digits(high)} allowed"
    no_effect = bool(claim.arguments.get("no_effect"))
    opposite = (known.high < 1 < claim.figure) or (claim.figure < 1 < known.low)
    if opposite and not no_effect:
        return Finding(verdict=WRONG, measured=known.middle, reason=reason)
    if known.low > high or known.high < low:
        factor = known.middle / claim.figure
        return Finding(verdict=DIFFERS, factor=factor, measured=known.middle, reason=reason)
    if no_effect and not (low <= known.low and known.high <= high):
        return replace(not_judged(f"{WIDE}. {reason}"), measured=known.middle)
    if not no_effect and known.low <= 1 <= known.high:
        return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=known.middle)
    return Finding(verdict=HOLDS, measured=known.middle, reason=reason)


def slower(claim: Claim, seen: Evidence) -> Finding:
    """Whether the first condition is slower than the second, by however much: a constant time is a
    ratio that depends on the machine."""
    over, under = claim.conditions
    known = seen.ratio(over, under, MEDIAN)
    if known is None:
        return not_judged(FEW)
    longer = float(seen.row(over)[MEDIAN]) - float(seen.row(under)[MEDIAN])
    found = _direction(known)
    reason = (
        f"{found.reason}: {longer:+.0f} µs, as medians. Its size is the machine's, so the "
        f"article's factor {in_digits(claim.figure)} is not judged"
    )
    return replace(found, reason=reason)


def _direction(known: Interval) -> Finding:
    """Whether a ratio is above 1; wrong if it is below or, within a narrow interval, equal."""
    near = 1 + NONE_PCT / 100
    reason = _words(known)
    if known.low > 1:
        return Finding(verdict=HOLDS, measured=known.middle, reason=reason)
    if known.high < 1 or 1 / near <= known.low <= known.high <= near:
        return Finding(verdict=WRONG, measured=known.middle, reason=reason)
    return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=known.middle)


def delay(claim: Claim, seen: Evidence) -> Finding:
    """The ratio with and without interrupt delay, and those with the delays of `longer`.

    A claim of no effect is judged at the article's delay, any other at the longest delay that the
    device takes: a delay shows if it is not short compared with the latency.
    """
    over, under = claim.conditions
    refused = _ignored(claim, seen, under) or _ignored(claim, seen, over)
    if refused:
        return not_judged(refused)
    names = [name for name in seen.matching(over, *claim.arguments["longer"]) if name != under]
    delays = {
        name: known
        for name in sorted(names, key=lambda one: settings_of(seen.run(one)).rx_usecs or 0)
        if not _ignored(claim, seen, name) and (known := seen.ratio(name, under, MEDIAN))
    }
    if over not in delays:
        return not_judged(FEW)
    longest = list(delays)[-1]
    no_effect = bool(claim.arguments.get("no_effect"))
    found = _judged(claim, delays[over]) if no_effect else _direction(delays[longest])
    others = [
        f"{name}: {_words(known)}"
        for name, known in delays.items()
        if name != (over if no_effect else longest)
    ]
    said = found.reason
    if not no_effect:
        said = (
            f"{longest}: {said}. Its size is the machine's, so the article's factor is not judged"
        )
    return replace(found, reason=". ".join((said, *others)))


def scaling(claim: Claim, seen: Evidence) -> Finding:
    """The throughput of several queues and threads, in multiples of that of one: it scales if the
    interval is above 1, and not perfectly if it is below their number."""
    over, under = claim.conditions
    threads = settings_of(seen.run(over)).threads
    known = seen.ratio(over, under, "requests_s")
    ignored = _ignored(claim, seen, over)
    if ignored or known is None:
        return not_judged(ignored or FEW)
    found = _direction(known)
    if known.low > threads:
        factor = known.middle / threads
        found = Finding(verdict=DIFFERS, factor=factor, measured=known.middle, reason="too much")
    reason = (
        f"{threads} queues and threads have {known.middle:.3g} times the throughput of one (95 % "
        f"bootstrap interval {known.low:.3g} to {known.high:.3g}), the article's "
        f"{claim.arguments['threads']} have {in_digits(claim.figure)} times. Its size is the "
        "machine's"
    )
    if found.verdict == NOT_JUDGED:
        reason = f"{UNDECIDED}. {reason}"
    return replace(found, reason=reason)


def _ignored(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why the setting that the claim is about was not applied on this machine; empty if it was."""
    wanted = claim.arguments.get("setting")
    for one in knobs(seen.run(condition)):
        if one.factor == wanted and not one.effective:
            return f"not possible on this machine: {one.factor} {one.requested} ({one.because})"
    return ""


def _too_few_cpus(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why further threads cannot run at the same time on emulated machines; empty if they can, or
    if the claim is not about them."""
    run = seen.run(condition)
    if claim.arguments.get("setting") != "pinning" or run.testbed != "vagrant":
        return ""
    cpus = {name: one.cpus or 0 for name, one in machines(run).items()}
    host = cpus.pop(HERE, 0)
    wanted = sum(cpus.values())
    if not host or host >= wanted:
        return ""
    return f"not possible on this machine: {host} CPUs for {wanted} of its virtual machines"


def _words(known: Interval) -> str:
    return (
        f"the ratio of medians is {known.middle:.3g} (95 % bootstrap interval {known.low:.3g} to "
        f"{known.high:.3g})"
    )


def hooks(claim: Claim, seen: Evidence) -> Finding:
    """The cost of base chains without rules, next to that of rules."""
    idle, base = claim.conditions
    known = seen.ratio(idle, base, MEDIAN)
    if known is None:
        return not_judged(FEW)
    further = {name: seen.ratio(name, base, MEDIAN) for name in claim.arguments["further"]}
    measured = {"no rules": known.middle}
    measured |= {name: one.middle for name, one in further.items() if one}
    beside = "".join(f"; {name}: {_words(one)}" for name, one in further.items() if one)
    found = _direction(known)
    reason = f"base chains without rules against no chains: {found.reason}{beside}. {BUILT_IN}"
    return replace(found, measured=measured, reason=reason)


def known_before(claim: Claim, seen: Evidence) -> Finding:
    """Whether one of the settings that the claim names, the sleep of idle CPUs, changes a latency;
    and what the audit of a run says about the others, which nothing here can change.

    A machine that shows no idle states cannot decide: to its programs, CPUs only seem to sleep.
    """
    asleep, awake = claim.conditions
    known = seen.ratio(asleep, awake, MEDIAN)
    if known is None:
        return not_judged(FEW)
    items = _items(claim, seen)
    idle = items.get("cpu.idle_states")
    if idle is None or idle.unknown:
        return Finding(
            verdict=HARDWARE,
            measured=known.middle,
            reason=f"needs a machine with idle states. {_audited(items)}",
        )
    found = _direction(known)
    reason = (
        f"if idle CPUs may sleep, the median is {known.middle:.3g} times as long "
        f"({known.low:.3g} to {known.high:.3g}). {_audited(items)}"
    )
    if found.verdict == NOT_JUDGED:
        reason = f"{UNDECIDED}. {reason}"
    return replace(found, reason=reason)


def _items(claim: Claim, seen: Evidence) -> dict[str, Item]:
    """The settings that the claim names, as the audit of the machine has them."""
    machines = of_run(seen.run(claim.conditions[0]))
    if HERE not in machines:
        return {}
    return {one.name: one for one in audit(machines[HERE]) if one.name in claim.arguments["items"]}


def _audited(items: Mapping[str, Item]) -> str:
    """What is known and what is not."""
    if not items:
        return "This run has no audit of its machine"
    known = [f"{one.title} {one.value}" for one in items.values() if not one.unknown]
    unknown = [f"{one.title} ({one.unknown})" for one in items.values() if one.unknown]
    hidden = f"; unknown: {', '.join(unknown)}" if unknown else ""
    return f"Nothing here can change the others. Known: {', '.join(known)}{hidden}"


JUDGES: Mapping[str, Judge] = {
    "ratio": ratio,
    "slower": slower,
    "delay": delay,
    "scaling": scaling,
    "hooks": hooks,
    "known_before": known_before,
}
