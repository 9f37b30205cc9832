"""What all figures share: colours that colour-blind readers can tell apart, captions, ticks."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path
from typing import TypeAlias

from plotly.graph_objects import Figure

from labs.read.display.provenance import of_run
from labs.read.runs.run import Run

# Okabe and Ito's palette.
BLACK, GREY = "#1b1f24", "#6b7280"
ORANGE, SKY, GREEN = "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GRID, PAPER = "#e5e7eb", "#ffffff"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# Pixels below the plot: tick labels and the axis title, then the caption.
TO_CAPTION_PX, CAPTION_PX = 62, 26
FEW_TENS = 1000
Source: TypeAlias = Run | Path | str


def dressed(figure: Figure, *, title: str, caption: str, height: int) -> Figure:
    """Give a figure the common style, its title, and the caption that names the source of its
    numbers."""
    figure.update_layout(
        title={
            "text": title,
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 14},
            "font": {"size": 17},
        },
        height=height,
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        template="none",
        font={"family": FONT, "size": 13, "color": BLACK},
        hoverlabel={"font": {"family": FONT}},
        margin={"l": 70, "r": 24, "t": 84, "b": TO_CAPTION_PX + CAPTION_PX},
    )
    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "showline": True,
        "linecolor": GREY,
        "ticks": "outside",
        "tickcolor": GREY,
        "automargin": True,
        "title_font_size": 13,
        "title_standoff": 6,
    }
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.add_annotation(
        text=caption,
        name="caption",
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0,
        y=0,
        xanchor="left",
        yanchor="top",
        yshift=-TO_CAPTION_PX,
        font={"size": 12, "color": GREY},
    )
    return figure


def nothing(title: str, why: str) -> Figure:
    """A figure that says why there is nothing to see."""
    figure = Figure()
    figure.add_annotation(
        text=why, showarrow=False, xref="paper", yref="paper", x=0, y=0.5, xanchor="left"
    )
    dressed(figure, title=title, caption="", height=200)
    return figure.update_xaxes(visible=False).update_yaxes(visible=False)


def where_from(source: Source) -> str:
    """The caption: testbed, kernel and link of a run; the name of a capture; a text as it is."""
    if isinstance(source, Run):
        return of_run(source)
    return f"from the file {source.name}" if isinstance(source, Path) else source


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
