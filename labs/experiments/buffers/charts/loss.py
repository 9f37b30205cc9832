"""Loss and congestion control: the median of several draws, and their range."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING

from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import LOSS
from labs.read.display.format import in_three_digits
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREY,
    LEGEND_ABOVE,
    NO_RUNS,
    ORANGE,
    PURPLE,
    VERMILION,
    dressed,
    log_ticks,
    log_title,
    nothing,
)
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.mathis import FOLLOWS_MATHIS, mathis_bytes_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import Series

TITLE = "Loss and congestion control"
COLOURS = {"reno": PURPLE, "cubic": BLUE, "bbr": VERMILION}
HEAD_PX, ROW_PX, GAP_PX, FRAME_PX = 24, 30, 14, 190
MODEL_PX = 11
"""How far the model's interval is below the measured draws."""
NEAR, FAST = 0.5, 0.2
"""Shares of the line rate above which a median, or a prediction, has its figure at the left."""


@dataclass(frozen=True)
class _Draws:
    """The goodput of one congestion control at one loss, in MiB/s: one value per seed. `model` is
    the median of the model's draws with the ends of its interval."""

    place: float
    control: str
    loss_pct: float
    speeds: Series[float]
    lost_pct: Series[float]
    mathis: float | None
    model: tuple[float, float, float] | None

    @property
    def median(self) -> float:
        return float(self.speeds.median())


def loss(table: DataFrame) -> Figure:
    """Goodput of each congestion control at each loss: median and range on a logarithmic axis.

    `table` is `study.results()`. Every draw (a run with a seed of its own) is a faint dot. Where
    the formula of Mathis applies, and is below the line rate, its value is a dashed line. Below the
    draws, in black: the median and the interval of the simulation.
    """
    if table.empty:
        return nothing(TITLE, NO_RUNS)
    rows = table[(table["group"] == LOSS.name) & table["goodput_mib_s"].notna()]
    if rows.empty:
        return nothing(
            TITLE, "none of these runs belongs to the loss series; it is part of SIZE “full”"
        )
    line = line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB
    figure = Figure()
    groups, height = _groups(figure, rows, line)
    for control in dict.fromkeys(one.control for one in groups):
        _draw(figure, [one for one in groups if one.control == control], line)
    _models(figure, groups)
    _mathis(figure, groups, line)
    _line_rate(figure, line, height)
    _lay_out(figure, rows, groups, line, height)
    most = max(len(one.speeds) for one in groups)
    return dressed(
        figure,
        title=f"{TITLE}: median and range of {most} draws",
        caption=of_table(rows),
        height=FRAME_PX + round(height),
        tell=_tell(groups),
        table=_as_table(groups),
        steps={"y": _steps(groups, height)},
    )


def _steps(groups: Sequence[_Draws], height: float) -> list[tuple[float, str]]:
    """A step for each loss, up to the heading of the next one."""
    ends = {group.loss_pct: group.place + ROW_PX / 2 for group in groups}
    words = [f"{asked:g} % loss" if asked else "no loss" for asked in ends]
    return [*zip([*list(ends.values())[:-1], height], words, strict=True)]


def _groups(figure: Figure, rows: DataFrame, line: float) -> tuple[list[_Draws], float]:
    """The draws with their places from top to bottom, one heading per loss; and the height."""
    found, top = [], 0.0
    names = set(rows["congestion_control"])
    controls = [name for name in COLOURS if name in names] + sorted(names - set(COLOURS))
    for asked in sorted(rows["loss_pct"].astype(float).unique().tolist()):
        of_loss = rows[rows["loss_pct"] == asked]
        figure.add_annotation(
            x=0,
            xref="paper",
            y=top,
            text=_heading(of_loss, asked),
            showarrow=False,
            xanchor="left",
            yanchor="top",
        )
        top += HEAD_PX
        for control in controls:
            own = of_loss[of_loss["congestion_control"] == control]
            if own.empty:
                continue
            mathis = (
                mathis_bytes_s(asked, float(own["rtt_ms"].median())) / MIB
                if asked > 0 and control in FOLLOWS_MATHIS
                else None
            )
            found.append(
                _Draws(
                    top + ROW_PX / 2,
                    control,
                    asked,
                    own["goodput_mib_s"].astype(float),
                    own["lost_pct"].astype(float),
                    None if mathis is None or mathis > line else mathis,
                    _model(own),
                )
            )
            top += ROW_PX
        top += GAP_PX
    return found, top


def _model(rows: DataFrame) -> tuple[float, float, float] | None:
    """What the model predicts for these draws: median, lowest and highest; None if nothing."""
    known = rows[rows["predicted_mean_mib_s"].notna()]
    if known.empty:
        return None
    median, low, high = (
        float(known[name].astype(float).fillna(known["predicted_mean_mib_s"]).median())
        for name in (
            "predicted_mean_mib_s",
            "predicted_mean_low_mib_s",
            "predicted_mean_high_mib_s",
        )
    )
    return median, low, high


def _heading(rows: DataFrame, asked: float) -> str:
    """A requested loss, and the loss that was counted."""
    if not asked:
        return "<b>no loss</b>"
    lost = rows["lost_pct"].astype(float)
    return f"<b>{asked:g} % loss</b> (dropped: {lost.min():.2g} to {lost.max():.2g} %)"


def _draw(figure: Figure, groups: Sequence[_Draws], line: float) -> None:
    """Every draw as a dot, and the median with its range."""
    control = groups[0].control
    colour = COLOURS.get(control, ORANGE)
    figure.add_trace(
        Scatter(
            x=[speed for one in groups for speed in one.speeds],
            y=[one.place for one in groups for _ in one.speeds],
            mode="markers",
            showlegend=False,
            marker={"color": colour, "size": 6, "opacity": 0.35},
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        Scatter(
            x=[one.median for one in groups],
            y=[one.place for one in groups],
            mode="markers",
            name=control,
            marker={"color": colour, "size": 11, "symbol": "diamond"},
            error_x={
                "type": "data",
                "symmetric": False,
                "thickness": 2,
                "width": 7,
                "array": [float(one.speeds.max()) - one.median for one in groups],
                "arrayminus": [one.median - float(one.speeds.min()) for one in groups],
            },
            customdata=[[float(one.speeds.min()), float(one.speeds.max())] for one in groups],
            hovertemplate=f"{control}: %{{x:.3g}} MiB/s (%{{customdata[0]:.3g}} to "
            "%{customdata[1]:.3g})<extra></extra>",
        )
    )
    for one in groups:
        left = one.median > NEAR * line
        figure.add_annotation(
            x=log10(float(one.speeds.min() if left else one.speeds.max())),
            y=one.place,
            text=f"<b>{in_three_digits(one.median)}</b>",
            showarrow=False,
            xanchor="right" if left else "left",
            xshift=-10 if left else 10,
        )


def _models(figure: Figure, groups: Sequence[_Draws]) -> None:
    """The model's median and interval, just below the measured draws."""
    known = [(one.place, one.model) for one in groups if one.model is not None]
    if not known:
        return
    medians, lows, highs = zip(*(model for _, model in known), strict=True)
    figure.add_trace(
        Scatter(
            x=medians,
            y=[place + MODEL_PX for place, _ in known],
            mode="markers",
            name="predicted (simulation): median and 95 % of the draws",
            marker={"color": BLACK, "size": 9, "symbol": "line-ns", "line": {"width": 2}},
            error_x={
                "type": "data",
                "symmetric": False,
                "color": BLACK,
                "thickness": 1.2,
                "width": 4,
                "array": [high - median for median, high in zip(medians, highs, strict=True)],
                "arrayminus": [median - low for median, low in zip(medians, lows, strict=True)],
            },
            customdata=list(zip(lows, highs, strict=True)),
            hovertemplate="simulation: %{x:.3g} MiB/s (%{customdata[0]:.3g} to "
            "%{customdata[1]:.3g})<extra></extra>",
        )
    )


def _mathis(figure: Figure, groups: Sequence[_Draws], line: float) -> None:
    """A dashed line per loss over the congestion controls that the formula describes."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for asked in dict.fromkeys(one.loss_pct for one in groups if one.mathis is not None):
        own = [one for one in groups if one.loss_pct == asked and one.mathis is not None]
        value, bottom = own[0].mathis or 0.0, own[-1].place + ROW_PX / 2
        xs += [value, value, None]
        ys += [own[0].place - ROW_PX / 2, bottom, None]
        figure.add_annotation(
            x=log10(value),
            y=bottom,
            text=f"Mathis: {in_three_digits(value)}",
            showarrow=False,
            # The figure of a fast congestion control below may begin at the right.
            xanchor="right" if value > FAST * line else "center",
            yanchor="top",
            font={"size": 12},
        )
    if xs:
        figure.add_trace(
            Scatter(
                x=xs,
                y=ys,
                mode="lines",
                name="predicted (Mathis)",
                line={"color": BLACK, "dash": "dash", "width": 2},
                hovertemplate="Mathis: %{x:.3g} MiB/s<extra></extra>",
            )
        )


def _line_rate(figure: Figure, line: float, height: float) -> None:
    figure.add_trace(
        Scatter(
            x=[line, line],
            y=[0, height],
            mode="lines",
            name=f"line rate, {in_three_digits(line)} MiB/s",
            line={"color": GREY, "dash": "dot", "width": 1.5},
            hoverinfo="skip",
        )
    )


def _lay_out(
    figure: Figure, rows: DataFrame, groups: Sequence[_Draws], line: float, height: float
) -> None:
    speeds = rows["goodput_mib_s"].astype(float)
    predicted = [one.mathis for one in groups if one.mathis is not None]
    low = min([line, float(speeds.min()), *predicted])
    reach = low / 2, 1.5 * max(line, float(speeds.max()))
    ticks = log_ticks(*reach)
    figure.update_xaxes(
        type="log",
        title=log_title("goodput, MiB/s"),
        range=[log10(end) for end in reach],
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    figure.update_yaxes(
        tickvals=[one.place for one in groups],
        ticktext=[one.control for one in groups],
        range=[height, -4],
        showgrid=False,
    )
    figure.update_layout(legend=LEGEND_ABOVE)


def _tell(groups: Sequence[_Draws]) -> str:
    """The text alternative: the median of each congestion control at each loss."""
    said = []
    for asked in dict.fromkeys(one.loss_pct for one in groups):
        own = [one for one in groups if one.loss_pct == asked]
        medians = ", ".join(f"{one.control} {in_three_digits(one.median)}" for one in own)
        mathis = next((one.mathis for one in own if one.mathis is not None), None)
        predicted = f" (Mathis predicts {in_three_digits(mathis)})" if mathis else ""
        said.append(f"{f'{asked:g} % loss' if asked else 'no loss'}: {medians}{predicted}")
    return f"Median goodput in MiB/s. {'; '.join(said)}."


def _as_table(groups: Sequence[_Draws]) -> DataFrame:
    return DataFrame(
        {
            "loss_pct": one.loss_pct,
            "congestion control": one.control,
            "draws": len(one.speeds),
            "median, MiB/s": one.median,
            "lowest, MiB/s": float(one.speeds.min()),
            "highest, MiB/s": float(one.speeds.max()),
            "predicted (Mathis), MiB/s": one.mathis,
            "predicted (simulation), MiB/s": one.model and one.model[0],
            "lowest simulated, MiB/s": one.model and one.model[1],
            "highest simulated, MiB/s": one.model and one.model[2],
            "dropped_pct": float(one.lost_pct.mean()),
        }
        for one in groups
    )
