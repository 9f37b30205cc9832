"""Several plots in one figure: forms below each other, or one form for each value of a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labs.drive.parameters.declare import plain
from labs.read.figures.declaration import Declared
from labs.read.figures.plot import Plot, text_at
from labs.read.figures.style import LINE_PX

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

HEADING_PX, AXIS_PX, BESIDE_PX = 26, 46, 44
"""The height of a panel's heading, and of an axis with its title; the width of words beside."""
NARROW = 3
"""With more panels in a row, there is no room for all ticks of their x axes."""
IN_PLOT: Mapping[str, Any] = {"xref": "x domain", "yref": "y domain", "xanchor": "left"}
LEGEND_BESIDE = {"x": 1.01, "xanchor": "left", "yanchor": "top", "font": {"size": 12}}


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

    def _shown(self, *sources: Any) -> list[tuple[Declared, DataFrame]]:
        shown = ((panel, panel.rows(*sources)) for panel in self.panels)
        return [(panel, rows) for panel, rows in shown if not rows.empty]

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        shown = self._shown(*sources)
        plots = [panel.panel(some, sources) for panel, some in shown]
        headings = [panel.title_of(some) for panel, some in shown]
        for place, (plot, heading) in enumerate(zip(plots, headings, strict=True), 1):
            plot.annotations.append(heading_above(heading))
            for trace in plot.traces if self.legends else ():
                trace["legend"] = f"legend{place if place > 1 else ''}"
        if self.same_x:
            for plot in plots[:-1]:
                plot.x |= {"matches": f"x{len(plots)}", "showticklabels": False, "title": {}}
        has_axes = any(plot.x.get("visible", True) for plot in plots)
        plots[-1].more["showlegend"] = has_axes
        gap_px = HEADING_PX + AXIS_PX * (has_axes and not self.same_x)
        figure = self.finished(rows, plots, HEADING_PX, gap_px)
        for axis, heading in zip(figure.select_yaxes(), headings, strict=True):
            if self.legends:
                legend = {**LEGEND_BESIDE, "y": axis.domain[1], "title": {"text": heading}}
                figure.layout[axis.plotly_name.replace("yaxis", "legend")] = legend
        return figure

    def text_of(self, rows: DataFrame) -> str:
        """The texts of the panels that have rows among these."""
        shown = self._shown(rows)
        return " ".join(f"{panel.title_of(some)}. {panel.tell(some)}" for panel, some in shown)


@dataclass(frozen=True, kw_only=True)
class Together(Declared):
    """Forms in one pair of axes, that of the first one; each has rows of its own."""

    forms: tuple[Declared, ...]

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The plot of the first form with the traces of the others."""
        shown = [(form, form.rows(*sources)) for form in self.forms]
        plot, *others = [form.panel(some, sources) for form, some in shown if not some.empty]
        for other in others:
            plot.traces += other.traces
        return plot


@dataclass(frozen=True, kw_only=True)
class Multiples(Declared):
    """The same plot for each value of the column `by`, `across` in a row, with common axes.

    `named` makes the heading of a panel from its rows, `remark` the lines below it. With `below`,
    there is a row of panels for each value of that column, which is at its right end; the values of
    `by` are above the first row, and `above` says what both are.
    """

    panel_of: Declared
    by: str
    named: Callable[[DataFrame], str] = lambda rows: ""
    remark: Callable[[DataFrame], str] = lambda rows: ""
    across: int = 2
    below: str = ""
    above: str = ""

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        plots: list[Plot] = []
        for line in _split(rows, self.below):
            for value in rows[self.by].unique() if self.by else [""]:
                some = line[line[self.by] == value] if self.by else line
                plot = self.panel_of.panel(some, sources) if len(some) else Plot()
                self._write(plot, some, plain(value), is_first=len(plots) < self.across)
                plots.append(plot)
            if self.below:
                name = f"<b>{plain(line[self.below].iloc[0])}</b>"
                words = text_at(1, 0.5, name, xshift=4, textangle=90, **IN_PLOT)
                plots[-1].annotations.append(words)
                plots[-1].more["margin"] = {"r": BESIDE_PX}
        texts = [text["text"] for plot in plots for text in plot.annotations]
        lines = max((text.count("<br>") for text in texts), default=0)
        if self.above:
            words = heading_above("", self.above)
            plots[0].annotations.append({**words, "yshift": 4 + LINE_PX})
            lines += 1
        self._share_axes(plots)
        head_px = HEADING_PX + LINE_PX * lines
        gap_px = HEADING_PX if self.below else head_px + AXIS_PX / 2
        return self.finished(rows, plots, head_px, gap_px, self.across)

    def _write(self, plot: Plot, rows: DataFrame, value: str, *, is_first: bool) -> None:
        """Write the heading of a panel."""
        if self.by and len(rows) and (is_first or not self.below):
            heading = self.named(rows) or value
            plot.annotations.append(heading_above(heading, self.remark(rows)))

    def _share_axes(self, plots: Sequence[Plot]) -> None:
        """Give all panels the axes of the first; titles and ticks are where there is room."""
        middle = (self.across - 1) // 2, (-(-len(plots) // self.across) - 1) // 2
        for place, plot in enumerate(plots):
            row, column = divmod(place, self.across)
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
        ends = [plot.y["range"] for plot in plots if "range" in plot.y]
        for plot in plots:
            plot.y["range"] = [min(low for low, _ in ends), max(high for _, high in ends)]

    def text_of(self, rows: DataFrame) -> str:
        """The heading and the text of each panel."""
        texts = []
        for some in _split(rows, self.by):
            heading = self.named(some).replace(",<br>", "<br>").replace("<br>", ", ")
            texts.append(f"{heading}: {self.panel_of.tell(some)}")
        return " ".join(texts)


def _split(rows: DataFrame, column: str) -> list[DataFrame]:
    """The rows of each value of a column, or all without a column."""
    return [some for _, some in rows.groupby(column, sort=False)] if column else [rows]


def heading_above(words: str, remark: str = "") -> dict[str, Any]:
    """The words above the left end of a plot, and lines below them."""
    text = "<br>".join(filter(None, [f"<b>{words}</b>" * bool(words), remark]))
    place = {
        "size": 12 if remark else 13,
        "yshift": 4,
        "yanchor": "bottom",
        "align": "left",
        **IN_PLOT,
    }
    return text_at(0, 1, text, **place)
