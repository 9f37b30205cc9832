"""The table of segments as a file: parquet or CSV, by its ending."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.drive.record.owned_path import whole_file
from labs.errors import Missing

if TYPE_CHECKING:
    from labs.read.capture.columns import Columns

# Few different values, or long runs of one: worth a dictionary.
REPEATED = ("connection", "direction", "flags", "mss", "sack_blocks")


def write(columns: Columns, out: Path) -> None:
    """Write the rows to `out`, whole or not at all. Missing without pyarrow."""
    try:
        import pyarrow
    except ImportError:
        raise Missing(
            "writing a table needs the package pyarrow; setup/python.sh installs it"
        ) from None
    # From the buffers: pyarrow's own way from an array imports pandas, which takes longer.
    names, made_of = zip(
        *(
            (
                name,
                pyarrow.Array.from_buffers(
                    pyarrow.from_numpy_dtype(array.dtype),
                    len(array),
                    [None, pyarrow.py_buffer(array)],
                ),
            )
            for name, array in columns.arrays()
        ),
        strict=True,
    )
    made = pyarrow.Table.from_arrays(list(made_of), names=list(names))
    with whole_file(out) as file:
        if out.suffix == ".csv":
            from pyarrow import csv

            csv.write_csv(made, file)
        else:
            _write_parquet(made, file)


def _write_parquet(made: Any, file: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(
        made, file, use_dictionary=list(REPEATED), compression="lz4", write_statistics=False
    )
