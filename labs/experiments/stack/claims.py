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
from labs.read.claims.ledger import Claim, Figure
from labs.read.claims.rules import not_judged
from labs.read.claims.verdict import DIFFERS, HARDWARE, HOLDS, NOT_JUDGED, WRONG, Finding, Witness
from labs.read.display.format import in_digits
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import FEWEST, Interval

MEDIAN = "p50_us"
NOT_POSSIBLE = "not possible on this machine"
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
IN_RANGE = "the range includes 1"
WIDE = "the interval extends beyond the tolerance, so these runs cannot rule out an effect"
FEW = (
    f"needs at least {FEWEST} undisturbed runs of each condition; `labs run` says what disturbed "
    "the others"
)
NONE_PCT = 5.0
"""An effect of which the whole interval is this close to 1 is none."""


def ratio(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of the first condition to the second, with its interval.

    A claim of no effect (`no_effect`) holds if the interval lies within the tolerance, any other if
    the interval overlaps the tolerance and excludes 1. An interval that is too wide for that is not
    judged. The tolerance is a factor: 10 % is from 1 / 1.1 to 1.1 times the article's figure.
    `setting` names a setting that must be applied on the machine, `threads` the
    article's number of them. Medians of the runs are compared; the article compares means.
    """
    over, under = claim.conditions
    threads, wanted = _threads(claim, seen)
    interval = seen.ratio(over, under, MEDIAN)
    refused = _refused(claim, seen, over) or _too_few_cpus(claim, seen, over)
    if wanted in (None, threads):
        return not_judged(refused or FEW) if refused or interval is None else _near(claim, interval)
    text = refused or (describe_interval(interval) if interval else FEW)
    measured = interval.middle if interval and not refused else None
    others = f"the article has {wanted} queues and threads, and these runs have {threads}"
    return not_judged(f"{others}. {text}", measured)


def _threads(claim: Claim, seen: Evidence) -> tuple[int, int | None]:
    """The threads of the first condition, and the article's."""
    threads = seen.run(claim.conditions[0]).settings_as(Settings).threads
    return threads, claim.arguments.get("threads")


def _near(claim: Claim, interval: Interval) -> Finding:
    """Whether a ratio is the article's within the tolerance."""
    low, high = claim.figure / (1 + claim.allowed), claim.figure * (1 + claim.allowed)
    measured, no_effect = interval.middle, bool(claim.arguments.get("no_effect"))
    reason = f"{describe_interval(interval)}; {in_digits(low)} to {in_digits(high)} allowed"
    opposite = (interval.high < 1 < claim.figure) or (claim.figure < 1 < interval.low)
    if opposite and not no_effect:
        return Finding(verdict=WRONG, measured=measured, reason=reason)
    if interval.low > high or interval.high < low:
        factor = measured / claim.figure
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    if no_effect and not low <= interval.low <= interval.high <= high:
        return not_judged(f"{WIDE}. {reason}", measured)
    if not no_effect and interval.low <= 1 <= interval.high:
        return not_judged(f"{UNDECIDED}. {reason}", measured)
    return Finding(verdict=HOLDS, measured=measured, reason=reason)


def _direction(
    interval: Interval,
    reason: str,
    measured: Figure | None = None,
    *,
    above: str = HOLDS,
    undecided: str = UNDECIDED,
    none_pct: float = NONE_PCT,
) -> Finding:
    """Whether a ratio is above 1, which is the verdict `above`; the other verdict if it is below.
    Within an interval that is this close to 1 it is wrong, in any other it is undecided."""
    measured, near = measured or interval.middle, 1 + none_pct / 100
    if interval.low > 1 or interval.high < 1:
        verdict = HOLDS if (interval.low > 1) == (above == HOLDS) else WRONG
    elif none_pct and 1 / near <= interval.low <= interval.high <= near:
        verdict = WRONG
    else:
        return not_judged(f"{undecided}. {reason}", measured)
    return Finding(verdict=verdict, measured=measured, reason=reason)


def slower(claim: Claim, seen: Evidence) -> Finding:
    """Whether the first condition is slower than the second, by however much: a constant time is a
    ratio that depends on the machine."""
    over, under = claim.conditions
    interval = seen.ratio(over, under, MEDIAN)
    if interval is None:
        return not_judged(FEW)
    longer = float(seen.row(over)[MEDIAN]) - float(seen.row(under)[MEDIAN])
    size = "Its size is the machine's, so the article's is shown and not judged"
    reason = f"{describe_interval(interval)}: {longer:+.0f} µs, as medians. {size}"
    return _direction(interval, reason)


def adaptive(claim: Claim, seen: Evidence) -> Finding:
    """The ratio of each delay to none. None is judged: the article's value is no delay in the
    driver of its card."""
    over, under = claim.conditions
    if refused := _refused(claim, seen, under, over):
        return not_judged(f"{ADAPTIVE}. {refused}")
    delays = {
        name: interval
        for name in sorted(
            seen.matching(over, *claim.arguments["longer"]),
            key=lambda condition: seen.run(condition).settings_as(Settings).rx_usecs or 0,
        )
        if not _refused(claim, seen, name) and (interval := seen.ratio(name, under, MEDIAN))
    }
    if over not in delays:
        return not_judged(f"{ADAPTIVE}. {FEW}")
    phrases = (f"{name}: {describe_interval(interval)}" for name, interval in delays.items())
    measured = {name: interval.middle for name, interval in delays.items()}
    return not_judged(f"{ADAPTIVE}. {'. '.join(phrases)}", measured)


def masked(claim: Claim, seen: Evidence) -> Finding:
    """Whether a request of many connections takes fewer interrupts than one of a single one."""
    over, under, delayed = claim.conditions
    refused = _refused(claim, seen, over, delayed)
    interval = seen.ratio(over, under, "interrupts")
    other = seen.ratio(delayed, over, "interrupts")
    if refused or interval is None or other is None:
        return not_judged(refused or FEW)
    each = ", ".join(f"{name} {seen.row(name)['interrupts']:.3g}" for name in claim.conditions)
    reason = (
        f"interrupts per request in the middle runs: {each}. {over} against {under}: "
        f"{describe_interval(interval)}. {delayed} against {over}: {describe_interval(other)}"
    )
    return _direction(interval, reason, above=WRONG, none_pct=0)


def scaling(claim: Claim, seen: Evidence) -> Finding:
    """The throughput of several queues and threads, in multiples of that of one: it scales if the
    interval is above 1, and not perfectly if it is below their number. Only the article's number
    of threads is judged: fewer scale better."""
    over, under = claim.conditions
    threads, wanted = _threads(claim, seen)
    refused, interval = _refused(claim, seen, over), seen.ratio(over, under, "requests_s")
    if refused or interval is None or wanted is None:
        return not_judged(refused or FEW)
    measured, figure = interval.middle, claim.figure
    reason = (
        f"the article's {wanted} queues and threads have {in_digits(figure)} times the "
        f"throughput of one, {100 * figure / wanted:.0f} % of {wanted}; these runs have "
        f"{threads}, with {measured:.3g} times ({_range(interval)}), "
        f"{100 * measured / threads:.0f} % of {threads}"
    )
    if threads != wanted:
        return not_judged(reason, measured)
    if interval.low > threads:
        factor = measured / threads
        return Finding(verdict=DIFFERS, factor=factor, measured=measured, reason=reason)
    return _direction(interval, reason)


def _refused(claim: Claim, seen: Evidence, *conditions: str) -> str:
    """Why the setting that the claim is about was not applied on this machine; empty if it was."""
    wanted = claim.arguments.get("setting")
    for condition in conditions:
        for knob in knobs(seen.run(condition)):
            if knob.factor == wanted and not knob.effective:
                return f"{NOT_POSSIBLE}: {knob.factor} {knob.requested} ({knob.because})"
    return ""


def _too_few_cpus(claim: Claim, seen: Evidence, condition: str) -> str:
    """Why further threads cannot run at the same time on emulated machines; empty if they can, or
    if the claim is not about them."""
    run = seen.run(condition)
    if claim.arguments.get("setting") != "pinning" or run.testbed != "vagrant":
        return ""
    cpus = {name: machine.cpus or 0 for name, machine in machines(run).items()}
    host, wanted = cpus.pop(HERE, 0), sum(cpus.values())
    if not host or host >= wanted:
        return ""
    return f"{NOT_POSSIBLE}: {host} CPUs for {wanted} of its virtual machines"


def describe_interval(interval: Interval) -> str:
    """A ratio with its interval, as a sentence says it."""
    return f"the ratio of medians is {interval.middle:.3g} ({_range(interval)})"


def _range(interval: Interval) -> str:
    return f"95 % bootstrap interval {interval.low:.3g} to {interval.high:.3g}"


@cache
def record() -> Mapping[str, Any]:
    """What the benchmark built, and with what; `per_request`: instructions by kernel and round."""
    return dict(json.loads(INSTRUCTIONS.read_text("utf-8")))


def instructions() -> dict[str, list[float]]:
    """Instructions per request, round by round, by kernel."""
    return dict(record()["per_request"])


def compiled_in(claim: Claim, seen: Evidence) -> Finding:
    """What an option of the kernel costs in instructions per request: the counts of a benchmark,
    which need no run. It costs something if the whole range of the ratio is above 1. The first of
    `kernels` is judged, the others are shown."""
    counts, ratios = instructions(), dict[str, Interval]()
    base = counts["none"]
    reason = f"{median(base):,.0f} instructions per request and response without it"
    for name in claim.arguments["kernels"]:
        rounds = counts[name]
        middle = median(rounds) / median(base)
        low, high = min(rounds) / max(base), max(rounds) / min(base)
        ratios[name] = Interval(middle, low, high, len(rounds))
        reason += (
            f"; {name}: {median(rounds) - median(base):+,.0f}, ratio {middle:.4f} (range of "
            f"{len(rounds)} rounds {low:.4f} to {high:.4f})"
        )
    measured = {name: counted.middle for name, counted in ratios.items()}
    judged = next(iter(ratios.values()))
    finding = _direction(judged, reason, measured, undecided=IN_RANGE, none_pct=0)
    if finding.verdict != NOT_JUDGED:
        finding = replace(finding, reason=f"{reason}. {NOT_TIME}")
    return replace(finding, witness=Witness("emulated", str(record()["source"])))


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
    reason = f"{over} against {under}: {describe_interval(interval)}. {_describe_items(items)}"
    if idle is not None and not idle.unknown:
        return _direction(interval, reason)
    of_machine = {i.title: "unknown" if i.unknown else str(i.value) for i in items.values()}
    reason = f"needs a machine with idle states. {reason}"
    return Finding(verdict=HARDWARE, measured=of_machine or None, reason=reason)


def _items(claim: Claim, seen: Evidence) -> dict[str, Item]:
    """The settings that the claim names, as the audit of the machine has them."""
    audited = of_run(seen.run(claim.conditions[0])).get(HERE)
    wanted = claim.arguments["items"]
    items = () if audited is None else audit(audited)
    return {item.name: item for item in items if item.name in wanted}


def _describe_items(items: Mapping[str, Item]) -> str:
    """What is known and what is not."""
    if not items:
        return "This run has no audit of its machine"
    parts = {
        "known": [f"{item.title} {item.value}" for item in items.values() if not item.unknown],
        "unknown": [f"{item.title} ({item.unknown})" for item in items.values() if item.unknown],
    }
    phrases = "; ".join(f"{word}: {', '.join(part)}" for word, part in parts.items() if part)
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
