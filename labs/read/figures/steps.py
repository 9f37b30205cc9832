"""Any chart in steps: what it shows up to one place of an axis after another, for the board.

labs.charts.steps.of(labs.charts.buffers.timeline(run), at=(0.5, 1, 2, 4))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.figures.style import BLACK, GREY, STEPS

ALONG = ("x", "y")
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
    if along not in ALONG:
        raise BadInput(f'along = "{along}" is not an axis. Allowed: {", ".join(ALONG)}')
    traces, layout = [_as_lists(trace) for trace in figure.data], figure.layout.to_plotly_json()
    if not all(map(_has_places, traces)):
        raise BadInput("the figure has no steps: its axes have names. Allowed: axes with numbers")
    prefix = _prefix(layout) if along == "x" else ""
    steps = _asked(at, prefix) if at else _declared(layout, along)
    if not steps and along == "x":
        steps = [(place, prefix + _number(place)) for place in even_parts(traces)]
    if len(steps) < 2:
        return figure  # a note instead of a chart, or a single point
    if at:
        _end_axis(layout, along, steps[-1][0])
    drawn = [_thinned(_until(trace, along, steps[-1][0])) for trace in traces]
    _fix_ranges(layout, drawn)
    _add_controls(layout, [words for _, words in steps])
    moving = [number for number, trace in enumerate(drawn) if not _reference(trace)]
    frames = [
        {
            "name": str(number),
            "data": [_shown(drawn[place], along, end) for place in moving],
            "traces": moving,
            "layout": _marks(layout, along, end),
        }
        for number, (end, _) in enumerate(steps)
    ]
    return Figure(data=drawn, layout=layout, frames=frames)


def _as_lists(trace: Any) -> Trace:
    """A trace with its places as lists, without the encoding of plotly's JSON."""
    as_json: Trace = trace.to_plotly_json()
    for name in ("x", "y", "text", "customdata"):
        values = trace[name] if name in as_json else None
        if values is not None and not isinstance(values, str):
            as_json[name] = [
                getattr(value, "tolist", lambda value=value: value)() for value in values
            ]
    return as_json


def _has_places(trace: Trace) -> bool:
    """Whether the points of a trace are numbers on both axes."""
    return all(
        name in trace and all(isinstance(value, int | float | None) for value in trace[name])
        for name in ALONG
    )


def _reference(trace: Mapping[str, Any]) -> bool:
    """Whether a trace is shown in every step."""
    return trace.get("hoverinfo") == "skip" and trace.get("mode") == "lines"


def _asked(at: Sequence[float], prefix: str) -> Steps:
    places = [float(place) for place in at]
    if not 1 < len(places) <= MOST_STEPS or places != sorted({*places}):
        raise BadInput(f"at has {len(at)} places. Allowed: 2 to {MOST_STEPS}, in ascending order")
    return [(place, prefix + _number(place)) for place in places]


def _declared(layout: Mapping[str, Any], along: str) -> Steps:
    """The steps that the figure says it has, thinned to what a slider can hold."""
    steps = [(end, str(words)) for end, words in layout["meta"].get(STEPS, {}).get(along, ())]
    shown = steps[:: -(-len(steps) // MOST_STEPS) or 1]
    return [*shown[:-1], *steps[-1:]]


def even_parts(traces: Iterable[Mapping[str, Any]]) -> list[float]:
    """The places of the points along x if there are few, else the ends of even parts of them."""
    moving = (trace["x"] for trace in traces if not _reference(trace))
    places = sorted({place for xs in moving for place in xs if place is not None})
    if len(places) > MOST_STEPS // 2:
        last = len(places) - 1
        return [places[last * part // USUAL_STEPS] for part in range(1, USUAL_STEPS + 1)]
    return places


def _prefix(layout: Mapping[str, Any]) -> str:
    """The title of the x axis, before the words of a step."""
    axes = (layout[name] for name in layout if name.startswith("xaxis"))
    titles = (str((axis.get("title") or {}).get("text") or "") for axis in axes)
    title = next(filter(None, titles), "").removesuffix(LOG_MARK)
    return f"{title}: " if title else ""


def _until(trace: Trace, along: str, end: float) -> Trace:
    """The trace without the points beyond the last step."""
    if _reference(trace):
        return trace
    return _picked(trace, [place is None or place <= end for place in trace[along]])


def _thinned(trace: Trace) -> Trace:
    points = len(trace["x"])
    every = -(-points // MOST_POINTS)
    if every == 1 or "lines" not in str(trace.get("mode")) or None in trace["y"]:
        return trace
    return _picked(trace, [n % every == 0 or n == points - 1 for n in range(points)])


def _picked(trace: Trace, wanted: Sequence[bool]) -> Trace:
    """The trace with some of its points, and what it says of each of them."""

    def pick(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: pick(part) for name, part in value.items()}
        if isinstance(value, list | tuple) and len(value) == len(wanted):
            return [part for part, keep in zip(value, wanted, strict=True) if keep]
        return value

    return trace if all(wanted) else {name: pick(value) for name, value in trace.items()}


def _shown(trace: Trace, along: str, end: float) -> Trace:
    """What a frame says of a trace: the points up to one place, the others without a place."""
    across = "y" if along == "x" else "x"
    if "stackgroup" in trace:  # in a stack, a point without a place counts as zero
        kept = _until({**trace, "hoverinfo": None}, along, end)
        return {"x": kept["x"], "y": kept["y"]}
    pairs = zip(trace[along], trace[across], strict=True)
    return {across: [value if place is None or place <= end else None for place, value in pairs]}


def _marks(layout: Mapping[str, Any], along: str, end: float) -> dict[str, Any]:
    """The annotations and shapes of a frame, if some have a place on the axis: those up to this
    one are visible."""

    def begins(mark: Mapping[str, Any]) -> float:
        reference = str(mark.get(f"{along}ref") or along)
        if not reference.startswith(along) or reference.endswith("domain"):
            return -math.inf
        names = (along, f"{along}0", f"{along}1")
        places = [float(mark[name]) for name in names if name in mark]
        # A text on a logarithmic axis is placed by the logarithm, a shape by the value.
        is_log = (layout.get(f"{along}axis{reference[1:]}") or {}).get("type") == "log"
        return (
            float(10.0 ** places[0]) if along in mark and is_log else min(places, default=-math.inf)
        )

    marks = {name: layout.get(name) or () for name in ("annotations", "shapes")}
    return {
        name: [{**mark, "visible": begins(mark) <= end} for mark in every]
        for name, every in marks.items()
        if any(begins(mark) > -math.inf for mark in every)
    }


def _end_axis(layout: dict[str, Any], along: str, end: float) -> None:
    for name, axis in layout.items():
        if name.startswith(f"{along}axis"):
            log = axis.get("type") == "log"
            begin = (axis.get("range") or [math.log10(end) - 2 if log else 0])[0]
            layout[name] = {**axis, "range": [begin, math.log10(end) if log else 1.02 * end]}


def _fix_ranges(layout: dict[str, Any], traces: Sequence[Trace]) -> None:
    """Give each axis a range that is the same in every step; matching axes share one range."""

    def shared(name: str) -> str:
        return str(layout.get(f"{name[0]}axis{name[1:]}", {}).get("matches") or name)

    for name in [name for name in layout if name[1:5] == "axis" and not layout[name].get("range")]:
        letter, axis = name[0], layout[name]
        range_of = shared(letter + name[5:])
        on_axis = [
            trace for trace in traces if shared(trace.get(f"{letter}axis", letter)) == range_of
        ]
        values = [value for trace in on_axis for value in trace[letter] if value is not None]
        stacked = [trace["y"] for trace in on_axis if letter == "y" and "stackgroup" in trace]
        values += [sum(parts) for parts in zip(*stacked, strict=False)]
        shapes = [
            s for s in layout.get("shapes", ()) if shared(s.get(f"{letter}ref", letter)) == range_of
        ]
        values += [float(shape[f"{letter}{end}"]) for shape in shapes for end in "01"]
        if axis.get("type") == "log":
            values = [math.log10(value) for value in values if value > 0]
        if values:
            low, high = min(values), max(values)
            room = 0.05 * ((high - low) or 1)
            zero = axis.get("rangemode") == "tozero" and axis.get("type") != "log"
            layout[name] = {**axis, "range": [0 if zero else low - room, high + room]}


def _add_controls(layout: dict[str, Any], names: Sequence[str]) -> None:
    """A slider and two buttons below the caption; `labs publish` has its own (`figures.py`)."""

    def lasting(duration_ms: int) -> dict[str, Any]:
        frame = {"duration": duration_ms, "redraw": True}
        return {"mode": "immediate", "frame": frame, "transition": {"duration": 0}}

    def button(words: str, *args: Any) -> dict[str, Any]:
        return {"label": words, "method": "animate", "args": list(args)}

    below_px = float(layout["margin"]["b"])
    ends = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top"}
    tell = f"In {len(names)} steps, of which the last shows all. {layout['meta']['tell']}"
    more = {"steps": list(names), "tell": tell, "controls_px": CONTROLS_PX}
    layout["meta"] = {**layout["meta"], **more}
    layout["meta"].pop(STEPS, None)
    layout["margin"] = {**layout["margin"], "b": below_px + CONTROLS_PX}
    layout["height"] += CONTROLS_PX
    slider = {
        "active": len(names) - 1,
        "pad": {"t": below_px - 10, "l": 4, "r": 4, "b": 0},
        "currentvalue": {"font": {"size": 13, "color": BLACK}, "xanchor": "left"},
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},  # the current value is enough
        "ticklen": 4,
        "steps": [button(name, [str(number)], lasting(0)) for number, name in enumerate(names)],
    }
    buttons = {
        "type": "buttons",
        "direction": "right",
        "showactive": False,
        "pad": {"t": below_px + 48, "l": 0},
        "font": {"size": 12},
        "bordercolor": GREY,
        "buttons": [button("Play", None, lasting(DURATION_MS)), button("Stop", [None], lasting(0))],
    }
    layout |= {"sliders": [ends | slider], "updatemenus": [ends | buttons]}


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
