"""Show which testbeds can run on this machine; if one cannot, why, and the next command.

With the name of a testbed, the exit code is 3 if no lab can run on that testbed here.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from labs.drive.parameters.declare import LabParameters, flag_name, unknown
from labs.drive.parameters.declare import check as check_parameters
from labs.drive.testbed.diagnosis import NOTES, Check, Diagnosis, examine
from labs.drive.testbeds import RECORDED, TESTBEDS
from labs.errors import BadInput, LabError
from labs.launch import slots

if TYPE_CHECKING:
    from labs.guest.condition import Condition
    from labs.read.lab import Lab

MISSING = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "testbed", nargs="?", metavar="TESTBED", help=f"check only this one: {', '.join(TESTBEDS)}"
    )
    parser.add_argument(
        "--kernel",
        default=LabParameters().kernel,
        metavar="VERSION",
        help="the kernel to look for (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    if args.testbed not in (None, *TESTBEDS):
        raise BadInput(unknown(args.testbed, TESTBEDS, what="testbed"))
    parameters = check_parameters(LabParameters, {"kernel": args.kernel}, spell=flag_name)
    diagnoses = [
        with_places(diagnosis)
        for diagnosis in examine(parameters.kernels[0])
        if args.testbed in (None, diagnosis.where.name)
    ]
    if args.json:
        print(
            json.dumps(
                {"testbeds": [as_json(diagnosis) for diagnosis in diagnoses], "notes": NOTES},
                indent=2,
            )
        )
    else:
        print("\n\n".join([*map(describe, diagnoses), *NOTES]))
    return MISSING if args.testbed is not None and not diagnoses[0].can_run else 0


def with_places(diagnosis: Diagnosis) -> Diagnosis:
    """A diagnosis with the slots for runs and their holders, if the runs are on this machine."""
    if not diagnosis.can_run or not diagnosis.where.on_this_machine:
        return diagnosis
    try:
        free = len(slots.held()) < slots.limit()
        text = slots.describe()
    except LabError as error:
        free, text = False, str(error)
    step = "wait until one of these processes has ended, or raise LABS_JOBS"
    return replace(
        diagnosis, checks=(*diagnosis.checks, Check("slots", free, text, step, needed=False))
    )


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """A testbed's diagnosis as plain data; `next` is the command to run first, or null."""
    return {
        "testbed": diagnosis.where.name,
        "can_run": diagnosis.can_run,
        "shapes_links": diagnosis.shapes,
        "next": diagnosis.first_step() or None,
        "checks": [
            {
                "name": check.name,
                "ok": check.ok,
                "found": check.finding,
                "needed": check.needed,
                "next": None if check.ok else check.next_step or None,
            }
            for check in diagnosis.checks
        ],
    }


def verdict(diagnosis: Diagnosis) -> str:
    """Whether labs can run on a testbed, and which ones if not all of them."""
    if not diagnosis.can_run:
        return "cannot run here"
    if diagnosis.shapes:
        return "can run"
    excluded = "links with a rate, a delay or loss cannot be set up"
    return f"can run only {'; '.join(without_shaping())}, because {excluded}"


def without_shaping() -> list[str]:
    """The labs with conditions whose links are not shaped, and how many of each if not all."""
    from labs.catalog import LABS, find

    names = []
    for lab in map(find, LABS):
        every = lab.conditions(lab.Parameters(size="full", testbed=RECORDED.name))
        plain = [condition for condition in every if not _needs_netem(lab, condition)]
        if len(plain) == len(every):
            names.append(lab.name)
        elif plain:
            names.append(f"{lab.name} ({len(plain)} of {len(every)} conditions)")
    return names


def _needs_netem(lab: Lab, condition: Condition) -> bool:
    """Whether the link of a condition is shaped, or its own commands use netem."""
    return condition.link.shaped or any("netem" in words for _, words in lab.lines(condition))


def describe(diagnosis: Diagnosis) -> str:
    """A testbed's diagnosis as lines: the verdict, then each finding with the step to take."""
    lines = [f"{diagnosis.where.name}: {verdict(diagnosis)}  ({diagnosis.where.what})"]
    width = max(len(check.name) for check in diagnosis.checks)
    for check in diagnosis.checks:
        mark = "ok" if check.ok else ("no" if check.needed else "--")
        lines.append(f"  {mark}  {check.name.ljust(width)}  {check.finding}")
        if not check.ok and check.next_step:
            lines.append(f"      {' ' * width}  next: {check.next_step}")
    return "\n".join(lines)
