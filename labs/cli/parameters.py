"""Show the parameters of a lab, as a table or for another program."""

from __future__ import annotations

import argparse
import json

from labs.catalog import find
from labs.drive.parameters.flags import as_markdown, as_text, schema
from labs.drive.parameters.notebook_cell import literals


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lab", metavar="LAB", help="a lab's name, or a file such as ./mylab.py")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="the table for a page")
    shape.add_argument("--notebook", action="store_true", help="the cell that sets them")
    shape.add_argument("--json", action="store_true", help="JSON Schema")


def main(args: argparse.Namespace) -> int:
    cls = find(args.lab).Parameters
    if args.json:
        print(json.dumps(schema(cls), indent=2))
    elif args.notebook:
        print(literals(cls))
    else:
        print(as_markdown(cls) if args.markdown else as_text(cls))
    return 0
