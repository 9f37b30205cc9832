"""`labs runs export`: runs as files of other programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import BadInput
from labs.read.display.format import in_runs

if TYPE_CHECKING:
    from labs.read.runs.run import Run

NO_CAPTURE = "it has no capture"


def configure(verb: Callable[..., argparse.ArgumentParser]) -> None:
    parser = verb(
        "export",
        "write runs as tables, or as captures with comments",
        main,
        "From a folder of runs or a packed file, every run is exported. Name a study file to\n"
        "export only its runs.\n\n"
        "  labs runs export RUNS --parquet study.parquet   one row per run: inputs and results\n"
        "  labs runs export RUNS --csv study.csv           the same, and study.schema.json\n"
        "  labs runs export RUNS --pcapng DIR              RUN-HOST.pcapng: stalls explained\n\n"
        "Units and meanings of columns are in the metadata of Parquet's fields, or in the\n"
        "Frictionless Table Schema beside the .csv file.",
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="a study file, a folder given to --into, a run, or a packed file",
    )
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--parquet", type=Path, metavar="FILE", help="ends in .parquet")
    form.add_argument("--csv", type=Path, metavar="FILE", help="ends in .csv")
    form.add_argument(
        "--pcapng", type=Path, metavar="DIR", help="captures with comments, for Wireshark"
    )
    parser.add_argument("--lab", metavar="FILE", help="the lab of the runs, if it is your own")


def main(args: argparse.Namespace) -> int:
    """Write the files and print their names. BadInput if no run has what the format needs."""
    table = args.parquet or args.csv
    if table is not None:
        from labs.read.exports.flat_table import CSV, PARQUET, check_ending

        check_ending(table, PARQUET if args.parquet else CSV)
    if args.lab is not None:
        from labs.catalog import find

        find(args.lab)  # registers the lab under the name that its runs use
    from labs.read.runs.compare import every_run

    runs = every_run(args.what)
    if table is not None:
        return _as_table(runs, table, args.json)
    return _as_captures(runs, args.pcapng, args.json)


def _as_table(runs: Sequence[Run], out: Path, json_wanted: bool) -> int:
    from labs.studies.run_access import flat_table, write_table

    table = flat_table(runs)
    written = write_table(table, out)
    rows, columns = table.shape
    files = [str(path) for path in written]
    report = {"files": files, "rows": rows, "columns": columns}
    text = f"{', '.join(files)}: {in_runs(rows)}, {columns} columns"
    print(json.dumps(report) if json_wanted else text)
    return 0


def _as_captures(runs: Sequence[Run], folder: Path, json_wanted: bool) -> int:
    """Write each capture of the runs with its comments."""
    from labs.drive.record.disk import write_whole
    from labs.read.capture.reader import read
    from labs.read.exports.pcapng import annotated, comments_of

    files: list[str] = []
    skipped: list[str] = []
    for run in runs:
        captures = {host: run.capture(host) for host in run.hosts}
        for host, capture in captures.items():
            if capture is not None:
                path = folder / f"{run.name}-{host}.pcapng"
                write_whole(path, annotated(capture, comments_of(read(capture))))
                files.append(str(path))
        skipped += [] if any(captures.values()) else [run.name]
    if not files:
        raise BadInput(f"{in_runs(len(runs))} cannot be exported to {folder}: {NO_CAPTURE}")
    if json_wanted:
        print(json.dumps({"files": files, "skipped": skipped, "reason": NO_CAPTURE}))
        return 0
    rest = f"; {in_runs(len(skipped))} skipped: {NO_CAPTURE}" if skipped else ""
    print(f"{folder}: {len(files)} files{rest}")
    return 0
