"""Show a lab's parameters and conditions, or the parameters in a form for other programs."""

from __future__ import annotations

import argparse
import json
import textwrap

from labs.catalog import find
from labs.drive.parameters.flags import as_markdown, describe, schema
from labs.drive.parameters.notebook_cell import literals
from labs.drive.testbeds import RECORDED
from labs.read.lab import Lab

WIDTH = 100


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lab", metavar="LAB", help="a lab's name, or a file such as ./mylab.py")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    shape.add_argument(
        "--notebook", action="store_true", help="print a notebook cell that sets them"
    )
    shape.add_argument("--json", action="store_true", help="print a JSON Schema")


def main(args: argparse.Namespace) -> int:
    lab = find(args.lab)
    cls = lab.Parameters
    if args.json:
        print(json.dumps({**schema(cls), "title": lab.name.capitalize()}, indent=2))
    elif args.notebook:
        print(literals(cls))
    elif args.markdown:
        print(as_markdown(cls))
    else:
        print(f"{describe(cls)}\n\n{describe_conditions(lab)}")
    return 0


def describe_conditions(lab: Lab) -> str:
    """The names that --only accepts, below the titles of their groups, whatever this machine can
    run."""
    few = {condition.name for condition in lab.conditions(lab.Parameters(testbed=RECORDED.name))}
    groups: dict[str, list[str]] = {}
    for condition in lab.conditions(lab.Parameters(size="full", testbed=RECORDED.name)):
        groups.setdefault(condition.group, []).append(condition.name)
    lines = ["conditions (names for --only):"]
    for group, names in groups.items():
        if group:
            lines += ["", f"{lab.title_of(group)} ({group})"]
        lines += _lines("", [name for name in names if name in few])
        lines += _lines("with --size full: ", [name for name in names if name not in few])
    return "\n".join(lines)


def _lines(before: str, names: list[str]) -> list[str]:
    indent = " " * 4
    return textwrap.wrap(
        before * bool(names) + ", ".join(names),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
