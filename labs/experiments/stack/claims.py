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
    interval = seen.ratio(over, under, MEDIAN)
    if ignored or interval is None:
        return not_judged(f"{told}{ignored or FEW}")
    if told:
        return replace(not_judged(f"{told}{_words(interval)}"), measured=interval.middle)
    return _judged(claim, interval)


def _judged(claim: Claim, interval: Interval) -> Finding:
    """The finding for a known ratio."""
    low, high = claim.figure / (1 + claim.allowed), claim.figure * (1 + claim.allowed)
    reason = f"{_words(interval)}; {in_digits(low)} to {in_digits(high)} allowed"
    no_effect = bool(claim.arguments.get("no_effect"))
    opposite = (interval.high < 1 < claim.figure) or (claim.figure < 1 < interval.low)
    if opposite and not no_effect:
        return Finding(verdict=WRONG, measured=interval.middle, reason=reason)
    if interval.low > high or interval.high < low:
        factor = interval.middle / claim.figure
        return Finding(verdict=DIFFERS, factor=factor, measured=interval.middle, reason=reason)
    if no_effect and not (low <= interval.low and interval.high <= high):
        return replace(not_judged(f"{WIDE}. {reason}"), measured=interval.middle)
    if not no_effect and interval.low <= 1 <= interval.high:
        return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=interval.middle)
    return Finding(verdict=HOLDS, measured=interval.middle, reason=reason)


def slower(claim: Claim, seen: Evidence) -> Finding:
    """Whether the first condition is slower than the second, by however much: a constant time is a
    ratio that depends on the machine."""
    over, under = claim.conditions
    interval = seen.ratio(over, under, MEDIAN)
    if interval is None:
        return not_judged(FEW)
    longer = float(seen.row(over)[MEDIAN]) - float(seen.row(under)[MEDIAN])
    finding = _direction(interval)
    reason = (
        f"{finding.reason}: {longer:+.0f} µs, as medians. Its size is the machine's, so the "
        "article's is shown and not judged"
    )
    return replace(finding, reason=reason)


def _direction(interval: Interval) -> Finding:
    """Whether a ratio is above 1; wrong if it is below or, within a narrow interval, equal."""
    near = 1 + NONE_PCT / 100
    reason = _words(interval)
    if interval.low > 1:
        return Finding(verdict=HOLDS, measured=interval.middle, reason=reason)
    if interval.high < 1 or 1 / near <= interval.low <= interval.high <= near:
        return Finding(verdict=WRONG, measured=interval.middle, reason=reason)
    return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=interval.middle)


def adaptive(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of each delay to none. None is judged: the article's value is no delay in the
    driver of its card."""
    over, under = claim.conditions
    refused = _ignored(claim, seen, under) or _ignored(claim, seen, over)
    if refused:
        return not_judged(f"{ADAPTIVE}. {refused}")
    delays = {
        name: interval
        for name in sorted(
            seen.matching(over, *claim.arguments["longer"]),
            key=lambda condition: seen.run(condition).settings_as(Settings).rx_usecs or 0,
        )
        if not _ignored(claim, seen, name) and (interval := seen.ratio(name, under, MEDIAN))
    }
    if over not in delays:
        return not_judged(f"{ADAPTIVE}. {FEW}")
    phrases = ". ".join(f"{name}: {_words(interval)}" for name, interval in delays.items())
    measured = {name: interval.middle for name, interval in delays.items()}
    return replace(not_judged(f"{ADAPTIVE}. {phrases}"), measured=measured)


def masked(claim: Claim, seen: Evidence) -> Finding:
    """Whether a request of many connections takes fewer interrupts than one of a single one."""
    over, under, delayed = claim.conditions
    refused = _ignored(claim, seen, over) or _ignored(claim, seen, delayed)
    interval = seen.ratio(over, under, "interrupts")
    other = seen.ratio(delayed, over, "interrupts")
    if refused or interval is None or other is None:
        return not_judged(refused or FEW)
    each = ", ".join(f"{name} {seen.row(name)['interrupts']:.3g}" for name in claim.conditions)
    reason = (
        f"interrupts per request in the middle runs: {each}. {over} against {under}: "
        f"{_words(interval)}. {delayed} against {over}: {_words(other)}"
    )
    if interval.low <= 1 <= interval.high:
        return replace(not_judged(f"{UNDECIDED}. {reason}"), measured=interval.middle)
    verdict = HOLDS if interval.high < 1 else WRONG
    return Finding(verdict=verdict, measured=interval.middle, reason=reason)


def scaling(claim: Claim, seen: Evidence) -> Finding:
    """The throughput of several queues and threads, in multiples of that of one: it scales if the
    interval is above 1, and not perfectly if it is below their number. Only the article's number
    of threads is judged: fewer scale better."""
    over, under = claim.conditions
    threads, wanted = seen.run(over).settings_as(Settings).threads, claim.arguments["threads"]
    interval = seen.ratio(over, under, "requests_s")
    ignored = _ignored(claim, seen, over)
    if ignored or interval is None:
        return not_judged(ignored or FEW)
    reason = (
        f"the article's {wanted} queues and threads have {in_digits(claim.figure)} times the "
        f"throughput of one, {100 * claim.figure / wanted:.0f} % of {wanted}; these runs have "
        f"{threads}, with {interval.middle:.3g} times (95 % bootstrap interval "
        f"{interval.low:.3g} to {interval.high:.3g}), {100 * interval.middle / threads:.0f} % of "
        f"{threads}"
    )
    if threads != wanted:
        return replace(not_judged(reason), measured=interval.middle)
    finding = _direction(interval)
    if interval.low > threads:
        factor = interval.middle / threads
        finding = Finding(verdict=DIFFERS, factor=factor, measured=interval.middle, reason=reason)
    if finding.verdict == NOT_JUDGED:
        reason = f"{UNDECIDED}. {reason}"
    return replace(finding, reason=reason)


def _ignored(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why the setting that the claim is about was not applied on this machine; empty if it was."""
    wanted = claim.arguments.get("setting")
    for knob in knobs(seen.run(condition)):
        if knob.factor == wanted and not knob.effective:
            return f"not possible on this machine: {knob.factor} {knob.requested} ({knob.because})"
    return ""


def _too_few_cpus(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why further threads cannot run at the same time on emulated machines; empty if they can, or
    if the claim is not about them."""
    run = seen.run(condition)
    if claim.arguments.get("setting") != "pinning" or run.testbed != "vagrant":
        return ""
    cpus = {name: machine.cpus or 0 for name, machine in machines(run).items()}
    host = cpus.pop(HERE, 0)
    wanted = sum(cpus.values())
    if not host or host >= wanted:
        return ""
    return f"not possible on this machine: {host} CPUs for {wanted} of its virtual machines"


def _words(interval: Interval) -> str:
    return (
        f"the ratio of medians is {interval.middle:.3g} (95 % bootstrap interval "
        f"{interval.low:.3g} to {interval.high:.3g})"
    )


@cache
def record() -> Mapping[str, Any]:
    """What the benchmark built, and with what; `per_request`: instructions by kernel and round."""
    content: dict[str, Any] = json.loads(INSTRUCTIONS.read_text("utf-8"))
    return content


def instructions() -> Mapping[str, list[float]]:
    """Instructions per request, round by round, by kernel."""
    counts: Mapping[str, list[float]] = record()["per_request"]
    return counts


def compiled_in(claim: Claim, seen: Evidence) -> Finding:
    """What an option of the kernel costs in instructions per request: the counts of a benchmark,
    which need no run. It costs something if the whole range of the ratio is above 1. The first of
    `kernels` is judged, the others are shown."""
    base = instructions()["none"]
    counts = {name: instructions()[name] for name in claim.arguments["kernels"]}
    ratios = {
        name: Interval(
            median(counted) / median(base),
            min(counted) / max(base),
            max(counted) / min(base),
            len(counted),
        )
        for name, counted in counts.items()
    }
    reason = (f"{median(base):,.0f} instructions per request and response without it") + "".join(
        f"; {name}: {median(counts[name]) - median(base):+,.0f}, ratio {counted.middle:.4f} (range "
        f"of {counted.count} rounds {counted.low:.4f} to {counted.high:.4f})"
        for name, counted in ratios.items()
    )
    measured = {name: counted.middle for name, counted in ratios.items()}
    judged = next(iter(ratios.values()))
    witness = Witness("emulated", str(record()["source"]))
    if judged.low <= 1 <= judged.high:
        finding = not_judged(f"the range includes 1. {reason}")
        return replace(finding, measured=measured, witness=witness)
    verdict = HOLDS if judged.low > 1 else WRONG
    phrase = f"{reason}. {NOT_TIME}"
    return Finding(verdict=verdict, measured=measured, reason=phrase, witness=witness)


def known_before(claim: Claim, seen: Evidence) -> Finding:
    """Whether the sleep of idle CPUs makes the first condition slower than the second; and what the
    audit of a run says about the settings that the claim names, which nothing here can change.

    A machine that shows no idle states cannot decide: to its programs, CPUs only seem to sleep. So
    there the measured figures are the settings, and not the ratio.
    """
    over, under = claim.conditions
    interval = seen.ratio(over, under, MEDIAN)
    if interval is None:
        return not_judged(FEW)
    items = _items(claim, seen)
    idle = items.get("cpu.idle_states")
    reason = f"{over} against {under}: {_words(interval)}. {_audited(items)}"
    if idle is None or idle.unknown:
        of_machine = {
            item.title: "unknown" if item.unknown else str(item.value) for item in items.values()
        }
        return Finding(
            verdict=HARDWARE,
            measured=of_machine or None,
            reason=f"needs a machine with idle states. {reason}",
        )
    finding = _direction(interval)
    if finding.verdict == NOT_JUDGED:
        reason = f"{UNDECIDED}. {reason}"
    return replace(finding, reason=reason)


def _items(claim: Claim, seen: Evidence) -> dict[str, Item]:
    """The settings that the claim names, as the audit of the machine has them."""
    machines = of_run(seen.run(claim.conditions[0]))
    if HERE not in machines:
        return {}
    return {
        item.name: item for item in audit(machines[HERE]) if item.name in claim.arguments["items"]
    }


def _audited(items: Mapping[str, Item]) -> str:
    """What is known and what is not."""
    if not items:
        return "This run has no audit of its machine"
    told = [f"{item.title} {item.value}" for item in items.values() if not item.unknown]
    untold = [f"{item.title} ({item.unknown})" for item in items.values() if item.unknown]
    parts = (("known", told), ("unknown", untold))
    phrases = "; ".join(f"{word}: {', '.join(some)}" for word, some in parts if some)
    return f"Settings that cannot be changed here, {phrases}"


JUDGES: Mapping[str, Judge] = {
    "ratio": ratio,
    "slower": slower,
    "adaptive": adaptive,
    "masked": masked,
    "scaling": scaling,
    "compiled_in": compiled_in,
    "known_before": known_before,
}
