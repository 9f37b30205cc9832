"""One pair of axes as a value, and the place where such pairs become a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.read.figures.style import BLACK, LEGEND_ABOVE, ORANGE

Trace = dict[str, Any]
BETWEEN = 0.07
"""The width between two plots side by side, as a share of the figure's."""


@dataclass(frozen=True)
class Look:
    """How a line or a series of points is drawn; colours and shapes both differ."""

    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    size: float = 9
    width: float = 2
    shape: str = "linear"
    """How a line joins its points, in plotly's words: `hv` is a step."""
    mode: str = ""
    """What is drawn, in plotly's words; empty for what the figure draws of all its lines."""
    stacked: bool = False
    """Whether it is a part of a whole: filled, and on top of the parts before it."""

    @property
    def line(self) -> dict[str, Any]:
        """The line as plotly has it."""
        return {"color": self.colour, "dash": self.dash, "width": self.width, "shape": self.shape}

    @property
    def marker(self) -> dict[str, Any]:
        """The marker as plotly has it; one that consists of lines has an outline."""
        is_thin = "open" in self.symbol or "thin" in self.symbol
        outline = {"width": 1.5 * is_thin, "color": self.colour}
        return {"color": self.colour, "symbol": self.symbol, "size": self.size, "line": outline}


def points(
    xs: Iterable[Any], ys: Iterable[Any], name: str, look: Look, mode: str = "markers", **more: Any
) -> Trace:
    """Points, a line through them, or both (`mode`, in plotly's words)."""
    return {
        "type": "scatter",
        "x": [*xs],
        "y": [*ys],
        "mode": mode,
        "name": name,
        "cliponaxis": False,
        "line": look.line,
        "marker": look.marker,
        **more,
    }


def published_points(xs: Iterable[Any], ys: Iterable[Any], words: Iterable[str]) -> Trace:
    """An article's figures, each with its claim as the words that it says."""
    trace = points(xs, ys, "the article", Look(ORANGE, size=11), **hover(words))
    trace["marker"]["line"] = {"color": BLACK, "width": 1}
    return trace


def level_bars(
    xs: Iterable[float], ys: Iterable[Any], name: str, colour: str, **more: Any
) -> Trace:
    """Horizontal bars."""
    places = {"type": "bar", "orientation": "h", "x": [*xs], "y": [*ys]}
    return {**places, "name": name, "marker": {"color": colour}, **more}


def apart(*places: Iterable[Any]) -> list[Any]:
    """The places of many short lines in one trace: the points of each, and a gap."""
    return [place for points in zip(*places, strict=True) for place in (*points, None)]


def hover(words: Iterable[str], name: str = "") -> dict[str, Any]:
    """What each point of a trace says when it is pointed at."""
    return {"text": [*words], "hovertemplate": f"%{{text}}<extra>{name}</extra>"}


def text_at(
    x: Any, y: Any, words: str, colour: str = BLACK, *, size: Any = 12, **more: Any
) -> dict[str, Any]:
    """A text in a plot or beside it."""
    font = {"size": size, "color": colour}
    return {"x": x, "y": y, "text": words, "showarrow": False, "font": font, **more}


@dataclass
class Plot:
    """What one pair of axes shows, and its height in pixels, in plotly's words; the references of
    shapes and annotations are those of a figure with a single pair. `more` is for the layout."""

    traces: list[Trace] = field(default_factory=list)
    x: dict[str, Any] = field(default_factory=dict)
    y: dict[str, Any] = field(default_factory=dict)
    height: float = 0.0
    shapes: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)


def assembled(
    plots: Sequence[Plot], head_px: float = 0.0, gap_px: float = 0.0, across: int = 1
) -> tuple[list[Trace], dict[str, Any], int]:
    """The traces, the layout and the height of a figure with these plots: rows of so many, the
    first below a head, the others below a gap."""
    firsts = range(0, len(plots), across)
    rows_px = [max(plot.height for plot in plots[first : first + across]) for first in firsts]
    total = head_px + sum(rows_px) + gap_px * (len(rows_px) - 1)
    width = (1 + BETWEEN) / across
    traces: list[Trace] = []
    layout: dict[str, Any] = {"shapes": [], "annotations": [], "legend": LEGEND_ABOVE}
    for place, plot in enumerate(plots):
        number = str(place + 1) if place else ""
        row, column = divmod(place, across)
        top = total - head_px - sum(rows_px[:row]) - gap_px * row
        ends = max(0.0, top - rows_px[row]) / total, top / total
        sides = column * width, min(1.0, (column + 1) * width - BETWEEN)
        layout[f"xaxis{number}"] = {**plot.x, "domain": sides, "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = {**plot.y, "domain": ends, "anchor": f"x{number}"}
        traces += [_numbered(trace, number, "axis") for trace in plot.traces]
        layout["shapes"] += [_numbered(shape, number, "ref") for shape in plot.shapes]
        layout["annotations"] += [_numbered(text, number, "ref") for text in plot.annotations]
    once_in_legend(traces)
    layout["showlegend"] = len({trace["name"] for trace in traces}) > 1
    for plot in plots:
        layout |= plot.more
    return traces, layout, round(total)


def _numbered(mark: Mapping[str, Any], number: str, kind: str) -> dict[str, Any]:
    """A trace or a mark with the number of its axes: `x domain` becomes `x2 domain`."""
    references = {}
    for letter in "xy":
        reference = str(mark.get(f"{letter}{kind}", letter))
        references[f"{letter}{kind}"] = letter + number + reference[1:]
    return {**mark, **references}


def once_in_legend(traces: Sequence[Trace]) -> None:
    """Let each name appear once in its legend."""
    seen = set()
    for trace in traces:
        if trace.get("showlegend", True):
            entry = trace.get("legend"), trace["name"]
            trace["showlegend"] = entry not in seen
            seen.add(entry)


def is_reference(trace: Mapping[str, Any]) -> bool:
    """Whether a trace is a line without hover text: a limit or a curve, shown in every step."""
    return trace.get("hoverinfo") == "skip" and trace.get("mode") == "lines"
