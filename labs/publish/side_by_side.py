"""Execute several notebooks at a time, each in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from labs.errors import LabError
from labs.publish.execute import surroundings

K = TypeVar("K")


def side_by_side(
    wanted: Iterable[K],
    execute: Callable[[K], object],
    *,
    jobs: int,
    tell: Callable[[K, LabError | None], None],
    fail_fast: bool = False,
) -> dict[K, LabError]:
    """Call `execute` for each that is wanted, `jobs` at a time.

    `tell` is called as each ends. Returns the errors; with `fail_fast` the first one is raised and
    the others are not begun.
    """
    errors: dict[K, LabError] = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        with surroundings():
            futures = {pool.submit(execute, one): one for one in wanted}
            for future in as_completed(futures):
                error = future.exception()
                if error is not None and not isinstance(error, LabError):
                    raise error
                if error is not None and fail_fast:
                    raise error
                if error is not None:
                    errors[futures[future]] = error
                tell(futures[future], error)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        _end_kernels()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return errors


def _end_kernels() -> None:
    """End the notebook kernels that this process started, so that their threads end, too."""
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            with suppress(OSError):
                if b"ipykernel_launcher" in Path("/proc", pid, "cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
