"""Run a lab: perform the missing runs for the given parameters, and show the results.

LAB is a lab's name or a file of your own (./mylab.py); labs run LAB --help has its parameters and
conditions. Existing runs are reused unless --fresh is given; an interrupted study resumes where it
stopped. Several values of a parameter, separated by commas (--rate-mbit 50,100,200 --delay-ms
10,50), form a grid. The missing runs of all combinations are performed concurrently, each of them
once, and printed as one table, with the varied parameters as its first columns; --dry-run shows the
points and runs of the grid. With --testbed vagrant, --size small is reduced to what virtual
machines can carry. Parameters that you give are never changed; --dry-run shows the result. With
several kernels (--kernel 6.1,6.12) there is one study per kernel. If one of them is not built, the
others run, and the exit code is 3.
"""

from __future__ import annotations

import dataclasses
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from labs.catalog import LABS, find
from labs.cli import run_report
from labs.cli.command import DRY_RUN, FRESH, JOBS, Answer, arg
from labs.drive.parameters.declare import LabParameters
from labs.drive.parameters.flags import add_flags, from_flags
from labs.drive.testbeds import RECORDED, TESTBEDS
from labs.errors import BadInput, LabError, Missing
from labs.read.display.format import command_lines
from labs.read.lab import Lab

EPILOG = (
    "For other settings, such as congestion controls, queues and flows, write a lab of your own: "
    "labs new mylab --flows"
)
ARGUMENTS = (arg("LAB", f"{', '.join(LABS)}, or a file ./mylab.py"), FRESH, JOBS, DRY_RUN)
WIDTH = 100


def extend(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Add the flags of the lab named in the arguments, or those of every lab if none is named."""
    named = lab_word(words)
    parser.usage = f"labs run {named or 'LAB'} [parameters of the lab] [options]"
    if named is None:
        add_flags(parser, LabParameters)
        return
    parser.prog = f"labs run {named}"
    lab = find(named)
    add_flags(parser, lab.Parameters)
    if {"-h", "--help"} & set(words):
        parser.add_argument_group("conditions (names for --only)", describe_conditions(lab))


def lab_word(words: Sequence[str]) -> str | None:
    """The argument that names the lab: the first one, or after flags the first that can be one."""
    if words and not words[0].startswith("-"):
        return words[0]
    return next((word for word in words if word in LABS or word.endswith(".py")), None)


def describe_conditions(lab: Lab) -> str:
    """The conditions below the titles of their groups, whatever this machine can run."""
    few = {condition.name for condition in lab.conditions(lab.Parameters(testbed=RECORDED.name))}
    groups: dict[str, list[str]] = {}
    for condition in lab.conditions(lab.Parameters(size="full", testbed=RECORDED.name)):
        groups.setdefault(condition.group, []).append(condition.name)
    lines = []
    for group, names in groups.items():
        lines += ["", f"{lab.title_of(group)} ({group}):"] if group else []
        more = [name for name in names if name not in few]
        lines += _wrapped("", [name for name in names if name in few])
        lines += _wrapped("with --size full: ", more)
    return "\n".join(lines)


def _wrapped(before: str, names: Sequence[str]) -> list[str]:
    text = before * bool(names) + ", ".join(names)
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def main(args: Namespace) -> Answer:
    """Run the lab, or show what would be run. Raises LabError."""
    lab = find(args.lab)
    parameters, over = from_flags(lab.Parameters, args)
    if over:
        from labs.cli import run_grid

        return run_grid.main(lab, parameters, over, args)
    if args.dry_run:
        steps = preview(lab, parameters)
        return Answer(steps, as_script(steps))
    from labs.launch.wanted import Wanted
    from labs.read.result_row import NO_RESULTS
    from labs.studies.study import study as study_of

    study = study_of(parameters, Wanted(args.fresh, args.jobs))
    report = run_report.as_json(lab, parameters, study)
    error: LabError | None = None
    without = [row["condition"] for row in report["results"] if NO_RESULTS in row["note_codes"]]
    if without:
        error = BadInput(f"no results of {', '.join(without)}: see the notes. Fix {lab.source}")
    if report["lacking"]:
        error = Missing("; ".join(report["lacking"]))
    return Answer(report, lambda: run_report.describe(lab, report), error=error)


def preview(lab: Lab, parameters: LabParameters) -> dict[str, Any]:
    """What would be done, per condition: the names of the runs, and every command in order."""
    from labs.drive.preview import preview as commands_of
    from labs.read.display.provenance import asked
    from labs.read.unused_parameters import describe_unused, unused

    names = [
        run_names(lab, dataclasses.replace(parameters, kernel=kernel))
        for kernel in parameters.kernels
    ]
    conditions = lab.conditions(parameters)
    not_used = unused(lab, parameters, [condition.name for condition in conditions])
    machines = parameters.where.machines
    least, most = parameters.repetitions_min, parameters.repetitions_max
    return {
        "lab": lab.name,
        "testbed": parameters.testbed,
        "into": parameters.runs,
        "parameters": dataclasses.asdict(parameters),
        "repetitions": None if parameters.where.virtual_time else [least, max(least, most)],
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
                    for line in commands_of(condition, lab.lines(condition), machines)
                ],
            }
            for condition in conditions
        ],
    }


def run_names(lab: Lab, parameters: LabParameters) -> dict[str, str]:
    """The names of the runs by condition; empty without the kernel, or before there is a kit."""
    from labs.drive.kernel.kit import in_use
    from labs.launch.plan import plan

    if parameters.where.virtual_time and in_use() is None:
        return {}  # the first run makes the kit
    try:
        return {run.condition.name: run.name for run in plan(lab, parameters)}
    except Missing:  # without a kernel the commands can still be shown
        return {}


def as_script(steps: Mapping[str, Any]) -> str:
    """The commands of each condition, in order, grouped by host."""
    often = ""
    if steps["repetitions"] is not None:
        often = "; {} to {} runs, in shuffled order".format(*steps["repetitions"])
    first = "machines" if TESTBEDS[steps["testbed"]].machines else "kernel and a kit"
    parts = []
    for condition in steps["conditions"]:
        name = f"{steps['lab']} {condition['condition']}"
        lines = [f"## {name}, on the testbed {steps['testbed']}{often}"]
        lines += [f"# {condition['note']}"] if condition["note"] else []
        lines += [f"# run: {name or f'needs the {first} first'}" for name in condition["runs"]]
        commands = ((line["host"], tuple(line["argv"])) for line in condition["commands"])
        parts.append("\n".join([*lines, *command_lines(commands)]))
    return "\n\n".join(parts)
