"""The line below a chart of a capture: of a run all that is known, of another file its name."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from labs.read.display.provenance import of_run
from labs.read.runs.run import Run

Source: TypeAlias = Run | Path | str


def where_from(source: Source) -> str:
    """Testbed, kernel and link of a run; the name of a capture; a text as it is."""
    if isinstance(source, Run):
        return of_run(source)
    return f"from the file {source.name}" if isinstance(source, Path) else source
