"""A page of sentences, tables and figures in one file, which needs no network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from plotly.graph_objects import Figure

from labs.read.figures.style import BLACK, FONT

STYLE: Final = f"""
:root {{ color-scheme: light dark }}
body {{ font-family: {FONT}; color: {BLACK}; background: white; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; line-height: 1.45 }}
h1 {{ font-size: 1.5rem; overflow-wrap: anywhere }}
h2 {{ font-size: 1.1rem; margin-top: 2rem; overflow-wrap: anywhere }}
h3 {{ font-size: 1rem; margin-bottom: 0 }}
li {{ margin: .2rem 0; overflow-wrap: anywhere }}
.usual {{ color: #5b6472 }}
code {{ background: #f0f1f4; padding: .1rem .3rem; overflow-wrap: anywhere }}
figure {{ margin: 1rem 0; background: white; overflow-x: auto; break-inside: avoid }}
table {{ border-collapse: collapse; margin: .5rem 0 }}
th, td {{ padding: .2rem .6rem; border-bottom: 1px solid #c9ced6 }}
.table {{ overflow-x: auto }}
figure > div {{ min-width: 38rem }}
.narrows figure > div {{ min-width: 0 }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #e6e8eb; background: #16181d }}
  .usual {{ color: #a4abb6 }}
  code {{ background: #2a2e36 }}
  figure {{ border-radius: .4rem; padding: .5rem }}
}}
@media print {{ .modebar {{ display: none }} body {{ margin: 0; max-width: none }} }}
"""


def offline_page(title: str, body: Iterable[str], *, narrows: bool = False) -> str:
    """The page; `body` is HTML. In a narrow window figures become as narrow with `narrows`, and
    scroll without."""
    kind = ' class="narrows"' if narrows else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body{kind}><main>"
        f"{''.join(body)}</main></body></html>\n"
    )


def drawn_figures(figures: Iterable[Figure]) -> list[str]:
    """The figures as HTML, each with its text alternative; the first one brings plotly.js along."""
    return [_drawn(figure, number) for number, figure in enumerate(figures)]


def _drawn(figure: Figure, number: int) -> str:
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=not number,
        div_id=f"figure-{number}",
        config={"displaylogo": False, "responsive": True},
    )
    tell = escape(figure.layout.meta["tell"])
    return f'<figure role="group" aria-label="{tell}">{drawn}</figure>'
