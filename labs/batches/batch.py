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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from labs.batches.index_writer import IndexWriter, PlannedRow, reading_digest
from labs.batches.plan_file import PlanFile
from labs.batches.progress import Progress
from labs.batches.prospect import RUNS as RUNS_NAME
from labs.batches.prospect import PlannedPoint, Prospect
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.drive.record.disk import write_whole
from labs.drive.record.stored_files import read_bytes
from labs.errors import LabError, Missing
from labs.launch import locks, slots
from labs.launch.launch import perform, prepare, run
from labs.launch.plan import Planned
from labs.launch.wanted import ENDS, Event, Failed, Lost, Opened, Tell, Wanted
from labs.read.batch_index import INDEX
from labs.read.lab import Lab
from labs.read.notebook_file import NotebookFile, read_notebook
from labs.read.result_row import NO_RESULTS

PLAN, RUNS, FAILURES = "plan.yaml", "runs", "failures"
LOCK = ".batch"
ELSEWHERE = "write to another folder with --into DIR"
KEPT_LINES = 200
"""The number of most recent lines of a run that are kept until it ends."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a batch: the number of rows by status and by the code of a note, why runs
    failed by name and notebooks by point, the number of executed notebooks, and the number of
    points that cannot run here, by reason."""

    folder: Path
    rows: Mapping[str, int]
    notes: Mapping[str, int]
    failed_runs: Mapping[str, LabError]
    impossible: Mapping[str, int]
    failed_notebooks: Mapping[int, LabError] = field(default_factory=dict)
    notebooks: int = 0

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
    plan: PlanFile, prospect: Prospect, folder: Path, wanted: Wanted, progress: Progress
) -> Outcome:
    """Perform the missing runs and notebooks of a batch whose folder is `owned`; of a shard, only
    its runs.

    Failures are counted and the rest continues, if `wanted.keep_going`. If no point can be planned,
    the first error is raised.
    """
    if not any(point.runs for point in prospect.points):
        raise next(it.planned for it in prospect.points if isinstance(it.planned, LabError))
    notebook = read_notebook(plan.subject.path) if plan.subject.path else None
    write_whole(folder / PLAN, read_bytes(plan.path, follow=True))
    prepare(prospect.runs)
    opened = Opened(prospect.runs, keep=False)
    with index_of(prospect, folder) as index:
        watch = _Watch(folder, index, opened, progress)
        if prospect.where.virtual_time:
            tell = watch.of(prospect.distinct)
            perform(prospect.distinct, opened, replace(wanted, tell=tell))
        else:
            for point in prospect.points:
                _perform_in_real_time(prospect.lab, point, watch, wanted)
    outcome = Outcome(folder, index.counts, index.notes, watch.failed, prospect.impossible)
    if notebook is None or prospect.shard is not None:
        return outcome
    return _with_notebooks(outcome, prospect, notebook, wanted, progress)


class _Watch:
    """Passes on the lines about runs. When a run ends, updates its rows of the index, and keeps its
    most recent lines if it has failed."""

    def __init__(
        self, folder: Path, index: IndexWriter, opened: Opened, progress: Progress
    ) -> None:
        self._folder, self._index = folder, index
        self._opened, self._progress = opened, progress
        self._lines: dict[str, list[str]] = defaultdict(list)
        self.failed: dict[str, LabError] = {}

    def of(self, runs: Sequence[Planned]) -> Tell:
        """Receives the events of these runs, by their titles."""
        by_title = {run.title: run for run in runs}

        def tell(title: str, event: Event) -> None:
            self._progress.run(title, event)
            self._lines[title] = [*self._lines[title][-KEPT_LINES:], str(event)]
            if isinstance(event, Failed):
                self.fail(by_title[title], event.error)
            elif isinstance(event, ENDS):
                self._index.look(by_title[title].key, self._opened)
                self._end(by_title[title]).unlink(missing_ok=True)

        return tell

    def fail(self, run: Planned, error: LabError) -> None:
        """Record why a run failed, and write its log."""
        self.failed[run.name] = error
        self._index.failed(run.key, str(error))
        lines = [run.title, *self._lines.get(run.title, []), str(error), ""]
        write_whole(self._end(run), "\n".join(lines).encode("utf-8", "replace"))

    def _end(self, run: Planned) -> Path:
        """The log of a run that ended, none of whose lines are kept any longer."""
        self._lines.pop(run.title, None)
        self._index.save()
        return self._folder / FAILURES / f"{run.name}.log"


def _perform_in_real_time(lab: Lab, point: PlannedPoint, watch: _Watch, wanted: Wanted) -> None:
    """Perform the runs of a point alone, because concurrent runs would disturb one another;
    conditions are repeated."""
    runs = _repetitions(point)
    before = len(watch.failed)
    try:
        if runs:
            run(lab, point.parameters, replace(wanted, keep_going=False, tell=watch.of(runs)))
    except LabError as error:
        if len(watch.failed) == before:  # none of the runs was begun
            watch.fail(runs[0], error)
        if not wanted.keep_going or isinstance(error, Lost):
            raise


def _repetitions(point: PlannedPoint) -> list[Planned]:
    """Every repetition that a condition may have, by condition."""
    p = point.parameters
    most = max(p.repetitions_min, p.repetitions_max)
    return [run.repeated(number) for run in point.runs for number in range(1, most + 1)]


def index_of(prospect: Prospect, folder: Path) -> IndexWriter:
    """The index of a batch, without results: one row per point and condition, in the order of the
    points, and in real time one per repetition that was performed."""
    axes = {
        name.lower(): tuple(dict.fromkeys(point.values[name] for point in prospect.points))
        for name in prospect.varied
    }
    rows = [row for point in prospect.points for row in _rows_of(prospect, point)]
    title = f"{prospect.lab.name}: {folder.name}"
    return IndexWriter(folder / INDEX, prospect.lab, rows, title=title, axes=axes)


def _rows_of(prospect: Prospect, point: PlannedPoint) -> Iterator[PlannedRow]:
    """The rows of a point. Those of a point that cannot be planned have the requested conditions,
    without keys."""
    number, p, virtual = point.number, point.parameters, prospect.where.virtual_time
    if isinstance(point.planned, LabError):
        for condition in prospect.lab.conditions(p):
            yield PlannedRow(number, p, condition.name, "", prospect.runs, condition.group)
    for planned in point.runs if virtual else _repetitions(point):
        yield PlannedRow(
            number,
            p,
            planned.condition.name,
            planned.key,
            prospect.runs / planned.name,
            planned.condition.group,
            prospect.unused.get(planned.key, ""),
            optional=not virtual,
        )


def _with_notebooks(
    outcome: Outcome, prospect: Prospect, notebook: NotebookFile, wanted: Wanted, progress: Progress
) -> Outcome:
    """Execute the notebooks of the points whose runs exist, unless they were executed before."""
    # Loads papermill and nbformat, which takes longer than all other imports of a batch of a lab.
    from labs.batches import notebooks  # noqa: PLC0415

    reading, runs = reading_digest(prospect.lab), str(prospect.runs)
    if beside_the_notebooks(runs) != runs:  # a notebook would take it for a folder of the clone
        runs = str(prospect.runs.absolute())
    every = {}
    for point in prospect.points:
        if point.runs and not any(run.name in outcome.failed_runs for run in point.runs):
            values = {**point.values, RUNS_NAME: runs}
            keys = [reading, *(run.key for run in point.runs)]
            every[point.number] = (values, notebooks.identity(notebook, values, keys))
    executed = notebooks.arrange(
        outcome.folder, {number: identity for number, (_, identity) in every.items()}
    )
    missing = {
        number: point for number, point in every.items() if wanted.fresh or number not in executed
    }
    progress.notebooks(len(missing))
    stopped = notebooks.execute_all(
        notebook,
        missing,
        outcome.folder,
        jobs=slots.side_by_side(wanted.jobs, len(missing)),
        tell=progress.notebook,
        fail_fast=not wanted.keep_going,
    )
    return replace(outcome, notebooks=len(missing) - len(stopped), failed_notebooks=stopped)
