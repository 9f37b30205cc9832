"""A table of many points, with its chart and its heat map: what a grid and a batch share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from labs.drive.parameters.declare import Scalar, unknown
from labs.errors import BadInput
from labs.read.display.rich_output import Summary

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

MANY = 9
"""Two parameters with at least this many values are drawn as a heat map."""


class Drawn(Protocol):
    """A column of the results, such as a `labs.drive.result_columns.Column`."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def predicted_by(self) -> str | None: ...


class Points(Summary):
    """A table with one row per point and condition, over varied parameters."""

    @property
    def axes(self) -> Mapping[str, Sequence[Scalar]]:
        """The values of each varied parameter."""
        raise NotImplementedError

    @property
    def units(self) -> Mapping[str, str]:
        """The units of the columns that have one."""
        raise NotImplementedError

    def drawn(self, column: str | None, fixed: Mapping[str, object]) -> tuple[DataFrame, Drawn]:
        """The rows to draw, with the values in `fixed`, and the column with this name, or the
        headline figure. BadInput for another name or value."""
        raise NotImplementedError

    def caption(self, table: DataFrame) -> str:
        """Where these rows come from."""
        raise NotImplementedError

    def note(self, table: DataFrame) -> str:
        """What the caption of a chart says in addition."""
        return ""

    def chart(
        self,
        column: str | None = None,
        x: str | None = None,
        columns: str | None = None,
        rows: str | None = None,
        **fixed: object,
    ) -> Figure:
        """Measured and predicted values of a column (default: the headline figure of the lab) over
        the varied parameters.

        `x`, `columns` and `rows` name the parameters of the x axis, of the panels from left to
        right, and of the panels from top to bottom; `x="condition"` draws bars by condition.
        Further keywords select what is drawn: `condition="default"`, `delay_ms=[10, 50]`. Without
        any choice, parameters that do not fit are fixed at their first values; if two parameters
        have at least nine values each and nothing else varies, the chart is a heat map.
        """
        # Only for this figure: every notebook loads this module.
        from labs.read.figures.parameter_layout import is_many  # noqa: PLC0415
        from labs.read.figures.small_multiples import small_multiples  # noqa: PLC0415

        table, result = self.drawn(column, fixed)
        over = [name for name in self.axes if name not in fixed or is_many(fixed[name])]
        if x is columns is rows is None and (pair := _pair_of_many(table, over)):
            return self._heatmap(table, result, *pair)
        return small_multiples(
            table,
            result.name,
            over=over,
            unit=result.unit,
            predicted=result.predicted_by,
            x=x,
            columns=columns,
            rows=rows,
            units=self.units,
            caption=self.caption,
            note=self.note(table),
            fit=not any(map(is_many, fixed.values())),
        )

    def heatmap(
        self, column: str | None = None, x: str = "", y: str = "", **fixed: object
    ) -> Figure:
        """A heat map of a column over two parameters. Keywords fix what else varies, as in
        `condition="default"`. Without `x` and `y`, the two axes with the most values are drawn."""
        longest = sorted(self.axes, key=lambda name: -len(self.axes[name]))
        left = [name for name in longest if name not in (x, y, *fixed)]
        names = [name or (left.pop(0) if left else "") for name in (x, y)]
        for name in names:
            if name not in self.axes:
                raise BadInput(unknown(name or "nothing", self.axes, "varied parameter"))
        return self._heatmap(*self.drawn(column, fixed), *names)

    def _heatmap(self, table: DataFrame, result: Drawn, x: str, y: str) -> Figure:
        from labs.read.figures.small_multiples import heatmap  # noqa: PLC0415

        caption, units = self.caption(table), self.units
        return heatmap(table, result.name, x, y, unit=result.unit, units=units, caption=caption)


def _pair_of_many(table: DataFrame, over: Sequence[str]) -> tuple[Any, ...]:
    """The two numeric parameters with MANY values, if nothing else varies."""
    from labs.read.figures.parameter_layout import together  # noqa: PLC0415

    numeric = [name for name in together(table, over) if table[name].dtype.kind in "if"]
    many = [name for name in numeric if table[name].nunique() >= MANY]
    return tuple(many) if len(many) == 2 and not table.duplicated(many).any() else ()
