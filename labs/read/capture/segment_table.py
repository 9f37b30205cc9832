"""The table of segments: its columns, the memory that it may take, and the file it is saved in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.drive.record.disk import whole_file
from labs.errors import Missing
from labs.read.capture import segments

if TYPE_CHECKING:
    import pandas as pd


Array = np.ndarray[Any, Any]

# The table's columns in their order: the kind of array, and which of its rows.
PLACES: dict[str, tuple[str, int]] = {
    "time_ns": ("wide", segments.TIME_NS),
    "connection": ("middle", segments.CONNECTION),
    "direction": ("small", segments.DIRECTION),
    "seq": ("numbers", segments.SEQ),
    "ack": ("numbers", segments.ACK_NUMBER),
    "flags": ("narrow", segments.FLAGS),
    "window": ("narrow", segments.WINDOW),
    "window_bytes": ("middle", segments.WINDOW_BYTES),
    "payload_bytes": ("middle", segments.PAYLOAD_BYTES),
    "seq_rel": ("wide", segments.SEQ_REL),
    "ack_rel": ("wide", segments.ACK_REL),
    "mss": ("narrow", segments.MSS_BYTES),
    "tsval": ("wide", segments.TSVAL),
    "tsecr": ("wide", segments.TSECR),
    "sack_blocks": ("small", segments.SACK_BLOCKS),
    **{
        f"sack_{side}_{block + 1}": ("edges", 2 * block + edge)
        for block in range(segments.SACK_EDGES // 2)
        for edge, side in enumerate(("left", "right"))
    },
    "offset": ("wide", segments.OFFSET),
}
_KINDS: dict[str, tuple[int, type[np.generic]]] = {
    "wide": (6, np.int64),
    "numbers": (2, np.uint32),
    "middle": (3, np.int32),
    "narrow": (3, np.uint16),
    "small": (2, np.int8),
    "edges": (segments.SACK_EDGES, np.uint32),
}
ROW_BYTES = sum(rows * np.dtype(kind).itemsize for rows, kind in _KINDS.values())


class Columns:
    """Arrays for `capacity` rows, of which the first `rows` are filled."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows = 0
        # Zeros from the system: pages that are never written to (SACK edges) take no memory.
        self._arrays = {
            name: np.zeros((count, capacity), kind) for name, (count, kind) in _KINDS.items()
        }

    def views(self) -> tuple[Any, ...]:
        """The arrays in the order in which segments.rows takes them."""
        return tuple(self._arrays.values())

    def grown(self, capacity: int) -> Columns:
        """The same rows in larger arrays."""
        made = Columns(capacity)
        made.rows = self.rows
        for name, array in self._arrays.items():
            made._arrays[name][:, : self.rows] = array[:, : self.rows]
        return made

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Each column by its name, in the table's order: views, not copies."""
        for name, (kind, place) in PLACES.items():
            column = self._arrays[kind][place, : self.rows]
            yield name, column.view(np.uint8) if name == "sack_blocks" else column

    def table(self) -> pd.DataFrame:
        """The rows as a pandas table, without a copy."""
        import pandas as pd  # noqa: PLC0415  slow to load

        return pd.DataFrame(dict(self.arrays()), copy=False)


MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
IN_PARTS = "take a part of the capture, such as one host's: tcpdump -r FILE -w PART host ADDRESS"


def available_bytes() -> int | None:
    """The memory that is left without swapping and within a container's limit; None if the system
    reports neither (not Linux)."""
    known = [found for found in (_in_the_system(), _in_the_container()) if found is not None]
    return min(known, default=None)


def _in_the_system() -> int | None:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _in_the_container() -> int | None:
    """By the topmost control group that a container sees (cgroup v2); its file cache can be
    reclaimed."""
    try:
        most = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    return max(0, int(most) - used + int(stat["inactive_file"])) if most.isdigit() else None


def must_fit(wanted_bytes: int, what: str, instead: str, free_bytes: int | None = None) -> None:
    """Raise Missing if `what` takes more memory than is available (`free_bytes`, or what the system
    has); `instead` says what to do then."""
    free = available_bytes() if free_bytes is None else free_bytes
    if free is not None and wanted_bytes > free:
        raise Missing(
            f"{what} take {wanted_bytes / 1e6:,.0f} MB of memory, and "
            f"{free / 1e6:,.0f} MB are available; {instead}"
        )


# Few different values, or long runs of one value: worth a dictionary.
REPEATED = ("connection", "direction", "flags", "mss", "sack_blocks")


def write_segments(columns: Columns, out: Path) -> None:
    """Write the rows to `out`, whole or not at all. Missing without pyarrow."""
    try:
        import pyarrow  # noqa: PLC0415  an extra
    except ImportError:
        raise Missing(
            "writing a table needs the package pyarrow, which is not installed. "
            'Install it: pip install "tcp-lab-notebook[capture]"'
        ) from None
    # From the buffers: pyarrow.array imports pandas, which takes longer.
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
            from pyarrow import csv  # noqa: PLC0415  an extra

            csv.write_csv(made, file)
        else:
            _write_parquet(made, file)


def _write_parquet(made: Any, file: Any) -> None:
    from pyarrow import parquet  # noqa: PLC0415  an extra

    parquet.write_table(
        made, file, use_dictionary=list(REPEATED), compression="lz4", write_statistics=False
    )
