"""The verdicts in a bundle or a release of the project, besides those in a JSON file.

A release is the folder of a clone, or an archive of it (tar or zip, with or without a folder around
everything). Nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from labs.drive.record.stored_files import read_json
from labs.errors import BadInput, Damaged
from labs.publish.crate import COPY, METADATA, VERDICTS
from labs.read.claims.moved import AGAIN, PlainVerdict, held_to_schema, read_verdicts
from labs.read.runs.archive import content_of, is_packed
from labs.verify.bundle_check import MOST_METADATA_BYTES, check

TABLE = "docs/claims.json"
"""The verdicts of a release on its recorded runs."""


def verdicts_in(what: Path) -> tuple[list[PlainVerdict], Collection[int] | None]:
    """The verdicts in a bundle, a release or a file of `labs claims --json`, and, for a bundle, the
    numbers of the articles that it judges: it says nothing about others.

    BadInput for anything else; Damaged for a bundle or a file that was changed.
    """
    folder = content_of(what) if is_packed(what) else what
    if not folder.is_dir():
        return read_verdicts(what), None
    if (folder / METADATA).is_file():
        check(folder)
        return of_bundle(folder), {article["article"] for article in _articles(folder)}
    tables = [path for path in (folder / TABLE, *folder.glob(f"*/{TABLE}")) if path.is_file()]
    if not tables:
        raise BadInput(f"{what} has no {TABLE} and is not a bundle. {AGAIN}")
    return read_verdicts(tables[0]), None


def of_bundle(bundle: Path) -> list[PlainVerdict]:
    """The verdicts of an unpacked bundle on the claims of all articles."""
    every = [verdict for article in _articles(bundle) for verdict in article["verdicts"]]
    return held_to_schema(every, bundle / VERDICTS)


def intervals_of(bundle: Path) -> Sequence[Any] | None:
    """The intervals of an unpacked bundle, as `bundle_contents.intervals` writes them; None for a
    bundle that was written before there were any."""
    intervals = _verdicts_file(bundle).get("intervals")
    return intervals if isinstance(intervals, list) else None


def _articles(bundle: Path) -> Sequence[Mapping[str, Any]]:
    articles = _verdicts_file(bundle).get("articles")
    if isinstance(articles, list) and all(map(_is_article, articles)):
        return articles
    raise Damaged(f"{VERDICTS} of the bundle has no list of articles with verdicts. {COPY}")


def _is_article(article: object) -> bool:
    return (
        isinstance(article, dict)
        and isinstance(article.get("article"), int)
        and isinstance(article.get("verdicts"), list)
    )


def _verdicts_file(bundle: Path) -> Mapping[str, Any]:
    return read_json(bundle / VERDICTS, most_bytes=MOST_METADATA_BYTES, next_step=COPY)
