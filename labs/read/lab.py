"""A lab as a value: what shared code needs to know of it, and may know of it.

`labs.catalog` makes it and hands it down; nothing below the catalog looks a lab up by name.
"""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import LabParameters, did_you_mean
from labs.drive.record.stored_files import AGAIN
from labs.drive.result_columns import Column, Margin, columns_of
from labs.drive.testbeds import RECORDED
from labs.errors import BadInput, Damaged, LabError
from labs.guest.condition import Condition, Group
from labs.read.run_results import Computation, Found, kept_results
from labs.read.runs.raw_files import UNEXPECTED

if TYPE_CHECKING:
    from labs.read.runs.run import Run

OF_RUN = "run_"
"""Begins the name of a column of results that has the name of a parameter in the same table."""
BESIDE_RESULTS: Mapping[str, type] = {
    "condition": str,
    "group": str,
    "notes": str,
    "note_codes": str,
    "testbed": str,
    "kernel": str,
    "source": str,
    "rtt_ms": float,
    "rate_mbit": float,
    "link": str,
    "link_ok": bool,
    "link_asked": str,
    "link_shaped": bool,
    "key": str,
    "digest": str,
}
"""The columns of a row of results besides those of the lab, which therefore cannot have the same
names, with their types; `labs.read.result_row` fills them."""


@dataclass(frozen=True, eq=False)
class Lab:
    """A lab.

    `experiment` is the module with `measure(bench, condition)`, which a run loads. `part(name)`
    loads a module of the lab ("results", "figures", "claims"), or gives None if it has
    none. `groups` are those of its conditions, in order. `tools` names the programs that a
    condition starts, `machine_tools` those that it starts on machines if they differ, because this
    machine prepares something for them. `lines` are the commands that it adds to those of its link.
    `ledger` is the file with an article's claims, `source` the file of a reader's own lab, which
    holds every part.
    """

    name: str
    title: str
    Parameters: type[LabParameters]
    all_conditions: Callable[[Any], tuple[Condition, ...]]
    experiment: str
    part: Callable[[str], ModuleType | None]
    tools: Callable[[Condition], tuple[str, ...]] = lambda condition: ()
    machine_tools: Callable[[Condition], tuple[str, ...]] | None = None
    lines: Callable[[Condition], tuple[tuple[str, tuple[str, ...]], ...]] = lambda condition: ()
    groups: tuple[Group, ...] = ()
    ledger: Path | None = None
    source: Path | None = None
    _margin: Margin | None = None
    _results: dict[Run, Found] = field(default_factory=dict, repr=False)
    _conditions: dict[LabParameters, tuple[Condition, ...]] = field(
        default_factory=dict, repr=False
    )

    def conditions(self, p: LabParameters) -> tuple[Condition, ...]:
        """What is run for these parameters, `only` applied, group by group; BadInput if it names
        what is not, for two conditions of one name, or for a group that the lab does not declare.

        Computed once: a notebook's check refuses what cannot be, and its study runs the same.
        """
        if p not in self._conditions:
            every = self.all_conditions(p)
            problem = wrong_conditions(every, self.groups)
            if problem:
                raise BadInput(f"{self.source or f'the lab {self.name}'}: {problem}")
            chosen = p.chosen([condition.name for condition in every])
            order = [group.name for group in self.groups] or [""]
            self._conditions[p] = tuple(
                sorted(
                    (condition for condition in every if condition.name in chosen),
                    key=lambda condition: order.index(condition.group),
                )
            )
        return self._conditions[p]

    def group_of(self, run: Run) -> str:
        """The name of the group of a run's condition; empty if it has none.

        A run does not contain it. It is looked up by the condition's name among those of size full
        on the same link, whether or not this machine can run them, and otherwise by `only`, since
        some conditions are run only on request; a link that the lab does not allow has none.
        """
        link = run.inputs["condition"]["link"]
        names = {field.name for field in dataclasses.fields(self.Parameters)}
        given: dict[str, Any] = {
            name: float(link[name])
            for name in names & {"rate_mbit", "delay_ms"}
            if link[name] is not None
        }
        for only in ("", run.condition):
            p = self.Parameters(size="full", testbed=RECORDED.name, only=only, **given)
            try:
                groups = {condition.name: condition.group for condition in self.conditions(p)}
            except BadInput:
                return ""
            if run.condition in groups:
                return groups[run.condition]
        return ""

    def title_of(self, group: str) -> str:
        """The title of a group by its name; the name itself if the lab does not declare it."""
        return next((declared.title for declared in self.groups if declared.name == group), group)

    def require(self, part: str) -> ModuleType:
        """A part of the lab; BadInput if it has none."""
        module = self.part(part)
        if module is None:
            raise BadInput(f"the lab {self.name} has no {part}")
        return module

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns of the lab's `Results`, by name; BadInput, with the file, for a column that
        it cannot have."""
        module = self.require("results")
        try:
            return checked_columns(module.Results)
        except BadInput as error:
            raise BadInput(f"{module.__file__}: {error}") from error

    def results(self, run: Run) -> Found:
        """The results of a run; computed once for each run.

        Raises Damaged for a run whose content a lab of the project does not expect. What a
        reader's own lab raises is more likely an error of that lab: BadInput with the line.
        """
        if run not in self._results:
            compute = partial(self._computation, run)
            self._results[run] = (
                kept_results(self.name, run.digest, run.record, compute)
                if self.source is None
                else compute().results()
            )
        return self._results[run]

    def _computation(self, run: Run) -> Computation:
        make = partial(self.require("results").Results, run)
        return Computation(make, self.columns.values(), partial(self._reading, run))

    @contextmanager
    def _reading(self, run: Run) -> Iterator[None]:
        """Errors while the results of a run are computed, as errors that name it."""
        try:
            yield
        except LabError:
            raise
        except Exception as error:
            if self.source is not None:
                raise _fault(self.source, run, error) from error
            if not isinstance(error, UNEXPECTED):
                raise
            where = self._last_in_folder(error)
            changed = f"Correct {where}, if you changed this file; else the run is damaged. "
            raise Damaged(
                f"{run.path}: the lab {self.name} cannot compute results from what it holds "
                f"({type(error).__name__}: {str(error)[:80]}). {changed if where else ''}{AGAIN}"
            ) from error

    def _last_in_folder(self, error: Exception) -> str:
        """File and line that raised an error, if it is in the folder of the lab; else empty."""
        folder = Path(str(self.require("results").__file__)).parent
        place, line = last_line(error, lambda path: True)
        return f"{place}:{line}" if place and folder in place.parents else ""

    def forget(self, run: Run) -> None:
        """Drop the results of a run: who reads thousands of runs cannot keep them all."""
        self._results.pop(run, None)

    def headline(self, run: Run) -> tuple[str, float] | None:
        """The name and value of the figure that runs are compared by; None for a run without."""
        results = self.results(run)
        if any(note.excludes for note in results.notes):
            return None
        return next(
            (
                (name, float(results.values[name]))
                for name, column in self.columns.items()
                if column.headline and results.values.get(name) is not None
            ),
            None,
        )

    def prediction(self, run: Run) -> float | None:
        """What the theory has for the headline figure of a run; None where it has nothing."""
        figure = self.headline(run)
        predicted = None if figure is None else self.predicted_and_measured(run, figure[0])[0]
        return None if predicted is None else float(predicted)

    def predicted_and_measured(self, run: Run, column: str) -> tuple[Any, Any]:
        """The value of the column that predicts a column of a run's results, and that column's;
        None for one that is missing."""
        values = self.results(run).values
        return values.get(self.columns[column].predicted_by or ""), values.get(column)

    @property
    def margin(self) -> Margin:
        """Within what two testbeds agree; BadInput if the lab has not written it down."""
        if self._margin is None:
            raise BadInput(
                f"the lab {self.name} has no margin within which two testbeds agree. "
                "Add one to the lab: MARGIN = Margin(0.9, 1.1, reason), from "
                "labs.drive.result_columns"
            )
        return self._margin


def _fault(source: Path, run: Run, error: Exception) -> BadInput:
    """An error of a reader's own lab in one line: the last line of their file that led to it."""
    path = source.resolve()
    _, line = last_line(error, lambda file: file.resolve() == path)
    where = f"{source}:{line}" if line else str(source)
    return BadInput(
        f"{where}: results of {run.condition} raises {type(error).__name__}: {error}. "
        f"Fix {source.name}; the run is kept in {run.path}"
    )


def last_line(
    error: BaseException, counts: Callable[[Path], bool]
) -> tuple[Path | None, int | None]:
    """The last line that led to an error in a file that counts: its file and number, if any."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    lines = [(Path(file), line) for file, line in frames if counts(Path(file))]
    return lines[-1] if lines else (None, None)


def checked_columns(results: type) -> dict[str, Column]:
    """The columns of a class `Results` by name; BadInput for one with a name that is taken, or
    whose prediction is not a column."""
    columns = {column.name: column for column in columns_of(results)}
    taken = [name for name in columns if name in BESIDE_RESULTS]
    if taken:
        raise BadInput(
            f"Results declares {', '.join(taken)}, which every study has "
            "already. Choose another name"
        )
    return columns


def wrong_conditions(conditions: Sequence[Condition], groups: Sequence[Group]) -> str:
    """What is wrong with a lab's conditions, in one line: two of one name, or a group that the lab
    does not declare; empty if nothing is."""
    seen: set[str] = set()
    for condition in conditions:
        name = condition.name
        if name in seen:
            return f"two conditions have the name {name}. Rename one: each name is used once"
        seen.add(name)
    names = [group.name for group in groups]
    for condition in conditions:
        group = condition.group
        if group not in (names or [""]):
            wrong = f'has the group "{group}"' if group else "has no group"
            return (
                f"the condition {condition.name} {wrong}{did_you_mean(group, names) or '.'} "
                f"Declared: {', '.join(names) or 'none'}. Add it to GROUPS"
            )
    return ""
