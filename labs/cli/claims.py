"""Judge an article's claims by runs: expected, predicted and measured figures, and the verdict.

Of a folder, the newest study is used, with additional runs from studies of the same parameters.
Without --from the runs are those in the folder `runs`, or the recorded runs if that folder has no
study of the article's lab. A lab without either is reported, and the others are judged.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.read.claims.ledger import Article
    from labs.read.claims.verdict import Verdict
    from labs.read.lab import Lab

DEFAULT_FOLDER = "runs"
WIDTH = 100
INDENT = " " * 7


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "lab",
        nargs="?",
        metavar="LAB",
        help="a lab's name, or a file such as ./mylab.py with its claims in ./mylab.toml",
    )
    parser.add_argument(
        "--article",
        type=int,
        metavar="N",
        help="judge only the claims of this article (default: every article with a ledger)",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="STUDY|RUNS",
        help="a study file, a folder given to --into, a run, or a packed file",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def main(args: argparse.Namespace) -> int:
    """Judge the claims and print the verdicts. BadInput for an unknown lab, article or runs."""
    chosen = _chosen(args.lab, args.article, args.source)
    places = [Path(args.source) if args.source is not None else _newest(lab) for lab, _ in chosen]
    if not any(places):
        raise BadInput(_without_runs(chosen[0][0]))
    found = [
        (lab, article, where, _judged(lab, where))
        for (lab, article), where in zip(chosen, places, strict=True)
    ]
    if args.json:
        print(json.dumps([verdict.as_json() for *_, verdicts in found for verdict in verdicts]))
        return 0
    texts = [
        _title(article, _without_runs(lab)) if where is None else as_text(article, where, verdicts)
        for lab, article, where, verdicts in found
    ]
    print("\n\n".join(texts))
    return 0


def _chosen(name: str | None, number: int | None, source: str | None) -> list[tuple[Lab, Article]]:
    """The articles to judge: those of the named lab, or of every lab of the package; of these the
    one with the given number, or those of the labs in `source`. BadInput if there is none."""
    from labs.catalog import find, with_ledgers
    from labs.read.claims.evidence import labs_of
    from labs.read.claims.ledger import read

    chosen_labs = with_ledgers() if name is None else (find(name),)
    every = [(lab, read(lab.ledger)) for lab in chosen_labs if lab.ledger is not None]
    if not every:
        raise BadInput(f"the lab {name} has no ledger. Write its claims to {_ledger_of(name)}")
    if number is not None:
        chosen = [(lab, article) for lab, article in every if article.number == number]
        if not chosen:
            there = ", ".join(str(article.number) for _, article in every)
            raise BadInput(f"there is no ledger of article {number}. Available: {there}")
        return chosen
    if source is None or name is not None:
        return every
    labs = labs_of(Path(source))
    return [(lab, article) for lab, article in every if lab.name in labs] or every


def _ledger_of(lab: str | None) -> str:
    path = Path(str(lab))
    return str(path.with_suffix(".toml")) if path.suffix == ".py" else "an articleN.toml"


def _judged(lab: Lab, where: Path | None) -> tuple[Verdict, ...]:
    """The verdicts on the lab's article that follow from the runs there; none without runs."""
    from labs.read.claims.evidence import runs_of
    from labs.read.claims.judge import verdicts

    return () if where is None else verdicts(lab, runs_of(lab, where))


def _newest(lab: Lab) -> Path | None:
    """The folder `runs` if it has a study of the lab, else the recorded data if it has runs of
    it."""
    from labs.drive.record.run_folder import STUDIES
    from labs.read.runs import recorded
    from labs.read.runs.archive import run_folders
    from labs.read.runs.run import open_run

    own = Path(DEFAULT_FOLDER)
    if (own / STUDIES / f"{lab.name}.json").is_file():
        return own
    where = recorded.runs_of(lab.name)
    return where if any(open_run(run).lab == lab.name for run in run_folders(where)) else None


def _without_runs(lab: Lab) -> str:
    return (
        f"there are no runs of {lab.name}, neither in the folder {DEFAULT_FOLDER} nor in the "
        f"recorded data. Run: labs run {lab.source or lab.name}"
    )


def _said(where: Path) -> str:
    from labs.read.runs.archive import PREFIX

    return "the recorded runs" if where.parent.name.startswith(PREFIX) else f"the runs in {where}"


def as_text(article: Article, where: Path, verdicts: tuple[Verdict, ...]) -> str:
    """The verdicts on an article: for each claim the statement, the figures and the reason."""
    head = _title(article, f"judged by {_said(where)}")
    return "\n\n".join([head, *map(_lines, verdicts)])


def _title(article: Article, said: str) -> str:
    return f"article {article.number}: {article.title}; {said}"


def _lines(found: Verdict) -> str:
    from labs.read.display.format import figures_in_words

    figures = [
        f"{name} {figures_in_words(figure)}"
        for name, figure in (
            ("article", found.expected),
            ("predicted", found.predicted),
            ("measured", found.measured),
        )
        if figure is not None
    ]
    said = [
        f"{found.id:<6} {found.words}",
        found.statement,
        f"{'; '.join(figures)} ({found.unit})",
        found.reason,
        *([f"witness: {found.witness}"] if found.witness is not None else []),
    ]
    return "\n".join(
        [
            said[0],
            *(
                textwrap.fill(
                    line,
                    WIDTH,
                    initial_indent=INDENT,
                    subsequent_indent=INDENT,
                    break_on_hyphens=False,
                )
                for line in said[1:]
            ),
        ]
    )
