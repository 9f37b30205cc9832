"""An index of a batch, read: one row per point and condition, in one Parquet file.

An index may come from an untrusted source. Its size, schema and content are checked before use, and
every problem is reported as Damaged, in one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.stored_files import read_bytes
from labs.errors import BadInput, Damaged
from labs.read.batch_index_schema import (
    COPY_AGAIN,
    PARAMETER,
    STATUSES,
    Head,
    IndexColumn,
    arrow,
    from_schema,
)
from labs.read.display.format import printable
from labs.read.runs.raw_files import UNEXPECTED

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame

INDEX = "index.parquet"
MOST_INDEX_BYTES = 64 << 20
MOST_CELLS = 30_000_000
"""Rows times columns: 10,000 rows of a lab of the project have 1.3 million."""
MOST_VALUES_BYTES = 1 << 30
"""The maximum size of the decompressed values."""


@dataclass(frozen=True, eq=False)
class Index:
    """An index: its head, its columns by name, and its rows as an Arrow table."""

    path: Path
    head: Head
    columns: Mapping[str, IndexColumn]
    rows: pyarrow.Table

    @property
    def parameters(self) -> tuple[str, ...]:
        """The columns that are parameters of the lab."""
        return tuple(name for name, column in self.columns.items() if column.role == PARAMETER)

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a pandas table. Missing numbers are NaN."""
        frame: DataFrame = self.rows.to_pandas(use_threads=False)
        return frame


def file_of(what: str | Path) -> Path:
    """The index that a path names: the file itself, or `index.parquet` in a batch folder.

    BadInput if there is none.
    """
    path = Path(what)
    file = path / INDEX if path.is_dir() else path
    if not file.exists():
        hint = f"it has no {INDEX}" if path.is_dir() else "the file does not exist"
        raise BadInput(
            f"{what} is not an index of a batch: {hint}. "
            f"Name the folder given to labs batch --into, or its {INDEX}"
        )
    return file


def read_index(path: Path) -> Index:
    """Read an index.

    Raises Damaged for a file that is too large, truncated, or not an index; BadInput for another
    schema version; Missing without pyarrow.
    """
    package = arrow(path)
    content = read_bytes(path, most_bytes=MOST_INDEX_BYTES, follow=True, next_step=COPY_AGAIN)
    what = str(path)
    try:
        schema = package.parquet.read_schema(package.BufferReader(content))
    except (package.ArrowException, OSError, *UNEXPECTED) as error:
        raise _unreadable(what, error) from error
    head, columns = from_schema(schema, what)
    try:
        rows = _rows(package, content, schema, columns)
    except (package.ArrowException, OSError, *UNEXPECTED) as error:
        raise _unreadable(what, error) from error
    others = set(rows["status"].unique().to_pylist()) - set(STATUSES)
    if others:
        raise Damaged(f"{what} has an unknown status ({others.pop()!r:.40}). {COPY_AGAIN}")
    return Index(path, head, {column.name: column for column in columns}, rows)


def _rows(
    package: Any, content: bytes, schema: pyarrow.Schema, columns: tuple[IndexColumn, ...]
) -> pyarrow.Table:
    """The checked rows. Text stays dictionary-encoded until its length is known, because a few
    bytes of a file can encode gigabytes of text."""
    texts = [column.name for column in columns if column.kind is str]
    # Without threads, because Arrow's may end the process after a file that cannot be read.
    file = package.parquet.ParquetFile(
        package.BufferReader(content), read_dictionary=texts, pre_buffer=False
    )
    about = file.metadata
    declared = sum(about.row_group(at).total_byte_size for at in range(about.num_row_groups))
    if about.num_rows * len(columns) > MOST_CELLS or declared > MOST_VALUES_BYTES:
        raise ValueError(f"{about.num_rows} rows of {declared} bytes are too many")
    rows = file.read(use_threads=False)
    rows.validate(full=True)
    if sum(_text_bytes(rows[name]) for name in texts) > MOST_VALUES_BYTES:
        raise ValueError("its texts are too long")
    return rows.cast(schema)


def _text_bytes(column: pyarrow.ChunkedArray) -> int:
    import pyarrow.compute as compute  # noqa: PLC0415  an extra

    lengths = (
        compute.binary_length(chunk.dictionary).take(chunk.indices)
        for chunk in column.chunks
        if len(chunk)
    )
    return sum(compute.sum(length).as_py() or 0 for length in lengths)


def _unreadable(what: str, error: BaseException) -> Damaged:
    reason = " ".join(printable(str(error)).split())[:120]
    return Damaged(f"{what} cannot be read ({type(error).__name__}: {reason}). {COPY_AGAIN}")
