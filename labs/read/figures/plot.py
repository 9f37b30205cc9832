"""One pair of axes as a value, and the place where such pairs become a figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from labs.read.figures.style import BLACK, ORANGE

Trace = dict[str, Any]
Place = tuple[tuple[float, float], tuple[float, float]]
"""A pair of axes in the figure, in parts of its width and height: from and to."""


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
    def is_thin(self) -> bool:
        """Whether its symbol consists of lines, which need a width."""
        return "open" in self.symbol or "thin" in self.symbol

    @property
    def line(self) -> dict[str, Any]:
        """The line as plotly has it."""
        return {"color": self.colour, "dash": self.dash, "width": self.width, "shape": self.shape}

    @property
    def marker(self) -> dict[str, Any]:
        """The marker as plotly has it; one that consists of lines has an outline."""
        outline = {"width": 1.5 * self.is_thin, "color": self.colour}
        return {"color": self.colour, "symbol": self.symbol, "size": self.size, "line": outline}


def points(
    xs: Iterable[Any], ys: Iterable[Any], name: str, look: Look, mode: str = "markers", **more: Any
) -> Trace:
    """Points, a line through them, or both (`mode`, in plotly's words)."""
    drawn = {"mode": mode, "name": name, "cliponaxis": False}
    places = {"type": "scatter", "x": [*xs], "y": [*ys]}
    return {**places, **drawn, "line": look.line, "marker": look.marker, **more}


def published_points(xs: Iterable[Any], ys: Iterable[Any], words: Iterable[str]) -> Trace:
    """An article's figures, each with its claim as the words that it says."""
    trace = points(xs, ys, "the article", Look(ORANGE, size=11), **hover(words))
    return {**trace, "marker": {**trace["marker"], "line": {"color": BLACK, "width": 1}}}


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


def error_bars(
    low: Iterable[float], middle: Sequence[float], high: Iterable[float]
) -> dict[str, Any]:
    """Bars from the lowest to the highest value around each point."""
    above = [end - at for end, at in zip(high, middle, strict=True)]
    below = [at - end for end, at in zip(low, middle, strict=True)]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below}


def text_at(
    x: Any, y: Any, words: str, colour: str = BLACK, *, size: float = 12, **more: Any
) -> dict[str, Any]:
    """A text in a plot or beside it."""
    font = {"size": size, "color": colour}
    return {"x": x, "y": y, "text": words, "showarrow": False, "font": font, **more}


@dataclass
class Plot:
    """What one pair of axes shows, in plotly's words; the references of shapes and annotations are
    those of a figure with a single pair."""

    traces: list[Trace]
    x: dict[str, Any]
    y: dict[str, Any]
    shapes: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)


def assembled(
    plots: Sequence[Plot], places: Sequence[Place] = ()
) -> tuple[list[Trace], dict[str, Any]]:
    """The traces and the layout of a figure with these plots, each at its place."""
    traces: list[Trace] = []
    layout: dict[str, Any] = {"shapes": [], "annotations": []}
    for place, plot in enumerate(plots):
        number = str(place + 1) if place else ""
        traces += [_numbered(trace, number, ("xaxis", "yaxis")) for trace in plot.traces]
        x, y = dict(plot.x), dict(plot.y)
        if places:
            x |= {"domain": list(places[place][0]), "anchor": f"y{number}"}
            y |= {"domain": list(places[place][1]), "anchor": f"x{number}"}
        layout |= {f"xaxis{number}": x, f"yaxis{number}": y}
        for kind in ("shapes", "annotations"):
            drawn = getattr(plot, kind)
            layout[kind] += [_numbered(mark, number, ("xref", "yref")) for mark in drawn]
    return traces, layout


def _numbered(mark: Mapping[str, Any], number: str, names: tuple[str, str]) -> dict[str, Any]:
    """A trace or a mark with the number of its axes: `x domain` becomes `x2 domain`."""
    references = {}
    for name in names:
        reference = str(mark.get(name) or name[0])
        if reference != "paper":
            references[name] = reference[0] + number + reference[1:]
    return {**mark, **references}


def stacked(shares: Sequence[tuple[float, float]]) -> list[Place]:
    """Places below each other, as wide as the figure."""
    return [((0.0, 1.0), share) for share in shares]


def once_in_legend(traces: Sequence[Trace]) -> None:
    """Let each name appear in the legend once."""
    names: set[str] = set()
    for trace in traces:
        if trace.get("showlegend", True):
            trace["showlegend"] = trace["name"] not in names
            names.add(trace["name"])


def is_reference(trace: Mapping[str, Any]) -> bool:
    """Whether a trace is a line without hover text: a limit or a curve, shown in every step."""
    return trace.get("hoverinfo") == "skip" and trace.get("mode") == "lines"
