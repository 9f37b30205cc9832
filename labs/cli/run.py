"""Run a lab: perform the missing runs for the given parameters, and show the results.

LAB is a lab's name or a file of your own (./mylab.py). Existing runs are reused unless --fresh is
given; an interrupted study resumes where it stopped. Several values of a parameter, separated by
commas (--rate-mbit 50,100,200 --delay-ms 10,50), form a grid. The missing runs of all combinations
are performed concurrently, each of them once, and printed as one table, with the varied parameters
as its first columns; --dry-run shows the points and runs of the grid. With --testbed vagrant,
--size small is reduced to what virtual machines can carry. Parameters that you give are never
changed; --dry-run shows the result. With several kernels (--kernel 6.1,6.12) there is one study per
kernel. If one of them is not built, the others run, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from labs.catalog import LABS, find
from labs.cli import run_flags, run_report
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import add_flags, from_flags
from labs.drive.testbeds import TESTBEDS
from labs.errors import BadInput, Missing
from labs.read.display.format import command_lines
from labs.read.lab import Lab

OWN_LAB = (
    "For other settings, such as congestion controls, queues and flows, write a lab of your own: "
    "labs new mylab --flows"
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = OWN_LAB
    parser.usage = (
        "labs run LAB [parameters of the lab] [--fresh] [--jobs N] [--boot MODE] [--dry-run] "
        "[--json]"
    )
    parser.add_argument("lab", metavar="LAB", help=f"{', '.join(LABS)}, or a file ./mylab.py")
    parser.add_argument("--fresh", action="store_true", help="repeat runs that already exist")
    run_flags.add(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print every ip, tc and sysctl command and start nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Add the flags of the lab named in the arguments, or those of every lab if none is named."""
    named = lab_word(words)
    if named is not None:
        parser.prog = f"labs run {named}"
    add_flags(parser, find(named).Parameters if named is not None else LabParameters)


def lab_word(words: Sequence[str]) -> str | None:
    """The argument that names the lab: the first one, or after flags the first that can be one."""
    if words and not words[0].startswith("-"):
        return words[0]
    return next((word for word in words if word in LABS or word.endswith(".py")), None)


def main(args: argparse.Namespace) -> int:
    wanted = run_flags.wanted(args)
    lab = find(args.lab)
    parameters, over = from_flags(lab.Parameters, args)
    if over:
        from labs.cli import run_grid

        return run_grid.main(lab, parameters, over, args, wanted)
    if args.dry_run:
        steps = preview(lab, parameters)
        print(json.dumps(steps) if args.json else as_script(steps))
        return 0
    from labs.read.result_row import NO_RESULTS
    from labs.studies.study import study as study_of

    study = study_of(parameters, wanted)
    report = run_report.as_json(lab, parameters, study)
    print(json.dumps(report) if args.json else run_report.describe(lab, report))
    if lacking := [on_kernel.lacks for on_kernel in study.kernels if on_kernel.lacks]:
        raise Missing("; ".join(lacking))
    without = [row["condition"] for row in report["results"] if NO_RESULTS in row["note_codes"]]
    if without:
        raise BadInput(f"no results of {', '.join(without)}: see the notes. Fix {lab.source}")
    return 0


def preview(lab: Lab, parameters: LabParameters) -> dict[str, Any]:
    """What would be done, per condition: the names of the runs, and every command in order."""
    from labs.drive.preview import preview as commands_of
    from labs.read.display.provenance import asked
    from labs.read.unused_parameters import describe_unused, unused

    on_each_kernel = (
        dataclasses.replace(parameters, kernel=kernel) for kernel in parameters.kernels
    )
    names = [run_names(lab, on_kernel) for on_kernel in on_each_kernel]
    conditions = lab.conditions(parameters)
    not_used = unused(lab, parameters, [condition.name for condition in conditions])
    return {
        "lab": lab.name,
        "testbed": parameters.testbed,
        "into": parameters.runs,
        "parameters": dataclasses.asdict(parameters),
        "repetitions": None
        if parameters.where.virtual_time
        else [
            parameters.repetitions_min,
            max(parameters.repetitions_min, parameters.repetitions_max),
        ],
        "conditions": [
            {
                "condition": condition.name,
                "group": condition.group,
                "link": asked(condition.link),
                "unused": not_used.get(condition.name, {}),
                "note": describe_unused(condition, not_used[condition.name])
                if condition.name in not_used
                else None,
                "runs": [of_kernel.get(condition.name) for of_kernel in names],
                "commands": [
                    {"host": line.host, "argv": list(line.argv)}
                    for line in commands_of(
                        condition, lab.lines(condition), parameters.where.machines
                    )
                ],
            }
            for condition in conditions
        ],
    }


def run_names(lab: Lab, parameters: LabParameters) -> dict[str, str]:
    """The names of the runs by condition; empty if the kernel is not built."""
    from labs.launch.plan import plan

    try:
        return {run.condition.name: run.name for run in plan(lab, parameters)}
    except Missing:  # without a kernel the commands can still be shown
        return {}


def as_script(steps: Mapping[str, Any]) -> str:
    """The commands of each condition, in order, grouped by host."""
    lines = []
    for condition in steps["conditions"]:
        often = (
            ""
            if steps["repetitions"] is None
            else "; {} to {} runs, in shuffled order".format(*steps["repetitions"])
        )
        lines += [
            "",
            f"## {steps['lab']} {condition['condition']}, on the testbed {steps['testbed']}{often}",
        ]
        lines += [f"# {condition['note']}"] if condition["note"] else []
        first = "machines" if TESTBEDS[steps["testbed"]].machines else "kernel"
        lines += [f"# run: {name or f'needs the {first} first'}" for name in condition["runs"]]
        lines += command_lines(
            (line["host"], tuple(line["argv"])) for line in condition["commands"]
        )
    return "\n".join(lines[1:])
