"""What a program of a run wrote, or cannot have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from labs.errors import BadInput, Damaged
from labs.read.runs.run import Run

WRONG = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What it raises to read a file that has another form, or figures beyond all measure."""


@contextmanager
def as_written(run: Run, name: str) -> Iterator[None]:
    """Damaged, with the run and its file, where reading what is in it fails."""
    try:
        yield
    except (BadInput, Damaged) as error:
        raise Damaged(f"the run {run.name}, {name}: {error}") from error
    except (*WRONG, RecursionError) as error:
        raise Damaged(
            f"the run {run.name}: {name} is not what its program writes; "
            "repeat the run with --fresh"
        ) from error


def whole(value: object) -> int:
    """A number of bytes or nanoseconds; ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    raise ValueError(f"{value!r:.60} is no number of bytes or nanoseconds")
