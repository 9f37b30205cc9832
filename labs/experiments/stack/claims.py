"""The judging functions of article 2 for which no rule fits: what a kernel's option costs, counted
in instructions, and what must be known of a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from labs.guest.host_load import HERE
from labs.read.audit.differences import of_run
from labs.read.audit.machine import audit
from labs.read.claims.evidence import Evidence
from labs.read.claims.judge import FEW, Judge, not_judged
from labs.read.claims.ledger import Claim
from labs.read.claims.verdict import HARDWARE, HOLDS, NOT_JUDGED, WRONG, Finding, Witness

NOT_TIME = (
    "Instructions are not time: what a CPU waits for memory and for mispredicted returns is not in "
    "them"
)
INSTRUCTIONS = Path(__file__).with_name("instructions.json")
"""Written by benchmarks/netfilter/measure.py."""
IDLE_STATES = "cpu.idle_states"
NONE = 1.05
"""An effect of which the whole interval is within this factor is none."""


@cache
def record() -> Mapping[str, Any]:
    """What the benchmark built, and with what; `per_request`: instructions by kernel and round."""
    return dict(json.loads(INSTRUCTIONS.read_text("utf-8")))


def instructions() -> Mapping[str, Sequence[float]]:
    """Instructions per request, round by round, by kernel."""
    return dict(record()["per_request"])


def compiled_in(claim: Claim, seen: Evidence) -> Finding:
    """What an option of the kernel costs in instructions per request: the counts of a benchmark,
    which need no run. It costs something if the whole range of the ratio is above 1. The first of
    `kernels` is judged, the others are shown."""
    counts, verdicts, measured = instructions(), list[str](), dict[str, float]()
    base = counts["none"]
    reason = f"{median(base):,.0f} instructions per request and response without it"
    for name in claim.arguments["kernels"]:
        rounds = counts[name]
        low, high = min(rounds) / max(base), max(rounds) / min(base)
        measured[name] = median(rounds) / median(base)
        verdicts.append(HOLDS if low > 1 else WRONG if high < 1 else NOT_JUDGED)
        reason += (
            f"; {name}: {median(rounds) - median(base):+,.0f}, ratio {measured[name]:.4f} (range "
            f"of {len(rounds)} rounds {low:.4f} to {high:.4f})"
        )
    return Finding(
        verdict=verdicts[0],
        measured=measured,
        reason=f"{reason}. {NOT_TIME}",
        witness=Witness("emulated", str(record()["source"])),
    )


def known_before(claim: Claim, seen: Evidence) -> Finding:
    """Whether the sleep of idle CPUs makes the first condition slower than the second; and what the
    audit of a run says about the settings that the claim names, which nothing here can change.

    A machine that shows no idle states cannot decide: to its programs, CPUs only seem to sleep. So
    there the measured figures are the settings, and not the ratio.
    """
    over, under = claim.conditions
    ratio = seen.ratio(over, under, "p50_us")
    if ratio is None:
        return not_judged(FEW)
    audited = of_run(seen.run(over)).get(HERE)
    every = () if audited is None else audit(audited)
    items = [item for item in every if item.name in claim.arguments["items"]]
    settings = [
        f"{item.title} unknown ({item.unknown})" if item.unknown else f"{item.title} {item.value}"
        for item in items
    ]
    reason = (
        f"{over} against {under}: the ratio of medians is {ratio.middle:.3g} (95 % bootstrap "
        f"interval {ratio.low:.3g} to {ratio.high:.3g}). Settings that cannot be changed here: "
        f"{', '.join(settings) or 'not audited'}"
    )
    if not any(item.name == IDLE_STATES and not item.unknown for item in items):
        of_machine = {i.title: "unknown" if i.unknown else str(i.value) for i in items}
        reason = f"needs a machine with idle states. {reason}"
        return Finding(verdict=HARDWARE, measured=of_machine or None, reason=reason)
    wrong = ratio.high < 1 or max(1 / ratio.low, ratio.high) <= NONE
    verdict = HOLDS if ratio.low > 1 else WRONG if wrong else NOT_JUDGED
    return Finding(verdict=verdict, measured=ratio.middle, reason=reason)


JUDGES: Mapping[str, Judge] = {"compiled_in": compiled_in, "known_before": known_before}
