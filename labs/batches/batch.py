"""Perform a batch: all distinct runs of all points, then the notebooks, with an index of results.

A batch is a folder::

    DIR/plan.yaml          the plan that was given last
    DIR/runs/              its runs, as `labs run --into DIR/runs` keeps them
    DIR/index.parquet      one row per point and condition
    DIR/notebooks/         executed notebooks, NNNN.ipynb by the number of the point
    DIR/failures/          what a run that failed had said, NAME.log

Everything is written whole and every run is found by its key, so a batch that was killed at any
moment goes on where it was when it is started again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from labs.batches.index import INDEX
from labs.batches.index_writer import IndexWriter, PlannedRow
from labs.batches.plan_file import PlanFile
from labs.batches.progress import Progress
from labs.batches.prospect import RUNS as RUNS_NAME
from labs.batches.prospect import Prospect
from labs.batches.substitutes import read_substitutes, substituted, write_substitutes
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.drive.record.disk import write_whole
from labs.drive.record.stored_files import read_bytes
from labs.errors import LabError, Missing
from labs.launch import locks, slots
from labs.launch.engine import Engine
from labs.launch.launch import Made, check_free_space, perform, prepare, run
from labs.launch.make import Opened
from labs.launch.plan import Planned
from labs.launch.progress_lines import FAILED, is_last
from labs.read.notebook_file import NotebookFile, read_notebook
from labs.read.runs.archive import is_run

PLAN, RUNS, FAILURES = "plan.yaml", "runs", "failures"
LOCK = ".batch"
ELSEWHERE = "write to another folder with --into DIR"
KEPT_LINES = 200
"""Of what a run says, the last ones, until it ends."""


@dataclass(frozen=True)
class Options:
    """How a batch is performed: `jobs` at a time (default: one per CPU); `fresh` repeats existing
    runs; `fail_fast` ends it at the first failure. `chosen` restricts the runs, as a shard does;
    notebooks are then left for the call that has all runs."""

    jobs: int | None = None
    fresh: bool = False
    fail_fast: bool = False
    chosen: Callable[[Sequence[Planned]], Sequence[Planned]] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a batch came to: its rows by status, the errors of failed runs by the name of the run,
    those of notebooks by point, the number of executed notebooks, and of points that are
    impossible here, with the reasons."""

    folder: Path
    rows: Mapping[str, int]
    failed_runs: Mapping[str, LabError] = field(default_factory=dict)
    failed_notebooks: Mapping[int, LabError] = field(default_factory=dict)
    notebooks: int = 0
    impossible: Mapping[str, int] = field(default_factory=dict)

    @property
    def index(self) -> Path:
        return self.folder / INDEX


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold the folder of a batch; Missing if another process performs one there."""
    taken = locks.take(folder / LOCK, "batch", ELSEWHERE)
    if taken is None:
        by = locks.holder(folder / LOCK)
        who = by.in_words() if by else "another process"
        raise Missing(f"{folder} is in use by {who}. Wait until it ends, or {ELSEWHERE}")
    with taken:
        yield


def perform_batch(
    plan: PlanFile,
    found: Prospect,
    folder: Path,
    options: Options,
    progress: Progress,
    engine: Engine | None = None,
) -> Outcome:
    """Perform what is missing of a batch whose folder is `owned`.

    Failures are counted, and the rest goes on, unless `options.fail_fast`. Raises what prevents
    every point from being planned.
    """
    if not found.distinct:
        raise next(one for one in found.planned if isinstance(one, LabError))
    notebook = read_notebook(plan.subject.path) if plan.subject.path else None
    write_whole(folder / PLAN, read_bytes(plan.path, follow=True))
    if found.parameters[0].testbed == "virtual":
        failed, rows = _virtual(found, folder, options, progress, engine)
    else:
        failed, rows = _real_time(found, folder, options, progress, engine)
    executed, stopped = 0, dict[int, LabError]()
    if notebook is not None and options.chosen is None:
        executed, stopped = _notebooks(found, notebook, folder, options, progress, failed)
    return Outcome(folder, rows, failed, stopped, executed, found.impossible)


def _virtual(
    found: Prospect, folder: Path, options: Options, progress: Progress, engine: Engine | None
) -> tuple[dict[str, LabError], dict[str, int]]:
    """Perform the runs side by side; the index follows."""
    opened = Opened(found.runs, keep=False)
    others = read_substitutes(folder)
    rows = substituted(planned_rows(found), found.lab.name, found.runs, others)
    there = {row.key for row in rows if is_run(row.folder)}
    chosen = options.chosen(found.distinct) if options.chosen else found.distinct
    wanted = [one for one in chosen if options.fresh or others.get(one.key) not in there]
    by_title = {one.title: one for one in wanted}
    said: dict[str, list[str]] = defaultdict(list)
    prepare(found.runs)
    with _writer(found, folder, rows) as index:
        for key in others.values():
            index.look(key)

        def tell(title: str, line: str) -> None:
            one = by_title[title]
            progress.run(title, line)
            said[title] = [*said[title][-KEPT_LINES:], line]
            if line.startswith(f"{FAILED}: "):
                _keep_log(folder, one, said[title])
                index.failed(one.key, line.removeprefix(f"{FAILED}: "))
            elif is_last(line):
                index.look(one.key)
            if is_last(line):
                del said[title]
                index.save()

        failed = perform(
            wanted,
            opened,
            fresh=options.fresh,
            jobs=options.jobs,
            tell=tell,
            engine=engine,
            keep_going=not options.fail_fast,
        )
    if engine is None or not engine.others:
        return failed, index.counts
    others |= engine.others
    write_substitutes(folder, others)
    rows = substituted(planned_rows(found), found.lab.name, found.runs, others)
    with _writer(found, folder, rows) as index:
        for key in dict.fromkeys(row.key for row in rows):
            index.look(key)
    return failed, index.counts


def planned_rows(found: Prospect) -> list[PlannedRow]:
    """One row per point and condition, in the order of the points. A point that cannot be planned
    has the conditions that it requests, without keys."""
    rows = []
    for point, p, planned in zip(found.points, found.parameters, found.planned, strict=True):
        if isinstance(planned, LabError):
            rows += [
                PlannedRow(point.number, p, one.name, "", found.runs, one.group)
                for one in found.lab.conditions(p)
            ]
            continue
        rows += [_row(found, point.number, p, one) for one in planned]
    return rows


def _row(found: Prospect, number: int, p: object, one: Planned) -> PlannedRow:
    return PlannedRow(
        number,
        p,  # type: ignore[arg-type]
        one.condition.name,
        one.key,
        found.runs / one.name,
        one.condition.group,
        found.unused.get(one.key, ""),
    )


def _real_time(
    found: Prospect, folder: Path, options: Options, progress: Progress, engine: Engine | None
) -> tuple[dict[str, LabError], dict[str, int]]:
    """Perform the points one after the other, because runs would disturb one another; a condition
    is repeated, and every repetition has a row."""
    failed: dict[str, LabError] = {}
    rows: list[PlannedRow] = []
    counts: dict[str, int] = {}
    check_free_space(found.runs)
    for point, p, planned in zip(found.points, found.parameters, found.planned, strict=True):
        if isinstance(planned, LabError):
            continue
        try:
            made: Made = run(
                found.lab, p, fresh=options.fresh, progress=progress.run, engine=engine
            )
        except LabError as error:
            if options.fail_fast:
                raise
            failed |= {one.name: error for one in planned}
            rows += [_row(found, point.number, p, one) for one in planned]
        else:
            known = {one.condition.name: one for one in planned}
            rows += [
                replace(
                    _row(found, point.number, p, known[one.condition]), key=one.key, folder=one.path
                )
                for one in made.runs
            ]
        with _writer(found, folder, rows) as index:
            for row in rows:
                index.look(row.key)
            for row in rows:
                if row.folder.name in failed:
                    index.failed(row.key, str(failed[row.folder.name]))
            counts = index.counts
    return failed, counts


def _writer(found: Prospect, folder: Path, rows: Sequence[PlannedRow]) -> IndexWriter:
    axes = {
        name.lower(): tuple(dict.fromkeys(point.values[name] for point in found.points))
        for name in found.varied
    }
    return IndexWriter(
        folder / INDEX, found.lab, rows, title=f"{found.lab.name}: {folder.name}", axes=axes
    )


def _keep_log(folder: Path, planned: Planned, lines: Sequence[str]) -> None:
    text = "\n".join([planned.title, *lines, ""])
    write_whole(folder / FAILURES / f"{planned.name}.log", text.encode("utf-8", "replace"))


def _from_here(runs: Path) -> str:
    """The folder of runs as the notebook's process must be told: a relative one is taken as
    relative to the clone there, if this is its folder of notebooks."""
    same = beside_the_notebooks(str(runs)) == str(runs)
    return str(runs if same else runs.absolute())


def _notebooks(
    found: Prospect,
    notebook: NotebookFile,
    folder: Path,
    options: Options,
    progress: Progress,
    failed: Mapping[str, LabError],
) -> tuple[int, dict[int, LabError]]:
    """Execute the notebooks of the points whose runs exist; how many were executed, and which
    stopped. Those that exist already are not executed again."""
    # Loads papermill and nbformat, which take longer than all else that a batch of a lab loads.
    from labs.batches import notebooks  # noqa: PLC0415

    wanted = {}
    for point, planned in zip(found.points, found.planned, strict=True):
        if isinstance(planned, LabError) or any(one.name in failed for one in planned):
            continue
        values = {**point.values, RUNS_NAME: _from_here(found.runs)}
        executed_from = notebooks.identity(notebook, values, [one.key for one in planned])
        path = notebooks.executed(folder, point.number)
        if options.fresh or not notebooks.is_executed(path, executed_from):
            wanted[point.number] = (values, executed_from)
    progress.notebooks(len(wanted))
    stopped = notebooks.execute_all(
        notebook,
        wanted,
        folder,
        jobs=slots.side_by_side(options.jobs, len(wanted)),
        tell=progress.notebook,
        fail_fast=options.fail_fast,
    )
    return len(wanted) - len(stopped), stopped
