"""A column against another in lines, points or bars: measured beside predicted and published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas

from labs.errors import BadInput
from labs.read.display.format import in_three_digits, is_known
from labs.read.figures.axes import Axis
from labs.read.figures.declaration import Declared
from labs.read.figures.marks import Mark, Space, draw_marks, with_values
from labs.read.figures.plot import Look, Plot, Trace, hover, is_reference, points, published_points
from labs.read.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Steps

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

LOOKS = (
    Look(BLUE),
    Look(ORANGE, "dash", "square"),
    Look(GREEN, "dot", "diamond"),
    Look(PURPLE, "dashdot", "triangle-up"),
    Look(SKY, "longdash", "triangle-down"),
    Look(VERMILION, "longdashdot", "cross"),
    Look(BLACK, "solid", "x"),
)
CONTROLS = {"reno": Look(PURPLE), "cubic": Look(BLUE), "bbr": Look(VERMILION)}
"""The looks of congestion controls, the same in every figure."""
CLAIM = "article_claim"
"""The column with the names of an article's claims."""
MEASURED = "measured"
"""The name of a line that is the only one."""
MOST_LINES = 8
"""The most lines of a kind each of which has a look of its own."""
MANY_POINTS, FEW_POINTS = 400, 12
"""A line with more points has no words of its own at each of them; of one with few, all are in the
text alternative."""
NOT_SETTLED = 0.3
"""The opacity of a value of a steady state that a run did not reach."""
AFTER = 1001
"""The rank in the legend of what is compared with the measured lines."""
USUAL_STEPS, MOST_STEPS = 8, 20
"""In how many steps a figure with more points along x is shown, and how many points are few."""
DIFFERENCE_PX, GAP_PX = 76, 25
"""The height of the differences below a plot, and the gap between them."""
BARS = "bars"
DASHED = Look("", "dash", "diamond-open", width=1, mode="lines+markers")
"""The look of predicted values."""
Row = Mapping[Any, Any]
Curve = Callable[["DataFrame"], tuple[Sequence[float], Sequence[float]]]
"""Computes the x and y of the points of a curve from rows."""


@dataclass(frozen=True)
class Prediction:
    """How predicted values are drawn.

    They are those of `column`, by default of the one that the measured column declares; or a
    `curve`: the x and y of its points, computed from the rows. With `each`, a line per series, with
    its colour and its dash where the `look` has none; else one for all, with each place once.
    `name` may contain the value of the series as `{}`.
    """

    column: str = ""
    curve: Curve | None = None
    each: bool = False
    name: str = "predicted"
    look: Look = DASHED
    fill: bool = False


@dataclass(frozen=True)
class Series:
    """One line of a figure: its value of the column `by`, its name, its look, its rows and the
    column of its values."""

    value: Any
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
    `published_in` makes the rows that have them, if they are others. Points are joined in the order
    of the x axis, or of the rows without `in_order`. Several `predicted` are curves. `mode` is
    plotly's: lines, markers; or BARS side by side, which are markers on a logarithmic axis. `words`
    is what a point says, `label` what is written above it, from its row. With `within_pct`, the
    differences of the predictions are below, with this tolerance as a band. The table has all
    points, or so many `moments` of each line. `height` is that of the plot.
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
    within_pct: float = 0.0
    kind_of: Callable[[Any], str] | None = None
    in_order: bool = True
    moments: int = 0
    mode: str = "lines+markers"
    words: Callable[[Row], str] | None = None
    label: Callable[[Row], str] | None = None
    height: int = 228

    @cached_property
    def across(self) -> Axis:
        """The x axis."""
        return self.axis(self.x)

    @cached_property
    def up(self) -> Axis:
        """The y axis."""
        return self.axis(self.y)

    @property
    def predictions(self) -> Sequence[Prediction]:
        """How predicted values are drawn, in the order of the legend."""
        if isinstance(self.predicted, Prediction):
            return (self.predicted,)
        return self.predicted or ()

    @property
    def predicted_column(self) -> str:
        """The column with the predicted values; empty if there is none."""
        usual = self.prediction_of(self.up.column)
        return next((shown.column or usual for shown in self.predictions), "")

    def series(self, rows: DataFrame) -> list[Series]:
        """The measured lines."""
        if self.lines:
            groups = [(column, rows) for column in self.lines if rows[column].notna().any()]
        else:
            groups = [*rows.groupby(self.by, sort=False)] if self.by else [(MEASURED, rows)]
        kind_of = self.kind_of if self.kind_of and len(groups) > MOST_LINES else self._name
        names = [kind_of(value) for value, _ in groups]
        kinds = [*dict.fromkeys(names)]
        series = []
        for (value, some), name in zip(groups, names, strict=True):
            look = self.looks.get(value, LOOKS[kinds.index(name) % len(LOOKS)])
            column = value if self.lines else self.up.column
            series.append(Series(value, name, look, self._in_order(some), column))
        return series

    def _name(self, value: Any) -> str:
        if self.lines:
            return self.lines[value]
        if isinstance(self.named, str):
            return self.named.format(value)
        return self.named.get(value, str(value))

    def _in_order(self, rows: DataFrame) -> DataFrame:
        if self.across.category or not self.in_order:
            return rows
        return rows.sort_values(self.across.column, kind="stable")

    def draw(self, rows: DataFrame, sources: tuple[Any, ...]) -> Figure:
        """The figure of rows, of which there is at least one."""
        if not self.within_pct:
            return super().draw(rows, sources)
        plots = [self.panel(rows, sources), self._differences(rows)]
        plots[0].x |= {"title": {}, "matches": "x2", "showticklabels": False}
        return self.finished(rows, plots, gap_px=GAP_PX)

    def _differences(self, rows: DataFrame) -> Plot:
        """The plot of how far each prediction is from the measured value."""
        column, end = self.up.column, self.within_pct
        if not self.predicted_column:
            raise BadInput(
                f'the figure "{self.title_of(rows)}" has within_pct, but {column} no column '
                "of predictions. Give predicted=Prediction(column=...), or leave within_pct out"
            )
        measured = rows[column].astype(float)
        apart = 100 * (rows[self.predicted_column].astype(float) / measured - 1)
        band = Mark(-end, axis="y", colour=SKY, until=end)
        zero = Mark(0.0, axis="y", dash="solid", width=1)
        given: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        shown: dict[str, Any] = {
            "mode": "markers",
            "predicted": None,
            "published": "",
            "marks": (band, zero, *(replace(m, text="") for m in self.marks if m.axis == "x")),
            "height": DIFFERENCE_PX,
        }
        below = Differences(**{**given, **shown})
        return below.panel(rows.assign(**{column: apart}), ())

    def panel(self, rows: DataFrame, sources: tuple[Any, ...]) -> Plot:
        """The pair of axes with lines, marks, predicted and published values."""
        series = self.series(rows)
        traces = [*map(self._measured, series)]
        # Curves are below the points.
        end = 0 if any(shown.curve for shown in self.predictions) else len(traces)
        traces[end:end] = self._predicted(rows, series)
        traces += self._published(rows, sources)
        xs, ys = ([n for trace in traces for n in trace[name] if n == n] for name in "xy")
        levels = self._levels(rows)
        ups = [n for n in (*ys, *levels) if n is not None]
        if self.mode == BARS and not self.up.log:
            ups.append(0.0)
        across = self.across.layout(rows[self.across.column].dropna().tolist())
        plot = Plot(traces, across, self.up.layout(ups), self.height)
        if any("stackgroup" in trace for trace in traces):
            plot.more["hovermode"] = "x unified"
        elif ups:
            plot.y["range"] = [*self.up.ends(ups)]
        if self.mode == BARS:
            plot.more |= {"scattermode": "group", "bargap": 0.3 * self.across.category}
        x_ends = (0.0, 1.0) if self.across.category else self.across.ends(xs, room=0.0)
        space = Space(self.across, x_ends, self.up, self.up.ends(ups), self.height)
        for trace in traces if not self.across.category and self.marks else ():
            space.add(trace)
        draw_marks(plot, self.marks, rows, space)
        return plot

    def _levels(self, rows: DataFrame) -> list[float]:
        marks = [mark for mark in self.marks if mark.axis == "y"]
        values = [value for _, value in with_values(marks, rows)]
        return [*values, *(mark.until for mark in marks if mark.until is not None)]

    def _measured(self, line: Series) -> Trace:
        trace = self._trace(line, line.column)
        if self._is_steady(line.column) and "settled" in line.rows:
            settled = line.rows["settled"].fillna(False).astype(bool)
            trace["marker"]["opacity"] = [1.0 if still else NOT_SETTLED for still in settled]
        if self.label:
            trace |= {
                "mode": f"{trace['mode']}+text",
                "customdata": [self.label(row) for row in line.rows.to_dict("records")],
                "texttemplate": "%{customdata}",
                "textposition": "top center",
                "textfont": {"size": 11, "color": BLACK},
            }
        return trace

    def _is_steady(self, column: str) -> bool:
        return column in self.columns and self.columns[column].steady

    def _trace(self, line: Series, column: str) -> Trace:
        look, rows = line.look, line.rows
        if column != line.column or look.mode == "markers":  # others have gaps
            rows = rows[rows[column].notna()]
        heights = rows[column].astype(float).clip(lower=self.up.least)
        heights = heights.where(heights > 0 if self.up.log else heights.notna())
        places = rows[self.across.column]
        places = places if self.across.category else places.astype(float)
        mode = look.mode or self.mode.replace(BARS, "markers")
        trace = points(places, heights, line.name, look, mode)
        trace |= self._hover(line.name, rows, column)
        trace["legendgroup"] = line.name
        if look.stacked:
            trace |= {"stackgroup": "parts", "fillcolor": look.colour}
        if self.mode == BARS:
            trace["offsetgroup"] = str(line.value)
            if column == line.column and not self.up.log:
                outline = {"color": look.colour, "width": 1}
                trace |= {"type": "bar", "marker": {"color": look.colour, "line": outline}}
                trace["textposition"] = "none"
                for name in ("mode", "line", "cliponaxis"):
                    trace.pop(name)
        return trace

    def _hover(self, name: str, rows: DataFrame, column: str) -> dict[str, Any]:
        """What a point says: place and value; the condition, and that a run is not settled."""
        if len(rows) > MANY_POINTS and not self.up.written:
            digits = "," if self.up.is_counted else ".4g"
            value = f"%{{y:{digits}}} {self.up.unit}"
            return {"hovertemplate": f"{value} at %{{x:.6g}}<extra>{name}</extra>"}
        say = self.words or (lambda row: self._point(row, column))
        records, gaps = rows.to_dict("records"), rows[column].isna()
        words = ("" if gap else say(row) for row, gap in zip(records, gaps, strict=True))
        return hover(words, name)

    def _point(self, row: Row, column: str) -> str:
        words = f"{self._place(row)}: {self.up.value_in_words(row[column])}"
        if "condition" in row:
            words += f"<br>{row['condition']}"
        if self._is_steady(column) and not row.get("settled", True):
            words += ", not in steady state"
        return words

    def _place(self, row: Row) -> str:
        return self.across.place_in_words(row[self.across.column])

    def _predicted(self, rows: DataFrame, series: Sequence[Series]) -> Iterator[Trace]:
        """What is compared with the measured lines."""
        every = Series("", "", Look(BLACK), rows, self.up.column)
        for shown in self.predictions:
            for line in series if shown.each else [every]:
                colour = shown.look.colour or line.look.colour
                look = replace(shown.look, colour=colour, dash=shown.look.dash or line.look.dash)
                drawn = replace(line, name=shown.name.format(line.value), look=look)
                trace = self._curve(shown, drawn) if shown.curve else self._expected(shown, drawn)
                if trace:
                    yield {**trace, "legendgroup": drawn.name, "legendrank": AFTER}

    def _curve(self, shown: Prediction, line: Series) -> Trace:
        xs, ys = shown.curve(line.rows) if shown.curve else ((), ())
        mode = "lines" if len(xs) > 1 else "markers"
        more = {"fill": "toself", "opacity": 0.5} if shown.fill else {}
        return points(xs, ys, line.name, line.look, mode, hoverinfo="skip", **more)

    def _expected(self, shown: Prediction, line: Series) -> Trace:
        column, x = self.predicted_column, self.across.column
        rows = line.rows.dropna(subset=[column]) if column else line.rows[:0]
        if not shown.each:
            rows = rows.drop_duplicates(x).sort_values(x)
        return self._trace(replace(line, rows=rows), column) if len(rows) else {}

    def _published(self, rows: DataFrame, sources: tuple[Any, ...]) -> Iterator[Trace]:
        """The article's figures, each with its claim."""
        if not self.published:
            return
        rows = self.published_in(*sources) if self.published_in else rows
        rows = rows.dropna(subset=[self.published, self.across.column])
        if not rows.empty:
            places, values = rows[self.across.column], rows[self.published].astype(float)
            words = map(self._claim, rows.to_dict("records"))
            yield {**published_points(places, values, words), "legendrank": AFTER + 1}

    def _claim(self, row: Row) -> str:
        value = self.up.value_in_words(row[self.published])
        return f"{row.get(CLAIM, 'the article')}: {value} with {self._place(row)}"

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

    def text_of(self, rows: DataFrame) -> str:
        """Each line in words: its values by place, or its ends if there are many."""
        phrases, series = [], self.series(rows)
        for line in series:
            records = line.rows[line.rows[line.column].notna()].to_dict("records")
            if len(records) > FEW_POINTS:
                records = [records[0], records[-1]]
            values = ", ".join(self._value_at(row, line.column) for row in records)
            phrases.append(f"{line.name}: {values}" if len(series) > 1 else values)
        name = self.up.words + (f", in {self.up.unit}" if self.up.unit else "")
        return f"{name[:1].upper()}{name[1:]}: {'; '.join(phrases)}."

    def _value_at(self, row: Row, column: str) -> str:
        words, predicted = _in_digits(row[column]), self.predicted_column
        if predicted and is_known(row[predicted]):
            words += f" (predicted {_in_digits(row[predicted])})"
        return f"{words} at {self._place(row)}"

    def table_of(self, rows: DataFrame) -> DataFrame:
        """Place, series, measured and predicted value of each point, or of some moments."""
        x, unit, predicted = self.across, self.up.unit, self.predicted_column
        heads = {}
        if self.moments:
            lines = [line.rows for line in self.series(rows)[:MOST_LINES]]
            some = [line.iloc[:: max(1, len(line) // self.moments)] for line in lines]
            rows = pandas.concat(some, ignore_index=True)
        elif "condition" in rows:
            heads["condition"] = "condition"
        heads[x.column] = f"{x.words}, {x.unit}".removesuffix(", ")
        if self.by:
            heads.setdefault(self.by, self.by)
        values = {self.up.column: "measured" if predicted else self.up.words}
        if predicted:
            values[predicted] = "predicted"
        heads |= {name: f"{words}, {unit}".removesuffix(", ") for name, words in values.items()}
        return rows[list(heads)].rename(columns=heads)


class Differences(Lines):
    """How far predictions are from the measured values of the column `y`, in % of these."""

    @cached_property
    def up(self) -> Axis:
        return Axis(self.axis(self.y).column, "difference", "%")


def _in_digits(value: float) -> str:
    """Whole numbers whole, such as bytes and packets; others in three digits."""
    return f"{value:,.0f}" if float(value).is_integer() else in_three_digits(value)
