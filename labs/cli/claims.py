"""Check an article's claims against runs: expected, predicted and measured figures, and verdicts.

Each claim is judged by the newest study that has the article's parameters for it, first in the
folder `runs`, then in the recorded runs; a line says which. Runs on another kernel or testbed are
further witnesses. --from selects other runs; a study or a run named there is the only source.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.errors import BadInput

if TYPE_CHECKING:
    from labs.read.claims.ledger import Article
    from labs.read.claims.sources import Source
    from labs.read.claims.verdict import Verdict
    from labs.read.lab import Lab

DEFAULT_FOLDER = "runs"
RECORDED = "the recorded runs"
WIDTH = 100
INDENT = " " * 7
CHOOSE = "To judge other runs: labs claims --from STUDY|RUNS (labs runs list shows the studies)"


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
    from labs.read.claims.sources import verdicts_from

    chosen = _chosen(args.lab, args.article, args.source)
    places = [_sources(lab, args.source) for lab, _ in chosen]
    if not any(places):
        raise BadInput(_without_runs(chosen[0][0]))
    found = [
        (lab, article, verdicts_from(lab, sources) if sources else ())
        for (lab, article), sources in zip(chosen, places, strict=True)
    ]
    if args.json:
        print(json.dumps([_as_json(*one) for *_, judged in found for one in judged]))
        return 0
    texts = [
        as_text(article, judged) if judged else f"{_title(article)}\n{_without_runs(lab)}"
        for lab, article, judged in found
    ]
    print("\n\n".join([*texts, CHOOSE]))
    return 0


def _chosen(name: str | None, number: int | None, source: str | None) -> list[tuple[Lab, Article]]:
    """The articles to judge: those of the named lab, or of every lab of the package; of these the
    one with the given number, or those of the labs in `source`. BadInput if there is none."""
    from labs.catalog import find, with_ledgers
    from labs.read.claims.ledger import read
    from labs.read.claims.sources import labs_of

    chosen_labs = with_ledgers() if name is None else (find(name),)
    every = [(lab, read(lab.ledger)) for lab in chosen_labs if lab.ledger is not None]
    if not every:
        raise BadInput(f"the lab {name} has no ledger. Write its claims to {_ledger_of(name)}")
    if number is not None:
        chosen = [(lab, article) for lab, article in every if article.number == number]
        if not chosen:
            there = ", ".join(str(one) for one in sorted(article.number for _, article in every))
            raise BadInput(f"there is no ledger for article {number}. Available: {there}")
        return chosen
    if source is None or name is not None:
        return every
    labs = labs_of(Path(source))
    return [(lab, article) for lab, article in every if lab.name in labs] or every


def _ledger_of(lab: str | None) -> str:
    path = Path(str(lab))
    return str(path.with_suffix(".toml")) if path.suffix == ".py" else "an articleN.toml"


def _sources(lab: Lab, where: str | None) -> tuple[Source, ...]:
    """The runs of a lab that a user named, or those of the folder `runs` and the recorded ones."""
    from labs.drive.record.run_folder import STUDIES
    from labs.errors import Missing
    from labs.read.claims.sources import sources_of
    from labs.read.runs import recorded
    from labs.read.runs.archive import is_packed

    if where is not None:
        return sources_of(lab, Path(where), where if is_packed(Path(where)) else "")
    own = Path(DEFAULT_FOLDER)
    found: list[Source] = []
    if (own / STUDIES / f"{lab.name}.json").is_file():
        found += sources_of(lab, own)
    try:
        places = recorded.places(lab.name)
    except Missing:
        places = []
    for place in places:
        if (place / STUDIES / f"{lab.name}.json").is_file():
            found += sources_of(lab, place, RECORDED)
    return tuple(found)


def _without_runs(lab: Lab) -> str:
    return (
        f"there are no runs of {lab.name}, neither in the folder {DEFAULT_FOLDER} nor in the "
        f"recorded data. Run: labs run {lab.source or lab.name}"
    )


def _as_json(found: Verdict, source: Source) -> dict[str, Any]:
    return found.as_json() | {"runs": source.name}


def as_text(article: Article, judged: tuple[tuple[Verdict, Source], ...]) -> str:
    """The verdicts on an article: for each claim the statement, the figures and the reason."""
    return "\n\n".join([_title(article), *(_lines(*one) for one in judged)])


def _title(article: Article) -> str:
    return textwrap.fill(article.citation, WIDTH)


def _lines(found: Verdict, source: Source) -> str:
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
        found.statement,
        f"{'; '.join(figures)} ({found.unit})",
        found.reason,
        *([f"judged on: {found.basis}"] if found.basis and found.is_known else []),
        *([f"tolerance: {found.tolerance}"] if found.tolerance else []),
        *([f"witness: {found.witness}; runs: {source.name}"] if found.witness else []),
    ]
    return "\n".join([f"{found.id:<6} {found.words}", *map(_indented, said)])


def _indented(line: str) -> str:
    return textwrap.fill(
        line,
        WIDTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,  # a path stays whole
        break_on_hyphens=False,
    )
