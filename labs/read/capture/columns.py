"""The columns of the table of segments, as arrays that compiled code fills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from labs.read.capture import segments
from labs.read.capture.compiled import view

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
    """Room for `room` rows, of which the first `rows` are filled."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.rows = 0
        # Zeros of the system's own: pages that are never written to (SACK edges) take no memory.
        self._arrays = {
            name: np.zeros((count, room), kind) for name, (count, kind) in _KINDS.items()
        }

    def views(self) -> tuple[Any, ...]:
        """The arrays in the order in which segments.rows takes them."""
        return tuple(view(array) for array in self._arrays.values())

    def grown(self, room: int) -> Columns:
        """The same rows with more room."""
        made = Columns(room)
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
        import pandas as pd

        return pd.DataFrame(dict(self.arrays()), copy=False)
