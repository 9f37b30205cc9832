"""`labs runs export`: runs as files of other programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import BadInput
from labs.read.display.format import in_runs

if TYPE_CHECKING:
    from labs.read.runs.run import Run

NO_TRANSFER = "no transfer in it lasts three samples"
NO_CAPTURE = "it has no capture"
Written = Iterator[tuple[str, bytes]]


def configure(verb: Callable[..., argparse.ArgumentParser]) -> None:
    parser = verb(
        "export",
        "write runs as tables, for Flent, or as captures with comments",
        main,
        "From a folder of runs or a packed file, every run is exported. Name a study file to\n"
        "export only its runs.\n\n"
        "  labs runs export RUNS --parquet study.parquet   one row per run: inputs and results\n"
        "  labs runs export RUNS --csv study.csv           the same, and study.schema.json\n"
        "  labs runs export RUNS --flent DIR               RUN.flent.gz: goodput over time\n"
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
    form.add_argument("--flent", type=Path, metavar="DIR", help="data files of Flent, one per run")
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
    if args.flent is not None:
        return _as_files(runs, args.flent, _for_flent, NO_TRANSFER, args.json)
    return _as_files(runs, args.pcapng, _annotated, NO_CAPTURE, args.json)


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


def _as_files(
    runs: Sequence[Run],
    folder: Path,
    export: Callable[[Run], Written],
    without: str,
    json_wanted: bool,
) -> int:
    """Write what `export` makes of each run; `without` says why it can make nothing of one."""
    from labs.drive.record.disk import write_whole

    files: list[str] = []
    skipped: list[str] = []
    for run in runs:
        before = len(files)
        for name, content in export(run):
            write_whole(folder / name, content)
            files.append(str(folder / name))
        skipped += [run.name] if len(files) == before else []
    if not files:
        raise BadInput(f"{in_runs(len(runs))} cannot be exported to {folder}: {without}")
    if json_wanted:
        print(json.dumps({"files": files, "skipped": skipped, "reason": without}))
        return 0
    rest = f"; {in_runs(len(skipped))} skipped: {without}" if skipped else ""
    print(f"{folder}: {len(files)} files{rest}")
    return 0


def _for_flent(run: Run) -> Written:
    from labs.read.exports.flent import ENDING, flent_file

    content = flent_file(run)
    if content is not None:
        yield f"{run.name}{ENDING}", content


def _annotated(run: Run) -> Written:
    from labs.read.capture.reader import read
    from labs.read.exports.packet_comments import comments_of
    from labs.read.exports.pcapng import annotated

    for host in run.hosts:
        capture = run.capture(host)
        if capture is not None:
            yield f"{run.name}-{host}.pcapng", annotated(capture, comments_of(read(capture)))
