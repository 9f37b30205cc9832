"""The table of segments as a file, written while the capture is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from labs.drive.record.disk import whole_file
from labs.errors import Missing
from labs.read.capture.reader import Reader, opened
from labs.read.capture.segment_table import Columns

ROWS_AT_ONCE: Final = 1 << 17
# Columns with few different values, or long runs of one value: a dictionary saves space.
REPEATED: Final = ("connection", "direction", "flags", "mss", "sack_blocks", "content")
# Parts of a table, of which one is made while another is written.
Write = Callable[[Columns], None]


def write_table(path: str | Path, out: Path | None) -> tuple[Reader, int]:
    """Write the table of a capture to `out` (.parquet or .csv), whole or not at all; nowhere if
    that is None. Return the reader and the number of rows. Only some rows are in memory at a time.

    Raises what `labs.capture.read` raises, Missing without pyarrow.
    """
    with opened(path, None, Reader) as reader:
        if out is None:
            return reader, _rows(reader, lambda columns: None)
        with whole_file(out) as file, _writer(file, out.suffix) as writer:
            return reader, _rows(reader, lambda columns: writer.write_batch(_batch(columns)))


def _rows(reader: Reader, write: Write) -> int:
    more, count = True, 0
    while more:
        columns = Columns(ROWS_AT_ONCE)
        more = reader.fill(columns)
        write(columns)
        count += columns.rows
    return count


def _batch(columns: Columns) -> Any:
    """The rows as a batch of pyarrow, from their own buffers: pyarrow.array imports pandas, which
    takes longer."""
    import pyarrow  # noqa: PLC0415  an extra

    made = {
        name: pyarrow.Array.from_buffers(
            pyarrow.from_numpy_dtype(array.dtype), len(array), [None, pyarrow.py_buffer(array)]
        )
        for name, array in columns.arrays()
    }
    return pyarrow.RecordBatch.from_arrays(list(made.values()), names=list(made))


def _writer(file: Any, kind: str) -> Any:
    try:
        import pyarrow  # noqa: PLC0415  an extra
    except ImportError:
        raise Missing(
            "writing a table needs the package pyarrow, which is not installed. "
            'Install it: pip install "tcp-lab-notebook[capture]"'
        ) from None
    schema = _batch(Columns(0)).schema
    if kind == ".csv":
        from pyarrow import csv  # noqa: PLC0415  an extra

        return csv.CSVWriter(file, schema)
    from pyarrow import parquet  # noqa: PLC0415  an extra

    # Freed memory goes back at once: this is not a program that lives long.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return parquet.ParquetWriter(
        file, schema, use_dictionary=list(REPEATED), compression="lz4", write_statistics=False
    )
