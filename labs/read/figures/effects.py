"""The effects of settings: the ratio of each condition to the one without its setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

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
        row="pair",
        row_name=lambda rows: _name(rows, "" if len(by_place) > 1 else rows[0]["value"]),
        by="series",
        looks=looks,
        hollow=lambda row: not row["effect"].effective,
        marks=(Mark(1.0, colour=BLACK, dash="solid", width=1),),
        says=lambda row: f"{row['pair']}: {row['text']}",
        mark_px=9,
        caption=lambda rows: of_table(results[results["condition"].isin(_conditions(rows))]),
        note=lambda rows: _legend(rows, beside),
        describe=lambda rows: f"{what.capitalize()}. {_describe(rows)}.",
        table=_table,
    )(DataFrame(_rows(by_place, columns)))


def _rows(
    by_place: Mapping[str, Sequence[Effect]], columns: Mapping[str, str]
) -> Iterator[dict[str, object]]:
    """A row per effect and series."""
    several = len(by_place) > 1
    names = [*columns.items()][: 1 if several else None]
    for place, effects in by_place.items():
        for effect, (column, name) in product(effects, names):
            ratio = effect.ratios[column]
            value = f"{ratio.middle:#.3g}" if ratio else TOO_FEW
            yield {
                "pair": f"{effect.condition} / {effect.against}",
                "series": f"{place}, {name}" if several else name,
                "effect": effect,
                "ratio": ratio and ratio.middle,
                "low": ratio and ratio.low,
                "high": ratio and ratio.high,
                "text": describe_ratio(ratio) if ratio else "",
                "value": value if effect.effective else NOT_APPLIED,
                "beside": effect.beside if effect.effective else "",
            }


def _name(rows: Sequence[Mapping[Any, Any]], value: str) -> str:
    """The name of a row, with the first ratio of a single study, and the star."""
    effect = rows[0]["effect"]
    text = f": <b>{value}</b>" if value else ""
    star = f" {MARKED}" if any(row["beside"] for row in rows) else ""
    return f"<b>{effect.condition}</b> / {effect.against}{text}{star}"


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _legend(rows: DataFrame, beside: str) -> str:
    reasons = _distinct(rows["beside"])
    return f"{LEGEND} · {MARKED} {beside} ({reasons})" if reasons else LEGEND


def _conditions(rows: DataFrame) -> set[str]:
    return {name for effect in rows["effect"] for name in (effect.condition, effect.against)}


def _describe(rows: DataFrame) -> str:
    phrases = (rows["series"] + " " + rows["value"]).groupby(rows["pair"], sort=False)
    return "; ".join(f"{pair}: {text}" for pair, text in phrases.agg(", ".join).items())


def _table(rows: DataFrame) -> DataFrame:
    """One row per effect: each ratio with its interval, why a setting was not applied, and what
    else differs."""
    table = []
    for _, of_pair in rows.groupby("pair", sort=False):
        effects: list[Effect] = [*of_pair["effect"]]
        table.append(
            {
                "condition": effects[0].condition,
                "compared with": effects[0].against,
                **dict.fromkeys(rows["series"], ""),
                **dict(zip(of_pair["series"], of_pair["text"], strict=True)),
                "not applied, because": _distinct(e.because for e in effects if not e.effective),
                "also differs": _distinct(of_pair["beside"]),
            }
        )
    return DataFrame(table)
