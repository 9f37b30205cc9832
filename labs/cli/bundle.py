"""Write executed notebooks, their runs and a description of both as one zip file (RO-Crate).

Give notebooks, runs or both, in any order: a notebook ends in .ipynb; runs are a run, a study file,
a folder given to --into, or a packed file. A notebook is executed in the current folder with your
permissions, and the runs that it opens are included. A notebook that papermill has executed is
included as it is, unless --set is given; name its runs as well.

Anybody can check the bundle with `labs verify`, and read its runs like those of a folder:
set RUNS = "bundle.zip" in a notebook, or use `labs runs list bundle.zip`. See docs/publishing.md.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from labs.cli.command import DRY_RUN, Answer, arg
from labs.cli.publish import SET, settled
from labs.errors import BadInput
from labs.read.notebook_file import read_notebook

ARGUMENTS = (
    arg("OUT.zip", "the bundle to write"),
    arg("NOTEBOOK|RUNS...", "notebooks and runs", Path, dest="what"),
    SET,
    DRY_RUN,
)


def main(args: Namespace) -> Answer:
    """Write the bundle. BadInput for what cannot be in it."""
    books = [read_notebook(path) for path in args.what if path.suffix == ".ipynb"]
    notebooks = [(notebook, settled(args.given, notebook)) for notebook in books]
    runs = [path for path in args.what if path.suffix != ".ipynb"]
    if missing := next((path for path in runs if not path.exists()), None):
        raise BadInput(f"{missing} does not exist. Name notebooks (.ipynb), runs or packed files")
    from labs.publish import bundle

    bundle.check_out(args.out)
    if args.dry_run:
        return _plan(
            args.out,
            {str(book.path): bundle.will_execute(book, values) for book, values in notebooks},
            list(map(str, runs)),
        )
    done = bundle.write(
        args.out,
        notebooks,
        runs,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
        progress=sys.stderr.isatty(),
    )
    return Answer(
        done.as_json(),
        f"{done.path}: notebooks {done.notebooks}, runs {done.runs}, files {done.files}; "
        f"{done.size_bytes} bytes, sha256 {done.sha256}",
    )


def _plan(out: Path, executed: dict[str, bool], runs: list[str]) -> Answer:
    notebooks = [{"path": path, "execute": execute} for path, execute in executed.items()]
    lines = [
        f"would {'execute' if execute else 'include, without executing it,'} {path}"
        for path, execute in executed.items()
    ]
    lines += [f"would include the runs of {path}" for path in runs]
    report = {"out": str(out), "notebooks": notebooks, "runs": runs}
    return Answer(report, "\n".join([*lines, f"would write {out}"]))
