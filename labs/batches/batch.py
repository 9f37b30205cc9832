"""Perform a batch: all distinct runs of all points, then the notebooks, with an index of results.

A batch is a folder::

    DIR/plan.yaml          the most recent plan
    DIR/runs/              its runs, as `labs run --into DIR/runs` stores them
    DIR/index.parquet      one row per point and condition
    DIR/notebooks/         executed notebooks, NNNN.ipynb by the number of the point
    DIR/failures/          logs of failed runs, NAME.log

Files are written atomically and every run is found by its key. A batch that was killed at any time
therefore resumes where it stopped when it is started again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from labs.batches.index_writer import IndexWriter, PlannedRow, reading_digest
from labs.batches.plan_file import PlanFile
from labs.batches.points import Point
from labs.batches.progress import Progress
from labs.batches.prospect import RUNS as RUNS_NAME
from labs.batches.prospect import Prospect
from labs.batches.substitutes import in_use, read_substitutes, substituted, write_substitutes
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.drive.record.disk import write_whole
from labs.drive.record.stored_files import read_bytes
from labs.errors import LabError, Missing
from labs.launch import locks, slots
from labs.launch.engine import Engine, Lost
from labs.launch.launch import perform, prepare, run
from labs.launch.make import Opened
from labs.launch.plan import Planned
from labs.launch.progress_lines import FAILED, is_last
from labs.read.batch_index import INDEX
from labs.read.notebook_file import NotebookFile, read_notebook
from labs.read.result_row import NO_RESULTS
from labs.read.runs.archive import is_run

PLAN, RUNS, FAILURES = "plan.yaml", "runs", "failures"
LOCK = ".batch"
ELSEWHERE = "write to another folder with --into DIR"
KEPT_LINES = 200
"""The number of most recent lines of a run that are kept until it ends."""


@dataclass(frozen=True)
class Options:
    """How a batch is performed: with `jobs` concurrent runs (default: one per CPU); `fresh` repeats
    existing runs; `fail_fast` ends it at the first failure; `any_inputs` accepts runs of
    workers with other programs. `chosen` selects runs, as a shard does;
    notebooks are then left to the call that has all runs."""

    jobs: int | None = None
    fresh: bool = False
    fail_fast: bool = False
    any_inputs: bool = False
    chosen: Callable[[Sequence[Planned]], Sequence[Planned]] | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a batch: the number of rows by status, the errors of failed runs by name and
    of failed notebooks by point, the number of executed notebooks, and the number of points that
    cannot run here, by reason."""

    folder: Path
    rows: Mapping[str, int]
    notes: Mapping[str, int] = field(default_factory=dict)
    failed_runs: Mapping[str, LabError] = field(default_factory=dict)
    failed_notebooks: Mapping[int, LabError] = field(default_factory=dict)
    notebooks: int = 0
    impossible: Mapping[str, int] = field(default_factory=dict)

    @property
    def index(self) -> Path:
        return self.folder / INDEX

    @property
    def without_results(self) -> int:
        """The number of rows whose results the lab cannot compute."""
        return self.notes.get(NO_RESULTS, 0)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Lock the folder of a batch; Missing if another process performs a batch there."""
    taken = locks.take(folder / LOCK, "batch", ELSEWHERE)
    if taken is None:
        by = locks.holder(folder / LOCK)
        who = by.describe() if by else "another process"
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
    """Perform the missing runs and notebooks of a batch whose folder is `owned`.

    Failures are counted and the rest continues, unless `options.fail_fast`. If no point can be
    planned, the first error is raised.
    """
    if not found.distinct:
        raise next(one for one in found.planned if isinstance(one, LabError))
    notebook = read_notebook(plan.subject.path) if plan.subject.path else None
    write_whole(folder / PLAN, read_bytes(plan.path, follow=True))
    if found.parameters[0].testbed == "virtual":
        failed, index = _virtual(found, folder, options, progress, engine)
    else:
        failed, index = _real_time(found, folder, options, progress, engine)
    executed, stopped = 0, dict[int, LabError]()
    if notebook is not None and options.chosen is None:
        executed, stopped = _notebooks(found, notebook, folder, options, progress, failed)
    return Outcome(folder, index.counts, index.notes, failed, stopped, executed, found.impossible)


def _virtual(
    found: Prospect, folder: Path, options: Options, progress: Progress, engine: Engine | None
) -> tuple[dict[str, LabError], IndexWriter]:
    """Perform the runs concurrently, and update the index as they complete."""
    prepare(found.runs)
    planned = planned_rows(found)
    others = in_use(read_substitutes(folder), planned, found.runs) if options.any_inputs else {}
    chosen = options.chosen(found.distinct) if options.chosen else found.distinct
    wanted = [one for one in chosen if options.fresh or one.key not in others]
    by_title = {one.title: one for one in wanted}
    said: dict[str, list[str]] = defaultdict(list)
    rows = substituted(planned, found.lab.name, found.runs, others)
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
                _log(folder, one).unlink(missing_ok=True)
            if is_last(line):
                del said[title]
                index.save()
            if engine is not None and engine.others.keys() - others.keys():
                others.update(engine.others)
                write_substitutes(folder, others)

        failed = perform(
            wanted,
            Opened(found.runs, keep=False),
            fresh=options.fresh,
            jobs=options.jobs,
            tell=tell,
            engine=engine,
            keep_going=not options.fail_fast,
        )
    if engine is None or not engine.others:
        return failed, index
    rows = substituted(planned, found.lab.name, found.runs, others)
    with _writer(found, folder, rows) as index:
        for key in dict.fromkeys(row.key for row in rows):
            index.look(key)
        for one in wanted:
            if one.name in failed:
                index.failed(one.key, str(failed[one.name]))
    return failed, index


def planned_rows(found: Prospect) -> list[PlannedRow]:
    """One row per point and condition, in the order of the points."""
    points = zip(found.points, found.parameters, found.planned, strict=True)
    return [row for point in points for row in _rows_of(found, *point)]


def _rows_of(
    found: Prospect, point: Point, p: LabParameters, planned: Sequence[Planned] | LabError
) -> list[PlannedRow]:
    """The rows of a point. Those of a point that cannot be planned have the requested conditions,
    without keys."""
    if isinstance(planned, LabError):
        return [
            PlannedRow(point.number, p, one.name, "", found.runs, one.group)
            for one in found.lab.conditions(p)
        ]
    return [
        PlannedRow(
            point.number,
            p,
            one.condition.name,
            one.key,
            found.runs / one.name,
            one.condition.group,
            found.unused.get(one.key, ""),
        )
        for one in planned
    ]


def _real_time(
    found: Prospect, folder: Path, options: Options, progress: Progress, engine: Engine | None
) -> tuple[dict[str, LabError], IndexWriter]:
    """Perform the points one after the other, because concurrent runs would disturb one another.
    Conditions are repeated, and every repetition has a row."""
    failed: dict[str, LabError] = {}
    rows: list[PlannedRow] = []
    prepare(found.runs)
    for point, p, planned in zip(found.points, found.parameters, found.planned, strict=True):
        if isinstance(planned, LabError):
            rows += _rows_of(found, point, p, planned)
            continue
        said: dict[str, list[str]] = defaultdict(list)

        def tell(title: str, line: str, said: dict[str, list[str]] = said) -> None:
            progress.run(title, line)
            said[title] = [*said[title][-KEPT_LINES:], line]

        stopped: dict[str, LabError] = {}
        try:
            run(found.lab, p, fresh=options.fresh, progress=tell, engine=engine)
        except LabError as error:
            if options.fail_fast or isinstance(error, Lost):
                raise
            title = next(reversed(said), "")
            one = next((one for one in _repetitions(planned, p) if one.title == title), planned[0])
            stopped = {one.name: error}
            _keep_log(folder, one, [*said[title], str(error)])
        every = _repetitions(planned, p)
        known = [one for one in every if one.name in stopped or is_run(found.runs / one.name)]
        rows += _rows_of(found, point, p, known)
        failed |= stopped
        with _writer(found, folder, rows) as index:
            _look_at_all(index, rows, failed)
    with _writer(found, folder, rows) as index:
        _look_at_all(index, rows, failed)
    return failed, index


def _repetitions(planned: Sequence[Planned], p: LabParameters) -> list[Planned]:
    """Every repetition that a condition may have, by condition."""
    most = max(p.repetitions_min, p.repetitions_max)
    return [one.repeated(number) for one in planned for number in range(1, most + 1)]


def _look_at_all(
    index: IndexWriter, rows: Sequence[PlannedRow], failed: Mapping[str, LabError]
) -> None:
    for row in rows:
        if row.folder.name in failed:
            index.failed(row.key, str(failed[row.folder.name]))
        else:
            index.look(row.key)


def _writer(found: Prospect, folder: Path, rows: Sequence[PlannedRow]) -> IndexWriter:
    axes = {
        name.lower(): tuple(dict.fromkeys(point.values[name] for point in found.points))
        for name in found.varied
    }
    return IndexWriter(
        folder / INDEX, found.lab, rows, title=f"{found.lab.name}: {folder.name}", axes=axes
    )


def _log(folder: Path, planned: Planned) -> Path:
    return folder / FAILURES / f"{planned.name}.log"


def _keep_log(folder: Path, planned: Planned, lines: Sequence[str]) -> None:
    text = "\n".join([planned.title, *lines, ""])
    write_whole(_log(folder, planned), text.encode("utf-8", "replace"))


def _from_here(runs: Path) -> str:
    """The folder of runs as it must be passed to the notebook's process, which resolves a relative
    path against the clone if the current folder is the clone's `notebooks/`."""
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
    """Execute the notebooks of the points whose runs exist, unless they were executed before; the
    number of executed notebooks, and the errors of those that stopped."""
    # Loads papermill and nbformat, which takes longer than all other imports of a batch of a lab.
    from labs.batches import notebooks  # noqa: PLC0415

    reading = reading_digest(found.lab)
    every = {}
    for point, planned in zip(found.points, found.planned, strict=True):
        if isinstance(planned, LabError) or any(one.name in failed for one in planned):
            continue
        values = {**point.values, RUNS_NAME: _from_here(found.runs)}
        keys = [reading, *(one.key for one in planned)]
        every[point.number] = (values, notebooks.identity(notebook, values, keys))
    executed = notebooks.arrange(folder, {number: one for number, (_, one) in every.items()})
    wanted = {
        number: one for number, one in every.items() if options.fresh or number not in executed
    }
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
