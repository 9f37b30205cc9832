"""A plotly figure as HTML that is legible at any width and in print, and for screen readers.

Title, legend and caption are HTML outside the plot, because plotly neither wraps text nor moves a
legend when a page is narrow. The plot has the figure's text alternative, and its numbers are a
table below it. `labs/read/figures/style.py` puts both into the figure's layout.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from plotly.io.json import to_json_plotly

from labs.read.figures.style import plain

# A page that works offline has no button that sends its chart to somebody's server.
CHART = {"displaylogo": False, "responsive": True, "showSendToCloud": False}
CLEAR = "rgba(0,0,0,0)"
TITLE_PX, CAPTION_PX = 58, 34
"""What title and caption take of a figure's height; on the page they are outside the plot."""
LEAST_TOP_PX, LEAST_BOTTOM_PX, SIDE_PX = 26, 48, 14
DASHES = {
    "dash": "6 4",
    "dot": "2 3",
    "dashdot": "6 3 2 3",
    "longdash": "10 4",
    "longdashdot": "10 3 2 3",
}
DEFAULT_COLOUR = "#444444"


def figure_html(figure: Mapping[str, Any], number: int) -> str:
    """A figure (a plotly figure as JSON) as a <figure> whose plot is drawn by plotly.js."""
    figure = copy.deepcopy(dict(figure))
    layout = figure["layout"]
    meta = layout.get("meta") if isinstance(layout.get("meta"), dict) else {}
    title = str((layout.get("title") or {}).get("text") or "")
    caption = str(meta.get("caption") or "")
    legend = _legend(figure)
    beside = layout.get("legend", {}).get("orientation") != "h" and bool(legend)
    steps = _steps(meta.get("steps"))
    if steps:
        _leave_the_controls(layout, float(meta["controls_px"]))
    _leave_the_plot(layout)
    for shown_layout in (
        layout,
        *(frame.get("layout", {}) for frame in figure.get("frames") or ()),
    ):
        if marks := shown_layout.get("annotations"):
            shown_layout["annotations"] = [mark for mark in marks if mark.get("name") != "caption"]
    drawn = {name: figure[name] for name in ("data", "layout", "frames") if name in figure}
    plot = (
        f'<div id="chart-{number}" style="height: {layout["height"]}px"></div>'
        # Data, which a browser does not run; `charts.js` draws it. plotly escapes what is HTML.
        f'<script type="application/json">{to_json_plotly({**drawn, "config": CHART})}</script>'
    )
    label = meta.get("tell") or plain(title) or f"chart {number}"
    return (
        f'<figure class="chart{" legend-beside" if beside else ""}">'
        f"<figcaption>{_text(title)}</figcaption>{legend}"
        f'<div class="plot" role="img" aria-label="{escape(label)}">{plot}</div>'
        + steps
        + (f'<p class="caption">{_text(caption)}</p>' if caption else "")
        + _table(meta.get("table"), plain(title))
        + "</figure>"
    )


def _text(markup: str) -> str:
    """A text of plotly as one line of HTML."""
    return escape(plain(markup), quote=False)


def _leave_the_plot(layout: dict[str, Any]) -> None:
    """Remove title, legend and caption from the layout, with the space that they took."""
    margin = layout.setdefault("margin", {})
    top, bottom = float(margin.get("t", 100)), float(margin.get("b", 80))
    margin["t"] = max(LEAST_TOP_PX, top - TITLE_PX)
    margin["b"] = max(LEAST_BOTTOM_PX, bottom - CAPTION_PX)
    margin["r"] = SIDE_PX if not margin.get("r") else margin["r"]
    height = float(layout.get("height") or 450)
    layout["height"] = round(height - (top - margin["t"]) - (bottom - margin["b"]))
    layout.pop("title", None)
    layout.pop("meta", None)
    layout["showlegend"] = False
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = CLEAR


def _leave_the_controls(layout: dict[str, Any], controls_px: float) -> None:
    """Take plotly's slider and buttons out: the page has its own, which the keyboard reaches."""
    layout.pop("sliders", None)
    layout.pop("updatemenus", None)
    layout["margin"]["b"] -= controls_px
    layout["height"] -= controls_px


def _steps(names: Sequence[str] | None) -> str:
    """A button and a slider for the steps of a figure (`labs/read/figures/steps.py`)."""
    if not names:
        return ""
    last = len(names) - 1
    return (
        f'<div class="steps" data-names="{escape(json.dumps(names))}">'
        '<button type="button">Play</button>'
        f'<input type="range" min="0" max="{last}" value="{last}" aria-label="Step">'
        f"<output>{escape(names[last])}</output></div>"
    )


def _legend(figure: Mapping[str, Any]) -> str:
    """The legend as buttons that hide and show traces; nothing for a figure without one."""
    layout, data = figure["layout"], figure["data"]
    named = [
        (number, trace)
        for number, trace in enumerate(data)
        if trace.get("name") and trace.get("showlegend") is not False
    ]
    shown = layout.get("showlegend", len(named) > 1)
    if not shown or not named:
        return ""
    parts = []
    for place in dict.fromkeys(trace.get("legend", "legend") for _, trace in named):
        entries = "".join(
            _entry(number, trace, data)
            for number, trace in named
            if trace.get("legend", "legend") == place
        )
        heading = _text(str(((layout.get(place) or {}).get("title") or {}).get("text") or ""))
        parts.append((f"<p>{heading}</p>" if heading else "") + f"<ul>{entries}</ul>")
    return f'<div class="legend">{"".join(parts)}</div>'


def _entry(number: int, trace: Mapping[str, Any], data: Sequence[Mapping[str, Any]]) -> str:
    """An entry of the legend: its traces, its sign, its name."""
    group = trace.get("legendgroup")
    same = [
        other for other, curve in enumerate(data) if group and curve.get("legendgroup") == group
    ]
    name = _text(str(trace["name"]).replace("<br>", ", "))
    return (
        f'<li><button type="button" aria-pressed="true" '
        f'data-traces="{" ".join(map(str, same or (number,)))}">{_sign(trace)}'
        f"<span>{name}</span></button></li>"
    )


def _sign(trace: Mapping[str, Any]) -> str:
    """A line, a marker or a block that looks like the trace."""
    parts = []
    marker, line = trace.get("marker") or {}, trace.get("line") or {}
    mode = str(trace.get("mode", "lines" if trace.get("type", "scatter") == "scatter" else ""))
    if trace.get("type") == "bar":
        fill = _colour(marker.get("color"))
        parts.append(f'<rect x="3" y="1" width="20" height="10" style="fill: {fill}"/>')
    if "lines" in mode:
        stroke = _colour(line.get("color"))
        dash = DASHES.get(str(line.get("dash", "")), "")
        width = min(3.0, float(line.get("width", 2)))
        parts.append(
            f'<path d="M0 6H26" fill="none" stroke-width="{width:g}" '
            f'stroke-dasharray="{dash or "none"}" style="stroke: {stroke}"/>'
        )
    if "markers" in mode:
        parts.append(_marker(marker))
    return f'<svg width="26" height="12" aria-hidden="true">{"".join(parts)}</svg>'


def _marker(marker: Mapping[str, Any]) -> str:
    symbol = marker.get("symbol", "circle")
    symbol = str(symbol[0] if isinstance(symbol, list | tuple) and symbol else symbol)
    colour = _colour(marker.get("color"))
    look = f"fill: {'none' if symbol.endswith('open') else colour}; stroke: {colour}"
    shapes = {
        "diamond": '<path d="M13 1L18 6L13 11L8 6Z" {}/>',
        "square": '<rect x="9" y="2" width="8" height="8" {}/>',
        "x": '<path d="M9 2L17 10M17 2L9 10" stroke-width="2" {}/>',
        "triangle-up": '<path d="M13 1L18 10L8 10Z" {}/>',
        "x-thin": '<path d="M9 2L17 10M17 2L9 10" stroke-width="1.5" {}/>',
        "line-ns": '<path d="M13 2V10" stroke-width="1.5" {}/>',
        "line-ew": '<path d="M8 6H18" stroke-width="2" {}/>',
        "arrow": '<path d="M18 6L10 2L10 10Z" {}/>',
    }
    shape = shapes.get(symbol.removesuffix("-open"), '<circle cx="13" cy="6" r="4.5" {}/>')
    return shape.format(f'style="{look}"')


def _colour(value: Any) -> str:
    """A colour as a browser writes it, so that the rules of the style sheet match it."""
    colour = value[0] if isinstance(value, list | tuple) and value else value
    text = colour if isinstance(colour, str) else DEFAULT_COLOUR
    if text.startswith("#") and len(text) == len(DEFAULT_COLOUR):
        red, green, blue = (int(text[place : place + 2], 16) for place in (1, 3, 5))
        return f"rgb({red}, {green}, {blue})"
    return escape(text)


def _table(table: Mapping[str, Any] | None, title: str) -> str:
    """The numbers of a figure, folded."""
    if not table:
        return ""
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table["heads"])
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table["rows"]
    )
    return (
        '<details class="numbers"><summary>table</summary><div class="html">'
        f"<table><caption>{escape(title)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )
