"""Any chart in steps: what it shows up to one place of an axis after another, for the board.

labs.charts.steps.of(labs.charts.buffers.timeline(run), at=(0.5, 1, 2, 4))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf, log10
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
    traces, layout = [trace.to_plotly_json() for trace in figure.data], figure.layout
    layout = layout.to_plotly_json()
    if not all(isinstance(n, Real | None) for trace in traces for n in _places(trace)):
        raise BadInput("the figure has no steps: its axes have names. Allowed: axes with numbers")
    steps = _steps(layout, along, [*map(float, at)])
    if not traces or len(steps) < 2:
        return figure
    last = steps[-1][0]
    drawn = [_thinned(_until(trace, along, last)) for trace in traces]
    layout |= _ended(layout, along, last) if at else {}
    layout |= {name: {**layout[name], "range": ends} for name, ends in _ranges(layout, drawn)}
    moving = [number for number, trace in enumerate(drawn) if not is_reference(trace)]
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


def _places(trace: Trace) -> Iterator[Any]:
    return (value for name in ACROSS for value in trace.get(name, "-"))


def _steps(layout: Layout, along: str, at: Sequence[float]) -> list[tuple[float, str]]:
    """The requested steps, or those of the figure, thinned to what a slider can hold."""
    if at and (not 1 < len(at) <= MOST_STEPS or at != sorted({*at})):
        raise BadInput(f"at has {len(at)} places. Allowed: 2 to {MOST_STEPS}, in ascending order")
    if at:
        axes = (layout[name] for name in layout if name.startswith(f"{along}axis"))
        titles = ((axis.get("title") or {}).get("text") for axis in axes)
        title = next(filter(None, titles), "").removesuffix(LOG_MARK)
        return [(place, f"{title}: {place:,.4g}".removeprefix(": ")) for place in at]
    declared = layout["meta"].get(STEPS, {}).get(along, ())
    shown = declared[:: -(-len(declared) // MOST_STEPS) or 1]
    return [(end, words) for end, words in (*shown[:-1], *declared[-1:])]


def _until(trace: Trace, along: str, end: float) -> Trace:
    """The trace without the points beyond a place."""
    if is_reference(trace):
        return trace
    return _picked(trace, [n is None or n <= end for n in trace[along]])


def _thinned(trace: Trace) -> Trace:
    count = len(trace["x"])
    every = -(-count // MOST_POINTS)
    if every == 1 or "lines" not in str(trace.get("mode")) or None in trace["y"]:
        return trace
    return _picked(trace, [n % every == 0 or n == count - 1 for n in range(count)])


def _picked(trace: Trace, wanted: Sequence[bool]) -> Trace:
    """A trace with some of its points, and what it says of each of them."""
    return {name: _part(value, wanted) for name, value in trace.items()}


def _part(value: Any, wanted: Sequence[bool]) -> Any:
    if isinstance(value, dict):
        return _picked(value, wanted)
    if isinstance(value, list | tuple) and len(value) == len(wanted):
        return [part for part, keep in zip(value, wanted, strict=True) if keep]
    return value


def _shown(trace: Trace, along: str, end: float) -> Trace:
    """What a frame says of a trace: the points up to one place, the others without a place."""
    if "stackgroup" in trace:  # in a stack, a point without a place counts as zero
        return _until({name: trace[name] for name in ACROSS}, along, end)
    pairs = zip(trace[along], trace[ACROSS[along]], strict=True)
    shown = [value if place is None or place <= end else None for place, value in pairs]
    return {ACROSS[along]: shown}


def _marks(layout: Layout, along: str, end: float) -> dict[str, Any]:
    """The annotations and shapes of a frame, if some have a place on the axis: those up to this
    one are visible."""
    marks = {name: layout.get(name) or () for name in ("annotations", "shapes")}
    return {
        name: [{**mark, "visible": _begin(layout, mark, along) <= end} for mark in every]
        for name, every in marks.items()
        if any(_begin(layout, mark, along) > -inf for mark in every)
    }


def _begin(layout: Layout, mark: Mapping[str, Any], along: str) -> float:
    """The place on an axis where an annotation or a shape begins."""
    reference = str(mark.get(f"{along}ref") or along)
    if not reference.startswith(along) or reference.endswith("domain"):
        return -inf
    # A text on a logarithmic axis is placed by the logarithm, a shape by the value.
    if along in mark and (layout.get(f"{along}axis{reference[1:]}") or {}).get("type") == "log":
        return float(10.0 ** mark[along])
    names = (along, f"{along}0", f"{along}1")
    return min((float(mark[name]) for name in names if name in mark), default=-inf)


def _ended(layout: Layout, along: str, end: float) -> dict[str, Any]:
    """The axes along which the steps go, which end with the last one."""
    axes = {name: axis for name, axis in layout.items() if name.startswith(f"{along}axis")}
    for name, axis in axes.items():
        is_log = axis.get("type") == "log"
        begin = (axis.get("range") or [log10(end) - 2 if is_log else 0])[0]
        axes[name] = {**axis, "range": [begin, log10(end) if is_log else 1.02 * end]}
    return axes


def _ranges(layout: Layout, traces: Sequence[Trace]) -> Iterator[tuple[str, list[float]]]:
    """The range of each axis without one, the same in every step; matching axes share one."""
    axes = {name: axis for name, axis in layout.items() if name[1:5] == "axis"}
    groups = {name[0] + name[5:]: axis.get("matches") for name, axis in axes.items()}
    groups = {name: group or name for name, group in groups.items()}
    values = _values(layout, traces, groups)
    for name, axis in axes.items():
        is_log, drawn = axis.get("type") == "log", values[groups[name[0] + name[5:]]]
        drawn = [log10(value) for value in drawn if value > 0] if is_log else drawn
        if drawn and not axis.get("range"):
            low, high = min(drawn), max(drawn)
            room = 0.05 * ((high - low) or 1)
            begins_at_0 = axis.get("rangemode") == "tozero" and not is_log
            yield name, [0 if begins_at_0 else low - room, high + room]


def _values(
    layout: Layout, traces: Sequence[Trace], groups: Mapping[str, str]
) -> Mapping[str, list[float]]:
    """Everything that is drawn on the axes of each group."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for letter in ACROSS:
        for trace in traces:
            group = groups.get(trace.get(f"{letter}axis", letter), letter)
            values[group] += [value for value in trace[letter] if value is not None]
        for shape in layout.get("shapes", ()):
            if group := groups.get(shape.get(f"{letter}ref", letter), ""):
                values[group] += [float(shape[f"{letter}{end}"]) for end in "01"]
    stacked = [trace["y"] for trace in traces if "stackgroup" in trace]
    values["y"] += map(sum, zip(*stacked, strict=False))
    return values


def _controls(layout: Layout, names: Sequence[str]) -> dict[str, Any]:
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
