"""Figures as HTML: text alternative, table, legend and caption outside the plot."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from plotly.graph_objects import Bar, Figure, Scatter

from labs.publish.figures import figure_html
from tests.real_runs import recorded_nagle


def html_of(figure: Figure, number: int = 1) -> str:
    return figure_html(json.loads(figure.to_json()), number)


def drawn(html: str) -> dict[str, Any]:
    """The layout that the page's script draws."""
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    layout: dict[str, Any] = json.loads(data)["layout"]
    return layout


def test_figure_html_has_a_text_alternative_and_the_numbers() -> None:
    from labs.experiments.nagle.figures import by_condition

    rows = recorded_nagle().results()
    figure = by_condition(rows[rows["condition"].isin(["off", "on"])])
    html = html_of(figure)
    (label,) = re.findall(r'role="img" aria-label="([^"]*)"', html)
    assert label == (
        "Time per request (ms). off: 39.7 ms (predicted 39.6), 90 % stall; on: below 1 ms "
        "(predicted below 1)."
    )
    assert "<figcaption>Time per request by condition</figcaption>" in html
    assert '<p class="caption">virtual · Linux 6.1' in html
    assert '<th scope="col">Mean (ms)</th>' in html and '<th scope="row">off</th>' in html
    assert "<caption>Time per request by condition</caption>" in html
    layout = drawn(html)
    assert "title" not in layout and layout["showlegend"] is False
    assert [
        annotation for annotation in layout["annotations"] if annotation.get("name") == "caption"
    ] == []
    assert layout["height"] < figure.layout.height


def test_figure_html_of_a_figure_of_another_library_user() -> None:
    html = html_of(Figure(Scatter(y=[1, 2])).update_layout(title="A <b>title</b>"), 7)
    assert 'aria-label="A title"' in html and 'id="chart-7"' in html
    assert "<figcaption>A title</figcaption>" in html
    assert "legend" not in html.split("<script")[0] and "<table" not in html
    assert 'aria-label="chart 2"' in html_of(Figure(Bar(y=[1])), 2)


def test_figure_html_legend_has_an_entry_per_group_and_escapes_names() -> None:
    figure = Figure(
        [
            Scatter(y=[1], name="a & <i>b</i>", line={"dash": "dash", "color": "#0072B2"}),
            Bar(y=[1], name="bar", legendgroup="g", marker={"color": "#D55E00"}),
            Scatter(y=[1], name="hidden", legendgroup="g", showlegend=False),
            Scatter(y=[1], mode="markers", name="x<br>n = 3", marker={"symbol": "diamond-open"}),
            Scatter(y=[1], mode="markers", showlegend=False),
        ]
    )
    html = html_of(figure)
    buttons = re.findall(r'data-traces="([\d ]+)">(.*?)<span>(.*?)</span>', html)
    assert [(traces, name) for traces, _, name in buttons] == [
        ("0", "a &amp; b"),
        ("1 2", "bar"),
        ("3", "x, n = 3"),
    ]
    signs = [sign for _, sign, _ in buttons]
    assert 'stroke-dasharray="6 4"' in signs[0] and "rgb(0, 114, 178)" in signs[0]
    assert "<rect" in signs[1] and "rgb(213, 94, 0)" in signs[1]
    assert "<path" in signs[2] and "fill: none" in signs[2]


@pytest.mark.parametrize(("symbol", "path"), [("line-ns-open", "M13 2V10"), ("x-thin", "M9 2L17")])
def test_figure_html_legend_shows_thin_markers(symbol: str, path: str) -> None:
    marks = [Scatter(y=[1], mode="markers", name=str(n), marker={"symbol": symbol}) for n in (1, 2)]
    assert f'<path d="{path}' in html_of(Figure(marks))


def test_figure_html_groups_several_legends_by_their_titles() -> None:
    figure = Figure(
        [Scatter(y=[1], name="one"), Scatter(y=[1], name="two", legend="legend2")]
    ).update_layout(legend={"title": {"text": "sender"}}, legend2={"title": {"text": "receiver"}})
    html = html_of(figure)
    legend = html.split('<div class="plot"')[0]
    assert re.findall(r"<p>(\w+)</p>|<span>(\w+)</span>", legend) == [
        ("sender", ""),
        ("", "one"),
        ("receiver", ""),
        ("", "two"),
    ]
    assert 'class="chart legend-beside"' in html
