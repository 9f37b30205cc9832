"""The claims of all articles as the front page of a site: figures, verdicts, evidence, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from labs.publish.repeat_command import commands
from labs.read.claims.ledger import Article
from labs.read.claims.verdict import DISPUTED, WORDS, Verdict
from labs.read.display.format import few, figures_in_words, in_runs, printable
from labs.read.lab import Lab
from labs.read.theory.kernels import series

TITLE = "Claims about TCP, judged by experiments"
LEAD = (
    "Published articles make the claims below. Each was compared with predictions, and with "
    "measurements on real Linux kernels. Every run can be repeated, and in virtual time it repeats "
    "to the byte."
)
VERIFY = "docs/publishing.html#verify"
ENDS = (".", "\N{HORIZONTAL ELLIPSIS}")
WORD_END = re.compile(r"\W+")
SHOWN = 6
"""Names of conditions in a line."""


@dataclass(frozen=True)
class Judged:
    """An article with the verdicts on its claims."""

    lab: Lab
    article: Article
    verdicts: Sequence[Verdict]


@dataclass(frozen=True)
class Links:
    """Where a site shows what belongs to a claim: by its id the address and the title of its
    chart, and the folder of the packed runs, if the site has it."""

    charts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    data: str = ""


def body(every: Sequence[Judged], links: Links) -> str:
    """The claims as HTML, with a form that filters them once its script has run."""
    return (
        f"<h1>{TITLE}</h1>\n"
        f'<p class="lead">{LEAD} <a href="{VERIFY}">How to verify them</a>.</p>\n'
        f"{_filters(every)}\n" + "\n".join(_article(judged, links) for judged in every)
    )


def _filters(every: Sequence[Judged]) -> str:
    single = [part for judged in every for each in judged.verdicts for part in each.single]
    kernels = sorted({k for part in single if (k := _series(part))}, key=lambda k: series(f"{k}.0"))
    testbeds = dict.fromkeys(t for part in single if (t := _testbed(part)))
    words = {part.verdict for part in single}
    choices = (
        (
            "article",
            list({str(judged.article.number): _short(judged.article) for judged in every}.items()),
        ),
        ("kernel", [(kernel, f"Linux {kernel}") for kernel in kernels]),
        ("testbed", [(testbed, testbed) for testbed in testbeds]),
        ("verdict", [(word, word) for word in (*WORDS, DISPUTED) if word in words]),
    )
    selects = "".join(
        f'<label>{name.capitalize()}<select name="{name}"><option value="">all</option>'
        + "".join(f'<option value="{escape(v)}">{_text(shown)}</option>' for v, shown in options)
        + "</select></label>"
        for name, options in choices
    )
    return (
        f'<form class="filters" hidden>{selects}<label>Words<input type="search" size="14"></label>'
        '<button type="reset">Show all</button><output aria-live="polite"></output></form>'
    )


def _short(article: Article) -> str:
    return f"{article.number}: {article.title}"


def _article(judged: Judged, links: Links) -> str:
    claims = "\n".join(_claim(each, judged, links) for each in judged.verdicts)
    part = "" if judged.article.first == 1 else f"-{judged.article.first}"
    return (
        f'<section class="article"><h2 id="article-{judged.article.number}{part}">'
        f"Article {_text(_short(judged.article))}</h2>\n"
        f'<p class="source">{_text(_known(judged.article))}</p>\n{claims}\n</section>'
    )


def _known(article: Article) -> str:
    """What is known of the author, the date and the kernels of an article."""
    kernels = f"Linux {article.kernels}" if article.kernels[:1].isdigit() else ""
    return "; ".join(filter(None, (article.author, article.date, kernels)))


def _claim(verdict: Verdict, judged: Judged, links: Links) -> str:
    places = ";".join(
        dict.fromkeys(f"{_testbed(each)}|{_series(each)}|{each.verdict}" for each in verdict.single)
    )
    chart = links.charts.get(verdict.id)
    shown = f'<a href="{escape(chart[0])}">Chart: {_text(chart[1])}</a>' if chart else ""
    rows = "".join(_row(part) for part in verdict.rows)
    repeat = "\n".join(
        map(_text, (*commands(judged.lab, verdict), f"labs claims --id {verdict.id}"))
    )
    evidence = "".join(f"<li>{_text(line)}</li>" for line in verdict.evidence)
    return (
        f'<article class="claim" id="{verdict.id}" data-article="{judged.article.number}" '
        f'data-verdicts="{escape(places)}"><h3><a href="#{verdict.id}">{verdict.id}</a></h3>'
        f'<p class="statement">{_text(verdict.statement)}</p><ul class="rows">{rows}</ul>'
        f'<div class="links">{shown}</div>'
        f"<details><summary>Why, and how to repeat it</summary><ul>{evidence}</ul>"
        f"<p>Repeat</p><pre>{repeat}</pre>{_runs(verdict, links)}</details></article>"
    )


def _row(verdict: Verdict) -> str:
    """The verdict, and the figures of the article, the theory and the runs."""
    kind = WORD_END.sub("-", verdict.verdict)
    unit = f" {verdict.unit}" if verdict.unit else ""
    figures = "".join(
        f"<div><dt>{name}</dt><dd>{_text(figure + unit)}</dd></div>"
        for name, figure in (
            ("Article", figures_in_words(verdict.expected)),
            ("Predicted", figures_in_words(verdict.predicted)),
            ("Measured", verdict.measured_in_words),
        )
        if figure
    )
    because = verdict.because if verdict.because.endswith(ENDS) else f"{verdict.because}."
    return (
        f'<li><span class="word {escape(kind)}">{_text(verdict.words)}</span>: {_text(because)}'
        f"<dl>{figures}</dl></li>"
    )


def _runs(verdict: Verdict, links: Links) -> str:
    """The runs behind a verdict, by testbed and kernel, with the packed files that hold them."""
    lines = []
    for each in verdict.single:
        if each.behind is None:
            continue
        names = list(each.behind.conditions)
        files = ", ".join(_file(name, links) for name in each.behind.files)
        lines.append(
            f"<li>{_text(str(each.witness))}: {in_runs(each.behind.count)} of "
            f"{_text(few(names, SHOWN))}, in {files}</li>"
        )
    return f"<p>Runs</p><ul>{''.join(lines)}</ul>" if lines else ""


def _file(name: str, links: Links) -> str:
    return f'<a href="{links.data}{escape(name)}">{_text(name)}</a>' if links.data else _text(name)


def _series(verdict: Verdict) -> str:
    """The kernel series of a verdict of one testbed and kernel, such as 6.1."""
    if verdict.witness is None or not verdict.witness.kernel:
        return ""
    return ".".join(map(str, series(verdict.witness.kernel)))


def _testbed(verdict: Verdict) -> str:
    return "" if verdict.witness is None else verdict.witness.testbed


def search_entries(every: Iterable[Judged]) -> list[tuple[str, str, str]]:
    """Address, title and text of each claim, for the search."""
    return [
        (
            f"index.html#{verdict.id}",
            f"{verdict.id}: {verdict.words}",
            f"{verdict.statement} {verdict.because}",
        )
        for judged in every
        for verdict in judged.verdicts
    ]


def _text(text: str) -> str:
    return escape(printable(text), quote=False)
