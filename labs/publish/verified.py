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
from labs.publish.notebook_claims import Objection
from labs.publish.real_time import Again
from labs.publish.rerun import BEYOND, COVERED, GRADES, IDENTICAL, WITHIN, NotRepeated, Repeated
from labs.read.claims.moved import Comparison
from labs.read.display.format import few, in_runs, printable
from labs.read.notebook_file import NotebookFile
from labs.read.runs.compare import Change
from labs.read.runs.run import Run
from labs.read.stats.repetitions import Repeated as RepeatedCondition

INTACT, FAILED = "intact", "not repeated"
IN_PART = "in part"
"""Ends the grade if something was not compared: `identical in part`."""
EXIT_CODES = {IDENTICAL: 0, COVERED: 0, INTACT: 0, WITHIN: 7, BEYOND: 5, FAILED: 4}
NOT_ALL_COMPARED = 8
"""The exit code if everything compared agrees, but not everything was compared."""


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
    differs. `objections` are the other parts of a bundle that differ or were not compared.
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
    objections: Sequence[Objection] = ()

    @property
    def grade(self) -> str:
        """The worst grade, `in part` if everything compared agrees, but not everything was: any
        part of a bundle or, without a bundle, runs that could not be repeated here."""
        return f"{self._worst} {IN_PART}" if self._is_partial else self._worst

    @property
    def exit_code(self) -> int:
        return NOT_ALL_COMPARED if self._is_partial else EXIT_CODES[self._worst]

    @property
    def _is_partial(self) -> bool:
        left = self.not_compared if self.subject.bundle else self.repeated and self._impossible
        return EXIT_CODES[self._worst] == 0 and bool(left)

    @property
    def not_compared(self) -> list[Objection]:
        """What was not compared, and why."""
        objections = [objection for objection in self.objections if not objection.differs]
        if not self.notebooks:
            names = [notebook.path.name for notebook in self.subject.notebooks]
            objections += [Objection(f"outputs of {name}", "needs --execute") for name in names]
        for notebook, cells in zip(self.subject.notebooks, self.notebooks, strict=False):
            objections += [
                Objection(f"{kind} in code cell {number} of {notebook.path.name}", "differs")
                for number, kinds in cells.not_compared.items()
                for kind in kinds
            ]
            objections += [
                Objection(
                    f"code cell {number} of {notebook.path.name}",
                    "may measure this machine: it calls labs.audit()",
                )
                for number in cells.of_machine
            ]
        objections += self._impossible
        if self.left_out:
            objections.append(Objection(in_runs(self.left_out), "not drawn"))
        again = {run.name for repeat in self.again for run in repeat.recorded.runs}
        lacking = {missing.run.name for missing in self.lacking}
        timed = [run for run in self.real_time if run.name not in again | lacking]
        if timed:
            objections.append(Objection(f"{in_runs(len(timed))} in real time", "needs --real-time"))
        return objections

    @property
    def _impossible(self) -> list[Objection]:
        """The runs that could not be repeated here, by reason."""
        counted = Counter(missing.why for missing in self.lacking)
        objections = [Objection(in_runs(count), why) for why, count in counted.items()]
        if self.foreign:
            names = ", ".join(sorted({run.lab for run in self.foreign}))
            part = f"{in_runs(len(self.foreign))} of labs not of this package"
            objections.append(Objection(part, f"{names}: needs --lab FILE, whose code is executed"))
        return objections

    @property
    def _worst(self) -> str:
        """The worst grade of runs, verdicts, intervals, notebooks and other parts; `intact` if
        nothing was repeated, because there are no runs in virtual time, `not repeated` if all of
        them failed."""
        moved = self.verdicts is not None and bool(self.verdicts.moved)
        differ = any(objection.differs for objection in self.objections)
        if (
            moved
            or differ
            or self.other_intervals
            or not all(notebook.equal for notebook in self.notebooks)
        ):
            return BEYOND
        grades = [run.grade for run in self.repeated] + [repeat.grade for repeat in self.again]
        if self.verdicts is not None and self.verdicts.other_figures:
            grades.append(WITHIN)
        if grades:
            return max(grades, key=GRADES.index)
        return FAILED if self.lacking else INTACT

    @property
    def real_time(self) -> tuple[Run, ...]:
        return tuple(run for run in self.subject.runs if not run.is_virtual)

    @property
    def causes(self) -> dict[str, int]:
        """Why runs moved, and how many, the most frequent first."""
        counted = Counter(cause for run in self.repeated for cause in run.causes)
        return dict(counted.most_common())

    def as_json(self) -> dict[str, Any]:
        grades = Counter(run.grade for run in self.repeated)
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
            "moved": [run.as_json() for run in self.repeated if run.grade != IDENTICAL],
            "not_repeated": [missing.as_json() for missing in self.lacking],
            "real_time": [repeat.as_json() for repeat in self.again],
            "intervals": [real_time.as_json(condition) for condition in self.conditions],
            "intervals_that_differ": list(self.other_intervals),
            "verdicts": None if self.verdicts is None else self.verdicts.as_json(),
            "notebooks": [notebook.as_json() for notebook in self.notebooks],
            "parts_that_differ": [
                objection.as_json() for objection in self.objections if objection.differs
            ],
            "not_compared": [objection.as_json() for objection in self.not_compared],
        }

    @property
    def inputs(self) -> list[str]:
        """All inputs in which runs and their repetitions differ: versions, or names of digests."""
        return sorted({_input(change) for run in self.repeated for change in run.pair.inputs})

    def lines(self) -> Iterator[str]:
        """The findings as text, the grade last; names and words of a bundle are not trusted."""
        return map(printable, self._lines())

    def _lines(self) -> Iterator[str]:
        files = f" and {self.subject.files} files" if self.subject.files else ""
        yield (
            f"{self.subject.name}: {in_runs(len(self.subject.runs))}{files} checked; all seals, "
            "checksums and schemas match"
        )
        for run in self.repeated:
            if run.grade != IDENTICAL:
                yield f"{run.pair.a.name}: {run.grade}"
                yield from _changes(run)
        yield from (repeat.line() for repeat in self.again)
        yield from (
            f"the recorded interval of {name} is not the one that its runs give here"
            for name in self.other_intervals
        )
        if self.verdicts is not None:
            *moved, count = self.verdicts.lines()
            yield from (f"verdict {line}" if line[0] != " " else line for line in moved)
            yield f"verdicts judged again from the raw files: {count}"
        yield from (
            f"differs: {objection.part}: {objection.why}"
            for objection in self.objections
            if objection.differs
        )
        for cells in self.notebooks:
            yield _of_notebook(cells)
        yield from (f"likely cause ({in_runs(count)}): {why}" for why, count in self.causes.items())
        if self.inputs and not self.causes:
            yield (
                "every byte of raw output is equal although these inputs differ: "
                f"{few(self.inputs, SHOWN)}"
            )
        timed = f" and {len(self.again)} conditions in real time" if self.again else ""
        left = self.not_compared
        yield from (f"not compared: {objection.part}: {objection.why}" for objection in left)
        repeated, every = len(self.repeated), len(self.subject.runs)
        count = in_runs(every) if repeated == every else f"{repeated} of {in_runs(every)}"
        parts = (
            f"; not compared: {few([objection.part for objection in left], SHOWN)}" if left else ""
        )
        yield f"{count}{timed} repeated: {self.grade}{parts}"


SHOWN = 6
DIGEST = re.compile(r"[0-9a-f]{64}")


def _input(change: Change) -> str:
    """An input that differs; digests say nothing to people."""
    digests = any(DIGEST.fullmatch(str(value)) for value in (change.a, change.b))
    return change.name if digests else str(change)


def _changes(repeated: Repeated) -> Iterator[str]:
    yield from (f"  {change.by}" for change in repeated.pair.results[:SHOWN])
    if len(repeated.pair.results) > SHOWN:
        yield f"  and {len(repeated.pair.results) - SHOWN} more results"
    if not repeated.pair.results:
        yield f"  no result moved; bytes differ in {few(repeated.pair.files, SHOWN)}"


def _of_notebook(cells: Cells) -> str:
    if cells.stopped:
        return f"{cells.notebook}: stopped when it was executed again: {cells.stopped}"
    if cells.changed:
        return (
            f"{cells.notebook}: different outputs of the code cells "
            f"{', '.join(map(str, cells.changed))} ({cells.first})"
        )
    equal = cells.compared - len(cells.of_machine)
    return f"{cells.notebook}: executed again, equal numbers and words in {equal} code cells"
