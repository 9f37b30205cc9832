"""The runs room: what run folders say, for tables, comparisons and parcels.

    open_run, open   a run folder (or a packed run), verified
    index, find      what a RUNS folder holds
    compare          same bytes, same results, or what moved
    pack             runs as one file that is the same wherever it is made

Each is imported when it is first used; nothing here needs the host that a run was made on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.read.runs.compare import Comparison, compare
    from labs.read.runs.listing import Entry, find, index
    from labs.read.runs.pack import Packed, pack
    from labs.read.runs.run import Run, open_run
    from labs.read.runs.run import open_run as open

__all__ = ["Comparison", "Entry", "Packed", "Run", "compare", "find", "index", "open", "open_run",
           "pack"]

_HOME = {
    "Comparison": "compare", "compare": "compare",
    "Entry": "listing", "find": "listing", "index": "listing",
    "Packed": "pack", "pack": "pack",
    "Run": "run", "open_run": "run", "open": "run",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"),
                   "open_run" if name == "open" else name)


def __dir__() -> list[str]:
    return sorted(__all__)
