"""The judging functions of article 2: only ratios between runs on one machine are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labs.drive.host_load import HERE
from labs.experiments.stack.latencies import settings_of
from labs.experiments.stack.results import knobs
from labs.read.audit.differences import of_run
from labs.read.audit.machine import audit
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import DIFFERS, HOLDS, WRONG, Finding
from labs.read.display.format import in_digits
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


def ratio(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of the first condition to the second, with its interval.

    A claim of no effect (`no_effect`) holds if the interval lies within the tolerance, any other if
    the interval overlaps the tolerance and excludes 1. An interval that is too wide for that is not
    judged. `setting` names a setting that must have an effect on the machine, `threads` the
    article's number of them. Medians of the runs are compared; the article compares means.
    """
    over, under = claim.conditions
    threads, wanted = settings_of(seen.run(over)).threads, claim.arguments.get("threads")
    told = ""
    if wanted not in (None, threads):
        told = f"the article has {wanted} queues and threads, and these runs have {threads}. "
    ignored = _ignored(claim, seen, over) or _too_few_cpus(claim, seen, over)
    known = seen.ratio(over, under, str(claim.arguments.get("column", MEDIAN)))
    if ignored or known is None:
        return not_judged(f"{told}{ignored or FEW}")
    if told:
        return replace(not_judged(f"{told}{_words(known)}"), measured=known.middle)
    return _judged(claim, known)


def _judged(claim: Claim, known: Interval) -> Finding:
    """The finding for a known ratio."""
    low, high = (claim.figure * (1 + side * claim.allowed) for side in (-1, 1))
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


def delay(claim: Claim, seen: Evidence) -> Finding:
    """The ratio with and without interrupt delay. `longer` names conditions with longer delays,
    whose ratios are reported but not judged: the article does not have them."""
    over, under = claim.conditions
    refused = _ignored(claim, seen, under) or _ignored(claim, seen, over)
    longer = [
        f"; {name}: {_words(known)}"
        for name in seen.matching(*claim.arguments["longer"])
        if not _ignored(claim, seen, name) and (known := seen.ratio(name, under, MEDIAN))
    ]
    found = not_judged(refused) if refused else ratio(claim, seen)
    return replace(found, reason=found.reason + "".join(longer))


def _ignored(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why the setting that the claim is about has no effect on this machine; empty if it has."""
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
    reason = f"base chains without rules against no chains: {_words(known)}{beside}. {BUILT_IN}"
    if known.low <= 1 <= known.high:
        return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=measured)
    return Finding(verdict=HOLDS if known.low > 1 else WRONG, measured=measured, reason=reason)


def known_before(claim: Claim, seen: Evidence) -> Finding:
    """What the audit of a run reports about the settings that the claim names. The claim is advice
    on how to measure, so it is not judged."""
    machines = of_run(seen.run(claim.conditions[0]))
    if HERE not in machines:
        return not_judged("this run has no audit of its machine")
    items = {one.name: one for one in audit(machines[HERE]) if one.name in claim.arguments["items"]}
    known = [f"{one.title} {one.value}" for one in items.values() if not one.unknown]
    unknown = [f"{one.title} ({one.unknown})" for one in items.values() if one.unknown]
    hidden = f"; unknown: {', '.join(unknown)}, so only ratios are judged" if unknown else ""
    return not_judged(
        f"this is advice on how to measure; known about the machine: {', '.join(known)}{hidden}"
    )


JUDGES: Mapping[str, Judge] = {
    "ratio": ratio,
    "delay": delay,
    "hooks": hooks,
    "known_before": known_before,
}
