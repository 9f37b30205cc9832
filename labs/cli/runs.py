"""List, show, compare, pack and record runs, and export them to other programs.

WHAT, A and B are the folder of a run, a study file, a folder given to --into, or a packed file.
Of a folder or a packed file every run is meant.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from labs.cli.command import DRY_RUN, Answer, Verb, arg
from labs.errors import BadInput, Damaged, ResultsDiffer, one_line
from labs.read.display.format import in_runs, terminal_table

if TYPE_CHECKING:
    from labs.read.runs.archive import Packed
    from labs.read.runs.run import Run

FOLDER = "runs"
COLUMNS = {
    "run": ("run", "testbed", "kernel", "ended", "link", "digest"),
    "study": ("study", "newest", "runs", "missing"),
}
NO_CAPTURE = "it has no capture"


def main_list(args: Namespace) -> Answer:
    """List the runs and studies in a folder.

    Every run is verified. A damaged run is listed with the reason, and the exit code is then 6.
    """
    from labs.read.runs.listing import index

    entries = index(args.folder)
    whole = [entry for entry in entries if entry.problem is None]
    tables = []
    for kind, columns in COLUMNS.items():
        rows = [
            {**entry.as_json(), kind: entry.name, "digest": entry.digest[:12]}
            for entry in whole
            if entry.kind == kind
        ]
        tables += [terminal_table(rows, columns)] if rows else []
    damaged = [entry for entry in entries if entry.problem is not None]
    problems = [f"{one_line(entry.name)}: {entry.problem}" for entry in damaged]
    return Answer(
        {"folder": args.folder, "entries": [entry.as_json() for entry in entries]},
        "\n\n".join([*tables, *problems]) or f"{args.folder} contains no runs",
        exit_code=Damaged.exit_code if problems else 0,
    )


def main_show(args: Namespace) -> Answer:
    """Show one run: inputs, link, timestamps, files."""
    from labs.read.runs.run import open_run

    path = Path(args.run)
    run = open_run(path if path.exists() else Path(args.folder) / args.run)
    if args.commands:
        text = run.commands_text()
        return Answer({"commands": text.splitlines()}, text.rstrip())
    report = {
        "run": run.name,
        "path": str(run.path),
        "key": run.key,
        "digest": run.digest,
        "kernel": asdict(run.kernel),
        "link": run.link.as_json(),
        "moments": run.moments,
        "ended": run.ended,
        "buffers": [asdict(buffer) for buffer in run.buffers],
        "tools": run.tools,
        "inputs": run.inputs,
        "files": sorted(run.seal.files),
    }
    return Answer(report, "\n".join(f"{name}: {_describe(of)}" for name, of in report.items()))


def _describe(value: object) -> str:
    """A value as text: one line, or one line per part."""
    if isinstance(value, dict):
        return "".join(f"\n  {name}: {json.dumps(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        parts = (part if isinstance(part, str) else json.dumps(part) for part in value)
        return "".join(f"\n  {part}" for part in parts) or "none"
    return str(value)


def main_compare(args: Namespace) -> Answer:
    """Compare two sets of runs: identical bytes, equal results, or changed.

    The answer says how many runs were compared and which only one side has. The exit code is 5 if a
    result changed, or if one side has runs that the other lacks and --common is not given.

    For two testbeds it has each condition's ratio with its 95 % interval: the testbeds agree,
    disagree, or the result is undecided because the interval is too wide. The exit code is then 5
    unless all conditions that can be compared agree. Below these are the settings in which the
    machines of the two sides differ, from the audits that runs in real time store in host.json (see
    labs doctor audit).
    """
    from labs.read.runs.compare import CHANGED, every_run

    _load(args.lab)
    sides = every_run(args.a), every_run(args.b)
    if _are_two_testbeds(*sides):
        return _compare_testbeds(sides)
    from labs.studies.run_access import compare

    comparison = compare(args.a, args.b)
    alone = bool(comparison.only_a or comparison.only_b) and not args.common
    differ = comparison.grade == CHANGED or alone
    return Answer(
        comparison.as_json(),
        lambda: "\n".join(comparison.lines()),
        exit_code=ResultsDiffer.exit_code if differ else 0,
    )


def _load(lab: str | None) -> None:
    """Register a lab in a file under the name that its runs use."""
    if lab is not None:
        from labs.catalog import find

        find(lab)


def _are_two_testbeds(first: Sequence[Run], second: Sequence[Run]) -> bool:
    """Whether the two sides are from two testbeds, or were run separately in real time."""
    if {run.testbed for run in first} != {run.testbed for run in second}:
        return True
    return {run.digest for run in first} != {run.digest for run in second} and any(
        run.repetition is not None for run in (*first, *second)
    )


def _compare_testbeds(sides: Sequence[Sequence[Run]]) -> Answer:
    """Each condition's ratio and whether the testbeds agree; their bytes always differ."""
    from labs.catalog import find
    from labs.read.audit.differences import as_lines, compared
    from labs.read.stats.testbed_comparison import AGREE, compare_every

    by_lab = [
        compare_every(find(name), *([run for run in side if run.lab == name] for side in sides))
        for name in sorted({run.lab for side in sides for run in side})
    ]
    grades = {comparison.grade for comparison in by_lab} - {None}
    if not grades:
        raise BadInput(
            "the two sides have no condition in common. Compare studies of the same lab with the "
            "same parameters"
        )
    machines = compared(*sides)
    text = [line for comparison in by_lab for line in comparison.lines()]
    return Answer(
        {
            "labs": [comparison.as_json() for comparison in by_lab],
            "machines": [asdict(machine) for machine in machines],
        },
        "\n".join([*text, *as_lines(machines)]),
        exit_code=0 if grades == {AGREE} else ResultsDiffer.exit_code,
    )


def main_pack(args: Namespace) -> Answer:
    """Pack runs into one file, reproducibly to the byte."""
    from labs.read.runs.archive import pack

    packed = pack(args.what, args.out, with_host=args.with_host)
    return Answer(packed.as_json(), _describe_packed(packed))


def main_record(args: Namespace) -> Answer:
    """Pack runs into a folder of recorded data, and update its SHA256SUMS.

    Recorded data is read by TESTBED = "recorded". In a clone of the project it is in data/. The
    given runs, which must be of one lab, replace those in DATA/LAB.tar.xz. Each run is verified
    first. With NAME they replace those in DATA/NAME.tar.xz instead, which is meant for runs with
    other parameters or from another testbed.

      labs run buffers --size full --into fresh
      labs runs record fresh data --dry-run        show what would be written
      labs runs compare data/buffers.tar.xz fresh  show what would change
      labs runs record fresh data                  replace data/buffers.tar.xz
      labs runs record witnesses data buffers-witnesses
    """
    from labs.read.runs.archive import contents, count_runs
    from labs.read.runs.recorded import SUMS, file_for, keep

    sums = args.data / SUMS
    if not args.dry_run:
        packed = keep(args.runs, args.data, args.name)
        text = f"{_describe_packed(packed)}\n{sums}: updated"
        return Answer(packed.as_json() | {"sums": str(sums)}, text)
    out = file_for(args.runs, args.data, args.name)
    count = count_runs(contents(args.runs))
    report = {"path": str(out), "runs": count, "sums": str(sums), "replaces": out.exists()}
    verb = "replace" if out.exists() else "write"
    return Answer(report, f"would {verb} {out} ({in_runs(count)}) and update {sums}")


def _describe_packed(packed: Packed) -> str:
    return (
        f"{packed.path}: {in_runs(packed.runs)}, {packed.size_bytes} bytes, sha256 {packed.sha256}"
    )


def main_export(args: Namespace) -> Answer:
    """Write runs as tables, or as captures with comments.

    From a folder of runs or a packed file, every run is exported. Name a study file to export only
    its runs.

      labs runs export RUNS --parquet study.parquet   one row per run: inputs and results
      labs runs export RUNS --csv study.csv           the same, and study.schema.json
      labs runs export RUNS --pcapng DIR              RUN-HOST.pcapng: stalls explained

    Units and meanings of columns are in the metadata of Parquet's fields, or in the Frictionless
    Table Schema beside the .csv file.
    """
    given = [out for out in (args.parquet, args.csv, args.pcapng) if out is not None]
    if len(given) != 1:
        raise BadInput("name one output: --parquet FILE, --csv FILE or --pcapng DIR")
    _load(args.lab)
    from labs.read.runs.compare import every_run

    runs = every_run(args.what)
    if args.pcapng is not None:
        return _as_captures(runs, args.pcapng)
    from labs.studies.run_access import flat_table, write_table

    table = flat_table(runs)
    files = list(map(str, write_table(table, given[0])))
    rows, columns = table.shape
    return Answer(
        {"files": files, "rows": rows, "columns": columns},
        f"{', '.join(files)}: {in_runs(rows)}, {columns} columns",
    )


def _as_captures(runs: Sequence[Run], folder: Path) -> Answer:
    """Write each capture of the runs with its comments. BadInput if they have none."""
    from labs.drive.record.disk import write_whole
    from labs.read.capture.reader import read
    from labs.read.exports.pcapng import annotated, comments_of

    files: list[str] = []
    skipped: list[str] = []
    for run in runs:
        captures = [(host, path) for host in run.hosts if (path := run.capture(host)) is not None]
        for host, capture in captures:
            out = folder / f"{run.name}-{host}.pcapng"
            write_whole(out, annotated(capture, comments_of(read(capture))))
            files.append(str(out))
        skipped += [] if captures else [run.name]
    if not files:
        raise BadInput(f"{in_runs(len(runs))} cannot be exported to {folder}: {NO_CAPTURE}")
    rest = f"; {in_runs(len(skipped))} skipped: {NO_CAPTURE}" if skipped else ""
    return Answer(
        {"files": files, "skipped": skipped, "reason": NO_CAPTURE},
        f"{folder}: {len(files)} files{rest}",
    )


LAB = arg("--lab FILE", "the lab of the runs, if it is your own")
WHAT = arg("WHAT", "a study file, a folder given to --into, a run, or a packed file")
VERBS = {
    "list": Verb(
        main_list, (arg("[FOLDER]", "a folder given to --into, or a packed file", default=FOLDER),)
    ),
    "show": Verb(
        main_show,
        (
            arg("RUN", "its folder, or its name as shown by list"),
            arg("--from FOLDER", "where to look up a name", default=FOLDER, dest="folder"),
            arg("--commands", "print the ip, tc, nft, ethtool and sysctl commands, ready to paste"),
        ),
    ),
    "compare": Verb(
        main_compare, (arg("A"), arg("B"), LAB, arg("--common", "accept runs of only one side"))
    ),
    "pack": Verb(
        main_pack,
        (
            WHAT,
            arg("--out FILE", "ends in .tar.gz or .tar.xz", Path, required=True),
            arg("--with-host", "include host.json, which describes the machine"),
        ),
    ),
    "record": Verb(
        main_record,
        (
            arg("RUNS", "a folder given to --into, or one of its studies", Path),
            arg("DATA", "the folder of recorded data, existing or new", Path),
            arg("[NAME]", "LAB-WORD, such as buffers-witnesses (default: LAB)"),
            DRY_RUN,
        ),
    ),
    "export": Verb(
        main_export,
        (
            WHAT,
            arg("--parquet X.parquet", "write one table"),
            arg("--csv X.csv", "write one table and its schema"),
            arg("--pcapng DIR", "write captures with comments, for Wireshark", Path),
            LAB,
        ),
    ),
}
