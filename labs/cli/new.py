"""Write a lab of your own, ready to run: one file with parameters, experiment and results."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from labs.catalog import LABS
from labs.errors import BadInput

EXAMPLE = Path(__file__).with_name("new_lab.py")
WITH_FLOWS = Path(__file__).with_name("new_flows.py")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the lab's name; NAME.py is written to the current folder"
    )
    parser.add_argument(
        "--flows", action="store_true", help="write a lab with several flows that share a link"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the file and write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    name = args.name.removesuffix(".py")
    text = source(name, WITH_FLOWS if args.flows else EXAMPLE)
    path = Path(f"{name}.py")
    if path.exists():
        raise BadInput(f"./{path} already exists. Choose another name, or remove it first")
    if not args.dry_run:
        write(path, text)
    if args.json:
        print(json.dumps({"lab": name, "path": str(path), "written": not args.dry_run}))
    elif args.dry_run:
        print(text, end="")
    else:
        print(f"wrote ./{path}. To run it: labs run ./{path}")
    return 0


def source(name: str, example: Path = EXAMPLE) -> str:
    """The text of a new lab; BadInput if the name cannot be a lab's."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
        raise BadInput(
            f"{name!r} cannot be a lab's name. Allowed: a-z, 0-9 and _, starting with a letter"
        )
    if name in LABS:
        raise BadInput(f"{name} is a lab of the package. Choose another name")
    return example.read_text("utf-8").replace(example.stem, name)


def write(path: Path, text: str) -> None:
    """Write a file that does not exist yet, completely or not at all."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except BaseException:
            path.unlink()
            raise
