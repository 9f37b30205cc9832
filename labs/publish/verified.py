"""What a verification found, as text and as plain data, and its grade."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labs.publish import real_time
from labs.publish.executed_again import Cells
from labs.publish.real_time import Again
from labs.publish.rerun import BEYOND, GRADES, IDENTICAL, WITHIN, NotRepeated, Repeated
from labs.read.claims.moved import Comparison
from labs.read.display.format import few, in_runs
from labs.read.notebook_file import NotebookFile
from labs.read.runs.compare import Change
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Repeated as RepeatedCondition

INTACT, FAILED = "intact", "not repeated"


@dataclass(frozen=True)
class Subject:
    """What is verified, once its checksums and schemas match: the runs, the number of
    files with a checksum of their own, the folder and notebooks of a bundle, and the file with the
    verdicts on the recorded runs of the project."""

    name: str
    files: int
    runs: tuple[Run, ...]
    bundle: Path | None = None
    notebooks: tuple[NotebookFile, ...] = ()
    table: Path | None = None


@dataclass(frozen=True)
class Verified:
    """What was found.

    `repeated` are runs in virtual time and their repetitions, `again` conditions in real time and
    theirs, `lacking` runs that should have been repeated and could not be. `left_out` counts runs
    in virtual time that were not drawn, `foreign` are runs of labs that are not part of the
    package, and `conditions` those in real time with an interval. `verdicts` compares the recorded
    verdicts with those that the runs give here; `other_intervals` names conditions whose interval
    differs.
    """

    subject: Subject
    repeated: Sequence[Repeated]
    again: Sequence[Again]
    lacking: Sequence[NotRepeated]
    left_out: int
    foreign: Sequence[Run]
    conditions: Sequence[RepeatedCondition]
    verdicts: Comparison | None = None
    other_intervals: Sequence[str] = ()
    notebooks: Sequence[Cells] = ()

    @property
    def grade(self) -> str:
        """The worst grade of runs, verdicts, intervals and notebooks; `intact` if nothing was
        repeated, because there are no runs in virtual time, `not repeated` if all of them
        failed."""
        moved = self.verdicts is not None and bool(self.verdicts.moved)
        if moved or self.other_intervals or not all(one.equal for one in self.notebooks):
            return BEYOND
        found = [one.grade for one in self.repeated] + [one.grade for one in self.again]
        if self.verdicts is not None and self.verdicts.other_figures:
            found.append(WITHIN)
        if found:
            return max(found, key=GRADES.index)
        return FAILED if self.lacking else INTACT

    @property
    def real_time(self) -> tuple[Run, ...]:
        return tuple(run for run in self.subject.runs if not run.is_virtual)

    @property
    def causes(self) -> dict[str, int]:
        """Why runs moved, and how many, the most frequent first."""
        found = Counter(cause for one in self.repeated for cause in one.causes)
        return dict(found.most_common())

    def as_json(self) -> dict[str, Any]:
        grades = Counter(one.grade for one in self.repeated)
        return {
            "grade": self.grade,
            "what": self.subject.name,
            "files": self.subject.files,
            "runs": {
                "checked": len(self.subject.runs),
                "repeated": len(self.repeated),
                **{name: grades[name] for name in GRADES},
                "not_repeated": len(self.lacking),
                "left_out": self.left_out,
                "real_time": len(self.real_time),
                "of_other_labs": len(self.foreign),
            },
            "causes": self.causes,
            "inputs_that_differ": self.inputs,
            "moved": [one.as_json() for one in self.repeated if one.grade != IDENTICAL],
            "not_repeated": [one.as_json() for one in self.lacking],
            "real_time": [one.as_json() for one in self.again],
            "intervals": [real_time.as_json(one) for one in self.conditions],
            "intervals_that_differ": list(self.other_intervals),
            "verdicts": None if self.verdicts is None else self.verdicts.as_json(),
            "notebooks": [one.as_json() for one in self.notebooks],
        }

    @property
    def inputs(self) -> list[str]:
        """All inputs in which runs and their repetitions differ: versions, or names of digests."""
        return sorted({_input(change) for one in self.repeated for change in one.pair.inputs})

    def lines(self) -> Iterator[str]:
        """The findings as text, the grade last."""
        files = f" and {self.subject.files} files" if self.subject.files else ""
        yield (
            f"{self.subject.name}: {in_runs(len(self.subject.runs))}{files} checked; all seals, "
            "checksums and schemas match"
        )
        for one in self.repeated:
            if one.grade != IDENTICAL:
                yield f"{one.pair.a.name}: {one.grade}"
                yield from _changes(one)
        counted = Counter(one.why for one in self.lacking)
        yield from (f"{in_runs(count)} not repeated: {why}" for why, count in counted.items())
        yield from (one.line() for one in self.again)
        if self.real_time and not self.again:
            yield (
                f"{in_runs(len(self.real_time))} in real time, {len(self.conditions)} conditions "
                "with an interval: intact, and not repeated. --real-time N repeats N conditions, "
                "if their testbed can be used here"
            )
        if self.foreign:
            names = ", ".join(sorted({run.lab for run in self.foreign}))
            yield (
                f"{in_runs(len(self.foreign))} of labs that are not part of this package "
                f"({names}): intact, and not repeated. Name a lab file that you trust with --lab"
            )
        yield from (
            f"the recorded interval of {name} is not the one that its runs give here"
            for name in self.other_intervals
        )
        if self.verdicts is not None:
            *moved, count = self.verdicts.lines()
            yield from (f"verdict {line}" if line[0] != " " else line for line in moved)
            yield f"verdicts judged again from the raw files: {count}"
        for cells in self.notebooks:
            yield _of_notebook(cells)
        yield from (f"likely cause ({in_runs(count)}): {why}" for why, count in self.causes.items())
        if self.inputs and not self.causes:
            yield (
                "every byte of raw output is equal although these inputs differ: "
                f"{few(self.inputs, SHOWN)}"
            )
        drawn = f", {self.left_out} not drawn" if self.left_out else ""
        timed = f" and {len(self.again)} conditions in real time" if self.again else ""
        yield f"{in_runs(len(self.repeated))}{timed} repeated{drawn}: {self.grade}"


SHOWN = 6
DIGEST = re.compile(r"[0-9a-f]{64}")


def _input(change: Change) -> str:
    """An input that differs; digests say nothing to people."""
    digests = any(DIGEST.fullmatch(str(value)) for value in (change.a, change.b))
    return change.name if digests else str(change)


def _changes(one: Repeated) -> Iterator[str]:
    for change in one.pair.results[:SHOWN]:
        by = "" if change.percent is None else f" ({change.percent:+.3g} %)"
        yield f"  {change}{by}"
    if len(one.pair.results) > SHOWN:
        yield f"  and {len(one.pair.results) - SHOWN} more results"
    if not one.pair.results:
        yield f"  no result moved; bytes differ in {few(one.pair.files, SHOWN)}"


def _of_notebook(cells: Cells) -> str:
    if cells.stopped:
        return f"{cells.notebook}: stopped when it was executed again: {cells.stopped}"
    if cells.changed:
        return (
            f"{cells.notebook}: other numbers in the code cells "
            f"{', '.join(map(str, cells.changed))} ({cells.first})"
        )
    differing = ", ".join(map(str, cells.of_machine))
    machine = f"; code cell {differing} measures this machine and differs" if differing else ""
    return (
        f"{cells.notebook}: executed again, equal numbers in "
        f"{cells.compared - len(cells.of_machine)} code cells{machine}"
    )
