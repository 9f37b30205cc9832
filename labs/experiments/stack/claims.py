"""The judging functions of article 2: only ratios between runs on one machine are judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from labs.drive.host_load import HERE
from labs.experiments.stack.results import knobs
from labs.experiments.stack.settings import Settings
from labs.read.audit.differences import of_run
from labs.read.audit.items import Item
from labs.read.audit.machine import audit
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import Judge
from labs.read.claims.ledger import Claim
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Finding, Witness
from labs.read.display.format import in_digits
from labs.read.runs.run import Run
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import FEWEST, Interval

MEDIAN = "p50_us"
UNDECIDED = "the interval includes 1, so these runs cannot decide"
ADAPTIVE = (
    "in the driver of the article's card, ixgbe, the value 1 does not mean 1 µs: it selects "
    "adaptive moderation (Linux 6.1, ixgbe_set_coalesce and ixgbe_poll)"
)
NOT_TIME = (
    "Instructions are not time: what a CPU waits for memory and for mispredicted returns is not in "
    "them"
)
INSTRUCTIONS = Path(__file__).with_name("instructions.json")
"""Written by benchmarks/netfilter/measure.py."""
WIDE = "the interval extends beyond the tolerance, so these runs cannot rule out an effect"
FEW = (
    f"needs at least {FEWEST} undisturbed runs of each condition; `labs run` says what disturbed "
    "the others"
)
NONE_PCT = 5.0
"""An effect of which the whole interval is this close to 1 is none."""


def parameter(run: Run, name: str) -> int | None:
    """`many_connections`: the connections of a condition with many of them; None for others."""
    is_many = name == "many_connections" and run.condition.endswith("many")
    return run.settings_as(Settings).connections if is_many else None


def ratio(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of the first condition to the second, with its interval.

    A claim of no effect (`no_effect`) holds if the interval lies within the tolerance, any other if
    the interval overlaps the tolerance and excludes 1. An interval that is too wide for that is not
    judged. The tolerance is a factor: 10 % is from 1 / 1.1 to 1.1 times the article's figure.
    `setting` names a setting that must be applied on the machine, `threads` the
    article's number of them. Medians of the runs are compared; the article compares means.
    """
    over, under = claim.conditions
    threads, wanted = seen.run(over).settings_as(Settings).threads, claim.arguments.get("threads")
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
        "article's is shown and not judged"
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


def adaptive(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of each delay to none. None is judged: the article's value is no delay in the
    driver of its card."""
    over, under = claim.conditions
    refused = _ignored(claim, seen, under) or _ignored(claim, seen, over)
    if refused:
        return not_judged(f"{ADAPTIVE}. {refused}")
    delays = {
        name: known
        for name in sorted(
            seen.matching(over, *claim.arguments["longer"]),
            key=lambda one: seen.run(one).settings_as(Settings).rx_usecs or 0,
        )
        if not _ignored(claim, seen, name) and (known := seen.ratio(name, under, MEDIAN))
    }
    if over not in delays:
        return not_judged(f"{ADAPTIVE}. {FEW}")
    said = ". ".join(f"{name}: {_words(known)}" for name, known in delays.items())
    measured = {name: known.middle for name, known in delays.items()}
    return replace(not_judged(f"{ADAPTIVE}. {said}"), measured=measured)


def masked(claim: Claim, seen: Evidence) -> Finding:
    """Whether a request of many connections takes fewer interrupts than one of a single one."""
    over, under, delayed = claim.conditions
    refused = _ignored(claim, seen, over) or _ignored(claim, seen, delayed)
    known = seen.ratio(over, under, "interrupts")
    other = seen.ratio(delayed, over, "interrupts")
    if refused or known is None or other is None:
        return not_judged(refused or FEW)
    each = ", ".join(f"{name} {seen.row(name)['interrupts']:.3g}" for name in claim.conditions)
    reason = (
        f"interrupts per request in the middle runs: {each}. {over} against {under}: "
        f"{_words(known)}. {delayed} against {over}: {_words(other)}"
    )
    if known.low <= 1 <= known.high:
        return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=known.middle)
    verdict = HOLDS if known.high < 1 else WRONG
    return Finding(verdict=verdict, measured=known.middle, reason=reason)


def scaling(claim: Claim, seen: Evidence) -> Finding:
    """The throughput of several queues and threads, in multiples of that of one: it scales if the
    interval is above 1, and not perfectly if it is below their number. Only the article's number
    of threads is judged: fewer scale better."""
    over, under = claim.conditions
    threads, wanted = seen.run(over).settings_as(Settings).threads, claim.arguments["threads"]
    known = seen.ratio(over, under, "requests_s")
    ignored = _ignored(claim, seen, over)
    if ignored or known is None:
        return not_judged(ignored or FEW)
    reason = (
        f"the article's {wanted} queues and threads have {in_digits(claim.figure)} times the "
        f"throughput of one, {100 * claim.figure / wanted:.0f} % of {wanted}; these runs have "
        f"{threads}, with {known.middle:.3g} times (95 % bootstrap interval {known.low:.3g} to "
        f"{known.high:.3g}), {100 * known.middle / threads:.0f} % of {threads}"
    )
    if threads != wanted:
        return replace(not_judged(reason), measured=known.middle)
    found = _direction(known)
    if known.low > threads:
        factor = known.middle / threads
        found = Finding(verdict=DIFFERS, factor=factor, measured=known.middle, reason=reason)
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


@cache
def record() -> Mapping[str, Any]:
    """What the benchmark built, and with what; `per_request`: instructions by kernel and round."""
    found: dict[str, Any] = json.loads(INSTRUCTIONS.read_text("utf-8"))
    return found


def instructions() -> Mapping[str, list[float]]:
    """Instructions per request, round by round, by kernel."""
    found: Mapping[str, list[float]] = record()["per_request"]
    return found


def compiled_in(claim: Claim, seen: Evidence) -> Finding:
    """What an option of the kernel costs in instructions per request: the counts of a benchmark,
    which need no run. It costs something if the whole range of the ratio is above 1. The first of
    `kernels` is judged, the others are shown."""
    base = instructions()["none"]
    counts = {name: instructions()[name] for name in claim.arguments["kernels"]}
    ratios = {
        name: Interval(
            median(one) / median(base), min(one) / max(base), max(one) / min(base), len(one)
        )
        for name, one in counts.items()
    }
    reason = (f"{median(base):,.0f} instructions per request and response without it") + "".join(
        f"; {name}: {median(counts[name]) - median(base):+,.0f}, ratio {one.middle:.4f} (range of "
        f"{one.count} rounds {one.low:.4f} to {one.high:.4f})"
        for name, one in ratios.items()
    )
    measured = {name: one.middle for name, one in ratios.items()}
    judged = next(iter(ratios.values()))
    witness = Witness("emulated", str(record()["source"]))
    if judged.low <= 1 <= judged.high:
        found = not_judged(f"the range includes 1. {reason}")
        return replace(found, measured=measured, witness=witness)
    verdict = HOLDS if judged.low > 1 else WRONG
    said = f"{reason}. {NOT_TIME}"
    return Finding(verdict=verdict, measured=measured, reason=said, witness=witness)


def known_before(claim: Claim, seen: Evidence) -> Finding:
    """Whether the sleep of idle CPUs makes the first condition slower than the second; and what the
    audit of a run says about the settings that the claim names, which nothing here can change.

    A machine that shows no idle states cannot decide: to its programs, CPUs only seem to sleep. So
    there the measured figures are the settings, and not the ratio.
    """
    over, under = claim.conditions
    known = seen.ratio(over, under, MEDIAN)
    if known is None:
        return not_judged(FEW)
    items = _items(claim, seen)
    idle = items.get("cpu.idle_states")
    reason = f"{over} against {under}: {_words(known)}. {_audited(items)}"
    if idle is None or idle.unknown:
        of_machine = {
            one.title: "unknown" if one.unknown else str(one.value) for one in items.values()
        }
        return Finding(
            verdict=HARDWARE,
            measured=of_machine or None,
            reason=f"needs a machine with idle states. {reason}",
        )
    found = _direction(known)
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
    parts = (("known", known), ("unknown", unknown))
    said = "; ".join(f"{word}: {', '.join(some)}" for word, some in parts if some)
    return f"Settings that cannot be changed here, {said}"


JUDGES: Mapping[str, Judge] = {
    "ratio": ratio,
    "slower": slower,
    "adaptive": adaptive,
    "masked": masked,
    "scaling": scaling,
    "compiled_in": compiled_in,
    "known_before": known_before,
}
