"""Any chart in steps: what it shows up to one place of an axis after another, for the board.

labs.charts.steps.of(labs.charts.buffers.timeline(run), at=(0.5, 1, 2, 4))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from math import ceil, inf, log10
from numbers import Real
from typing import Any

from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.figures.plot import Trace, is_reference
from labs.read.figures.style import BLACK, GREY, STEPS

ACROSS = {"x": "y", "y": "x"}
"""Each axis with the other one."""
MOST_STEPS = 40
MOST_POINTS = 100
"""Of a line; of a longer one every n-th point is drawn."""
CONTROLS_PX = 92
"""The height of the slider and its buttons below the caption."""
DURATION_MS = 1200
LOG_MARK = " (logarithmic)"
Layout = dict[str, Any]


def of(figure: Figure, along: str = "x", at: Sequence[float] = ()) -> Figure:
    """The figure with a slider and a play button; each step shows it up to one place of an axis.

    `at` are these places, and the last one ends the axis. By default they are those that the figure
    declares: its points or even parts along x, its rows, or the packets and silences of a ladder. A
    line without hover text, such as that of a limit, is shown in every step. Without the controls,
    as in print, the figure shows the last step. A figure without steps stays as it is. BadInput for
    another axis, an axis with names instead of numbers, and places that do not ascend.
    """
    if along not in ACROSS:
        raise BadInput(f'along = "{along}" is not an axis. Allowed: {", ".join(ACROSS)}')
    traces = [trace.to_plotly_json() for trace in figure.data]
    layout = figure.layout.to_plotly_json()
    places = [place for trace in traces for name in ACROSS for place in trace.get(name, "-")]
    if not all(isinstance(place, Real | None) for place in places):
        raise BadInput("the figure has no steps: its axes have names. Allowed: axes with numbers")
    steps = _steps(layout, along, [*map(float, at)])
    if not traces or len(steps) < 2:
        return figure
    last = steps[-1][0]
    if at:
        _end(layout, along, last)
    traces = [_kept(trace, along, last) for trace in traces]
    moving = [number for number, trace in enumerate(traces) if not is_reference(trace)]
    for letter in ACROSS:
        _keep_range(_axes(layout, letter), letter, traces)
    frames = [
        {
            "name": str(number),
            "data": [_shown(traces[place], along, end) for place in moving],
            "traces": moving,
            "layout": _marks(layout, along, end),
        }
        for number, (end, _) in enumerate(steps)
    ]
    layout |= _controls(layout, [words for _, words in steps])
    return Figure(data=traces, layout=layout, frames=frames)


def _kept(trace: Trace, along: str, last: float) -> Trace:
    """The trace without the points beyond the last place; of a long line every n-th point."""
    count = len(trace["x"])
    places = [*range(count)]
    if not is_reference(trace):
        places = [n for n, at in enumerate(trace[along]) if at is None or at <= last]
    every = ceil(len(places) / MOST_POINTS)
    if every > 1 and "lines" in str(trace.get("mode")) and None not in trace["y"]:
        places = [*places[:-1:every], places[-1]]
    lists = {name: value for name, value in trace.items() if isinstance(value, list | tuple)}
    every_point = {name: value for name, value in lists.items() if len(value) == count}
    return trace | {name: [value[n] for n in places] for name, value in every_point.items()}


def _steps(layout: Layout, along: str, at: Sequence[float]) -> list[tuple[float, str]]:
    """The requested steps, or those of the figure, thinned to what a slider can hold."""
    if at and (not 1 < len(at) <= MOST_STEPS or at != sorted({*at})):
        raise BadInput(f"at has {len(at)} places. Allowed: 2 to {MOST_STEPS}, in ascending order")
    if at:
        titles = (axis.get("title", {}).get("text") for axis in _axes(layout, along).values())
        title = next(filter(None, titles), "").removesuffix(LOG_MARK)
        return [(place, f"{title}: {place:,.4g}".removeprefix(": ")) for place in at]
    declared = layout["meta"].get(STEPS, {}).get(along, ())
    shown = declared[:: ceil(len(declared) / MOST_STEPS) or 1]
    return [*shown[:-1], *declared[-1:]]


def _axes(layout: Layout, along: str) -> dict[str, Layout]:
    """The axes of a direction, by the names that traces have for them."""
    begin = f"{along}axis"
    return {name.replace(begin, along): layout[name] for name in layout if name.startswith(begin)}


def _end(layout: Layout, along: str, last: float) -> None:
    """Let the axes along which the steps go end with the last one."""
    for axis in _axes(layout, along).values():
        is_log = axis.get("type") == "log"
        begin = (axis.get("range") or [log10(last) - 2 if is_log else 0])[0]
        axis["range"] = [begin, log10(last) if is_log else 1.02 * last]


def _keep_range(axes: Mapping[str, Layout], letter: str, traces: Sequence[Trace]) -> None:
    """Give each axis without a range that of all its points; axes that match have one."""
    in_one = any("matches" in axis for axis in axes.values())
    stacked = [trace["y"] for trace in traces if "stackgroup" in trace]
    for name, axis in axes.items():
        on_it = (trace for trace in traces if in_one or trace.get(f"{letter}axis", letter) == name)
        drawn = [value for trace in on_it for value in trace[letter] if value is not None]
        drawn += map(sum, zip(*stacked, strict=False)) if letter == "y" else ()
        if axis.get("type") == "log":
            drawn = [log10(value) for value in drawn if value > 0]
        if drawn and not axis.get("range"):
            low, high = min(drawn), max(drawn)
            room = 0.05 * ((high - low) or 1)
            axis["range"] = [low - room, high + room]
            if axis.get("rangemode") == "tozero":
                axis["range"][0] = 0


def _shown(trace: Trace, along: str, end: float) -> Trace:
    """What a frame says of a trace: the points up to one place, the others without a place."""
    inside = [place is None or place <= end for place in trace[along]]
    if "stackgroup" in trace:  # in a stack, a point without a place counts as zero
        return {name: [*compress(trace[name], inside)] for name in ACROSS}
    other = ACROSS[along]
    pairs = zip(trace[other], inside, strict=True)
    return {other: [value if is_inside else None for value, is_inside in pairs]}


def _marks(layout: Layout, along: str, end: float) -> Layout:
    """The annotations and shapes of a frame, if some have a place on the axis: those up to this
    one are visible."""
    marks = {}
    for kind in ("annotations", "shapes"):
        begins = [_begin(layout, mark, along) for mark in layout.get(kind, ())]
        if max(begins, default=-inf) > -inf:
            pairs = zip(layout[kind], begins, strict=True)
            marks[kind] = [{**mark, "visible": begin <= end} for mark, begin in pairs]
    return marks


def _begin(layout: Layout, mark: Mapping[str, Any], along: str) -> float:
    """The place on an axis where an annotation or a shape begins."""
    reference = str(mark.get(f"{along}ref") or along)
    axis = layout.get(reference.replace(along, f"{along}axis", 1))
    if axis is None:  # a share of the plot or of the figure
        return -inf
    # A text on a logarithmic axis is placed by the logarithm, a shape by the value.
    if along in mark and axis.get("type") == "log":
        return float(10.0 ** mark[along])
    return min(float(mark[name]) for name in (along, f"{along}0", f"{along}1") if name in mark)


def _controls(layout: Layout, names: Sequence[str]) -> Layout:
    """A slider and two buttons below the caption; `labs publish` has its own (`figures.py`)."""

    def button(words: str, what: Any, duration_ms: int = 0) -> Layout:
        frame = {"duration": duration_ms, "redraw": True}
        lasting = {"mode": "immediate", "frame": frame, "transition": {"duration": 0}}
        return {"label": words, "method": "animate", "args": [what, lasting]}

    below_px = float(layout["margin"]["b"])
    ends = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top"}
    tell = f"In {len(names)} steps, of which the last shows all. {layout['meta']['tell']}"
    meta = {name: words for name, words in layout["meta"].items() if name != STEPS}
    slider = {
        **ends,
        "active": len(names) - 1,
        "pad": {"t": below_px - 10, "l": 4, "r": 4, "b": 0},
        "currentvalue": {"font": {"size": 13, "color": BLACK}, "xanchor": "left"},
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},  # the current value is enough
        "ticklen": 4,
        "steps": [button(name, [str(number)]) for number, name in enumerate(names)],
    }
    buttons = {
        **ends,
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
        "sliders": [slider],
        "updatemenus": [buttons],
    }
