"""Write a lab of your own, ready to run: one file with parameters, experiment and results."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

from labs.catalog import LABS
from labs.cli.command import DRY_RUN, Answer, arg
from labs.errors import BadInput

EXAMPLE = Path(__file__).with_name("new_lab.py")
WITH_FLOWS = Path(__file__).with_name("new_flows.py")
ARGUMENTS = (
    arg("NAME", "the lab's name; NAME.py is written to the current folder"),
    arg("--flows", "write a lab with several flows that share a link"),
    DRY_RUN,
)


def main(args: Namespace) -> Answer:
    """Write the file, or print it."""
    name = args.name.removesuffix(".py")
    text = source(name, WITH_FLOWS if args.flows else EXAMPLE)
    path = Path(f"{name}.py")
    if path.exists():
        raise BadInput(f"./{path} already exists. Choose another name, or remove it first")
    written = {"lab": name, "path": str(path), "written": not args.dry_run}
    if args.dry_run:
        return Answer(written, text.rstrip())
    from labs.drive.record.disk import write_whole

    write_whole(path, text.encode())
    return Answer(written, f"wrote ./{path}. To run it: labs run ./{path}")


def source(name: str, example: Path = EXAMPLE) -> str:
    """The text of a new lab; BadInput if the name cannot be a lab's."""
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
        raise BadInput(
            f"{name!r} cannot be a lab's name. Allowed: a-z, 0-9 and _, starting with a letter"
        )
    if name in LABS:
        raise BadInput(f"{name} is a lab of the package. Choose another name")
    return example.read_text("utf-8").replace(example.stem, name)
