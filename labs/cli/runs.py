"""List, show, compare, pack and record runs, and export them to other programs.

WHAT, A and B are the folder of a run, a study file, a folder given to --into, or a packed file.
Of a folder or a packed file every run is meant.

`compare` reports one of three grades: identical bytes, equal results, or changed. It says how many
runs were compared and which only one side has. The exit code is 5 if a result changed, or if one
side has runs that the other lacks and --common is not given. For two testbeds it reports each
condition's ratio with its 95 % interval: the testbeds agree, disagree, or the result is undecided
because the interval is too wide. The exit code is then 5 unless all conditions that can be compared
agree. Below these are the settings in which the machines of the two sides differ, from the audits
that runs in real time store in host.json (see labs audit).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from labs.cli import runs_export
from labs.errors import BadInput, one_line
from labs.read.display.format import in_runs, terminal_table

if TYPE_CHECKING:
    from labs.read.runs.archive import Packed
    from labs.read.runs.run import Run

DEFAULT_FOLDER = "runs"
DIFFERS, DAMAGED = 5, 6
RUN_COLUMNS = ("run", "testbed", "kernel", "ended", "link", "digest")
STUDY_COLUMNS = ("study", "newest", "runs", "missing")


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(
        name: str, does: str, answer: Callable[[argparse.Namespace], int], more: str = ""
    ) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=does, description=f"{does}\n\n{more}".strip())
        made.add_argument("--json", action="store_true", help="print one JSON object")
        made.set_defaults(answer=answer)
        return made

    listing = verb(
        "list",
        "list the runs and studies in a folder",
        main_list,
        "Every run is verified. A damaged run is listed with the reason, and the exit code is\n"
        "then 6.",
    )
    listing.add_argument(
        "folder",
        nargs="?",
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help="a folder given to --into, or a packed file (default: %(default)s)",
    )
    show = verb("show", "show one run: inputs, link, timestamps, files", main_show)
    show.add_argument("run", metavar="RUN", help="its folder, or its name as shown by list")
    show.add_argument(
        "--from",
        dest="folder",
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        help="the folder in which to look up a name (default: %(default)s)",
    )
    show.add_argument(
        "--commands",
        action="store_true",
        help="print the ip, tc, nft, ethtool and sysctl commands of the run, ready to paste",
    )
    compare = verb("compare", "compare two sets of runs: identical, equal or changed", main_compare)
    compare.add_argument("a", metavar="A")
    compare.add_argument("b", metavar="B")
    compare.add_argument("--lab", metavar="FILE", help="the lab of the runs, if it is your own")
    compare.add_argument("--common", action="store_true", help="accept runs that only one side has")
    pack = verb("pack", "pack runs into one file, reproducibly to the byte", main_pack)
    pack.add_argument("what", metavar="WHAT")
    pack.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="ends in .tar.gz or .tar.xz"
    )
    pack.add_argument(
        "--with-host", action="store_true", help="include host.json, which describes the machine"
    )
    _configure_record(verb)
    runs_export.configure(verb)


def _configure_record(verb: Callable[..., argparse.ArgumentParser]) -> None:
    record = verb(
        "record",
        "pack runs into a folder of recorded data, and update its SHA256SUMS",
        main_record,
        'Recorded data is read by TESTBED = "recorded". In a clone of the project it is in data/.\n'
        "The given runs, which must be of one lab, replace those in DATA/LAB.tar.xz. Each run is\n"
        "verified first. With NAME they replace those in DATA/NAME.tar.xz instead, which is meant\n"
        "for runs with other parameters or from another testbed.\n\n"
        "  labs run buffers --size full --into fresh\n"
        "  labs runs record fresh data --dry-run        show what would be written\n"
        "  labs runs compare data/buffers.tar.xz fresh  show what would change\n"
        "  labs runs record fresh data                  replace data/buffers.tar.xz\n"
        "  labs runs record witnesses data buffers-witnesses",
    )
    record.add_argument(
        "what", type=Path, metavar="RUNS", help="a folder given to --into, or one of its studies"
    )
    record.add_argument(
        "data", type=Path, metavar="DATA", help="the folder of recorded data, existing or new"
    )
    record.add_argument(
        "name", nargs="?", metavar="NAME", help="LAB-WORD, such as buffers-witnesses (default: LAB)"
    )
    record.add_argument(
        "--dry-run", action="store_true", help="verify, and print what would be done"
    )


def main(args: argparse.Namespace) -> int:
    code: int = args.answer(args)
    return code


def main_list(args: argparse.Namespace) -> int:
    from labs.read.runs.listing import index

    entries = index(args.folder)
    code = DAMAGED if any(entry.problem for entry in entries) else 0
    if args.json:
        print(
            json.dumps({"folder": args.folder, "entries": [entry.as_json() for entry in entries]})
        )
        return code
    runs = [
        {**entry.as_json(), "run": entry.name, "digest": entry.digest[:12]}
        for entry in entries
        if entry.kind == "run" and entry.problem is None
    ]
    studies = [
        {**entry.as_json(), "study": entry.name}
        for entry in entries
        if entry.kind == "study" and entry.problem is None
    ]
    parts = [
        terminal_table(rows, columns)
        for rows, columns in ((runs, RUN_COLUMNS), (studies, STUDY_COLUMNS))
        if rows
    ]
    parts += [
        f"{one_line(entry.name)}: {entry.problem}" for entry in entries if entry.problem is not None
    ]
    print("\n\n".join(parts) or f"{args.folder} contains no runs")
    return code


def main_show(args: argparse.Namespace) -> int:
    from labs.read.runs.run import open_run

    path = Path(args.run)
    run = open_run(path if path.exists() else Path(args.folder) / args.run)
    if args.commands:
        text = run.commands_text()
        print(json.dumps({"commands": text.splitlines()}) if args.json else text.rstrip())
        return 0
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
    if args.json:
        print(json.dumps(report))
    else:
        print("\n".join(f"{name}: {_describe(value)}" for name, value in report.items()))
    return 0


def _describe(value: object) -> str:
    """A value as text: one line, or one line per part."""
    if isinstance(value, dict):
        return "".join(f"\n  {name}: {json.dumps(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return (
            "".join(f"\n  {part if isinstance(part, str) else json.dumps(part)}" for part in value)
            or "none"
        )
    return str(value)


def main_compare(args: argparse.Namespace) -> int:
    from labs.read.runs.compare import CHANGED, every_run

    if args.lab is not None:
        from labs.catalog import find

        find(args.lab)  # registers the lab under the name that its runs use
    sides = every_run(args.a), every_run(args.b)
    if _are_two_testbeds(*sides):
        return _compare_testbeds(sides, args)
    from labs.studies.run_access import compare

    comparison = compare(args.a, args.b)
    print(json.dumps(comparison.as_json()) if args.json else "\n".join(comparison.lines()))
    alone = bool(comparison.only_a or comparison.only_b) and not args.common
    return DIFFERS if comparison.grade == CHANGED or alone else 0


def _are_two_testbeds(first: Sequence[Run], second: Sequence[Run]) -> bool:
    """Whether the two sides are from two testbeds, or were run separately in real time."""
    if {run.testbed for run in first} != {run.testbed for run in second}:
        return True
    return {run.digest for run in first} != {run.digest for run in second} and any(
        run.repetition is not None for run in (*first, *second)
    )


def _compare_testbeds(sides: Sequence[Sequence[Run]], args: argparse.Namespace) -> int:
    """Print each condition's ratio and whether the testbeds agree; their bytes always differ."""
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
    if args.json:
        answers = [comparison.as_json() for comparison in by_lab]
        print(json.dumps({"labs": answers, "machines": [asdict(machine) for machine in machines]}))
    else:
        text = [line for comparison in by_lab for line in comparison.lines()]
        print("\n".join([*text, *as_lines(machines)]))
    return 0 if grades == {AGREE} else DIFFERS


def main_pack(args: argparse.Namespace) -> int:
    from labs.read.runs.archive import pack

    packed = pack(args.what, args.out, with_host=args.with_host)
    print(json.dumps(packed.as_json()) if args.json else _describe_packed(packed))
    return 0


def main_record(args: argparse.Namespace) -> int:
    from labs.read.runs.archive import contents, count_runs
    from labs.read.runs.recorded import SUMS, file_for, keep

    sums = args.data / SUMS
    if args.dry_run:
        out = file_for(args.what, args.data, args.name)
        count = count_runs(contents(args.what))
        report = {"path": str(out), "runs": count, "sums": str(sums), "replaces": out.exists()}
        verb = "replace" if out.exists() else "write"
        text = f"would {verb} {out} ({in_runs(count)}) and update {sums}"
    else:
        packed = keep(args.what, args.data, args.name)
        report = packed.as_json() | {"sums": str(sums)}
        text = f"{_describe_packed(packed)}\n{sums}: updated"
    print(json.dumps(report) if args.json else text)
    return 0


def _describe_packed(packed: Packed) -> str:
    return (
        f"{packed.path}: {in_runs(packed.runs)}, {packed.size_bytes} bytes, sha256 {packed.sha256}"
    )
