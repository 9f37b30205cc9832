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
from labs.read.theory.windows import series

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
        f"{_filters(every)}\n" + "\n".join(_article(one, links) for one in every)
    )


def _filters(every: Sequence[Judged]) -> str:
    single = [one for judged in every for each in judged.verdicts for one in each.single]
    kernels = sorted({k for one in single if (k := _series(one))}, key=lambda k: series(f"{k}.0"))
    testbeds = dict.fromkeys(t for one in single if (t := _testbed(one)))
    words = {one.verdict for one in single}
    choices = (
        ("article", list({str(one.article.number): _short(one.article) for one in every}.items())),
        ("kernel", [(one, f"Linux {one}") for one in kernels]),
        ("testbed", [(one, one) for one in testbeds]),
        ("verdict", [(one, one) for one in (*WORDS, DISPUTED) if one in words]),
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


def _article(one: Judged, links: Links) -> str:
    claims = "\n".join(_claim(each, one, links) for each in one.verdicts)
    part = "" if one.article.first == 1 else f"-{one.article.first}"
    return (
        f'<section class="article"><h2 id="article-{one.article.number}{part}">'
        f"Article {_text(_short(one.article))}</h2>\n"
        f'<p class="source">{_text(_known(one.article))}</p>\n{claims}\n</section>'
    )


def _known(article: Article) -> str:
    """What is known of the author, the date and the kernels of an article."""
    kernels = f"Linux {article.kernels}" if article.kernels[:1].isdigit() else ""
    return "; ".join(filter(None, (article.author, article.date, kernels)))


def _claim(one: Verdict, judged: Judged, links: Links) -> str:
    places = ";".join(
        dict.fromkeys(f"{_testbed(each)}|{_series(each)}|{each.verdict}" for each in one.single)
    )
    chart = links.charts.get(one.id)
    shown = f'<a href="{escape(chart[0])}">Chart: {_text(chart[1])}</a>' if chart else ""
    rows = "".join(_row(part) for part in one.rows)
    repeat = "\n".join(map(_text, (*commands(judged.lab, one), f"labs claims --id {one.id}")))
    evidence = "".join(f"<li>{_text(line)}</li>" for line in one.evidence)
    return (
        f'<article class="claim" id="{one.id}" data-article="{judged.article.number}" '
        f'data-verdicts="{escape(places)}"><h3><a href="#{one.id}">{one.id}</a></h3>'
        f'<p class="statement">{_text(one.statement)}</p><ul class="rows">{rows}</ul>'
        f'<div class="links">{shown}</div>'
        f"<details><summary>Why, and how to repeat it</summary><ul>{evidence}</ul>"
        f"<p>Repeat</p><pre>{repeat}</pre>{_runs(one, links)}</details></article>"
    )


def _row(one: Verdict) -> str:
    """The verdict, and the figures of the article, the theory and the runs."""
    kind = WORD_END.sub("-", one.verdict)
    unit = f" {one.unit}" if one.unit else ""
    figures = "".join(
        f"<div><dt>{name}</dt><dd>{_text(figure + unit)}</dd></div>"
        for name, figure in (
            ("Article", figures_in_words(one.expected)),
            ("Predicted", figures_in_words(one.predicted)),
            ("Measured", one.measured_in_words),
        )
        if figure
    )
    because = one.because if one.because.endswith(ENDS) else f"{one.because}."
    return (
        f'<li><span class="word {escape(kind)}">{_text(one.words)}</span>: {_text(because)}'
        f"<dl>{figures}</dl></li>"
    )


def _runs(one: Verdict, links: Links) -> str:
    """The runs behind a verdict, by testbed and kernel, with the packed files that hold them."""
    lines = []
    for each in one.single:
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


def _series(one: Verdict) -> str:
    """The kernel series of a verdict of one testbed and kernel, such as 6.1."""
    if one.witness is None or not one.witness.kernel:
        return ""
    return ".".join(map(str, series(one.witness.kernel)))


def _testbed(one: Verdict) -> str:
    return "" if one.witness is None else one.witness.testbed


def search_entries(every: Iterable[Judged]) -> list[tuple[str, str, str]]:
    """Address, title and text of each claim, for the search."""
    return [
        (f"index.html#{one.id}", f"{one.id}: {one.words}", f"{one.statement} {one.because}")
        for judged in every
        for one in judged.verdicts
    ]


def _text(text: str) -> str:
    return escape(printable(text), quote=False)
