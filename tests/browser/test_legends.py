"""Legends above plots, in plotly.js itself."""

from __future__ import annotations

from pathlib import Path

import plotly
import pytest
from playwright.sync_api import Browser
from plotly.graph_objects import Bar, Figure

from labs.read.figures.style import LEGEND_ABOVE, dressed

LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
DRAW = """async ([figure, first, then]) => {
  const chart = document.body.appendChild(document.createElement("div"));
  chart.style.width = `${first}px`;
  await Plotly.newPlot(chart, figure.data, figure.layout);
  chart.style.width = `${then}px`;
  await Plotly.Plots.resize(chart);
  const plot = chart.getBoundingClientRect().top + chart._fullLayout._size.t;
  return plot - chart.querySelector(".legend .bg").getBoundingClientRect().bottom;
}"""
NAMES = ("segments of the server", "ACKs of the client", "predicted segments, except in the first")


@pytest.mark.parametrize(("first", "then"), [(780, 900), (500, 900), (900, 600), (900, 400)])
def test_legend_covers_no_bar_when_the_page_gets_another_width(
    browser: Browser, first: int, then: int
) -> None:
    bars = [Bar(x=[2, 10], y=["off", "pieces-quickack"], orientation="h", name=it) for it in NAMES]
    figure = dressed(
        Figure(bars, {"legend": LEGEND_ABOVE}),
        title="Segments and ACKs per response",
        caption="from a test",
        height=400,
        tell="Bars.",
        table=None,
    )
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    try:
        page.add_script_tag(path=str(LIBRARY))
        assert page.evaluate(DRAW, [figure.to_plotly_json(), first, then]) >= 0
    finally:
        page.close()
