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
from labs.batches.points import Point
from labs.batches.progress import Progress
from labs.batches.prospect import RUNS as RUNS_NAME
from labs.batches.prospect import Prospect
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.notebook_cell import beside_the_notebooks
from labs.drive.record.disk import write_whole
from labs.drive.record.stored_files import read_bytes
from labs.errors import LabError, Missing
from labs.launch import locks, slots
from labs.launch.launch import perform, prepare, run
from labs.launch.plan import Planned
from labs.launch.wanted import ENDS, Event, Failed, Lost, Opened, Wanted
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
    prospect: Prospect,
    folder: Path,
    wanted: Wanted,
    progress: Progress,
    chosen: Sequence[Planned] | None = None,
) -> Outcome:
    """Perform the missing runs and notebooks of a batch whose folder is `owned`.

    Failures are counted and the rest continues, if `wanted.keep_going`. Of the runs, those that are
    `chosen`, as by a shard; notebooks are then left to the call that has all runs. If no point can
    be planned, the first error is raised.
    """
    if not prospect.distinct:
        raise next(error for error in prospect.planned if isinstance(error, LabError))
    notebook = read_notebook(plan.subject.path) if plan.subject.path else None
    write_whole(folder / PLAN, read_bytes(plan.path, follow=True))
    prepare(prospect.runs)
    log = _Log(folder, progress)
    if prospect.parameters[0].where.virtual_time:
        failed, index = _virtual(prospect, log, wanted, chosen)
    else:
        failed, index = _real_time(prospect, log, wanted)
    executed, stopped = 0, dict[int, LabError]()
    if notebook is not None and chosen is None:
        executed, stopped = _notebooks(prospect, notebook, folder, wanted, progress, failed)
    return Outcome(
        folder, index.counts, index.notes, failed, stopped, executed, prospect.impossible
    )


class _Log:
    """Passes on the lines about runs, and keeps the most recent ones of those that fail."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder, self._progress = folder, progress
        self.lines: dict[str, list[str]] = defaultdict(list)

    def tell(self, title: str, event: Event) -> None:
        self._progress.run(title, event)
        self.lines[title] = [*self.lines[title][-KEPT_LINES:], str(event)]

    def end(self, run: Planned, title: str, error: object = None) -> None:
        """Write or remove the log of a run that ended; `error` is why it failed."""
        lines, path = self.lines.pop(title, []), self.folder / FAILURES / f"{run.name}.log"
        if error is None:
            path.unlink(missing_ok=True)
        else:
            text = "\n".join([run.title, *lines, str(error), ""])
            write_whole(path, text.encode("utf-8", "replace"))


def _virtual(
    prospect: Prospect, log: _Log, wanted: Wanted, chosen: Sequence[Planned] | None
) -> tuple[dict[str, LabError], IndexWriter]:
    """Perform the runs concurrently, and update the index as they complete."""
    planned = prospect.distinct if chosen is None else chosen
    by_title = {run.title: run for run in planned}
    opened = Opened(prospect.runs, keep=False)
    with _writer(prospect, log.folder, planned_rows(prospect)) as index:

        def tell(title: str, event: Event) -> None:
            log.tell(title, event)
            if not isinstance(event, ENDS):
                return
            run, error = by_title[title], event.error if isinstance(event, Failed) else None
            if error:
                index.failed(run.key, str(error))
            else:
                index.look(run.key, opened)
            log.end(run, title, error)
            index.save()

        failed = perform(planned, opened, replace(wanted, tell=tell))
    return failed, index


def planned_rows(prospect: Prospect) -> list[PlannedRow]:
    """One row per point and condition, in the order of the points."""
    points = zip(prospect.points, prospect.parameters, prospect.planned, strict=True)
    return [row for point in points for row in _rows_of(prospect, *point)]


def _rows_of(
    prospect: Prospect, point: Point, p: LabParameters, planned: Sequence[Planned] | LabError
) -> list[PlannedRow]:
    """The rows of a point. Those of a point that cannot be planned have the requested conditions,
    without keys."""
    if isinstance(planned, LabError):
        return [
            PlannedRow(point.number, p, condition.name, "", prospect.runs, condition.group)
            for condition in prospect.lab.conditions(p)
        ]
    return [
        PlannedRow(
            point.number,
            p,
            run.condition.name,
            run.key,
            prospect.runs / run.name,
            run.condition.group,
            prospect.unused.get(run.key, ""),
        )
        for run in planned
    ]


def _real_time(
    prospect: Prospect, log: _Log, wanted: Wanted
) -> tuple[dict[str, LabError], IndexWriter]:
    """Perform the points one after the other, because concurrent runs would disturb one another.
    Conditions are repeated, and every repetition has a row."""
    failed: dict[str, LabError] = {}
    rows: list[PlannedRow] = []
    for point, p, planned in zip(
        prospect.points, prospect.parameters, prospect.planned, strict=True
    ):
        if isinstance(planned, LabError):
            rows += _rows_of(prospect, point, p, planned)
        else:
            every = _repetitions(planned, p)
            failed |= _performed(prospect, p, every, log, wanted)
            kept = [run for run in every if run.name in failed or is_run(prospect.runs / run.name)]
            rows += _rows_of(prospect, point, p, kept)
        with _writer(prospect, log.folder, rows) as index:
            for row in rows:
                if row.folder.name in failed:
                    index.failed(row.key, str(failed[row.folder.name]))
                else:
                    index.look(row.key)
    return failed, index


def _performed(
    prospect: Prospect, p: LabParameters, every: Sequence[Planned], log: _Log, wanted: Wanted
) -> dict[str, LabError]:
    """Perform the runs of a point; the error of the one that ended it, by name."""
    log.lines.clear()
    try:
        run(prospect.lab, p, replace(wanted, keep_going=False, tell=log.tell))
    except LabError as error:
        if not wanted.keep_going or isinstance(error, Lost):
            raise
        title = next(reversed(log.lines), "")
        stopped = next((run for run in every if run.title == title), every[0])
        log.end(stopped, title, error)
        return {stopped.name: error}
    return {}


def _repetitions(planned: Sequence[Planned], p: LabParameters) -> list[Planned]:
    """Every repetition that a condition may have, by condition."""
    most = max(p.repetitions_min, p.repetitions_max)
    return [run.repeated(number) for run in planned for number in range(1, most + 1)]


def _writer(prospect: Prospect, folder: Path, rows: Sequence[PlannedRow]) -> IndexWriter:
    axes = {
        name.lower(): tuple(dict.fromkeys(point.values[name] for point in prospect.points))
        for name in prospect.varied
    }
    return IndexWriter(
        folder / INDEX, prospect.lab, rows, title=f"{prospect.lab.name}: {folder.name}", axes=axes
    )


def _from_here(runs: Path) -> str:
    """The folder of runs as it must be passed to the notebook's process, which resolves a relative
    path against the clone if the current folder is the clone's `notebooks/`."""
    same = beside_the_notebooks(str(runs)) == str(runs)
    return str(runs if same else runs.absolute())


def _notebooks(
    prospect: Prospect,
    notebook: NotebookFile,
    folder: Path,
    wanted: Wanted,
    progress: Progress,
    failed: Mapping[str, LabError],
) -> tuple[int, dict[int, LabError]]:
    """Execute the notebooks of the points whose runs exist, unless they were executed before; the
    number of executed notebooks, and the errors of those that stopped."""
    # Loads papermill and nbformat, which takes longer than all other imports of a batch of a lab.
    from labs.batches import notebooks  # noqa: PLC0415

    reading = reading_digest(prospect.lab)
    every = {}
    for point, planned in zip(prospect.points, prospect.planned, strict=True):
        if isinstance(planned, LabError) or any(run.name in failed for run in planned):
            continue
        values = {**point.values, RUNS_NAME: _from_here(prospect.runs)}
        keys = [reading, *(run.key for run in planned)]
        every[point.number] = (values, notebooks.identity(notebook, values, keys))
    executed = notebooks.arrange(
        folder, {number: identity for number, (_, identity) in every.items()}
    )
    missing = {
        number: point for number, point in every.items() if wanted.fresh or number not in executed
    }
    progress.notebooks(len(missing))
    stopped = notebooks.execute_all(
        notebook,
        missing,
        folder,
        jobs=slots.side_by_side(wanted.jobs, len(missing)),
        tell=progress.notebook,
        fail_fast=not wanted.keep_going,
    )
    return len(missing) - len(stopped), stopped
