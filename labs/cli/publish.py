"""Run a notebook with the given parameters, and write it as one HTML page that works offline; or
write a whole site: the claims, all notebooks on recorded runs, the documents and the data.

The notebook is executed: its code runs in the current folder, with your permissions. Publish only
notebooks that you trust. The notebook's file is not changed, and the page is written completely or
not at all.

The page runs its own scripts only. Scripts, event handlers, style sheets and addresses of images in
the notebook's cells and outputs are removed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labs.errors import BadInput
from labs.read.notebook_file import NotebookFile, read_notebook


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("notebook", nargs="?", type=Path, metavar="NOTEBOOK", help="an .ipynb file")
    add_set(parser, "the notebook")
    parser.add_argument("--out", type=Path, metavar="PAGE.html", help="the page to write")
    parser.add_argument(
        "--site",
        type=Path,
        metavar="OUT",
        help="write the site of the project to a new folder: one to three minutes",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")


def add_set(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add --set, which gives values to parameters of notebooks."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="given",
        help=f"set a parameter of {whose}, such as RATE_MBIT=100; may be repeated",
    )


def main(args: argparse.Namespace) -> int:
    """Run the notebook, or all of them, write the page or the site, and print its path. Raises
    LabError."""
    if args.site is not None:
        return _site(args)
    if args.notebook is None or args.out is None:
        raise BadInput("name a notebook and --out PAGE.html, or a folder with --site OUT")
    if args.out.suffix not in (".html", ".htm"):
        raise BadInput(f"--out {args.out}: the name of the page must end in .html")
    from labs.publish.page_parameters import settle

    notebook = read_notebook(args.notebook)
    values = settle(args.given, notebook)
    check_parameters(notebook, values)
    from labs.publish.execute import execute, open_notebook
    from labs.publish.html import check_texts, page

    book = open_notebook(notebook)
    check_texts(book)
    report = {"notebook": str(args.notebook), "parameters": values, "out": str(args.out)}
    if args.dry_run:
        words = " ".join(f"{name}={value!r}" for name, value in values.items()) or "its defaults"
        print(
            json.dumps(report)
            if args.json
            else f"would run {args.notebook} with {words} and write {args.out}"
        )
        return 0

    from labs.drive.record.disk import write_whole

    done = execute(book, args.notebook, values, progress=sys.stderr.isatty())
    html = page(done, fallback_title=args.notebook.stem).encode()
    write_whole(args.out, html)
    print(json.dumps(report | {"bytes": len(html)}) if args.json else args.out)
    return 0


def _site(args: argparse.Namespace) -> int:
    """Write the site and print its folder."""
    if args.notebook is not None or args.out is not None or args.given:
        raise BadInput("--site takes no notebook, no --out and no --set: it has all notebooks")
    from labs.catalog import with_ledgers
    from labs.launch import slots
    from labs.publish import site

    made_of = site.sources()
    site.check_out(args.site)
    report = {
        "site": str(args.site),
        "notebooks": [str(notebook.path) for notebook in made_of.notebooks],
    }
    if args.dry_run:
        words = (
            f"would run {len(made_of.notebooks)} notebooks on recorded runs, and write {args.site}"
        )
        print(json.dumps(report) if args.json else words)
        return 0
    tell = Progress("publish", len(made_of.notebooks) + 1)
    judged = sorted(
        map(site.judged, with_ledgers()), key=lambda judgement: judgement.article.number
    )
    tell("the claims")
    sizes = site.write_site(
        args.site,
        made_of,
        judged,
        jobs=slots.limit(),
        tell=lambda notebook, _: tell(notebook.path.name),
    )
    written = {"files": len(sizes), "bytes": sum(sizes.values())}
    print(json.dumps({**report, **written}) if args.json else args.site / "index.html")
    return 0


class Progress:
    """A line on stderr for each part that is done, on a terminal."""

    def __init__(self, what: str, parts: int) -> None:
        self._what, self._parts, self._done = what, parts, 0

    def __call__(self, part: str) -> None:
        self._done += 1
        if sys.stderr.isatty():
            print(f"{self._what}: {self._done}/{self._parts} {part}", file=sys.stderr)


def check_parameters(notebook: NotebookFile, values: Mapping[str, Any]) -> None:
    """Refuse what the notebook's own check would refuse, before a kernel starts for it.

    A default that is computed is known only to the notebook; then its check alone checks values.
    """
    from labs.catalog import find
    from labs.drive.parameters.declare import declared as parameters_of
    from labs.drive.parameters.declare import unknown
    from labs.drive.parameters.notebook_cell import from_literals
    from labs.publish.page_parameters import checked_lab, declared

    lab = checked_lab(notebook)
    if lab is None:
        return
    subject = find(lab)
    allowed = [parameter.notebook_name for parameter in parameters_of(subject.Parameters).values()]
    defaults = declared(notebook)
    for name in values:
        if name not in allowed and name not in defaults:
            raise BadInput(unknown(name, allowed))
    if None not in defaults.values():
        subject.conditions(from_literals(subject.Parameters, {**defaults, **values}))
