"""Write executed notebooks, their runs and a description of both as one zip file (RO-Crate).

Give notebooks, runs or both, in any order: a notebook ends in .ipynb; runs are a run, a study file,
a folder given to --into, or a packed file. A notebook is executed in the current folder with your
permissions, and the runs that it opens are included. A notebook that papermill has executed is
included as it is, unless --set is given; name its runs as well.

Anybody can check the bundle with `labs verify`, and read its runs like those of a folder:
set RUNS = "bundle.zip" in a notebook, or use `labs runs list bundle.zip`. See docs/publishing.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from labs.errors import BadInput


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    from labs.cli.publish import add_set

    parser.add_argument("out", type=Path, metavar="OUT.zip", help="the bundle to write")
    parser.add_argument(
        "what", type=Path, nargs="+", metavar="NOTEBOOK|RUNS", help="notebooks and runs"
    )
    add_set(parser, "every notebook")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def main(args: argparse.Namespace) -> int:
    """Write the bundle and print its path and contents. Raises LabError."""
    from labs.cli.publish import check_parameters
    from labs.publish.page_parameters import settle
    from labs.read.notebook_file import read_notebook

    notebooks = []
    runs = [path for path in args.what if path.suffix != ".ipynb"]
    for path in args.what:
        if path.suffix == ".ipynb":
            notebook = read_notebook(path)
            values = settle(args.given, notebook)
            check_parameters(notebook, values)
            notebooks.append((notebook, values))
    missing = next((path for path in runs if not path.exists()), None)
    if missing is not None:
        raise BadInput(f"{missing} does not exist. Name notebooks (.ipynb), runs or packed files")
    from labs.publish import bundle

    bundle.check_out(args.out)
    if args.dry_run:
        plan = [
            (str(notebook.path), bundle.will_execute(notebook, values))
            for notebook, values in notebooks
        ]
        _print_plan(args, plan, runs)
        return 0
    done = bundle.write(
        args.out,
        notebooks,
        runs,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
        progress=sys.stderr.isatty(),
    )
    text = (
        f"{done.path}: notebooks {done.notebooks}, runs {done.runs}, files {done.files}; "
        f"{done.size_bytes} bytes, sha256 {done.sha256}"
    )
    print(json.dumps(done.as_json()) if args.json else text)
    return 0


def _print_plan(
    args: argparse.Namespace, notebooks: list[tuple[str, bool]], runs: list[Path]
) -> None:
    report = {
        "out": str(args.out),
        "notebooks": [{"path": path, "execute": execute} for path, execute in notebooks],
        "runs": list(map(str, runs)),
    }
    lines = [
        f"would {'execute' if execute else 'include, without executing it,'} {path}"
        for path, execute in notebooks
    ]
    lines += [f"would include the runs of {path}" for path in runs]
    print(json.dumps(report) if args.json else "\n".join([*lines, f"would write {args.out}"]))
