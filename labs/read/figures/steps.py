"""Any chart in steps: what it shows up to one place of an axis after another, for the board.

labs.charts.steps.of(labs.charts.buffers.timeline(run), at=(0.5, 1, 2, 4))
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.display.format import size_in_words
from labs.read.figures.style import BLACK, GREY, plain

ALONG = ("x", "y")
USUAL_STEPS, MOST_STEPS = 8, 40
MOST_POINTS = 100
"""Of a line; of a longer one every n-th point is drawn."""
CONTROLS_PX = 92
"""The height of the slider and its buttons below the caption."""
DURATION_MS = 1200
SIZE = re.compile(r"(?P<number>[\d.]+) (?P<unit>[KMG]iB)")
SIZES = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
LOG_MARK = " (logarithmic)"
Trace = dict[str, Any]
"""A trace as plotly's JSON has it, with lists for arrays."""


@dataclass(frozen=True)
class Step:
    """A place on the axis, and the words for it."""

    at: float
    name: str


def of(figure: Figure, along: str = "x", at: Sequence[float] = ()) -> Figure:
    """The figure with a slider and a play button; each step shows it up to one place of an axis.

    `at` are these places, and the last one ends the axis. By default they follow the figure: the
    headings of a chart with headings, the packets and silences of a ladder, the points if there are
    few, else eight even parts. A line without hover text, such as that of a limit or of a
    prediction, is shown in every step. Without the controls, as in print, the figure shows the last
    step. A figure with a single place stays as it is. BadInput for another axis, an axis with names
    instead of numbers, and places that do not ascend.
    """
    if along not in ALONG:
        raise BadInput(f'along = "{along}" is not an axis. Allowed: {", ".join(ALONG)}')
    traces, layout = [_as_lists(one) for one in figure.data], figure.layout.to_plotly_json()
    if not all(map(_has_places, traces)):
        raise BadInput("the figure has no steps: its axes have names. Allowed: axes with numbers")
    if at:
        places = [float(one) for one in at]
        if not 1 < len(places) <= MOST_STEPS or places != sorted({*places}):
            raise BadInput(
                f"at has {len(at)} places. Allowed: 2 to {MOST_STEPS}, in ascending order"
            )
        steps = [Step(one, _number(one)) for one in places]
        _end_axis(layout, along, places[-1])
    else:
        every = _found(traces, layout, along)
        steps = every[:: -(-len(every) // MOST_STEPS) or 1]
        steps[-1:] = every[-1:]
    if len(steps) < 2:
        return figure  # a note instead of a chart, or a single point
    drawn = [_thinned(_until(one, along, steps[-1].at)) for one in traces]
    _fix_ranges(layout, drawn)
    titles = [str((one.get("title") or {}).get("text") or "") for one in _axes(layout, along)]
    title = next((one.removesuffix(LOG_MARK) for one in titles if one), "")
    prefix = f"{title}: " if along == "x" and title else ""
    names = [f"{prefix}{one.name}" for one in steps]
    _add_controls(layout, names)
    moving = [number for number, one in enumerate(drawn) if not _reference(one)]
    frames = [
        {
            "name": str(number),
            "data": [_shown(drawn[one], along, step.at) for one in moving],
            "traces": moving,
            "layout": _marks(layout, along, step.at),
        }
        for number, step in enumerate(steps)
    ]
    return Figure(data=drawn, layout=layout, frames=frames)


def _as_lists(trace: Any) -> Trace:
    """A trace with its places as lists, without the encoding of plotly's JSON."""
    found: Trace = trace.to_plotly_json()
    for name in ("x", "y", "text", "customdata"):
        values = trace[name] if name in found else None
        if values is not None and not isinstance(values, str):
            found[name] = [getattr(one, "tolist", lambda one=one: one)() for one in values]
    return found


def _has_places(trace: Trace) -> bool:
    """Whether the points of a trace are numbers on both axes."""
    return all(
        name in trace and all(isinstance(one, int | float | None) for one in trace[name])
        for name in ALONG
    )


def _reference(trace: Trace) -> bool:
    """Whether a trace is shown in every step."""
    return trace.get("hoverinfo") == "skip" and trace.get("mode") == "lines"


def _found(traces: Iterable[Trace], layout: Mapping[str, Any], along: str) -> list[Step]:
    """The steps that a figure itself has."""
    own = [one for one in traces if not _reference(one)]
    if along == "y":
        return _headings(layout) or _rows(own, layout)
    places = sorted({at for one in own for at in one["x"] if at is not None})
    if not places:
        return []
    if len(places) > MOST_STEPS // 2:
        last = len(places) - 1
        places = [places[last * part // USUAL_STEPS] for part in range(1, USUAL_STEPS + 1)]
    ticks = next((it for it in map(_ticks, _axes(layout, along)) if it), {})
    return [Step(at, _in_words(at, ticks)) for at in places]


def _axes(layout: Mapping[str, Any], along: str) -> list[Mapping[str, Any]]:
    return [layout[one] for one in layout if one.startswith(f"{along}axis")]


def _ticks(axis: Mapping[str, Any]) -> dict[float, str]:
    """The words of an axis for its ticks."""
    named = zip(axis.get("tickvals") or (), axis.get("ticktext") or (), strict=False)
    return {float(at): plain(str(text)) for at, text in named}


def _in_words(at: float, ticks: Mapping[float, str]) -> str:
    """A place in the words of the ticks, which may be sizes."""
    for tick, words in ticks.items():
        if math.isclose(tick, at, rel_tol=1e-3):
            return words
        if size := SIZE.fullmatch(words):
            unit_bytes = float(size["number"]) * SIZES[size["unit"]] / tick
            return size_in_words(at * unit_bytes)
    return _number(at)


def _headings(layout: Mapping[str, Any]) -> list[Step]:
    """Of a chart whose rows have headings: each ends where the next one begins."""
    heads = [
        one
        for one in layout.get("annotations", ())
        if one.get("xref") == "paper" and one.get("yref", "y") == "y" and one.get("x") == 0
    ]
    heads.sort(key=lambda one: float(one["y"]))
    ends = [math.nextafter(float(one["y"]), -math.inf) for one in heads[1:]]
    ends += [math.inf for _ in heads[:1]]
    return [Step(end, plain(str(one["text"]))) for one, end in zip(heads, ends, strict=True)]


def _rows(traces: Iterable[Trace], layout: Mapping[str, Any]) -> list[Step]:
    """Of a ladder: the end of each arrow with the words on it, and that of each silence."""
    ends = {
        max(pair) for one in traces for pair in zip(one["y"], one["y"][1:], strict=False)
        if None not in pair
    }  # fmt: skip
    ends |= {float(one["y1"]) for one in layout.get("shapes", ()) if one["type"] == "rect"}
    words = [
        (float(one["y"]), plain(str(one["text"]).split("<br>")[0]))
        for one in layout.get("annotations", ())
        if one.get("x") == 0.5 and one.get("xref", "x") == "x"
    ]
    found, before = [], -math.inf
    for end in sorted(ends):
        said = [text for place, text in words if before < place <= end]
        found.append(Step(end, said[0] if said else _number(end)))
        before = end
    return [*found[:-1], Step(math.inf, found[-1].name)] if found else []


def _until(trace: Trace, along: str, end: float) -> Trace:
    """The trace without the points beyond the last step."""
    if _reference(trace):
        return trace
    return _picked(trace, [at is None or at <= end for at in trace[along]])


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
            return {name: pick(one) for name, one in value.items()}
        if isinstance(value, list | tuple) and len(value) == len(wanted):
            return [one for one, keep in zip(value, wanted, strict=True) if keep]
        return value

    return trace if all(wanted) else {name: pick(value) for name, value in trace.items()}


def _shown(trace: Trace, along: str, end: float) -> Trace:
    """What a frame says of a trace: the points up to one place, the others without a place."""
    across = "y" if along == "x" else "x"
    if "stackgroup" in trace:  # in a stack, a point without a place counts as zero
        kept = _until({**trace, "hoverinfo": None}, along, end)
        return {"x": kept["x"], "y": kept["y"]}
    pairs = zip(trace[along], trace[across], strict=True)
    return {across: [value if at is None or at <= end else None for at, value in pairs]}


def _marks(layout: Mapping[str, Any], along: str, end: float) -> dict[str, Any]:
    """The annotations and shapes of a frame, if some have a place on the axis: those up to this
    one are visible."""

    def begins(mark: Mapping[str, Any]) -> float:
        reference = str(mark.get(f"{along}ref") or along)
        if not reference.startswith(along) or reference.endswith("domain"):
            return -math.inf
        places = [float(mark[one]) for one in (along, f"{along}0", f"{along}1") if one in mark]
        axis = layout.get(f"{along}axis{reference[1:]}") or {}
        # A text on a logarithmic axis is placed by the logarithm, a shape by the value.
        if along in mark and axis.get("type") == "log":
            return float(10.0 ** places[0])
        return min(places, default=-math.inf)

    marks = {name: layout.get(name) or () for name in ("annotations", "shapes")}
    return {
        name: [{**one, "visible": begins(one) <= end} for one in every]
        for name, every in marks.items()
        if any(begins(one) > -math.inf for one in every)
    }


def _end_axis(layout: dict[str, Any], along: str, end: float) -> None:
    for name, axis in layout.items():
        if name.startswith(f"{along}axis"):
            log = axis.get("type") == "log"
            begin = (axis.get("range") or [math.log10(end) - 2 if log else 0])[0]
            layout[name] = {**axis, "range": [begin, math.log10(end) if log else 1.02 * end]}


def _fix_ranges(layout: dict[str, Any], traces: Iterable[Trace]) -> None:
    """Give each axis a range that is the same in every step; matching axes share one range."""
    every = list(traces)

    def shared(name: str) -> str:
        return str(layout.get(f"{name[0]}axis{name[1:]}", {}).get("matches") or name)

    for name in [one for one in layout if one[1:5] == "axis"]:
        letter, axis = name[0], layout[name]
        if axis.get("range") is not None:
            continue
        number = name.removeprefix(f"{letter}axis")
        own_range = shared(letter + number)
        own = [one for one in every if shared(one.get(f"{letter}axis", letter)) == own_range]
        values = [v for one in own for v in one[letter] if isinstance(v, int | float)]
        if stacked := [one[letter] for one in own if letter == "y" and "stackgroup" in one]:
            values += [sum(one) for one in zip(*stacked, strict=False)]
        values += [
            float(one[f"{letter}{end}"])
            for one in layout.get("shapes", ())
            for end in "01"
            if shared(one.get(f"{letter}ref", letter)) == own_range and one[f"{letter}{end}"]
        ]
        if axis.get("type") == "log":
            values = [math.log10(v) for v in values if v > 0]
        if values:
            low, high = min(values), max(values)
            room = 0.05 * ((high - low) or 1)
            zero = axis.get("rangemode") == "tozero" and axis.get("type") != "log"
            layout[name] = {**axis, "range": [0 if zero else low - room, high + room]}


def _add_controls(layout: dict[str, Any], names: Sequence[str]) -> None:
    """A slider and two buttons below the caption; `labs publish` has its own (`figures.py`)."""
    at_once = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}}
    at_once["transition"] = {"duration": 0}
    play = copy.deepcopy(at_once)
    play["frame"] = {"duration": DURATION_MS, "redraw": True}
    below_px = float(layout["margin"]["b"])
    ends = {"x": 0, "xanchor": "left", "y": 0, "yanchor": "top"}
    small = {"size": 12}
    layout["meta"] = {
        **layout["meta"],
        "steps": list(names),
        "tell": f"In {len(names)} steps, of which the last shows all. {layout['meta']['tell']}",
        "controls_px": CONTROLS_PX,
    }
    layout["margin"] = {**layout["margin"], "b": below_px + CONTROLS_PX}
    layout["height"] += CONTROLS_PX
    layout["sliders"] = [
        {
            **ends,
            "active": len(names) - 1,
            "pad": {"t": below_px - 10, "l": 4, "r": 4, "b": 0},
            "currentvalue": {"font": {"size": 13, "color": BLACK}, "xanchor": "left"},
            "font": {"size": 1, "color": "rgba(0,0,0,0)"},  # the current value is enough
            "ticklen": 4,
            "steps": [
                {"label": name, "method": "animate", "args": [[str(number)], at_once]}
                for number, name in enumerate(names)
            ],
        }
    ]
    layout["updatemenus"] = [
        {
            **ends,
            "type": "buttons",
            "direction": "right",
            "showactive": False,
            "pad": {"t": below_px + 48, "l": 0},
            "font": small,
            "bordercolor": GREY,
            "buttons": [
                {"label": "Play", "method": "animate", "args": [None, play]},
                {"label": "Stop", "method": "animate", "args": [[None], at_once]},
            ],
        }
    ]


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
