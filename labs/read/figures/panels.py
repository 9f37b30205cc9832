"""Several plots in one figure: forms below each other, or one form for each value of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas

from labs.read.figures.axes import Columns, declared
from labs.read.figures.bars import LEFT_PX
from labs.read.figures.declaration import Declared
from labs.read.figures.plot import Place, Plot, Trace, assembled, once_in_legend
from labs.read.figures.style import LEGEND_ABOVE

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

HEADING_PX, AXIS_PX, FRAME_PX = 26, 46, 172
"""The height of a panel's heading, of an axis with its title, and of title, legend and caption."""
BETWEEN = 0.07
"""The width between two panels, as a share of the figure's."""


@dataclass(frozen=True, kw_only=True)
class Panels(Declared):
    """Plots below each other, each with its title as a heading; those without rows are left out.

    The rows of a panel are those that its `rows` make of what the figure is called with; the rows
    of the figure, for caption and text, are those of all panels. `same_x`: all have one x axis, and
    only the last one has its title. Panels without axes need no legend beside their headings.
    `legends`: each has a legend of its own beside it.
    """

    panels: tuple[Declared, ...]
    same_x: bool = False
    legends: bool = False

    def _shown(self, sources: tuple[Any, ...]) -> list[tuple[Declared, DataFrame]]:
        shown = ((panel, panel.rows(*sources)) for panel in self.panels)
        return [(panel, rows) for panel, rows in shown if not rows.empty]

    def draw(self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        plots, heights = [], []
        for panel, some in self._shown(sources):
            plot, height = panel.panel(some, declared(panel.of), sources)
            plot.annotations.append(heading_above(panel.title_of(some)))
            plots.append(plot)
            heights.append(height)
        if self.same_x:
            for plot in plots[:-1]:
                plot.x |= {"matches": f"x{len(plots)}", "showticklabels": False, "title": {}}
        no_axes = not any(plot.x.get("visible", True) for plot in plots)
        gap = HEADING_PX + (0 if self.same_x or no_axes else AXIS_PX)
        places, plot_px = below_each_other(heights, gap)
        traces, layout = assembled(plots, places)
        if self.legends:
            headings = [panel.title_of(some) for panel, some in self._shown(sources)]
            layout |= _legends_beside(traces, headings, places)
        else:
            once_in_legend(traces)
            layout["legend"] = LEGEND_ABOVE
        layout |= {"showlegend": not no_axes, "barmode": "overlay"}
        figure = self._finished(rows, columns, (traces, layout), FRAME_PX + round(plot_px))
        return figure.update_layout(margin_l=LEFT_PX) if no_axes else figure

    def text_of(self, rows: DataFrame, columns: Columns) -> str:
        """The texts of the panels that have rows among these."""
        texts = []
        for panel in self.panels:
            some = panel.rows(rows)
            if not some.empty:
                describe = panel.describe
                text = describe(some) if describe else panel.text_of(some, declared(panel.of))
                texts.append(f"{panel.title_of(some)}. {text}")
        return " ".join(texts)

    def table_of(self, rows: DataFrame, columns: Columns) -> DataFrame:
        """The tables of the panels below each other."""
        shown = [(panel, panel.rows(rows)) for panel in self.panels]
        tables = [panel.table_of(some, declared(panel.of)) for panel, some in shown if len(some)]
        return pandas.concat(tables, ignore_index=True)


@dataclass(frozen=True, kw_only=True)
class Together(Declared):
    """Forms in one pair of axes, that of the first one; each has rows of its own."""

    forms: tuple[Declared, ...]

    def panel(
        self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]
    ) -> tuple[Plot, float]:
        """The plot of the first form with the traces of the others, and its height in pixels."""
        shown = ((form, form.rows(*sources)) for form in self.forms)
        (plot, height), *others = [
            form.panel(some, declared(form.of), sources) for form, some in shown if not some.empty
        ]
        plot.traces += [trace for other, _ in others for trace in other.traces]
        return plot, height


@dataclass(frozen=True, kw_only=True)
class Multiples(Declared):
    """The same plot for each value of the column `by`, `across` in a row, with common axes.

    `named` makes the heading of a panel from its rows, `remark` the lines below it; both have
    letters of a size.
    """

    panel_of: Declared
    by: str
    named: Callable[[DataFrame], str]
    remark: Callable[[DataFrame], str] = lambda rows: ""
    letters: int = 13
    across: int = 2

    def draw(self, rows: DataFrame, columns: Columns, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        form = self.panel_of
        groups = [some for _, some in rows.groupby(self.by, sort=False)]
        drawn = [form.panel(some, declared(form.of), sources) for some in groups]
        plots, height = [plot for plot, _ in drawn], drawn[0][1]
        down = -(-len(plots) // self.across)
        for place, (plot, some) in enumerate(zip(plots, groups, strict=True)):
            words = heading_above(self.named(some), self.remark(some))
            plot.annotations.append({**words, "font": {"size": self.letters}})
            if place:
                plot.x["matches"], plot.y["matches"] = "x", "y"
            if place < len(plots) - self.across:
                plot.x["title"] = {}
            if place % self.across:
                plot.y |= {"title": {}, "showticklabels": False}
        lines = max(text["text"].count("<br>") for plot in plots for text in plot.annotations[-1:])
        gap = HEADING_PX + 16 * lines + AXIS_PX / 2
        vertical, plot_px = below_each_other([height] * down, gap)
        traces, layout = assembled(plots, grid(vertical, self.across)[: len(plots)])
        once_in_legend(traces)
        layout |= {"legend": LEGEND_ABOVE, "showlegend": True}
        return self._finished(rows, columns, (traces, layout), FRAME_PX + round(plot_px))

    def text_of(self, rows: DataFrame, columns: Columns) -> str:
        """The heading and the text of each panel."""
        form = self.panel_of
        describe = form.describe or (lambda some: form.text_of(some, declared(form.of)))
        groups = (some for _, some in rows.groupby(self.by, sort=False))
        return " ".join(
            f"{self.named(some).replace('<br>', ', ')}: {describe(some)}" for some in groups
        )

    def table_of(self, rows: DataFrame, columns: Columns) -> DataFrame:
        """The numbers of all panels, with the value that they differ in."""
        form = self.panel_of
        tables = [
            form.table_of(some, declared(form.of)).assign(**{self.by: value})
            for value, some in rows.groupby(self.by, sort=False)
        ]
        return pandas.concat(tables, ignore_index=True)


def heading_above(words: str, remark: str = "") -> dict[str, Any]:
    """The words above the left end of a plot, and lines below them."""
    return {
        "x": 0,
        "xref": "x domain",
        "y": 1,
        "yref": "y domain",
        "text": "<br>".join(filter(None, [f"<b>{words}</b>", remark])),
        "font": {"size": 12 if remark else 13},
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 4,
        "align": "left",
    }


def below_each_other(heights: Sequence[float], gap_px: float) -> tuple[list[Place], float]:
    """Places for plots of these heights, each with a gap above it, and the height of all."""
    total = sum(heights) + gap_px * len(heights)
    places, top = [], total
    for height in heights:
        top -= gap_px
        places.append(((0.0, 1.0), ((top - height) / total, top / total)))
        top -= height
    return [((0.0, 1.0), (max(0.0, low), high)) for _, (low, high) in places], total


def grid(rows: Sequence[Place], across: int) -> list[Place]:
    """Places side by side in each of these rows."""
    width = (1 - BETWEEN * (across - 1)) / across
    begins = [place * (width + BETWEEN) for place in range(across)]
    return [((begin, begin + width), row[1]) for row, begin in product(rows, begins)]


def _legends_beside(
    traces: Sequence[Trace], headings: Sequence[str], places: Sequence[Place]
) -> dict[str, Any]:
    """The layout of a legend beside each plot, which its traces then belong to."""
    for trace in traces:
        trace["legend"] = f"legend{str(trace['yaxis']).removeprefix('y')}"
    look = {"x": 1.01, "xanchor": "left", "yanchor": "top", "font": {"size": 12}}
    return {
        f"legend{place + 1 if place else ''}": {**look, "y": top, "title": {"text": heading}}
        for place, (heading, (_, (_, top))) in enumerate(zip(headings, places, strict=True))
    }
