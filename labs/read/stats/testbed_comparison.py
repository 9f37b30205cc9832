"""The same conditions on two testbeds: do they agree, and if not, which measurement explains it?

They agree on a condition when the 95 % interval of the ratio of their figures lies inside the
lab's margin, and disagree when it lies outside. An interval that crosses an edge of the margin is
undecided, which is not agreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from labs.drive.record.seal import canonical
from labs.drive.result_columns import Margin
from labs.errors import BadInput
from labs.guest.host_load import HERE
from labs.read.display.format import in_runs, size_in_words, terminal_table
from labs.read.display.rich_output import Table, Words
from labs.read.lab import Lab
from labs.read.readings.bulk_transfer import CLOCKS, SENDER, limited_pct
from labs.read.readings.goodput import sampled_socket
from labs.read.runs.compare import changes, matched, only_in
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines
from labs.read.stats.repetitions import FEWEST, Interval, Repeated, of_ratio, repeated
from labs.read.theory.bulk_sender import RECEIVE_WINDOW

AGREE, UNDECIDED = "agree", "undecided"
DISAGREE, NOT_COMPARED = "disagree", "not compared"
GRADES = (NOT_COMPARED, AGREE, UNDECIDED, DISAGREE)
SHOWN_COLUMNS = (
    *("condition", "figure", "first", "second", "ratio", "low", "high"),
    *("counted", "disturbed", "verdict"),
)
COLUMNS = (
    *("condition", "figure", "first", "second", "ratio", "low", "high", "verdict", "because"),
    *("counted", "disturbed", "margin_low", "margin_high", "first_testbed", "second_testbed"),
)


# A CPU that is this busy had no time left to send or receive more. Its counters are read before the
# programs start and after they have ended, so the share during the download itself is higher.
FULL_PCT = 85.0
# What the devices of the virtual testbed have on; gro is not included, because packets pass
# from one to the other whole (drivers/net/veth.c, VETH_FEATURES).
VETH = {"tso": True, "gso": True}
MOST_PCT = 50.0


@dataclass(frozen=True)
class ConditionComparison:
    """A condition on two testbeds; `ratio` is the second's figure over the first's."""

    condition: str
    first: Repeated
    second: Repeated
    ratio: Interval | None
    verdict: str
    because: str
    margin: Margin

    def as_json(self) -> dict[str, Any]:
        """The condition as plain data; null where there is no interval."""
        sides, ratio = (self.first, self.second), self.ratio
        interval = (None,) * 3 if ratio is None else (ratio.middle, ratio.low, ratio.high)
        values = (
            *(self.condition, self.second.figure or None, *map(_middle, sides), *interval),
            *(self.verdict, self.because, len(self.second.counted), self.second.disturbed),
            *(self.margin.low, self.margin.high, *map(testbed_and_kernel, sides)),
        )
        return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True)
class TestbedComparison:
    """All conditions of a lab that two sides have, and the runs that only one has."""

    lab: Lab
    counts: tuple[int, int]
    rows: tuple[ConditionComparison, ...]
    only_first: tuple[Run, ...]
    only_second: tuple[Run, ...]

    @property
    def grade(self) -> str | None:
        """Whether the testbeds agree; None without a condition."""
        return grade(self.rows) if self.rows else None

    def as_json(self) -> dict[str, Any]:
        return {
            "lab": self.lab.name,
            "grade": self.grade,
            "runs": dict(zip(("first", "second"), self.counts, strict=True)),
            "margin": asdict(self.lab.margin),
            "conditions": [row.as_json() for row in self.rows],
            "only_first": dict(Counter(run.condition for run in self.only_first)),
            "only_second": dict(Counter(run.condition for run in self.only_second)),
        }

    def lines(self) -> list[str]:
        """The comparison as text: the table, the counts of runs, and the reasons below them."""
        answer, (first, second) = self.as_json(), map(in_runs, self.counts)
        titles = [self.lab.title_of(self.lab.group_of(row.first.runs[0])) for row in self.rows]
        table = [terminal_table(answer["conditions"], SHOWN_COLUMNS, titles), ""]
        return [
            *(table if self.rows else []),
            f"{self.lab.name}: {first} in the first, {second} in the second",
            *only_in("first", answer["only_first"]),
            *only_in("second", answer["only_second"]),
            *(lines(self.rows) if self.rows else []),
        ]


def describe_margin(lab: Lab) -> Words:
    """The margin of a lab, and the reason for its width."""
    return Words(f"The margin is {lab.margin.span}: {lab.margin.reason}.")


def compare_testbeds(
    lab: Lab, first: Iterable[Run], second: Iterable[Run]
) -> tuple[ConditionComparison, ...]:
    """Each condition of a lab that both sides have, in the order of the first.

    BadInput if one has runs of several testbeds, or they have no condition in common.
    """
    ones, others = repeated(lab, first), repeated(lab, second)
    for side in (ones, others):
        testbeds = dict.fromkeys(run.testbed for condition in side for run in condition.runs)
        if len(testbeds) > 1:
            raise BadInput(f"one side has runs of {' and '.join(testbeds)}. Name a study file")
    there = {other.condition: other for other in others}
    judged = tuple(
        _judged(condition, there[condition.condition])
        for condition in ones
        if condition.condition in there
    )
    if ones and others and not judged:
        raise BadInput(
            "the two sides have no condition in common. Compare studies of the same lab with the "
            "same parameters"
        )
    return judged


def compare_every(lab: Lab, first: Sequence[Run], second: Sequence[Run]) -> TestbedComparison:
    """Each question that both sides have runs of, and the runs that only one side has.

    A question is a condition with all its values, so that runs of one condition on several links
    are not mixed. A condition that each side asked once, with other values, is not compared.
    """
    questions = (_asked, lambda run: run.condition)
    both, *only = matched(first, second, questions, _are_comparable)
    rows = [row for sides in both for row in compare_testbeds(lab, *sides)]
    order = list(dict.fromkeys(run.condition for run in first))
    rows.sort(key=lambda row: order.index(row.condition))
    return TestbedComparison(lab, (len(first), len(second)), tuple(rows), *map(tuple, only))


def _asked(run: Run) -> bytes:
    return canonical(run.condition_asked.as_json())


def _are_comparable(first: Sequence[Run], second: Sequence[Run]) -> bool:
    """Whether both sides have runs, and each of them one set of values."""
    if not first or not second:
        return False
    for side in (first, second):
        kernels = dict.fromkeys(run.kernel.release for run in side)
        if len(kernels) > 1:
            raise BadInput(
                f"one side has runs of {side[0].condition} on Linux {' and '.join(kernels)}. Name "
                "a study file"
            )
        if len({_asked(run) for run in side}) > 1:
            return False
    return True


def as_table(rows: Iterable[ConditionComparison]) -> Table:
    """One row per condition, with the columns of `COLUMNS`; empty without a second side."""
    table = Table([row.as_json() for row in rows], columns=list(COLUMNS))
    for name in ("first", "second", "ratio", "low", "high"):
        table[name] = table[name].astype(float)
    return table


def grade(rows: Iterable[ConditionComparison]) -> str:
    """Whether two testbeds agree: the worst verdict of all conditions, `not compared` if none."""
    return max((row.verdict for row in rows), key=GRADES.index, default=NOT_COMPARED)


def lines(rows: Sequence[ConditionComparison]) -> list[str]:
    """The lines below the figures: the reasons, the two testbeds, the margin, and the number of
    conditions with each verdict."""
    margin, counts = rows[0].margin, Counter(row.verdict for row in rows)
    verdicts = ", ".join(f"{counts[word]} {word}" for word in reversed(GRADES) if counts[word])
    return [
        *(f"{row.condition}: {row.verdict}: {row.because}" for row in rows if row.because),
        f"the first: {testbed_and_kernel(rows[0].first)}",
        f"the second: {testbed_and_kernel(rows[0].second)}",
        f"margin {margin.span}: {margin.reason}",
        f"{len(rows)} conditions: {verdicts}",
    ]


def judge(ratio: Interval, margin: Margin) -> str:
    """The verdict of an interval."""
    if margin.admits(ratio.low) and margin.admits(ratio.high):
        return AGREE
    return DISAGREE if ratio.high < margin.low or ratio.low > margin.high else UNDECIDED


def testbed_and_kernel(side: Repeated) -> str:
    """The testbed and the kernel of a side: `vagrant · Linux 6.1.0-49-cloud-amd64`."""
    run = side.middle
    return f"{run.testbed} · Linux {run.kernel.release}"


def _judged(first: Repeated, other: Repeated) -> ConditionComparison:
    margin = other.lab.margin

    def compared(verdict: str, because: str, ratio: Interval | None = None) -> ConditionComparison:
        return ConditionComparison(first.condition, first, other, ratio, verdict, because, margin)

    differing = changes(*(side.runs[0].condition_asked.as_json() for side in (first, other)))
    if differing:
        return compared(NOT_COMPARED, f"the conditions differ: {', '.join(map(str, differing))}")
    if not first.figure or first.figure != other.figure:
        without = first if not first.figure else other
        return compared(NOT_COMPARED, f"{without.runs[0].testbed} has no figure to compare")
    few = _too_few(first) or _too_few(other)
    if few:
        return compared(UNDECIDED, few)
    ratio = of_ratio(
        other.values, first.values, exact_over=_exact(other), exact_under=_exact(first)
    )
    if ratio is None:
        return compared(UNDECIDED, f"{first.runs[0].testbed} measured 0")
    verdict = judge(ratio, margin)
    if verdict == AGREE:
        return compared(AGREE, "", ratio)
    sides = facts(first.lab, first.middle), facts(other.lab, other.middle)
    if verdict == UNDECIDED:
        crosses = f"the interval crosses an edge of the margin, {margin.span}"
        return compared(verdict, "; ".join((crosses, *reasons(*sides, margin))), ratio)
    return compared(verdict, describe_reasons(*sides, margin), ratio)


def _exact(side: Repeated) -> bool:
    """Whether a single run is enough, because it repeats to the byte."""
    return side.runs[0].where.virtual_time


def _too_few(side: Repeated) -> str:
    if len(side.values) >= (1 if _exact(side) else FEWEST):
        return ""
    why = f": {'; '.join(side.why)}" if side.why else ""
    return (
        f"{len(side.values)} of {len(side.runs)} runs ({side.runs[0].testbed}) are usable, and an "
        f"interval needs {FEWEST}{why}"
    )


def _middle(side: Repeated) -> float | None:
    headline = side.lab.headline(side.middle)
    return median(side.values) if side.values else headline and headline[1]


def facts(lab: Lab, run: Run) -> Facts:
    """The facts of a run that may explain its figure."""
    seen = machines(run)
    measured = [machine.hz for machine in seen.values() if machine.hz is not None]
    return Facts(
        run.testbed,
        run.kernel.release,
        run.kernel.hz or (measured[-1] if measured else None),
        lab.prediction(run),
        seen,
        *_limited(run),
        figure=(headline := lab.headline(run)) and headline[1],
    )


def _limited(run: Run) -> tuple[dict[str, float], float | None]:
    """What limited the sender, in per cent of the time for which it was busy; and the mean receive
    window that it was offered while data was in flight. Neither without samples."""
    rows = sampled_socket(run, SENDER, "bytes_acked")
    if rows.empty or not {"snd_wnd_bytes", "unacked_segments", *CLOCKS} <= set(rows):
        return {}, None
    shares, in_flight = limited_pct(rows), rows["unacked_segments"] > 0
    if not shares or not in_flight.any():
        return {}, None
    return shares, float(rows.loc[in_flight, "snd_wnd_bytes"].mean())


@dataclass(frozen=True)
class Facts:
    """What is known of a run that may explain its figure; None for what was not measured.

    `predicted` is what the theory expects of this kernel under this condition, in the unit of the
    figure; `machines` are those of the run, none in virtual time, where no machine limits.
    `limited` has the per cent of the busy time for which each buffer limited the sender, and
    `offered_bytes` is the mean receive window that it was offered.
    """

    testbed: str
    release: str
    hz: int | None = None
    predicted: float | None = None
    machines: Mapping[str, Machine] = field(default_factory=dict)
    limited: Mapping[str, float] = field(default_factory=dict)
    offered_bytes: float | None = None
    figure: float | None = None

    @property
    def limit(self) -> str:
        """What limited the sender for most of the time; "" if nothing did."""
        return next((name for name, share in self.limited.items() if share > MOST_PCT), "")


def reasons(first: Facts, other: Facts, margin: Margin) -> tuple[str, ...]:
    """The measurements that can explain why `other` differs from `first`, each with its figures.

    A busy CPU; kernels whose predicted figures differ by more than the margin; receive windows that
    were offered; other offloads; another HZ. The first is the likeliest. Empty if no measurement
    differs.
    """
    return (
        *_cpu(first),
        *_cpu(other),
        *_kernels(first, other, margin),
        *_windows(first, other, margin),
        *_offloads(first, other),
        *_ticks(first, other),
    )


def describe_reasons(first: Facts, other: Facts, margin: Margin) -> str:
    """The reasons in one line; if there are none, the measurements that explain nothing."""
    explained = reasons(first, other, margin)
    if explained:
        return "; ".join(explained)
    busiest = [
        seen.busiest_pct
        for facts in (first, other)
        for seen in facts.machines.values()
        if seen.busiest_pct is not None
    ]
    cpu = f"no CPU was busier than {max(busiest):.0f} %" if busiest else "no CPU was measured"
    return (
        f"no measurement explains it: {cpu}, Linux {first.release} and {other.release}, "
        f"HZ {first.hz or 'unknown'} and {other.hz or 'unknown'}"
    )


def _cpu(facts: Facts) -> Iterator[str]:
    for name, seen in facts.machines.items():
        if name != HERE and seen.busiest_pct is not None and seen.busiest_pct >= FULL_PCT:
            busy = f"{seen.busiest_pct:.0f} % busy ({facts.testbed})"
            yield f"CPU: one of the {name}'s CPUs was {busy}"
        if name == HERE and seen.busy_pct is not None and seen.busy_pct >= FULL_PCT:
            yield f"CPU: the host's CPUs were {seen.busy_pct:.0f} % busy ({facts.testbed})"


def _kernels(first: Facts, other: Facts, margin: Margin) -> Iterator[str]:
    if first.release == other.release or not first.predicted or other.predicted is None:
        return
    ratio = other.predicted / first.predicted
    if not margin.admits(ratio):
        yield (
            f"kernel: the prediction is {other.predicted:.3g} for Linux {other.release} and "
            f"{first.predicted:.3g} for {first.release}, a ratio of {ratio:.2f}"
        )


def _windows(first: Facts, other: Facts, margin: Margin) -> Iterator[str]:
    """Different limits; or, if the receive window limits both, sizes that differ by more than half
    of the margin.

    A receiver that reads late has advertised a smaller window, and announces the whole one only if
    that is at least twice as large as what is left (net/ipv4/tcp.c __tcp_cleanup_rbuf()).
    """
    if first.limit != other.limit:
        limits = [
            f"the {side.limit} for {side.limited[side.limit]:.0f} % of the time"
            if side.limit
            else "nothing for most of the time"
            for side in (other, first)
        ]
        if first.limited and other.limited:
            yield f"limit: {limits[0]} ({other.testbed}), {limits[1]} ({first.testbed})"
        return
    before, after = first.offered_bytes, other.offered_bytes
    if first.limit != RECEIVE_WINDOW or not before or not after:
        return
    ratio = after / before
    low, high = ((1 + edge) / 2 for edge in (margin.low, margin.high))
    is_slower = (other.figure or 0) < (first.figure or 0)
    if low <= ratio <= high or is_slower != (ratio < 1):
        return
    yield (
        f"receive window: the sender was offered {size_in_words(after)} on average "
        f"({other.testbed}), {size_in_words(before)} ({first.testbed}), a ratio of {ratio:.2f}"
    )


def _offloads(first: Facts, other: Facts) -> Iterator[str]:
    for name, seen in other.machines.items():
        before = first.machines.get(name)
        offloads = VETH if before is None else before.offloads
        if seen.offloads is None or offloads is None:
            continue
        apart = [
            offload for offload, on in seen.offloads.items() if offloads.get(offload, on) != on
        ]
        if apart:
            states = ", ".join(
                f"{offload} {'on' if seen.offloads[offload] else 'off'}" for offload in apart
            )
            yield f"driver: {states} on the {name} ({seen.driver or 'unknown'}, {other.testbed})"


def _ticks(first: Facts, other: Facts) -> Iterator[str]:
    if first.hz is not None and other.hz is not None and first.hz != other.hz:
        yield (
            f"HZ: a tick is {1000 / other.hz:g} ms ({other.testbed}), "
            f"{1000 / first.hz:g} ms ({first.testbed})"
        )
