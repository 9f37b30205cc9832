"""Writes the index of a batch as its results arrive.

The file is always complete, because it is written under a temporary name and then renamed. Writing
takes time in proportion to the number of rows, so the frequency of writing is limited such that it
takes at most 5 % of the time.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import LabParameters, Scalar, shown, unknown
from labs.drive.record.disk import whole_file
from labs.drive.record.seal import canonical, digest
from labs.errors import BadInput, Damaged, LabError
from labs.launch.wanted import Opened
from labs.read.batch_index_schema import (
    DAMAGED,
    FAILED,
    MADE,
    MISSING,
    Head,
    IndexColumn,
    arrow,
    arrow_type,
    beside,
    columns_of_lab,
    kept_parameters,
    to_schema,
)
from labs.read.display.format import LINES, printable
from labs.read.display.provenance import source
from labs.read.lab import Lab
from labs.read.result_row import result_row, results_of
from labs.read.runs.archive import is_run
from labs.read.runs.run import open_run
from labs.read.stats.machines import disturbances

WRITING_SHARE = 0.05
LEAST_PAUSE_S = 1.0
PACKAGE = Path(__file__).parents[1]
DISTRIBUTION = "tcp-lab-notebook"
Cells = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedRow:
    """A condition at a point: what was requested, and the folder of its run, existing or not.

    `key` is empty if it is unknown, for instance without the kernel. `unused` names, in words, the
    parameters that the condition does not use. Rows with equal keys differ in nothing but the
    point and its parameters. An `optional` row is written only if its run was made or has failed.
    """

    point: int
    parameters: LabParameters
    condition: str
    key: str
    folder: Path
    group: str = ""
    unused: str = ""
    optional: bool = False


class IndexWriter:
    """Writes the index of one batch, in one thread. On exit, the context manager saves the index.

    All rows are `missing` until `look` or `failed` is called with the key of their run.
    """

    def __init__(
        self,
        path: Path,
        lab: Lab,
        rows: Sequence[PlannedRow],
        *,
        title: str,
        axes: Mapping[str, Sequence[Scalar]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Missing without pyarrow, BadInput for an axis that is not a parameter of the lab."""
        self._arrow = arrow(path)
        for name in axes:
            if name not in kept_parameters(lab.Parameters):
                raise BadInput(unknown(name, kept_parameters(lab.Parameters)))
        self.path, self._lab, self._rows, self._clock = path, lab, tuple(rows), clock
        values = {name: tuple(of_axis) for name, of_axis in axes.items()}
        plan = [[row.point, row.condition, row.key] for row in rows]
        identity = digest(canonical([lab.name, title, dict(values), plan]))
        self._head = Head(lab.name, title, values, identity, _version(), reading_digest(lab))
        self._columns = {column.name: column for column in columns_of_lab(lab)}
        self._row_of = {row.key: row for row in reversed(self._rows) if row.key}
        self._results: dict[str, Cells] = {}
        self._next_s, self._changed = -1.0, True

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        return dict(Counter(self._column("status")))

    @property
    def notes(self) -> dict[str, int]:
        """The number of rows by the code of a note, the most frequent first."""
        cells = self._column(beside("note_codes", self._lab.Parameters))
        counts = Counter(code for codes in cells for code in set(str(codes or "").split()))
        return dict(counts.most_common())

    def look(self, key: str, opened: Opened | None = None) -> None:
        """Read the run of a key for every row with this key, from `opened` if that is given. If it
        cannot be read, the rows become `damaged`, with the reason."""
        if key not in self._row_of or not is_run(self._row_of[key].folder):
            return
        try:
            self.fill(key, MADE, None, self._read(self._row_of[key], opened))
        except LabError as error:
            self.fill(key, DAMAGED, str(error), {})

    def failed(self, key: str, message: str) -> None:
        """Record that the run of a key failed, with a one-line message."""
        self.fill(key, FAILED, message, {})

    def fill(self, key: str, status: str, message: str | None, cells: Cells) -> None:
        """Set the cells of every row with this key; cells that are not named become empty. Damaged
        for a cell of another type than its column."""
        values = {name: typed(self._columns[name], value) for name, value in cells.items()}
        message = None if message is None else printable(message)
        if key:
            self._results[key] = {**values, "status": status, "message": message}
            self._changed = True

    def save(self, *, now: bool = False) -> bool:
        """Write the file if it has changed and enough time has passed, or if `now`; return whether
        it was written."""
        begun_s = self._clock()
        if not self._changed or (not now and begun_s < self._next_s):
            return False
        self._write()
        took_s = self._clock() - begun_s
        self._next_s = begun_s + max(took_s / WRITING_SHARE, LEAST_PAUSE_S)
        self._changed = False
        return True

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(self, *of_an_error: object) -> None:
        self.save(now=True)

    def _read(self, row: PlannedRow, opened: Opened | None) -> Cells:
        """The cells of a row, from its run; LabError if the run cannot be read."""
        run = opened[row.folder.name] if opened else open_run(row.folder)
        if run.key != row.key:
            raise Damaged(f"{row.folder} contains a run with another key. Repeat it with --fresh")
        results = results_of(self._lab, run)
        self._lab.forget(run)
        by_column = result_row(run, results, group=row.group, source=source(run), unused=row.unused)
        cells = {beside(name, self._lab.Parameters): value for name, value in by_column.items()}
        cells["repetition"] = run.repetition
        cells["excluded"] = any(note.excludes for note in results.notes) or bool(disturbances(run))
        return cells

    def _column(self, name: str) -> list[Any]:
        """A column of the index: what was planned, or what was read."""
        planned: dict[str, Callable[[PlannedRow], Any]] = {
            "point": lambda row: row.point,
            "condition": lambda row: row.condition,
            "key": lambda row: row.key,
            beside("group", self._lab.Parameters): lambda row: row.group,
        }
        rows = [row for row in self._rows if row.key in self._results or not row.optional]
        if name in planned:
            return list(map(planned[name], rows))
        if name in kept_parameters(self._lab.Parameters):
            return [getattr(row.parameters, name) for row in rows]
        missing = {"status": MISSING}
        return [self._results.get(row.key, missing).get(name) for row in rows]

    def _write(self) -> None:
        package, columns = self._arrow, tuple(self._columns.values())
        arrays = [
            package.array(self._column(column.name), arrow_type(column.kind)) for column in columns
        ]
        table = package.Table.from_arrays(arrays, schema=to_schema(self._head, columns))
        with whole_file(self.path) as file:
            package.parquet.write_table(table, file, compression="zstd")


def typed(column: IndexColumn, value: Any) -> Scalar | None:
    """A value in the type of its column, None for NaN; Damaged if it has another type."""
    is_text = column.kind is str and value is not None and value == value
    package = arrow(column.name)
    try:
        if isinstance(value, bool) and column.kind in (int, float):
            raise TypeError
        cell: Scalar | None = package.scalar(
            printable(str(value), LINES) if is_text else value,
            arrow_type(column.kind),
            from_pandas=True,
        ).as_py()
    except (package.ArrowException, TypeError, OverflowError):
        kind = column.kind.__name__
        raise Damaged(f"the result {column.name} = {shown(value)} is not {kind}") from None
    return cell


def reading_digest(lab: Lab) -> str:
    """The SHA-256 of the code that computes a lab's results from a run."""
    of_lab = PACKAGE / "experiments" / lab.name
    folders = [*(PACKAGE / room for room in ("guest", "drive", "read")), of_lab]
    files = [file for folder in folders for file in sorted(folder.rglob("*.*"))]
    files = [file for file in files if file.suffix in (".py", ".toml", ".json")]
    files += [PACKAGE / "errors.py"] + ([lab.source] if lab.source else [])
    return sha256(b"\0".join([sys.version.encode(), *map(Path.read_bytes, files)])).hexdigest()


def _version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # a clone that was not installed
        return ""
