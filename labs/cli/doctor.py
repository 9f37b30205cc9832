"""Show which testbeds can run on this machine; if one cannot, why, and the next command.

With the name of a testbed, the exit code is 3 if no lab can run on that testbed here. `labs doctor
audit` shows the settings of the machine that affect a measurement.
"""

from __future__ import annotations

import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from labs.cli.command import Answer, Verb, arg
from labs.drive.parameters.declare import LabParameters, flag_name, unknown
from labs.drive.parameters.declare import check as check_parameters
from labs.drive.testbed.diagnosis import NOTES, Check, Diagnosis, examine
from labs.drive.testbeds import RECORDED, TESTBEDS, VAGRANT
from labs.errors import BadInput, LabError, Missing
from labs.launch import slots

if TYPE_CHECKING:
    from labs.guest.condition import Condition
    from labs.read.audit.items import Item
    from labs.read.lab import Lab

HERE = "here"
MARKS = {True: "!", False: " ", None: " "}
UNKNOWN = "?"
WIDEST = 120
ARGUMENTS = (
    arg("[TESTBED]", f"check only this one: {', '.join(TESTBEDS)}"),
    arg("--kernel VERSION", "the kernel to look for", default=LabParameters().kernel),
)


def main(args: Namespace) -> Answer:
    """Examine the testbeds. BadInput for an unknown one."""
    if args.testbed not in (None, *TESTBEDS):
        raise BadInput(unknown(args.testbed, TESTBEDS, what="testbed"))
    parameters = check_parameters(LabParameters, {"kernel": args.kernel}, spell=flag_name)
    examined = [
        with_places(diagnosis)
        for diagnosis in examine(parameters.kernels[0])
        if args.testbed in (None, diagnosis.where.name)
    ]
    lacking = args.testbed is not None and not examined[0].can_run
    return Answer(
        {"testbeds": list(map(as_json, examined)), "notes": NOTES},
        lambda: "\n\n".join([*map(describe, examined), *NOTES]),
        exit_code=Missing.exit_code if lacking else 0,
    )


def audit(args: Namespace) -> Answer:
    """Show the settings of this machine, or of both virtual machines, that affect a measurement.

    CPU and power, virtualisation and clock, memory, network cards, netfilter, queues, and every TCP
    and core sysctl that differs from the default of this kernel. Nothing is changed, and root is
    not needed. Values that only root can read are marked as unknown.

    Each item has a value, or the reason why it is unknown; whether it matters for latency,
    throughput or repeatability; what the article or the kernel's documentation says about it; and
    the command that changes it. An item deviates if its value is not what its source advises for
    measurements. A sysctl deviates if it differs from the default of this kernel. A deviation is
    not a fault, but it must be known before a measurement means anything.

      labs doctor audit                     group by group, deviations first
      labs doctor audit --html audit.html   all texts and commands, as a page
      labs doctor audit --json | jq '.[] | select(.deviates) | {title, value, wanted, change}'

    In real time every run stores the audit of its machines in host.json, and `labs runs compare`
    lists the settings in which the machines of two sets of runs differ.
    """
    if args.testbed not in (HERE, VAGRANT.name):
        raise BadInput(
            f"--testbed {args.testbed} cannot be audited. Allowed: {HERE}, {VAGRANT.name}"
        )
    from labs.studies.machine_audit import audited

    items = audited(machines=args.testbed != HERE)
    as_data = [item.as_json() for item in items]
    if args.html is None:
        width = min(WIDEST, shutil.get_terminal_size().columns)
        return Answer(as_data, "\n".join(lines(items, width)))
    from labs.drive.record.disk import write_whole
    from labs.publish.audit_page import page

    write_whole(args.html, page(items).encode())
    return Answer(as_data, str(args.html))


VERBS = {
    "audit": Verb(
        audit,
        (
            arg("--testbed TESTBED", "vagrant: both virtual machines, over ssh", default=HERE),
            arg("--html PAGE.html", "write a page that works offline"),
        ),
    )
}


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


def lines(items: Sequence[Item], width: int) -> Iterator[str]:
    """The audit as text: per group the deviations with their reasons, then the other items."""
    several = len({item.machine for item in items}) > 1
    heading = ""
    for item in items:
        title = f"{item.machine}: {item.group}" if several else item.group
        if title != heading:
            yield from ([""] if heading else []) + [title]
            heading = title
        mark = UNKNOWN if item.value is None else MARKS[item.deviates]
        named = f"{item.title} ({item.device})" if item.device else item.title
        value = f"unknown: {item.unknown}" if item.value is None else item.shown
        yield textwrap.fill(
            f"{mark} {named}: {value}", width, initial_indent="  ", subsequent_indent="      "
        )
        if item.deviates:
            wanted = f"{item.wanted} ({item.wanted_by})"
            for name, text in (("wanted", wanted), ("says", item.says), ("change", item.change)):
                yield textwrap.fill(
                    f"{name}: {text}", width, initial_indent=" " * 6, subsequent_indent=" " * 8
                )
    yield ""
    yield summary(items)


def summary(items: Sequence[Item]) -> str:
    """How many items there are, deviate, or are unknown."""
    deviate = sum(item.deviates is True for item in items)
    unknown = [item for item in items if item.value is None]
    root = sum("only root" in item.unknown for item in unknown)
    readable = f" ({root} of them only root can read)" if root else ""
    return (
        f"{len(items)} items: {deviate} deviate (!), {len(unknown)} are unknown (?){readable}. "
        "All texts and commands: --html PAGE.html"
    )
