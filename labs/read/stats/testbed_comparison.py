"""Two witnesses of the same conditions: virtual time and machines, or two kinds of machines.

They agree on a condition when the 95 % interval of the ratio of their figures lies inside the
lab's margin, and part when it lies outside. An interval that reaches over an edge of the margin is
too wide to say: undecided, which is not agreement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from labs.errors import BadInput
from labs.read.display.notebook import Table, Words
from labs.read.lab import Lab, Margin
from labs.read.runs.compare import changes
from labs.read.runs.run import Run
from labs.read.stats.bootstrap import FEWEST, Interval, of_ratio
from labs.read.stats.disagreement import Facts, in_words
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import Repeated, repeated

AGREE, UNDECIDED, PART, NOT_COMPARED = "agree", "undecided", "part", "not compared"
GRADES = (NOT_COMPARED, AGREE, UNDECIDED, PART)
COLUMNS = (
    "condition",
    "figure",
    "first",
    "second",
    "ratio",
    "low",
    "high",
    "verdict",
    "because",
    "counted",
    "disturbed",
    "margin_low",
    "margin_high",
    "first_witness",
    "second_witness",
)


@dataclass(frozen=True)
class Beside:
    """A condition and its two witnesses; `ratio` is the second's figure over the first's."""

    condition: str
    first: Repeated
    second: Repeated
    ratio: Interval | None
    verdict: str
    because: str
    margin: Margin

    def as_json(self) -> dict[str, Any]:
        """The condition as plain data; null where there is no interval."""
        known = self.ratio
        return {
            "condition": self.condition,
            "figure": self.second.figure or None,
            "first": _middle(self.first),
            "second": _middle(self.second),
            "ratio": known and known.middle,
            "low": known and known.low,
            "high": known and known.high,
            "verdict": self.verdict,
            "because": self.because,
            "counted": len(self.second.counted),
            "disturbed": self.second.disturbed,
            "margin_low": self.margin.low,
            "margin_high": self.margin.high,
            "first_witness": witness(self.first),
            "second_witness": witness(self.second),
        }


def tell_margin(lab: Lab) -> Words:
    """The margin of a lab, and why it is as wide as it is."""
    margin = lab.margin
    return Words(f"The margin is {margin.low:g} to {margin.high:g}: {margin.reason}.")


def beside(lab: Lab, first: Iterable[Run], second: Iterable[Run]) -> tuple[Beside, ...]:
    """Each condition of a lab that both witnesses have, in the order of the first.

    BadInput if one has runs of several testbeds, or they have no condition in common.
    """
    ones, others = repeated(lab, first), repeated(lab, second)
    for side in (ones, others):
        testbeds = dict.fromkeys(run.testbed for one in side for run in one.runs)
        if len(testbeds) > 1:
            raise BadInput(f"one witness has runs of {' and '.join(testbeds)}; name a study file")
    there = {one.condition: one for one in others}
    found = tuple(_judged(one, there[one.condition]) for one in ones if one.condition in there)
    if ones and others and not found:
        raise BadInput(
            "the two have no condition in common; compare studies of one lab with the "
            "same parameters"
        )
    return found


def alone(first: Iterable[Run], second: Iterable[Run]) -> list[str]:
    """The conditions that only the first witness has, in its order."""
    there = {run.condition for run in second}
    return list(dict.fromkeys(run.condition for run in first if run.condition not in there))


def as_table(rows: Iterable[Beside]) -> Table:
    """A row a condition, with the columns of `COLUMNS`; empty without a second witness."""
    table = Table([one.as_json() for one in rows], columns=list(COLUMNS))
    for name in ("first", "second", "ratio", "low", "high"):
        table[name] = table[name].astype(float)
    return table


def grade(rows: Iterable[Beside]) -> str:
    """The worst verdict of all conditions."""
    return max((one.verdict for one in rows), key=GRADES.index)


def lines(rows: Sequence[Beside]) -> list[str]:
    """What a reader wants to know below the figures: the reasons, who the witnesses are, the
    margin, and how many conditions came to which verdict."""
    found = [f"{one.condition}: {one.verdict}: {one.because}" for one in rows if one.because]
    for place, side in (("first", rows[0].first), ("second", rows[0].second)):
        found.append(f"the {place}: {witness(side)}")
    margin = rows[0].margin
    found.append(f"margin {margin.low:g} to {margin.high:g}: {margin.reason}")
    counts = {word: sum(one.verdict == word for one in rows) for word in reversed(GRADES)}
    return [
        *found,
        f"{len(rows)} conditions: "
        + ", ".join(f"{count} {word}" for word, count in counts.items() if count),
    ]


def judge(ratio: Interval, margin: Margin) -> str:
    """The verdict of an interval."""
    if margin.low <= ratio.low and ratio.high <= margin.high:
        return AGREE
    return PART if ratio.high < margin.low or ratio.low > margin.high else UNDECIDED


def witness(side: Repeated) -> str:
    """The testbed and the kernel of a witness: `vagrant · Linux 6.1.0-49-cloud-amd64`."""
    run = side.middle
    return f"{run.testbed} · Linux {run.kernel.release}"


def _judged(one: Repeated, other: Repeated) -> Beside:
    margin = other.lab.margin

    def found(verdict: str, because: str, ratio: Interval | None = None) -> Beside:
        return Beside(one.condition, one, other, ratio, verdict, because, margin)

    apart = changes(one.runs[0].inputs["condition"], other.runs[0].inputs["condition"])
    if apart:
        return found(NOT_COMPARED, f"the conditions differ: {', '.join(map(str, apart))}")
    if not one.figure or one.figure != other.figure:
        without = one if not one.figure else other
        return found(NOT_COMPARED, f"{without.runs[0].testbed} has no figure of it to compare")
    few = _too_few(one) or _too_few(other)
    if few:
        return found(UNDECIDED, few)
    ratio = of_ratio(other.values, one.values, exact_over=_exact(other), exact_under=_exact(one))
    if ratio is None:
        return found(UNDECIDED, f"{one.runs[0].testbed} measured 0")
    verdict = judge(ratio, margin)
    because = (
        {
            AGREE: "",
            UNDECIDED: f"the interval reaches over the margin, {margin.low:g} to {margin.high:g}",
        }.get(verdict)
        if verdict != PART
        else in_words(
            facts(one.lab, one.middle), facts(other.lab, other.middle), (margin.low, margin.high)
        )
    )
    return found(verdict, because or "", ratio)


def _exact(side: Repeated) -> bool:
    """A run on virtual time is as good as any number of them."""
    return side.runs[0].testbed == "virtual"


def _too_few(side: Repeated) -> str:
    if len(side.values) >= (1 if _exact(side) else FEWEST):
        return ""
    why = f": {'; '.join(side.why)}" if side.why else ""
    return (
        f"{len(side.values)} of {len(side.runs)} runs ({side.runs[0].testbed}) count, an "
        f"interval takes {FEWEST}{why}"
    )


def _middle(side: Repeated) -> float | None:
    found = side.lab.headline(side.middle)
    return median(side.values) if side.values else found and found[1]


def facts(lab: Lab, run: Run) -> Facts:
    """What of a run may explain its figure."""
    seen = machines(run)
    measured = [one.hz for one in seen.values() if one.hz is not None]
    return Facts(
        run.testbed,
        run.kernel.release,
        run.kernel.hz or (measured[-1] if measured else None),
        lab.prediction(run),
        seen,
    )
