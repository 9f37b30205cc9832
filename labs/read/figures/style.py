"""What all figures share: colours that colour-blind readers can tell apart, captions, ticks, a text
alternative, and the numbers as a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import floor, log10
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from plotly.graph_objects import Figure
from plotly.io import templates

from labs.read.display.format import heading, notebook_cell
from labs.read.display.provenance import of_run
from labs.read.figures.renderers import load_renderers
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

load_renderers()

# Okabe and Ito's palette.
BLACK, GREY = "#1b1f24", "#6b7280"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GRID, PAPER = "#e5e7eb", "#ffffff"
VEIL = "rgba(255,255,255,0.8)"
"""The ground of words that are written over lines."""
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# Pixels below the plot: tick labels and the axis title, then the caption.
TO_CAPTION_PX, CAPTION_PX, LINE_PX = 62, 26, 17
CAPTION_LETTERS = 120
"""How long a line of the caption may be."""
STEPS = "step_places"
"""The name of a figure's steps in the meta of its layout."""
FEW_TENS = 1000
NO_RUNS = "there are no runs to show"
Source: TypeAlias = Run | Path | str
Steps: TypeAlias = Mapping[str, Sequence[tuple[float, str]]]
"""Of an axis: places, each with its words."""


TITLE: Mapping[str, Any] = {
    "x": 0,
    "xref": "paper",
    "xanchor": "left",
    "yref": "container",
    "y": 1,
    "yanchor": "top",
    "pad": {"t": 14},
    "font": {"size": 17},
}
CAPTION: Mapping[str, Any] = {
    "name": "caption",
    "align": "left",
    "showarrow": False,
    "xref": "paper",
    "yref": "paper",
    "x": 0,
    "y": 0,
    "xanchor": "left",
    "yanchor": "top",
    "yshift": -TO_CAPTION_PX,
    "font": {"size": 12, "color": GREY},
}
LEGEND_ABOVE: Mapping[str, Any] = {
    "orientation": "h",
    "x": 0,
    "xanchor": "left",
    "yref": "container",
    "y": 1,
    "yanchor": "top",
    "title": {"text": " <br> ", "side": "top"},
}
"""A legend between title and plot. Its empty heading keeps the title free, however many lines the
legend has at the width of the page. It is anchored to the figure's edge: anchored to the plot,
plotly does not move it when a wider page needs fewer lines, and it would cover the first row."""
AXIS: Mapping[str, Any] = {
    "gridcolor": GRID,
    "zeroline": False,
    "showline": True,
    "linecolor": GREY,
    "ticks": "outside",
    "tickcolor": GREY,
    "automargin": True,
    "title": {"font": {"size": 13}, "standoff": 6},
}
templates["lab"] = {
    "layout": {
        "xaxis": AXIS,
        "yaxis": AXIS,
        "font": {"family": FONT, "size": 13, "color": BLACK},
        "hoverlabel": {"font": {"family": FONT}},
        "paper_bgcolor": PAPER,
        "plot_bgcolor": PAPER,
    }
}


def dressed(
    figure: Figure,
    layout: Mapping[str, Any] | None = None,
    *,
    title: str,
    caption: str,
    height: int,
    tell: str,
    table: DataFrame | None,
    steps: Steps | None = None,
) -> Figure:
    """Give a figure the common style, its title, and the caption that names the source of its
    numbers.

    `layout` is the figure's, if it has none yet: plotly checks each assignment, which is slow.
    `tell` says in a few sentences what the figure shows; `table` has the numbers that it draws,
    `steps` the places of an axis up to which it can be shown (`steps.py`), each with its words.
    They and the caption are kept in the figure's layout, from which `labs publish` takes them.
    """
    lines = [line for part in caption.split("<br>") for line in wrap(part, CAPTION_LETTERS)]
    more_px = LINE_PX * max(0, len(lines) - 1)
    layout = figure.layout.to_plotly_json() if layout is None else layout
    written = {**CAPTION, "text": "<br>".join(lines)}
    below_px = TO_CAPTION_PX + CAPTION_PX + more_px
    meta = {
        "tell": plain(tell),
        "caption": plain(caption.replace("<br>", " · ")),
        "table": as_words(table),
    }
    # In one step: each assignment is checked, which takes longer than to draw most charts.
    figure.layout = {
        "xaxis": {"automargin": True},
        "yaxis": {"automargin": True},
        **layout,
        "template": "lab",
        "title": {"text": title, **TITLE},
        "annotations": [*layout.get("annotations", ()), written],
        "meta": {**meta, STEPS: steps} if steps else meta,
        "height": height + more_px,
        "margin": {"l": 70, "r": 24, "t": 84, "b": below_px, **layout.get("margin", {})},
    }
    return figure


def nothing(title: str, why: str, caption: str = "") -> Figure:
    """An empty figure with the reason."""
    words = {**CAPTION, "name": "", "text": why, "y": 0.5, "yshift": 0, "font": {"size": 13}}
    hidden = {"visible": False}
    layout = {"annotations": [words], "xaxis": hidden, "yaxis": hidden}
    return dressed(Figure(), layout, title=title, caption=caption, height=220, tell=why, table=None)


def plain(markdown: str) -> str:
    """A text without the marks of Markdown and of HTML, on one line."""
    words = re.sub(r"<br>|\s+", " ", re.sub(r"^- ", "", markdown, flags=re.MULTILINE))
    return re.sub(r"</?[a-z][^>]*>|\*\*|`", "", words).strip()


def as_words(table: DataFrame | None) -> dict[str, Any] | None:
    """A table as words: the row of headings and the other rows; None for a figure without one."""
    if table is None or table.empty:
        return None
    return {
        "heads": [heading(str(name)) for name in table],
        "rows": [[notebook_cell(cell) for cell in row] for row in table.itertuples(index=False)],
    }


def where_from(source: Source) -> str:
    """The caption: testbed, kernel and link of a run; the name of a capture; a text as it is."""
    if isinstance(source, Run):
        return of_run(source)
    return f"from the file {source.name}" if isinstance(source, Path) else source


def log_title(words: str) -> str:
    """The title of a logarithmic axis, which says that it is one."""
    return f"{words} (logarithmic)"


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2 and 5 times each power of ten from `low` to `high`, beyond
    three decades the powers alone; both limits are above 0."""
    tens = range(floor(log10(low)), floor(log10(high)) + 1)
    digits = (1, 2, 5) if high <= FEW_TENS * low else (1,)
    return [
        digit * 10.0**power
        for power in tens
        for digit in digits
        if low <= digit * 10.0**power <= high
    ]
