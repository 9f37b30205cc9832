"""Show which testbeds can run on this machine; if one cannot, why, and the next command.

With the name of a testbed, the exit code is 3 if no lab can run on that testbed here.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from labs.drive.parameters.declare import TESTBEDS, LabParameters, check, flag_name, unknown
from labs.drive.testbed.diagnosis import NOTES, Check, Diagnosis, examine
from labs.errors import BadInput, LabError
from labs.launch import slots

if TYPE_CHECKING:
    from labs.drive.condition import Condition
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
    parameters = check(LabParameters, {"kernel": args.kernel}, spell=flag_name)
    found = [
        with_places(one)
        for one in examine(parameters.kernels[0])
        if args.testbed in (None, one.testbed)
    ]
    if args.json:
        print(json.dumps({"testbeds": [as_json(one) for one in found], "notes": NOTES}, indent=2))
    else:
        print("\n\n".join([*map(as_text, found), *NOTES]))
    return MISSING if args.testbed is not None and not found[0].can_run else 0


def with_places(found: Diagnosis) -> Diagnosis:
    """A diagnosis with the slots for runs and their holders, if the runs are on this machine."""
    if not found.can_run or found.testbed not in ("virtual", "namespaces"):
        return found
    try:
        free = len(slots.held()) < slots.limit()
        said = slots.describe()
    except LabError as error:
        free, said = False, str(error)
    step = "wait until one of these processes has ended, or raise LABS_JOBS"
    return replace(found, checks=(*found.checks, Check("slots", free, said, step, needed=False)))


def as_json(found: Diagnosis) -> dict[str, object]:
    """A testbed's diagnosis as plain data; `next` is the command to run first, or null."""
    return {
        "testbed": found.testbed,
        "can_run": found.can_run,
        "shapes_links": found.shapes,
        "next": found.first_step() or None,
        "checks": [
            {
                "name": one.name,
                "ok": one.ok,
                "found": one.finding,
                "needed": one.needed,
                "next": None if one.ok else one.next_step or None,
            }
            for one in found.checks
        ],
    }


def verdict(found: Diagnosis) -> str:
    """Whether labs can run on a testbed, and which ones if not all of them."""
    if not found.can_run:
        return "cannot run here"
    if found.shapes:
        return "can run"
    excluded = "links with a rate, a delay or loss cannot be set up"
    return f"can run only {'; '.join(without_shaping())}, because {excluded}"


def without_shaping() -> list[str]:
    """The labs with conditions whose links are not shaped, and how many of each if not all."""
    from labs.catalog import LABS, find

    found = []
    for lab in map(find, LABS):
        every = lab.conditions(lab.Parameters(size="full", testbed="recorded"))
        plain = [one for one in every if not _needs_netem(lab, one)]
        if len(plain) == len(every):
            found.append(lab.name)
        elif plain:
            found.append(f"{lab.name} ({len(plain)} of {len(every)} conditions)")
    return found


def _needs_netem(lab: Lab, condition: Condition) -> bool:
    """Whether the link of a condition is shaped, or its own commands use netem."""
    return condition.link.shaped or any("netem" in words for _, words in lab.lines(condition))


def as_text(found: Diagnosis) -> str:
    """A testbed's diagnosis as lines: the verdict, then each finding with the step to take."""
    lines = [f"{found.testbed}: {verdict(found)}  ({found.what})"]
    width = max(len(one.name) for one in found.checks)
    for one in found.checks:
        mark = "ok" if one.ok else ("no" if one.needed else "--")
        lines.append(f"  {mark}  {one.name.ljust(width)}  {one.finding}")
        if not one.ok and one.next_step:
            lines.append(f"      {' ' * width}  next: {one.next_step}")
    return "\n".join(lines)
