"""Any chart in steps: what it shows up to one place of an axis after another, for the board.

labs.charts.steps.of(labs.charts.buffers.timeline(run), at=(0.5, 1, 2, 4))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, log10
from typing import Any

from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.figures.style import BLACK, GREY, STEPS

ACROSS = {"x": "y", "y": "x"}
"""Each axis with the other one."""
USUAL_STEPS, MOST_STEPS = 8, 40
MOST_POINTS = 100
"""Of a line; of a longer one every n-th point is drawn."""
CONTROLS_PX = 92
"""The height of the slider and its buttons below the caption."""
DURATION_MS = 1200
LOG_MARK = " (logarithmic)"
Trace = dict[str, Any]
"""A trace as plotly's JSON has it, with lists for arrays."""
Steps = list[tuple[float, str]]
"""Places on an axis, and the words for them."""


def of(figure: Figure, along: str = "x", at: Sequence[float] = ()) -> Figure:
    """The figure with a slider and a play button; each step shows it up to one place of an axis.

    `at` are these places, and the last one ends the axis. By default they are those that the figure
    declares: its rows, or the packets and silences of a ladder; else, along x, the points if there
    are few, or eight even parts. A line without hover text, such as that of a limit or of a
    prediction, is shown in every step. Without the controls, as in print, the figure shows the last
    step. A figure with a single place stays as it is. BadInput for another axis, an axis with names
    instead of numbers, and places that do not ascend.
    """
    if along not in ACROSS:
        raise BadInput(f'along = "{along}" is not an axis. Allowed: {", ".join(ACROSS)}')
    traces, layout = [_as_lists(trace) for trace in figure.data], figure.layout.to_plotly_json()
    if not all(map(_has_places, traces)):
        raise BadInput("the figure has no steps: its axes have names. Allowed: axes with numbers")
    steps = _steps(traces, layout, along, [*map(float, at)])
    if len(steps) < 2:
        return figure  # a note instead of a chart, or a single point
    last = steps[-1][0]
    drawn = [_thinned(_until(trace, along, last)) for trace in traces]
    layout |= _ended(layout, along, last) if at else {}
    layout |= {name: {**layout[name], "range": ends} for name, ends in _ranges(layout, drawn)}
    moving = [number for number, trace in enumerate(drawn) if not _is_reference(trace)]
    frames = [
        {
            "name": str(number),
            "data": [_shown(drawn[place], along, end) for place in moving],
            "traces": moving,
            "layout": _marks(layout, along, end),
        }
        for number, (end, _) in enumerate(steps)
    ]
    layout |= _controls(layout, [words for _, words in steps])
    return Figure(data=drawn, layout=layout, frames=frames)


def _as_lists(trace: Any) -> Trace:
    """A trace with its places as lists, without the encoding of plotly's JSON."""
    as_json: Trace = trace.to_plotly_json()
    for name in {"x", "y", "text", "customdata"} & set(as_json):
        if not isinstance(values := trace[name], str):
            as_json[name] = [value.item() if hasattr(value, "item") else value for value in values]
    return as_json


def _has_places(trace: Trace) -> bool:
    """Whether the points of a trace are numbers on both axes."""
    return all(
        isinstance(value, int | float | None) for name in ACROSS for value in trace.get(name, "-")
    )


def _is_reference(trace: Mapping[str, Any]) -> bool:
    """Whether a trace is shown in every step."""
    return trace.get("hoverinfo") == "skip" and trace.get("mode") == "lines"


def _steps(
    traces: Sequence[Trace], layout: Mapping[str, Any], along: str, at: Sequence[float]
) -> Steps:
    """The requested steps, or those of the figure, thinned to what a slider can hold."""
    if at and (not 1 < len(at) <= MOST_STEPS or at != sorted({*at})):
        raise BadInput(f"at has {len(at)} places. Allowed: 2 to {MOST_STEPS}, in ascending order")
    declared = layout["meta"].get(STEPS, {}).get(along, ())
    if declared and not at:
        shown = declared[:: -(-len(declared) // MOST_STEPS)]
        return [(end, str(words)) for end, words in (*shown[:-1], declared[-1])]
    title = _title(layout) if along == "x" else ""
    places = at or (even_parts(traces) if along == "x" else ())
    return [(place, title + _number(place)) for place in places]


def even_parts(traces: Iterable[Mapping[str, Any]]) -> list[float]:
    """The places of the points along x if there are few, else the ends of even parts of them."""
    moving = (trace["x"] for trace in traces if not _is_reference(trace))
    places = sorted({place for xs in moving for place in xs if place is not None})
    if len(places) > MOST_STEPS // 2:
        last = len(places) - 1
        return [places[last * part // USUAL_STEPS] for part in range(1, USUAL_STEPS + 1)]
    return places


def _title(layout: Mapping[str, Any]) -> str:
    """The title of the x axis, before the words of a step."""
    axes = (layout[name] for name in layout if name.startswith("xaxis"))
    titles = (str((axis.get("title") or {}).get("text") or "") for axis in axes)
    title = next(filter(None, titles), "").removesuffix(LOG_MARK)
    return f"{title}: " if title else ""


def _until(trace: Trace, along: str, end: float) -> Trace:
    """The trace without the points beyond a place."""
    if _is_reference(trace):
        return trace
    wanted = [place is None or place <= end for place in trace[along]]
    return {name: _picked(part, wanted) for name, part in trace.items()}


def _thinned(trace: Trace) -> Trace:
    count = len(trace["x"])
    every = -(-count // MOST_POINTS)
    if every == 1 or "lines" not in str(trace.get("mode")) or None in trace["y"]:
        return trace
    wanted = [number % every == 0 or number == count - 1 for number in range(count)]
    return {name: _picked(part, wanted) for name, part in trace.items()}


def _picked(value: Any, wanted: Sequence[bool]) -> Any:
    """A trace with some of its points, and what it says of each of them."""
    if isinstance(value, dict):
        return {name: _picked(part, wanted) for name, part in value.items()}
    if isinstance(value, list | tuple) and len(value) == len(wanted):
        return [part for part, keep in zip(value, wanted, strict=True) if keep]
    return value


def _shown(trace: Trace, along: str, end: float) -> Trace:
    """What a frame says of a trace: the points up to one place, the others without a place."""
    if "stackgroup" in trace:  # in a stack, a point without a place counts as zero
        places = {name: trace[name] for name in ACROSS}
        return _until(places, along, end)
    pairs = zip(trace[along], trace[ACROSS[along]], strict=True)
    shown = [value if place is None or place <= end else None for place, value in pairs]
    return {ACROSS[along]: shown}


def _marks(layout: Mapping[str, Any], along: str, end: float) -> dict[str, Any]:
    """The annotations and shapes of a frame, if some have a place on the axis: those up to this
    one are visible."""
    marks = {name: layout.get(name) or () for name in ("annotations", "shapes")}
    return {
        name: [{**mark, "visible": _begin(layout, mark, along) <= end} for mark in every]
        for name, every in marks.items()
        if any(_begin(layout, mark, along) > -inf for mark in every)
    }


def _begin(layout: Mapping[str, Any], mark: Mapping[str, Any], along: str) -> float:
    """The place on an axis where an annotation or a shape begins."""
    reference = str(mark.get(f"{along}ref") or along)
    if not reference.startswith(along) or reference.endswith("domain"):
        return -inf
    # A text on a logarithmic axis is placed by the logarithm, a shape by the value.
    if along in mark and (layout.get(f"{along}axis{reference[1:]}") or {}).get("type") == "log":
        return float(10.0 ** mark[along])
    names = (along, f"{along}0", f"{along}1")
    return min((float(mark[name]) for name in names if name in mark), default=-inf)


def _ended(layout: Mapping[str, Any], along: str, end: float) -> dict[str, Any]:
    """The axes along which the steps go, which end with the last one."""
    axes = {name: axis for name, axis in layout.items() if name.startswith(f"{along}axis")}
    for name, axis in axes.items():
        is_log = axis.get("type") == "log"
        begin = (axis.get("range") or [log10(end) - 2 if is_log else 0])[0]
        axes[name] = {**axis, "range": [begin, log10(end) if is_log else 1.02 * end]}
    return axes


def _ranges(
    layout: Mapping[str, Any], traces: Sequence[Trace]
) -> Iterator[tuple[str, list[float]]]:
    """The range of each axis without one, the same in every step; matching axes share one."""
    for name, axis in layout.items():
        if name[1:5] != "axis" or axis.get("range"):
            continue
        letter = name[0]
        shared = {letter + name[5:], axis.get("matches", "")} | {
            letter + other[5:]
            for other in layout
            if other[1:5] == "axis" and layout[other].get("matches") == letter + name[5:]
        }
        values = [*_places_on(layout, traces, letter, shared)]
        is_log = axis.get("type") == "log"
        values = [log10(value) for value in values if value > 0] if is_log else values
        if values:
            low, high = min(values), max(values)
            room = 0.05 * ((high - low) or 1)
            begins_at_0 = axis.get("rangemode") == "tozero" and not is_log
            yield name, [0 if begins_at_0 else low - room, high + room]


def _places_on(
    layout: Mapping[str, Any], traces: Sequence[Trace], letter: str, axes: set[str]
) -> Iterator[float]:
    """Everything that is drawn on some axes, which are x or y axes."""
    on_axis = [trace for trace in traces if trace.get(f"{letter}axis", letter) in axes]
    for trace in on_axis:
        yield from (value for value in trace[letter] if value is not None)
    stacked = [trace["y"] for trace in on_axis if letter == "y" and "stackgroup" in trace]
    yield from (sum(parts) for parts in zip(*stacked, strict=False))
    for shape in layout.get("shapes", ()):
        if shape.get(f"{letter}ref", letter) in axes:
            yield from (float(shape[f"{letter}{end}"]) for end in "01")


def _controls(layout: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A slider and two buttons below the caption; `labs publish` has its own (`figures.py`)."""

    def button(words: str, what: Any, duration_ms: int = 0) -> dict[str, Any]:
        frame = {"duration": duration_ms, "redraw": True}
        lasting = {"mode": "immediate", "frame": frame, "transition": {"duration": 0}}
        return {"label": words, "method": "animate", "args": [what, lasting]}

    below_px = float(layout["margin"]["b"])
    ends = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top"}
    tell = f"In {len(names)} steps, of which the last shows all. {layout['meta']['tell']}"
    meta = {name: words for name, words in layout["meta"].items() if name != STEPS}
    slider = {
        "active": len(names) - 1,
        "pad": {"t": below_px - 10, "l": 4, "r": 4, "b": 0},
        "currentvalue": {"font": {"size": 13, "color": BLACK}, "xanchor": "left"},
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},  # the current value is enough
        "ticklen": 4,
        "steps": [button(name, [str(number)]) for number, name in enumerate(names)],
    }
    buttons = {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "pad": {"t": below_px + 48, "l": 0},
        "font": {"size": 12},
        "bordercolor": GREY,
        "buttons": [button("Play", None, DURATION_MS), button("Stop", [None])],
    }
    return {
        "meta": {**meta, "steps": list(names), "tell": tell, "controls_px": CONTROLS_PX},
        "margin": {**layout["margin"], "b": below_px + CONTROLS_PX},
        "height": layout["height"] + CONTROLS_PX,
        "sliders": [ends | slider],
        "updatemenus": [ends | buttons],
    }


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
