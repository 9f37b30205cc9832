"""The effects of settings: the ratio of each condition to the one without its setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

from labs.read.display.format import is_known
from labs.read.display.provenance import of_table
from labs.read.figures.axes import DIGITS, Axis
from labs.read.figures.intervals import Intervals
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, ORANGE
from labs.read.stats.effects import NOT_APPLIED, TOO_FEW, Effect, describe_ratio

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MARKED = "*"
LEGEND = "bars: 95 % bootstrap intervals of the ratio · hollow: the setting was not applied here"
Record = Mapping[Any, Any]


def draw_effects(
    title: str,
    by_place: Mapping[str, Sequence[Effect]],
    columns: Mapping[str, str],
    results: DataFrame,
    *,
    what: str,
    beside: str = "",
) -> Figure:
    """The ratio of each of these `columns`, which have names, for each effect of one study; of
    several studies, by place, the first column alone. `what` names the axis.

    Hollow marks: the setting was not applied on this machine. A star: the two conditions also
    differ in what `beside` says. `results` are those of all studies, for the caption.
    """
    looks = dict(zip(columns.values(), (Look(BLUE), Look(ORANGE, symbol="diamond")), strict=False))
    return Intervals(
        title,
        x=Axis("ratio", what, unit="", log=True, ticks=DIGITS),
        spread=("low", "high"),
        row="pair",
        row_name=lambda records: _name(records, ratio=len(by_place) == 1),
        by="series",
        looks=looks,
        hollow=lambda row: not row["effect"].effective,
        marks=(Mark(1.0, colour=BLACK, dash="solid", width=1),),
        says=lambda row: f"{row['pair']}: {row['text']}",
        mark_px=9,
        gap_px=2,
        caption=lambda rows: of_table(results[results["condition"].isin(_conditions(rows))]),
        note=lambda rows: _legend(rows, beside),
        describe=lambda rows: f"{what.capitalize()}. {_describe(rows)}.",
        table=_table,
    )(DataFrame(_rows(by_place, columns)))


def _rows(
    by_place: Mapping[str, Sequence[Effect]], columns: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """A row per effect and series."""
    several = len(by_place) > 1
    for place, effects in by_place.items():
        for effect in effects:
            for column, name in [*columns.items()][: 1 if several else None]:
                ratio = effect.ratios[column]
                yield {
                    "pair": f"{effect.condition} / {effect.against}",
                    "series": f"{place}, {name}" if several else name,
                    "effect": effect,
                    "ratio": ratio and ratio.middle,
                    "low": ratio and ratio.low,
                    "high": ratio and ratio.high,
                    "text": describe_ratio(ratio) if ratio else "",
                }


def _name(records: Sequence[Record], *, ratio: bool) -> str:
    """The name of a row, with the first ratio of a single study, and the star."""
    effect = records[0]["effect"]
    text = f": <b>{_value(records[0])}</b>" if ratio else ""
    star = f" {MARKED}" if _besides(row["effect"] for row in records) else ""
    return f"<b>{effect.condition}</b> / {effect.against}{text}{star}"


def _value(row: Record) -> str:
    if not row["effect"].effective:
        return NOT_APPLIED
    return f"{row['ratio']:#.3g}" if is_known(row["ratio"]) else TOO_FEW


def _besides(effects: Iterable[Effect]) -> list[str]:
    """Why the conditions of these effects differ in something else."""
    return [*dict.fromkeys(e.beside for e in effects if e.effective and e.beside)]


def _legend(rows: DataFrame, beside: str) -> str:
    reasons = _besides(rows["effect"])
    return f"{LEGEND} · {MARKED} {beside} ({'; '.join(reasons)})" if reasons else LEGEND


def _conditions(rows: DataFrame) -> set[str]:
    return {name for effect in rows["effect"] for name in (effect.condition, effect.against)}


def _describe(rows: DataFrame) -> str:
    return "; ".join(
        f"{pair}: " + ", ".join(f"{r['series']} {_value(r)}" for r in some.to_dict("records"))
        for pair, some in rows.groupby("pair", sort=False)
    )


def _table(rows: DataFrame) -> DataFrame:
    """One row per effect: each ratio with its interval, why a setting was not applied, and what
    else differs."""
    table = []
    for _, some in rows.groupby("pair", sort=False):
        effects: list[Effect] = [*some["effect"]]
        ignored = dict.fromkeys(effect.because for effect in effects if not effect.effective)
        table.append(
            {
                "condition": effects[0].condition,
                "compared with": effects[0].against,
                **dict.fromkeys(rows["series"], ""),
                **dict(zip(some["series"], some["text"], strict=True)),
                "not applied, because": "; ".join(ignored),
                "also differs": "; ".join(_besides(effects)),
            }
        )
    return DataFrame(table)
