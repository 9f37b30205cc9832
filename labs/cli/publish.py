"""Run a notebook with the given parameters, and write it as one HTML page that works offline; or
write a whole site: the claims, all notebooks on recorded runs, the documents and the data.

The notebook is executed: its code runs in the current folder, with your permissions. Publish only
notebooks that you trust. The notebook's file is not changed, and the page is written completely or
not at all.

The page runs its own scripts only. Scripts, event handlers, style sheets and addresses of images in
the notebook's cells and outputs are removed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labs.cli.command import DRY_RUN, Answer, arg
from labs.errors import BadInput
from labs.read.notebook_file import NotebookFile, read_notebook

SET = arg(
    "--set NAME=VALUE...",
    "set a parameter of the notebooks, such as RATE_MBIT=100; may be repeated",
    dest="given",
)
ARGUMENTS = (
    arg("[NOTEBOOK]", "an .ipynb file", Path),
    SET,
    arg("--out PAGE.html", "the page to write"),
    arg("--site OUT", "write the site of the project to a new folder: one to three minutes", Path),
    DRY_RUN,
)


def main(args: Namespace) -> Answer:
    """Run the notebook, or all of them, and write the page or the site. Raises LabError."""
    if args.site is not None:
        return _site(args)
    if args.notebook is None or args.out is None:
        raise BadInput("name a notebook and --out PAGE.html, or a folder with --site OUT")
    notebook = read_notebook(args.notebook)
    values = settled(args.given, notebook)
    from labs.drive.record.disk import write_whole
    from labs.publish.execute import execute, open_notebook
    from labs.publish.html import check_texts, page

    book = open_notebook(notebook)
    check_texts(book)
    report = {"notebook": str(args.notebook), "parameters": values, "out": str(args.out)}
    if args.dry_run:
        words = " ".join(f"{name}={value!r}" for name, value in values.items()) or "its defaults"
        return Answer(report, f"would run {args.notebook} with {words} and write {args.out}")
    done = execute(book, args.notebook, values, progress=sys.stderr.isatty())
    html = page(done, fallback_title=args.notebook.stem).encode()
    write_whole(args.out, html)
    return Answer(report | {"bytes": len(html)}, str(args.out))


def _site(args: Namespace) -> Answer:
    if args.notebook is not None or args.out is not None or args.given:
        raise BadInput("--site takes no notebook, no --out and no --set: it has all notebooks")
    from labs.catalog import with_ledgers
    from labs.launch import slots
    from labs.publish import site

    made_of = site.sources()
    site.check_out(args.site)
    paths = [str(notebook.path) for notebook in made_of.notebooks]
    report: dict[str, Any] = {"site": str(args.site), "notebooks": paths}
    if args.dry_run:
        what = f"would run {len(paths)} notebooks on recorded runs, and write {args.site}"
        return Answer(report, what)
    judged = sorted(map(site.judged, with_ledgers()), key=lambda each: each.article.number)
    done = iter(range(1, len(paths) + 1))

    def tell(notebook: NotebookFile, _: object) -> None:
        if sys.stderr.isatty():
            print(f"publish: {next(done)}/{len(paths)} {notebook.path.name}", file=sys.stderr)

    sizes = site.write_site(args.site, made_of, judged, jobs=slots.limit(), tell=tell)
    report |= {"files": len(sizes), "bytes": sum(sizes.values())}
    return Answer(report, str(args.site / "index.html"))


def settled(given: Sequence[str], notebook: NotebookFile) -> dict[str, Any]:
    """The values of --set. What the notebook's own check would refuse is refused here, before a
    kernel starts for it.

    A default that is computed is known only to the notebook; then its check alone checks values.
    """
    from labs.catalog import find
    from labs.drive.parameters.declare import declared as parameters_of
    from labs.drive.parameters.declare import unknown
    from labs.drive.parameters.notebook_cell import from_literals
    from labs.publish.page_parameters import checked_lab, declared, settle

    values = settle(given, notebook)
    lab = checked_lab(notebook)
    if lab is None:
        return values
    subject = find(lab)
    allowed = [parameter.notebook_name for parameter in parameters_of(subject.Parameters).values()]
    defaults = declared(notebook)
    if wrong := [name for name in values if name not in allowed and name not in defaults]:
        raise BadInput(unknown(wrong[0], allowed))
    if None not in defaults.values():
        subject.conditions(from_literals(subject.Parameters, {**defaults, **values}))
    return values
