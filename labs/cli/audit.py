"""Show the settings that decide how fast the network stack of this machine, or of both virtual
machines, is: CPU and power, virtualisation and clock, memory, network cards, netfilter, queues, and
every TCP and core sysctl that differs from the default of this kernel.

Nothing is changed, and root is not needed. Values that only root can read are marked as unknown.

Each item has a value, or the reason why it is unknown; whether it matters for latency, throughput
or repeatability; what the article or the kernel's documentation says about it; and the command that
changes it. An item deviates if its value is not what its source advises for measurements. A sysctl
deviates if it differs from the default of this kernel. A deviation is not a fault, but it must be
known before a measurement means anything.

  labs audit                            group by group, deviations first
  labs audit --html audit.html          all texts and commands, as a page
  labs audit --json | jq length         one array of items
  labs audit --json | jq '.[] | select(.deviates) | {title, value, wanted, change}'

In real time every run stores the audit of its machines in host.json, and `labs runs compare` lists
the settings in which the machines of two sets of runs differ.
"""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from labs.drive.testbeds import VAGRANT
from labs.errors import BadInput
from labs.read.audit.items import Item

HERE = "here"
MARKS = {True: "!", False: " ", None: " "}
UNKNOWN = "?"
WIDEST = 120


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON array of items")
    parser.add_argument(
        "--testbed",
        metavar="TESTBED",
        default=HERE,
        help="vagrant: both virtual machines, over ssh (default: this machine)",
    )
    parser.add_argument(
        "--html", type=Path, metavar="PAGE.html", help="write a page that works offline"
    )


def main(args: argparse.Namespace) -> int:
    """Audit, and print or write the items."""
    if args.testbed not in (HERE, VAGRANT.name):
        raise BadInput(
            f"--testbed {args.testbed} cannot be audited. Allowed: {HERE}, {VAGRANT.name}"
        )
    if args.html is not None and args.html.suffix not in (".html", ".htm"):
        raise BadInput(f"--html {args.html}: the name of the page must end in .html or .htm")
    from labs.studies.machine_audit import audited

    items = audited(machines=args.testbed != HERE)
    if args.html is not None:
        from labs.drive.record.disk import write_whole
        from labs.publish.audit_page import page

        write_whole(args.html, page(items).encode())
    if args.json:
        print(json.dumps([item.as_json() for item in items]))
    elif args.html is not None:
        print(args.html)
    else:
        width = min(WIDEST, shutil.get_terminal_size().columns)
        print("\n".join(lines(items, width)))
    return 0


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
