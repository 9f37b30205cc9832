"""The effect of each setting on the latency: ratios of medians with bootstrap intervals.

Each condition is compared with one that differs from it in a single setting (queues and threads, as
in the article, in two), by their runs on one kernel. The factorial plan also shows interactions
between settings, which are ratios of such ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labs.experiments.stack.results import knobs
from labs.read.stats.repetitions import Interval, Repeated, of_interaction, of_ratio, on_one_kernel

KNOBS = {
    "blocking": "waiting",
    "busy polling": "busy_poll_us",
    "coalescing": "rx_usecs",
    "deferred interrupts": "deferred_irqs",
    "CPU of the interrupt": "interrupts",
    "receive processing": "rps",
    "queues and threads": "queues",
}
"""The setting that a factor changes, where the two names differ."""
PINNING = "pinning"

# The factor, the condition, and the one that it is compared with.
COMPARED = (
    ("blocking", "blocking-c1", "polling-c1"),
    ("blocking", "blocking-many", "polling-many"),
    ("connections", "polling-many", "polling-c1"),
    ("connections", "blocking-many", "blocking-c1"),
    ("connections", "blocking-c5", "blocking-c1"),
    ("CPUs kept awake", "awake-c1", "blocking-c1"),
    ("rules", "rules-idle-c1", "polling-c1"),
    ("rules", "rules-10-c1", "polling-c1"),
    ("rules", "polling-rules-100-c1", "polling-c1"),
    ("rules", "polling-rules-100-many", "polling-many"),
    ("rules", "rules-conntrack-c1", "polling-c1"),
    ("busy polling", "busy-poll-c1", "gro-c1"),
    ("threads", "threads-2-c1", "polling-c1"),
    ("threads", "threads-2-many", "polling-many"),
    ("queues and threads", "queues-2-c1", "gro-c1"),
    ("queues and threads", "queues-2-many", "gro-many"),
    ("queues and threads", "work-queues-2-many", "work-many"),
    ("pinning", "same-cpu-c1", "polling-c1"),
    ("pinning", "unpinned-c1", "polling-c1"),
    ("offloads", "gro-c1", "polling-c1"),
    ("offloads", "offloads-off-c1", "polling-c1"),
    *(
        ("coalescing", f"rx-usecs-{rx_usecs}-{name}", f"rx-usecs-0-{name}")
        for name in ("c1", "many")
        for rx_usecs in (1, 100, 500)
    ),
    ("coalescing", "rx-usecs-2000-c1", "rx-usecs-0-c1"),
    ("deferred interrupts", "irqs-deferred-c1", "gro-c1"),
    ("deferred interrupts", "irqs-deferred-many", "gro-many"),
    ("CPU of the interrupt", "irq-same-c1", "irq-apart-c1"),
    ("receive processing", "rps-same-c1", "polling-c1"),
    ("receive processing", "rps-same-many", "polling-many"),
    ("server", "nginx-c1", "blocking-unpinned-c1"),
    ("server", "nginx-many", "blocking-unpinned-many"),
)
# The four conditions of two factors: neither, the first, the second, both.
INTERACTIONS = {
    "blocking and connections": ("polling-c1", "blocking-c1", "polling-many", "blocking-many"),
    "blocking and rules": (
        *("polling-c1", "blocking-c1", "polling-rules-100-c1", "blocking-rules-100-c1"),
    ),
    "connections and rules": (
        *("polling-c1", "polling-many", "polling-rules-100-c1", "polling-rules-100-many"),
    ),
}
LATENCIES = MEDIAN, TAIL = ("p50_us", "p99_us")
COLUMNS = (*LATENCIES, "requests_s")
NOT_APPLIED, TOO_FEW = "not applied here", "too few runs"
SHARED = "server and load share a CPU in only one of the two conditions"
"""A second difference between two conditions, where the machine has too few CPUs."""


@dataclass(frozen=True)
class Effect:
    """The ratios of a condition's figures to those of another one; None without an interval.

    `effective` is False if the setting that the condition changes cannot be applied on this
    machine; `because` says why. `beside` names a second difference between the two conditions that
    the machine forces: threads for which it has no CPU of their own.
    """

    factor: str
    condition: str
    against: str
    effective: bool
    because: str
    beside: str
    ratios: Mapping[str, Interval | None]

    def as_json(self) -> dict[str, Any]:
        said = {name: value for name, value in vars(self).items() if name != "ratios"}
        return said | {name: known and _as_json(known) for name, known in self.ratios.items()}


def _as_json(known: Interval) -> dict[str, float]:
    return {"ratio": known.middle, "low": known.low, "high": known.high}


def effects(repeated: Iterable[Repeated]) -> tuple[Effect, ...]:
    """The effects that the conditions of a study show, in the order of COMPARED."""
    by_name = {one.condition: one for one in repeated}
    return tuple(
        _effect(factor, *both)
        for factor, name, against in COMPARED
        if name in by_name
        and against in by_name
        and (both := on_one_kernel([by_name[name], by_name[against]]))
    )


def _effect(factor: str, one: Repeated, against: Repeated) -> Effect:
    ratios = {name: of_ratio(one.column(name), against.column(name)) for name in COLUMNS}
    knob = KNOBS.get(factor, factor)
    found = [each for run in one.runs for each in knobs(run) if each.factor == knob]
    because = next((each.because for each in found if not each.effective), "")
    beside = "" if knob == PINNING or _unpinned(against) else _unpinned(one)
    return Effect(factor, one.condition, against.condition, not because, because, beside, ratios)


def _unpinned(one: Repeated) -> str:
    """Why server and load of a condition do not have the CPUs that it requests; else empty."""
    found = (each for run in one.runs for each in knobs(run) if each.factor == PINNING)
    return next((each.because for each in found if not each.effective), "")


@dataclass(frozen=True)
class Interaction:
    """Whether the effect of one setting on the median depends on another one: its effect `alone`
    and `together` with the other, and the ratio of the second to the first (1: independent)."""

    name: str
    alone: Effect
    together: Effect
    ratio: Interval

    @property
    def matters(self) -> bool:
        """Whether the interval of the ratio excludes 1."""
        return not self.ratio.low <= 1 <= self.ratio.high

    def as_json(self) -> dict[str, Any]:
        return {**_as_json(self.ratio), "matters": self.matters}


def interactions(repeated: Iterable[Repeated]) -> tuple[Interaction, ...]:
    """The interactions that the conditions of a study show; none with too few undisturbed runs."""
    by_name = {one.condition: one for one in repeated}
    found = []
    for name, names in INTERACTIONS.items():
        if not all(condition in by_name for condition in names):
            continue
        four = on_one_kernel(by_name[condition] for condition in names)
        known = of_interaction(*(one.column(MEDIAN) for one in four)) if four else None
        if known:
            factor = name.partition(" and ")[0]
            alone, together = _effect(factor, four[1], four[0]), _effect(factor, four[3], four[2])
            found.append(Interaction(name, alone, together, known))
    return tuple(found)


def settings_read_back(repeated: Iterable[Repeated]) -> Iterator[dict[str, Any]]:
    """One row per setting of a condition: requested, found, and whether it was applied."""
    for one in repeated:
        yield from ({"condition": one.condition, **vars(found)} for found in knobs(one.middle))


def in_words(one: Effect) -> str:
    """An effect as a sentence."""
    median, tail = one.ratios[MEDIAN], one.ratios[TAIL]
    compared = f"{one.factor}: {one.condition} against {one.against}"
    if median is None:
        told = f"{compared}: unknown, because too few runs were undisturbed"
    else:
        told = f"{compared}: {ratio_in_words(median)} times the median"
        told += f", {ratio_in_words(tail)} times the 99th percentile" if tail else ""
    if not one.effective:
        return f"{told}. The setting was not applied here ({one.because})"
    if one.beside:
        told += f". In addition, {SHARED} ({one.beside})"
    if median and median.low <= 1 <= median.high:
        return f"{told}. The interval includes 1: no effect on the median is shown"
    return told


def interaction_in_words(one: Interaction) -> str:
    """An interaction as a sentence."""
    alone, together = one.alone.ratios[MEDIAN], one.together.ratios[MEDIAN]
    assert alone and together  # an interaction needs more
    told = (
        f"{one.name}: {one.alone.condition} has {alone.middle:.3g} times the median of "
        f"{one.alone.against}, and {one.together.condition} {together.middle:.3g} times that of "
        f"{one.together.against}; the ratio of these effects is {ratio_in_words(one.ratio)}"
    )
    if one.matters:
        return f"{told}. The two settings interact"
    return f"{told}. The interval includes 1: no interaction is shown"


def ratio_in_words(known: Interval) -> str:
    """A ratio with its interval."""
    return f"{known.middle:#.3g} ({known.low:#.3g} to {known.high:#.3g})"


def median_in_words(one: Effect) -> str:
    """The ratio of medians with its interval, for a table; or why there is none."""
    if not one.effective:
        return NOT_APPLIED
    known = one.ratios[MEDIAN]
    if known is None:
        return TOO_FEW
    return f"{ratio_in_words(known)}; {SHARED}" if one.beside else ratio_in_words(known)
