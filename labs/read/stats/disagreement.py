"""Why two witnesses part: what their machines were measured to be and to do, never a guess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from labs.drive.host_load import HERE
from labs.read.stats.machines import Machine

# A CPU that is busy so long had no time left to send or take more. The looks at it are taken before
# the programs start and after they have ended, which thins out what the download itself took.
FULL_PCT = 85.0
# What the devices of the virtual testbed have on; of gro they say nothing, because packets pass
# from one to the other whole (drivers/net/veth.c, VETH_FEATURES).
VETH = {"tso": True, "gso": True}


@dataclass(frozen=True)
class Facts:
    """What is known of a run that may explain its figure; None for what was not measured.

    `predicted` is what the theory expects of this kernel under this condition, in the unit of the
    figure; `machines` are those of the run, none on virtual time, where no machine limits.
    """

    testbed: str
    release: str
    hz: int | None = None
    predicted: float | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)


def reasons(one: Facts, other: Facts, margin: tuple[float, float]) -> tuple[str, ...]:
    """The measurements that can explain why `other` is off `one`, each with its figures.

    A busy CPU; kernels of which the theory itself expects figures that are apart by more than the
    margin; other offloads; another HZ. In this order: the first is the likeliest. None if no
    measurement differs.
    """
    return (
        *_cpu(one),
        *_cpu(other),
        *_kernels(one, other, margin),
        *_offloads(one, other),
        *_ticks(one, other),
    )


def in_words(one: Facts, other: Facts, margin: tuple[float, float]) -> str:
    """The reasons in one line; where there are none, what was measured and explains nothing."""
    found = reasons(one, other, margin)
    if found:
        return "; ".join(found)
    busiest = [
        seen.busiest_pct
        for facts in (one, other)
        for seen in facts.machines.values()
        if seen.busiest_pct is not None
    ]
    cpu = f"no CPU was busier than {max(busiest):.0f} %" if busiest else "no CPU was measured"
    return (
        f"no measurement explains it: {cpu}, Linux {one.release} and {other.release}, "
        f"HZ {_or_unknown(one.hz)} and {_or_unknown(other.hz)}"
    )


def _cpu(facts: Facts) -> Iterator[str]:
    for name, seen in facts.machines.items():
        if name != HERE and seen.busiest_pct is not None and seen.busiest_pct >= FULL_PCT:
            yield f"CPU: one of the {name}'s was {seen.busiest_pct:.0f} % busy ({facts.testbed})"
        if name == HERE and seen.busy_pct is not None and seen.busy_pct >= FULL_PCT:
            yield (
                f"CPU: all of the machine below were {seen.busy_pct:.0f} % busy ({facts.testbed})"
            )


def _kernels(one: Facts, other: Facts, margin: tuple[float, float]) -> Iterator[str]:
    if one.release == other.release or not one.predicted or other.predicted is None:
        return
    ratio = other.predicted / one.predicted
    if not margin[0] <= ratio <= margin[1]:
        yield (
            f"kernel: the theory has {other.predicted:.3g} for Linux {other.release} and "
            f"{one.predicted:.3g} for {one.release}, a ratio of {ratio:.2f}"
        )


def _offloads(one: Facts, other: Facts) -> Iterator[str]:
    for name, seen in other.machines.items():
        before = one.machines.get(name)
        known = VETH if before is None else before.offloads
        if seen.offloads is None or known is None:
            continue
        apart = [offload for offload, on in seen.offloads.items() if known.get(offload, on) != on]
        if apart:
            states = ", ".join(
                f"{offload} {'on' if seen.offloads[offload] else 'off'}" for offload in apart
            )
            yield f"driver: {states} on the {name} ({seen.driver or 'unknown'}, {other.testbed})"


def _ticks(one: Facts, other: Facts) -> Iterator[str]:
    if one.hz is not None and other.hz is not None and one.hz != other.hz:
        yield (
            f"HZ: a tick is {1000 / other.hz:g} ms ({other.testbed}), "
            f"{1000 / one.hz:g} ms ({one.testbed})"
        )


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)
