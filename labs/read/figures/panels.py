"""Several plots in one figure: forms below each other, or one form for each value of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas

from labs.drive.parameters.declare import plain
from labs.read.figures.declaration import Declared
from labs.read.figures.named_rows import NamedRows
from labs.read.figures.plot import Place, Plot, Trace, assembled, once_in_legend, text_at
from labs.read.figures.style import LEGEND_ABOVE, LINE_PX

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

HEADING_PX, AXIS_PX, BESIDE_PX = 26, 46, 44
"""The height of a panel's heading, and of an axis with its title."""
NARROW = 3
"""With more panels in a row, there is no room for all ticks of their x axes."""
IN_PLOT: Mapping[str, Any] = {"xref": "x domain", "yref": "y domain", "xanchor": "left"}
BETWEEN = 0.07
"""The width between two panels, as a share of the figure's."""


@dataclass(frozen=True, kw_only=True)
class Panels(Declared):
    """Plots below each other, each with its title as a heading; those without rows are left out.

    The rows of a panel are those that its `rows` make of what the figure is called with; the rows
    of the figure, for caption and text, are those of all panels. `same_x`: all have one x axis, and
    only the last one has its title. `legends`: each has a legend of its own beside it. Panels
    without axes need no legend beside their headings.
    """

    panels: tuple[Declared, ...]
    same_x: bool = False
    legends: bool = False

    def _shown(self, sources: tuple[Any, ...]) -> list[tuple[Declared, DataFrame]]:
        shown = ((panel, panel.rows(*sources)) for panel in self.panels)
        return [(panel, rows) for panel, rows in shown if not rows.empty]

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        plots, heights = [], []
        for panel, some in self._shown(sources):
            plot, height = panel.panel(some, sources)
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
        figure = self._finished(rows, traces, layout, self.frame_px + round(plot_px))
        return figure.update_layout(margin_l=NamedRows.left_px) if no_axes else figure

    def text_of(self, rows: DataFrame) -> str:
        """The texts of the panels that have rows among these."""
        texts = []
        for panel in self.panels:
            some = panel.rows(rows)
            if not some.empty:
                describe = panel.describe
                text = describe(some) if describe else panel.text_of(some)
                texts.append(f"{panel.title_of(some)}. {text}")
        return " ".join(texts)

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The tables of the panels below each other."""
        shown = [(panel, panel.rows(rows)) for panel in self.panels]
        tables = [panel.table_of(some) for panel, some in shown if len(some)]
        return pandas.concat(tables, ignore_index=True)


@dataclass(frozen=True, kw_only=True)
class Together(Declared):
    """Forms in one pair of axes, that of the first one; each has rows of its own."""

    forms: tuple[Declared, ...]

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The plot of the first form with the traces of the others, and its height in pixels."""
        shown = ((form, form.rows(*sources)) for form in self.forms)
        (plot, height), *others = [
            form.panel(some, sources) for form, some in shown if not some.empty
        ]
        plot.traces += [trace for other, _ in others for trace in other.traces]
        return plot, height


@dataclass(frozen=True, kw_only=True)
class Multiples(Declared):
    """The same plot for each value of the column `by`, `across` in a row, with common axes.

    `named` makes the heading of a panel from its rows, `remark` the lines below it. With `below`,
    there is a row of panels for each value of that column, which is at its right end; the values of
    `by` are above the first row, and `above` says what both are. Headings have `letters` of a size.
    """

    panel_of: Declared
    by: str
    named: Callable[[DataFrame], str] | None = None
    remark: Callable[[DataFrame], str] = lambda rows: ""
    letters: int = 13
    across: int = 2
    below: str = ""
    above: str = ""

    def _heading(self, rows: DataFrame) -> str:
        return self.named(rows) if self.named else plain(rows[self.by].iloc[0])

    def _groups(self, rows: DataFrame) -> list[DataFrame]:
        """The rows of each panel; those of a panel without any are empty."""
        if not self.by and not self.below:
            return [rows]
        if not self.below:
            return [some for _, some in rows.groupby(self.by, sort=False)]
        return [
            line if not self.by else line[line[self.by] == value]
            for _, line in rows.groupby(self.below, sort=False)
            for value in (rows[self.by].unique() if self.by else [None])
        ]

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        form, groups = self.panel_of, self._groups(rows)
        plots, heights = [], []
        for some in groups:
            plot, height = form.panel(some, sources) if len(some) else (Plot([], {}, {}), 0.0)
            plots.append(plot)
            heights.append(height)
        lines = self._write_headings(plots, groups)
        self._share_axes(plots)
        rows_px = [max(heights[at : at + self.across]) for at in range(0, len(plots), self.across)]
        gap = HEADING_PX + LINE_PX * lines + (0 if self.below else AXIS_PX / 2)
        vertical, plot_px = below_each_other(rows_px, gap)
        traces, layout = assembled(plots, grid(vertical, self.across)[: len(plots)])
        once_in_legend(traces)
        layout |= {"legend": LEGEND_ABOVE, "showlegend": True, "barmode": "overlay"}
        figure = self._finished(rows, traces, layout, self.frame_px + round(plot_px))
        return figure.update_layout(margin_r=BESIDE_PX) if self.below else figure

    def _write_headings(self, plots: Sequence[Plot], groups: Sequence[DataFrame]) -> int:
        """Write the headings of the panels, and return how many lines they have after the first."""
        for place, (plot, some) in enumerate(zip(plots, groups, strict=True)):
            if self.by and len(some) and (not self.below or place < self.across):
                plot.annotations.append(
                    heading_above(self._heading(some), self.remark(some), self.letters)
                )
            if self.below and len(some) and place % self.across == self.across - 1:
                name = f"<b>{plain(some[self.below].iloc[0])}</b>"
                words = text_at(1, 0.5, name, xshift=4, textangle=90, **IN_PLOT)
                plot.annotations.append(words)
        if self.above:
            words = heading_above("", self.above)
            plots[0].annotations.append({**words, "yshift": words["yshift"] + LINE_PX})
        lines = (text["text"].count("<br>") for plot in plots for text in plot.annotations)
        return max(lines, default=0) + bool(self.above)

    def _share_axes(self, plots: Sequence[Plot]) -> None:
        """Give all panels the axes of the first; titles and ticks are where there is room."""
        middle = (self.across - 1) // 2, (-(-len(plots) // self.across) - 1) // 2
        for place, plot in enumerate(plots):
            column, row = place % self.across, place // self.across
            is_last = place >= len(plots) - self.across
            if place:
                plot.x["matches"], plot.y["matches"] = "x", "y"
            if not is_last or (self.across > 2 and column != middle[0]):
                plot.x["title"] = {}
            if (self.below and not is_last) or (self.across > NARROW and column % 2):
                plot.x["showticklabels"] = False
            if column or (self.below and row != middle[1]):
                plot.y["title"] = {}
            if column:
                plot.y["showticklabels"] = False
        for axes in ([plot.x for plot in plots], [plot.y for plot in plots]):
            if ends := [axis["range"] for axis in axes if "range" in axis]:
                lows, highs = zip(*ends, strict=True)
                for axis in axes:
                    axis["range"] = [min(lows), max(highs)]

    def text_of(self, rows: DataFrame) -> str:
        """The heading and the text of each panel."""
        form = self.panel_of
        describe = form.describe or (lambda some: form.text_of(some))
        return " ".join(
            f"{self._heading(some).replace('<br>', ', ')}: {describe(some)}"
            for some in self._groups(rows)
        )

    def table_of(self, rows: DataFrame) -> DataFrame:
        """The numbers of all panels, with the value that they differ in."""
        form = self.panel_of
        tables = [
            form.table_of(some).assign(**{self.by: value})
            for value, some in rows.groupby(self.by, sort=False)
        ]
        return pandas.concat(tables, ignore_index=True)


def heading_above(words: str, remark: str = "", letters: int = 13) -> dict[str, Any]:
    """The words above the left end of a plot, and lines below them."""
    text = "<br>".join(filter(None, [f"<b>{words}</b>" * bool(words), remark]))
    size = min(letters, 12) if remark else letters
    return text_at(0, 1, text, size=size, yshift=4, yanchor="bottom", align="left", **IN_PLOT)


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
