"""A column against another: lines and points, measured beside predicted and published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log10
from typing import TYPE_CHECKING, Any

import pandas

from labs.read.display.format import in_three_digits
from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.marks import LINE, POINT, Mark, Space, draw_marks, with_values
from labs.read.figures.plot import (
    Look,
    Plot,
    Trace,
    assembled,
    error_bars,
    hover,
    is_reference,
    once_in_legend,
    points,
    published_points,
    stacked,
)
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    LEGEND_ABOVE,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Steps,
)

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

LOOKS = tuple(
    Look(colour, dash, symbol)
    for colour, dash, symbol in zip(
        (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BLACK),
        ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid"),
        ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"),
        strict=True,
    )
)
CONTROLS = {"reno": Look(PURPLE), "cubic": Look(BLUE), "bbr": Look(VERMILION)}
"""The looks of congestion controls, the same in every figure."""
CLAIM = "article_claim"
"""The column with the names of an article's claims."""
MEASURED = "measured"
"""The name of a line that is the only one."""
MOST_LINES = 8
"""The most lines of a kind each of which has a look of its own."""
MANY_POINTS = 400
"""A line with more points has no words of its own at each of them."""
NOT_SETTLED = 0.3
"""The opacity of a value of a steady state that a run did not reach."""
TOP, BOTTOM = (0.33, 1.0), (0.0, 0.2)
"""The heights of a plot and of the differences below it."""
AFTER = 1001
"""The rank in the legend of what is compared with the measured lines."""
USUAL_STEPS, MOST_STEPS = 8, 20
"""In how many steps a figure with more points along x is shown, and how many points are few."""
ROOM, LOG_ROOM = 1.1, 2.0
"""The end of an axis that begins at 0, or of a logarithmic one: the largest value so many times."""
BAND_ROOM = 0.2
"""The room around a band, as a share of the heights that are drawn."""


DASHED = Look(BLACK, "dash", "diamond-open", width=1)
"""The look of predicted values."""
Curve = Callable[["DataFrame"], tuple[Sequence[float], Sequence[float]]]
"""Computes the x and y of the points of a curve from rows."""


@dataclass(frozen=True)
class Prediction:
    """How predicted values are drawn.

    They are those of `column`, by default of the one that the measured column declares; or a
    `curve`: the x and y of its points, computed from the rows. With `each`, a line per series in
    its colour; else one for all, with each place once, or with `every` point. `name` may contain
    the series as `{}`.
    """

    column: str = ""
    curve: Curve | None = None
    each: bool = False
    every: bool = False
    name: str = "predicted"
    look: Look = DASHED
    mode: str = "lines+markers"
    fill: bool = False

    def look_of(self, line: Series) -> Look:
        """The look of what is predicted for a line: in its colour, and without a dash in its
        dash."""
        dash = self.look.dash or line.look.dash
        return replace(self.look, colour=line.look.colour, dash=dash)


@dataclass(frozen=True)
class Difference:
    """A plot below the other: how far each prediction is from the measured value, in percent, and
    the tolerance as a band."""

    within_pct: float = 5.0


@dataclass(frozen=True)
class Series:
    """One line of a figure: its name, its look, its rows and the column of its values."""

    name: str
    look: Look
    rows: DataFrame
    column: str


@dataclass(frozen=True, kw_only=True)
class Lines(Declared):
    """The column `y` against the column `x`, a line for each value of the column `by`.

    `lines` are several columns of one row instead, with the name of the line of each; those without
    a value are left out. `named` is a name with the value as `{}`, or a name for each value.
    `looks` are the looks of some values. With `kind_of`, lines of a kind share look and name if
    there are too many to tell apart. `published` is the column of an article's figures;
    `published_in` makes the rows that have them, if they are others. `spread` are the columns with
    the lowest and the highest value. Points are joined in the order of the x axis, or of the rows
    without `in_order`. Several `predicted` are curves. `mode` is plotly's: lines, markers. `words`
    is what a point says, `label` what is written above it, from its row. The table has all points,
    or so many `moments` of each line.
    """

    x: Axis | str
    y: Axis | str
    lines: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    named: str | Mapping[Any, str] = "{}"
    looks: Mapping[Any, Look] = field(default_factory=dict)
    predicted: Prediction | Sequence[Prediction] | None = Prediction()
    published: str = ""
    published_in: Callable[..., DataFrame] | None = None
    marks: tuple[Mark, ...] = ()
    spread: tuple[str, str] | None = None
    difference: Difference | None = None
    kind_of: Callable[[Any], str] | None = None
    in_order: bool = True
    moments: int = 0
    mode: str = "lines+markers"
    words: Callable[[Mapping[Any, Any]], str] | None = None
    label: Callable[[Mapping[Any, Any]], str] | None = None
    height: int = 400

    @cached_property
    def across(self) -> Axis:
        """The x axis."""
        return self.axis(self.x)

    @cached_property
    def up(self) -> Axis:
        """The y axis."""
        return self.axis(self.y)

    @property
    def predicted_column(self) -> str:
        """The column with the predicted values; empty if there is none."""
        usual = self.prediction_of(self.up.column)
        return next((shown.column or usual for shown in self.predictions), "")

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """What is drawn beside the measured lines."""
        shown = self.predicted or ()
        return (shown,) if isinstance(shown, Prediction) else tuple(shown)

    def series(self, rows: DataFrame) -> list[Series]:
        """The lines in the order of the rows, each in the order of the x axis."""
        x = self.across.column
        if self.lines:
            return [
                Series(name, self._look(column, place), rows.sort_values(x, kind="stable"), column)
                for place, (column, name) in enumerate(self.lines.items())
                if rows[column].notna().any()
            ]
        in_order = self.in_order and not self.across.category
        alone = self.named if isinstance(self.named, str) and self.named != "{}" else MEASURED
        groups = [*rows.groupby(self.by, sort=False)] if self.by else [(alone, rows)]
        kind_of = self.kind_of if len(groups) > MOST_LINES else None
        kinds = [*dict.fromkeys(map(kind_of, [value for value, _ in groups]))] if kind_of else []
        return [
            Series(
                kind_of(value) if kind_of else self._name(value),
                self._look(value, kinds.index(kind_of(value)) if kind_of else place),
                some.sort_values(x, kind="stable") if in_order else some,
                self.up.column,
            )
            for place, (value, some) in enumerate(groups)
        ]

    def _name(self, value: Any) -> str:
        if isinstance(self.named, str):
            return self.named.format(value)
        return self.named.get(value, str(value))

    def _look(self, value: Any, place: int) -> Look:
        return self.looks.get(value, LOOKS[place % len(LOOKS)])

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        shares = [TOP, BOTTOM] if self.difference else []
        plot_px = (self.height - self.frame_px) * (TOP[1] - TOP[0] if shares else 1)
        plots = [self.plot(rows, plot_px, self.published_rows(rows, sources))]
        if self.difference:
            plots.append(self.differences(rows))
            plots[0].x.pop("title")
            plots[0].x["matches"] = "x2"
        traces, layout = assembled(plots, stacked(shares))
        once_in_legend(traces)
        layout |= {"legend": LEGEND_ABOVE, "showlegend": len(traces) > 1}
        if _is_stack(traces):
            layout["hovermode"] = "x unified"
        return self._finished(rows, traces, layout, self.height)

    def steps(self, traces: Sequence[Trace], layout: Mapping[str, Any]) -> Steps:
        """The points along x if there are few, else the ends of even parts of them."""
        if self.across.category:
            return {}
        moving = (trace["x"] for trace in traces if not is_reference(trace))
        places = sorted({place for xs in moving for place in xs if place is not None})
        if len(places) > MOST_STEPS:
            last = len(places) - 1
            places = [places[last * part // USUAL_STEPS] for part in range(1, USUAL_STEPS + 1)]
        words = (f"{self.across.words}: {self.across.place_in_words(place)}" for place in places)
        return {"x": [*zip(places, words, strict=True)]} if places else {}

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> tuple[Plot, float]:
        """The lines as one plot among others; its height is that of the declaration."""
        articles = self.published_rows(rows, sources)
        return self.plot(rows, self.height, articles), self.height

    def published_rows(self, rows: DataFrame, sources: tuple[Any, ...]) -> DataFrame:
        """The rows that have the article's figures."""
        return self.published_in(*sources) if self.published_in else rows

    def plot(self, rows: DataFrame, height_px: float, articles: DataFrame) -> Plot:
        """The pair of axes with lines, marks, predicted and published values."""
        series = self.series(rows)
        predicted = [*self._predictions(rows, series)]
        is_curve = any(shown.curve for shown in self.predictions)
        traces = [
            *(predicted if is_curve else ()),  # below the points
            *(self._measured(line) for line in series),
            *(() if is_curve else predicted),
            *self._published(articles),
        ]
        xs, ys = ([n for trace in traces for n in trace[name] if n == n] for name in "xy")
        values = rows[self.across.column].dropna().tolist()
        levels = self._levels(rows)
        ups = [*ys, *levels]
        plot = Plot(traces, self.across.layout(values), self.up.layout(ups))
        tallest = ROOM * max(ups, default=1.0)
        if self.up.begins_at_0 and not self.up.log and not _is_stack(traces):
            plot.y["range"] = [0, tallest]
        elif self.up.log and levels:
            plot.y["range"] = [log10(min(ups) / LOG_ROOM), log10(max(ups) * LOG_ROOM)]
        elif any(mark.until is not None for mark in self.marks if mark.axis == "y"):
            room = BAND_ROOM * (max(ups) - min(ups))
            plot.y["range"] = [min(ups) - room, max(ups) + room]
        ends = plot.y.get("range") or tuple(map(self.up.scaled, (min(ys, default=1.0), tallest)))
        if self.across.category:
            xs = [0.0, float(len({*xs}) - 1)]
        x_ends = self.across.range or (min(xs), max(xs))
        space = Space(self.across, x_ends, self.up, (ends[0], ends[1]), height_px)
        for trace in traces if not self.across.category else ():
            space.add(trace["x"], trace["y"], POINT if "markers" in trace["mode"] else LINE)
        draw_marks(plot, self.marks, rows, space)
        return plot

    def _levels(self, rows: DataFrame) -> list[float]:
        marks = [mark for mark in self.marks if mark.axis == "y"]
        values = [*(mark.value(rows) for mark in marks), *(mark.until for mark in marks)]
        return [value for value in values if value is not None]

    def _measured(self, line: Series) -> Trace:
        trace = self._trace(line, line.column, line.look)
        if self.spread:
            names = (self.spread[0], line.column, self.spread[1])
            low, middle, high = (line.rows[name].astype(float).tolist() for name in names)
            trace["error_y"] = error_bars(low, middle, high)
        declared = self.columns.get(line.column)
        if declared and declared.steady and "settled" in line.rows:
            settled = line.rows["settled"].fillna(False).astype(bool)
            trace["marker"]["opacity"] = [1.0 if still else NOT_SETTLED for still in settled]
        if self.label:
            trace |= {
                "mode": f"{trace['mode']}+text",
                "hovertext": trace["text"],
                "hovertemplate": f"%{{hovertext}}<extra>{line.name}</extra>",
                "text": [self.label(row) for row in line.rows.to_dict("records")],
                "textposition": "top center",
                "textfont": {"size": 11, "color": BLACK},
            }
        return trace

    def _trace(self, line: Series, column: str, look: Look) -> Trace:
        with_gaps = column == line.column and look.mode != "markers"
        values = line.rows if with_gaps else line.rows[line.rows[column].notna()]
        heights = values[column].astype(float).clip(lower=self.up.least)
        heights = heights.where(heights > 0 if self.up.log else heights.notna())
        part = {"stackgroup": "parts", "fillcolor": look.colour} if look.stacked else {}
        more = {"legendgroup": line.name, **part, **self._hover(line.name, values, column)}
        mode = look.mode or self.mode
        return points(self._places(values), heights.tolist(), line.name, look, mode, **more)

    def _places(self, rows: DataFrame) -> list[Any]:
        places = rows[self.across.column]
        return (places if self.across.category else places.astype(float)).tolist()

    def _hover(self, name: str, rows: DataFrame, column: str) -> dict[str, Any]:
        """What a point says: place and value; the condition, and that a run is not settled."""
        if len(rows) > MANY_POINTS and not self.up.is_size:
            unit = self.up.unit
            digits = "," if self.up.is_counted else ".4g"
            return {"hovertemplate": f"%{{y:{digits}}} {unit} at %{{x:.6g}}<extra>{name}</extra>"}
        words = self.words or (lambda row: self._point(row, column))
        return hover(map(words, rows.to_dict("records")), name)

    def _point(self, row: Mapping[Any, Any], column: str) -> str:
        if pandas.isna(row[column]):
            return ""  # a gap
        place = self.across.place_in_words(row[self.across.column])
        value = self.up.value_in_words(row[column])
        condition = f"<br>{row['condition']}" if "condition" in row else ""
        declared = self.columns.get(column)
        unsettled = declared and declared.steady and not row.get("settled", True)
        return f"{place}: {value}{condition}{', not in steady state' if unsettled else ''}"

    def _predictions(self, rows: DataFrame, series: Sequence[Series]) -> Iterator[Trace]:
        """The traces of what is compared with the measured lines."""
        column = self.predicted_column
        for shown in self.predictions:
            if shown.curve:
                yield from self._curves(shown, shown.curve, rows, series)
            elif column:
                for line in self._predicted_lines(shown, rows, series, column):
                    if line.rows[column].notna().any():
                        trace = self._trace(line, column, line.look)
                        yield {**trace, "mode": shown.mode, "legendrank": AFTER}

    def _curves(
        self, shown: Prediction, curve: Curve, rows: DataFrame, series: Sequence[Series]
    ) -> Iterator[Trace]:
        all_rows = [Series(shown.name, shown.look, rows, self.up.column)]
        for line in series if shown.each else all_rows:
            xs, ys = map(list, curve(line.rows))
            name = shown.name.format(line.name)
            more = {"legendgroup": name, "hoverinfo": "skip", "legendrank": AFTER}
            more |= {"fill": "toself", "opacity": 0.5} if shown.fill else {}
            mode = "lines" if xs[1:] else "markers"
            yield points(xs, ys, name, shown.look_of(line), mode, **more)

    def _predicted_lines(
        self, shown: Prediction, rows: DataFrame, series: Sequence[Series], column: str
    ) -> list[Series]:
        if shown.each:
            names = (line.name.removesuffix(", measured") for line in series)
            return [
                replace(line, name=shown.name.format(name), look=shown.look_of(line))
                for line, name in zip(series, names, strict=True)
            ]
        predicted = rows[rows[column].notna()]
        if not shown.every:
            x = self.across.column
            predicted = predicted.drop_duplicates(x).sort_values(x)
        return [Series(shown.name, shown.look, predicted, column)]

    def _published(self, rows: DataFrame) -> Iterator[Trace]:
        """The article's figures, each with its claim."""
        if not self.published:
            return
        rows = rows[rows[self.published].notna() & rows[self.across.column].notna()]
        if rows.empty:
            return
        claims = rows[CLAIM].astype(str) if CLAIM in rows else ["the article"] * len(rows)
        ys = rows[self.published].astype(float).tolist()
        words = (
            f"{claim}: {self.up.value_in_words(y)} with {self.across.place_in_words(x)}"
            for claim, x, y in zip(claims, rows[self.across.column], ys, strict=True)
        )
        yield {**published_points(self._places(rows), ys, words), "legendrank": AFTER + 1}

    def differences(self, rows: DataFrame) -> Plot:
        """The plot of the differences of the predictions, with the tolerance as a band."""
        within = self.difference.within_pct if self.difference else 0.0
        column = self.predicted_column
        traces, farthest = [], 0.0
        for line in self.series(rows):
            measured = line.rows[self.up.column].astype(float)
            apart = 100 * (line.rows[column].astype(float) / measured - 1)
            farthest = max(farthest, float(apart.abs().max()))
            trace = {**self._measured(line), "y": apart.tolist(), "mode": "markers"}
            traces.append({**trace, "showlegend": False})
        end = max(1.6 * within, ROOM * farthest)
        xs = rows[self.across.column].dropna().tolist()
        y = {"title": {"text": "difference (%)"}, "range": [-end, end]}
        band = Mark(-within, axis="y", colour=SKY, until=within)
        marks = [band, Mark(0.0, axis="y", dash="solid", width=1)]
        marks += [mark for mark in self.marks if mark.axis == "x"]
        shapes = [mark.shape(value) for mark, value in with_values(marks, rows)]
        return Plot(traces, self.across.layout(xs), y, shapes)

    def text_of(self, rows: DataFrame) -> str:
        """Each line in words: its values by place, or its ends if there are many."""
        column, several = self.predicted_column, len(self.series(rows)) > 1
        phrases = []
        for line in self.series(rows):
            records = line.rows[line.rows[line.column].notna()].to_dict("records")
            records = records if len(records) <= FEW_POINTS else [records[0], records[-1]]
            values = ", ".join(
                f"{in_three_digits(row[line.column])}"
                + (f" (predicted {in_three_digits(row[column])})" if _has(row, column) else "")
                + f" at {self.across.place_in_words(row[self.across.column])}"
                for row in records
            )
            phrases.append(f"{line.name}: {values}" if several else values)
        name = self.up.words + (f", in {self.up.unit}" if self.up.unit else "")
        return f"{name[:1].upper()}{name[1:]}: {'; '.join(phrases)}."

    def table_of(self, rows: DataFrame) -> DataFrame:
        """Place, series, measured and predicted value of each point, or of some moments."""
        x, unit, predicted = self.across, self.up.unit, self.predicted_column
        if self.moments:
            lines = (some for _, some in rows.groupby(self.by, sort=False)) if self.by else [rows]
            some = [line.iloc[:: max(1, len(line) // self.moments)] for line in lines]
            rows = pandas.concat(some[:MOST_LINES], ignore_index=True)
        measured = "measured" if predicted else self.up.words
        heads = {"condition": "condition"} if "condition" in rows and not self.moments else {}
        heads |= {x.column: f"{x.words}, {x.unit}".removesuffix(", ")}
        heads |= {self.by: self.by} if self.by and self.by not in heads else {}
        values = self.lines or {self.up.column: measured}
        values = {**values, **({predicted: "predicted"} if predicted else {})}
        heads |= {name: f"{words}, {unit}".removesuffix(", ") for name, words in values.items()}
        return rows[list(heads)].rename(columns=heads)


def _is_stack(traces: Sequence[Trace]) -> bool:
    return any("stackgroup" in trace for trace in traces)


FEW_POINTS = 12
"""Of a line: so many are said in its text alternative."""


def _has(row: Mapping[Any, Any], column: str) -> bool:
    return bool(column) and bool(pandas.notna(row[column]))
