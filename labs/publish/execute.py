"""Run notebooks with given parameters (by papermill), alone or several at a time, each in a process
of its own; say in one line where one stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import nbformat
import papermill
from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

from labs.errors import BRANCHES, Damaged, LabError, Missing, RunFailed
from labs.publish.page_parameters import Scalar
from labs.read.notebook_file import NEXT_STEP, NotebookFile
from labs.read.runs.raw_files import UNEXPECTED

# The figure itself goes into the notebook, 50 KB; other renderers add plotly.js to each.
RENDERER = "plotly_mimetype"
K = TypeVar("K")
ENGINE = "labs"


class SavedAtTheEnd(NBClientEngine):  # type: ignore[misc]
    """Papermill's engine saves the whole notebook before and after each cell, which is half the
    time of a notebook with many figures. This one saves it when it has ended or stopped, without
    outputs that have no data: a progress bar leaves one, and equal notebooks would differ."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        path, nb_man.output_path = nb_man.output_path, None
        try:
            return super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            nb_man.output_path = path
            for cell in nb_man.nb.cells:
                if "outputs" in cell:
                    cell.outputs = [output for output in cell.outputs if output.get("data", True)]


papermill_engines.register(ENGINE, SavedAtTheEnd)


def open_notebook(notebook: NotebookFile) -> Any:
    """The notebook as nbformat reads it, without earlier metadata of papermill. Damaged if nbformat
    refuses it."""
    try:
        with warnings.catch_warnings(action="ignore"):  # such as cells without an id
            nbformat.validate(notebook.content)
            book = nbformat.reads(json.dumps(notebook.content), as_version=4)
    except (nbformat.ValidationError, *UNEXPECTED) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise Damaged(
            f"{notebook.path} is not a notebook ({lines[0][:160]}). {NEXT_STEP}"
        ) from error
    for metadata in (book.metadata, *(cell.metadata for cell in book.cells)):
        metadata.pop("papermill", None)  # papermill would resume from it
    return book


def execute(
    book: Any,
    path: Path,
    values: Mapping[str, Scalar],
    *,
    progress: bool,
    out: Path | None = None,
    before: str = "",
) -> Any:
    """Run a notebook from the current folder and return it with its outputs.

    `path` is for messages, `before` is a line of Python that its process runs first. Only `out`, if
    it is given, is written: the notebook as far as it was executed, even if it stopped. Raises the
    LabError that stopped a cell, as its own class; RunFailed for any other error; Missing if there
    is no Python kernel for notebooks.
    """
    # ipykernel warns on every run about a connection that is not encrypted.
    encrypted = Config({"KernelManager": {"transport_encryption": "auto"}})
    try:
        with surroundings():
            return papermill.execute_notebook(
                book,
                None if out is None else str(out),
                parameters=dict(values),
                engine_name=ENGINE,
                kernel_name="python3",
                language="python",
                cwd=Path.cwd(),
                progress_bar=progress,
                config=encrypted,
                # It reports, as an error, that it was told to stop.
                extra_arguments=[
                    "--IPKernelApp.log_level=CRITICAL",
                    *([f"--IPKernelApp.exec_lines={before}"] if before else []),
                ],
            )
    except papermill.PapermillExecutionError as error:
        raise _stopped(path, error) from error
    except DeadKernelError as error:
        raise RunFailed(f"{path}: its Python died. Run it in Jupyter to see where") from error
    except NoSuchKernel as error:
        raise Missing("Jupyter has no python3 kernel. Install it: pip install ipykernel") from error


@contextmanager
def surroundings() -> Iterator[None]:
    """What the notebook's process inherits, and silence for warnings that are errors here. Inside
    another such block nothing changes, so that several notebooks can be executed side by side."""
    log = logging.getLogger("papermill")
    level, renderer = log.level, os.environ.get("PLOTLY_RENDERER")
    if (level, renderer) == (logging.ERROR, RENDERER):
        yield
        return
    log.setLevel(logging.ERROR)
    os.environ["PLOTLY_RENDERER"] = RENDERER
    try:
        yield
    finally:
        log.setLevel(level)
        os.environ.pop("PLOTLY_RENDERER")
        if renderer is not None:
            os.environ["PLOTLY_RENDERER"] = renderer


def _stopped(path: Path, error: Any) -> Exception:
    message = (str(error.evalue).strip() or "no message").splitlines()[0]
    if error.ename in BRANCHES:
        return BRANCHES[error.ename](message)
    return RunFailed(
        f"{path}: cell {error.exec_count} stopped with {error.ename}: {message}; "
        "run it in Jupyter to see where"
    )


def side_by_side(
    wanted: Iterable[K],
    task: Callable[[K], object],
    *,
    jobs: int,
    tell: Callable[[K, LabError | None], None],
    fail_fast: bool = False,
) -> dict[K, LabError]:
    """Call `task` for each that is wanted, `jobs` at a time.

    `tell` is called as each ends. Returns the errors; with `fail_fast` the first one is raised and
    the others are not begun.
    """
    errors: dict[K, LabError] = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        with surroundings():
            futures = {pool.submit(task, key): key for key in wanted}
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
        try:
            started = (task / "children").read_text().split()
        except OSError:  # this thread has ended meanwhile
            continue
        for pid in started:
            with suppress(OSError):
                if b"ipykernel_launcher" in Path("/proc", pid, "cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
