"""Writes the index of a batch as its results arrive.

The file is always complete, because it is written under a temporary name and then renamed. Writing
takes time in proportion to the number of rows, so the frequency of writing is limited such that it
takes at most 5 % of the time. A row whose run was read before by the same code is taken from the
existing index.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from labs.drive.parameters.declare import LabParameters, Scalar, shown, unknown
from labs.drive.record.disk import whole_file
from labs.drive.record.seal import canonical, digest, read_seal
from labs.errors import BadInput, Damaged, LabError
from labs.read.batch_index import read_index
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
from labs.read.result_row import UNUSED, result_row, results_of
from labs.read.runs.archive import is_run
from labs.read.runs.run import open_run
from labs.read.stats.machines import disturbances

WRITING_SHARE = 0.05
LEAST_PAUSE_S = 1.0
PACKAGE = Path(__file__).parents[1]
DISTRIBUTION = "tcp-lab-notebook"


@dataclass(frozen=True)
class PlannedRow:
    """A condition at a point: what was requested, and the folder of its run, existing or not.

    `key` is empty if it is unknown, for instance without the kernel. `unused` names, in words, the
    parameters that the condition does not use.
    """

    point: int
    parameters: LabParameters
    condition: str
    key: str
    folder: Path
    group: str = ""
    unused: str = ""


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
        """Missing without pyarrow, BadInput for an axis that is not a parameter of the lab. An
        existing index that cannot be read is replaced."""
        arrow(path)
        for name in axes:
            if name not in kept_parameters(lab.Parameters):
                raise BadInput(unknown(name, kept_parameters(lab.Parameters)))
        self.path, self._lab, self._rows, self._clock = path, lab, tuple(rows), clock
        values = {name: tuple(of_axis) for name, of_axis in axes.items()}
        plan = [[row.point, row.condition, row.key] for row in rows]
        identity = digest(canonical([lab.name, title, dict(values), plan]))
        self._head = Head(lab.name, title, values, identity, _version(), reading_digest(lab))
        self._columns = {column.name: column for column in columns_of_lab(lab)}
        self._cells: dict[str, list[Any]] = {name: [None] * len(rows) for name in self._columns}
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            self._places[row.key].append(place)
        self._fill_in_plan()
        self._known = _Known(path, lab.name, self._head.reading)
        self._next_s, self._changed = -1.0, True

    def _fill_in_plan(self) -> None:
        every = self._rows
        planned: dict[str, list[Any]] = {
            "point": [row.point for row in every],
            "condition": [row.condition for row in every],
            "status": [MISSING] * len(every),
            "key": [row.key for row in every],
            beside("group", self._lab.Parameters): [row.group for row in every],
        }
        for name in kept_parameters(self._lab.Parameters):
            planned[name] = [getattr(row.parameters, name) for row in every]
        self._cells |= planned
        self._found = [name for name in self._columns if name not in planned]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        return dict(Counter(self._cells["status"]))

    @property
    def notes(self) -> dict[str, int]:
        """The number of rows by the code of a note, the most frequent first."""
        cells = self._cells[beside("note_codes", self._lab.Parameters)]
        counts = Counter(code for codes in cells for code in set(str(codes or "").split()))
        return dict(counts.most_common())

    def look(self, key: str) -> str:
        """Read the run of a key for every row with this key; return the new status of these rows.

        If the run cannot be read, the rows become `damaged`, with the reason.
        """
        status = MISSING
        read: dict[PlannedRow, tuple[str, str | None, Mapping[str, Scalar | None]]] = {}
        for place in self._places.get(key, ()) if key else ():
            row = self._rows[place]
            same = replace(row, point=0, parameters=self._rows[0].parameters)
            if same not in read:  # once, however many points share the run
                read[same] = self._read(row)
            status, message, values = read[same]
            self._set(place, status, message, values)
        return status

    def _read(self, row: PlannedRow) -> tuple[str, str | None, Mapping[str, Scalar | None]]:
        """The status of a row, the reason if its run cannot be read, and its cells."""
        if not is_run(row.folder):
            return MISSING, None, {}
        try:
            return MADE, None, self._values(row)
        except LabError as error:
            return DAMAGED, str(error), {}

    def failed(self, key: str, message: str) -> None:
        """Record that the run of a key failed, with a one-line message."""
        self.fill(key, FAILED, message, {})

    def fill(
        self, key: str, status: str, message: str | None, values: Mapping[str, Scalar | None]
    ) -> None:
        """Set the cells of every row with this key; cells that are not named become empty."""
        for place in self._places.get(key, ()) if key else ():
            self._set(place, status, message, values)

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

    def _set(self, place: int, status: str, message: str | None, values: Mapping[str, Any]) -> None:
        for name in self._found:
            self._cells[name][place] = values.get(name)
        self._cells["status"][place] = status
        self._cells["message"][place] = None if message is None else printable(message)
        self._changed = True

    def _values(self, row: PlannedRow) -> Mapping[str, Scalar | None]:
        """The cells of a row, from its run; LabError if the run cannot be read."""
        kept = self._known.values(row)
        if kept is not None:
            return kept
        run = open_run(row.folder)
        if run.key != row.key:
            raise Damaged(f"{row.folder} contains a run with another key. Repeat it with --fresh")
        results = results_of(self._lab, run)
        self._lab.forget(run)
        by_column = result_row(run, results, group=row.group, source=source(run), unused=row.unused)
        cells = {
            beside(name, self._lab.Parameters): plain(value) for name, value in by_column.items()
        }
        cells["repetition"] = run.repetition
        cells["excluded"] = any(note.excludes for note in results.notes) or bool(disturbances(run))
        return {name: _typed(self._columns[name], value) for name, value in cells.items()}

    def _write(self) -> None:
        package = arrow(self.path)
        columns = tuple(self._columns.values())
        arrays = [
            package.array(self._cells[column.name], arrow_type(column.kind)) for column in columns
        ]
        table = package.Table.from_arrays(arrays, schema=to_schema(self._head, columns))
        with whole_file(self.path) as file:
            package.parquet.write_table(table, file, compression="zstd")


class _Known:
    """The rows of the existing index computed by the same code, by key and parameters."""

    def __init__(self, path: Path, lab: str, reading: str) -> None:
        """No rows if there is no index, or if it was written by different code."""
        self._places: dict[tuple[object, ...], int] = {}
        try:
            index = read_index(path) if path.exists() else None
        except LabError:
            index = None
        if index is None or (index.head.lab, index.head.reading) != (lab, reading):
            return
        self._names = index.parameters
        self._cells = {name: index.rows[name].to_pylist() for name in index.columns}
        keys = zip(*(self._cells[name] for name in ("key", *self._names)), strict=True)
        self._places = {
            key: place for place, key in enumerate(keys) if self._cells["status"][place] == MADE
        }

    def values(self, row: PlannedRow) -> dict[str, Scalar | None] | None:
        """The cells of a row; None if they are unknown, or if the run has been replaced.

        The seal of the run is read, but the files are not verified against it: `labs runs list`
        does that.
        """
        if not self._places:
            return None
        parameters = (getattr(row.parameters, name, None) for name in self._names)
        place = self._places.get((row.key, *parameters))
        if place is None:
            return None
        seal = read_seal(row.folder)
        if seal.digest != self._cells["digest"][place]:
            return None
        if not all((row.folder / name).is_file() for name in seal.files):
            return None
        cells = {name: of_column[place] for name, of_column in self._cells.items()}
        return cells if self._has_current_notes(cells, row) else None

    def _has_current_notes(self, cells: Mapping[str, Scalar | None], row: PlannedRow) -> bool:
        """Whether the notes of a row name the parameters that its condition does not use in this
        plan, and no others: they depend on the axes."""
        lab = type(row.parameters)
        codes = str(cells[beside("note_codes", lab)] or "").split()
        notes = str(cells[beside("notes", lab)] or "")
        return notes.endswith(row.unused) if row.unused else UNUSED not in codes


def plain(value: Any) -> Scalar | None:
    """A result as a Python scalar, None for NaN; other values as text."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return printable(str(value), LINES)


def _typed(column: IndexColumn, value: Scalar | None) -> Scalar | None:
    """A value converted to the type of its column; Damaged if it has another type."""
    if value is None:
        return None
    if column.kind is str:
        return value if isinstance(value, str) else str(value)
    if column.kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if column.kind is type(value) and (column.kind is bool or abs(int(value)) < 1 << 63):
        return value
    raise Damaged(f"the result {column.name} = {shown(value)} is not {column.kind.__name__}")


def reading_digest(lab: Lab) -> str:
    """The SHA-256 of the code that computes a lab's results from a run."""
    of_lab = PACKAGE / "experiments" / lab.name
    folders = [PACKAGE / "drive", PACKAGE / "read", of_lab]
    files = [file for folder in folders for file in sorted(folder.rglob("*.*"))]
    files = [file for file in files if file.suffix in (".py", ".toml", ".json")]
    files += [PACKAGE / "errors.py"] + ([lab.source] if lab.source else [])
    return sha256(b"\0".join([sys.version.encode(), *map(Path.read_bytes, files)])).hexdigest()


def _version() -> str:
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:  # a clone that was not installed
        return ""
