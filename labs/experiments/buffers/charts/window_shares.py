"""tcp_adv_win_scale: one receive buffer, and the share of it that becomes window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas

from labs.drive.units import MIB
from labs.experiments.buffers.conditions import SHARE
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.bar_rows import LEFT_PX, BarSeries, Measured, Row, bars, beside
from labs.read.figures.style import BLUE, GREEN, GREY, NO_RUNS, ORANGE, SKY, dressed, nothing
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.windows import RATIO_SINCE, series

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

TITLE = "Window share set by tcp_adv_win_scale"
COLOURS = (BLUE, SKY, ORANGE, GREEN)
COLUMNS = ("adv_win_scale", "kernel", "steady_mib_s", "predicted_mib_s")


def adv_win_scale(table: DataFrame) -> Figure:
    """Steady goodput for each value of the setting, with a bar per kernel.

    `table` is `study.results()`, or those of several kernels one below the other. Each value has
    the share of the buffer that the setting makes window up to Linux 6.5; later kernels ignore it.
    """
    if table.empty:
        return nothing(TITLE, NO_RUNS)
    rows = table[(table["group"] == SHARE.name) & table["steady_mib_s"].notna()]
    if rows.empty:
        return nothing(TITLE, "none of these runs sets tcp_adv_win_scale")
    kernels = sorted(rows["kernel"].astype(str).unique(), key=series)
    kinds = {
        kernel: BarSeries(_kernel_in_words(kernel), COLOURS[place % len(COLOURS)])
        for place, kernel in enumerate(kernels)
    }
    scales = sorted(rows["adv_win_scale"].astype(int).unique().tolist())
    shown = [
        Row(
            f"{scale}: {promised(scale)}",
            tuple(
                _bar(row, kinds[str(row["kernel"])])
                for kernel in kernels
                for row in rows[
                    (rows["adv_win_scale"] == scale) & (rows["kernel"] == kernel)
                ].to_dict("records")
            ),
        )
        for scale in scales
    ]
    figure = bars(shown, title="steady goodput, MiB/s", unit="MiB/s")
    _line_rate(figure, line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB)
    size = size_in_words(float(rows["buffer_bytes"].max()))
    return dressed(
        figure,
        title=f"{TITLE}, receive buffer {size}",
        caption=of_table(rows),
        height=int(figure.layout.height),
        tell=_tell(rows, size),
        table=rows[list(COLUMNS)].sort_values(["adv_win_scale", "kernel"]),
    ).update_layout(margin_l=LEFT_PX)


def promised(scale: int) -> str:
    """The share of a buffer that the setting makes window.

    Source: include/net/tcp.h tcp_win_from_space(), up to Linux 6.5.
    """
    if scale == 0:
        return "all of the buffer"
    return f"1/{2**-scale} of it" if scale < 0 else f"{2**scale - 1}/{2**scale} of it"


def _kernel_in_words(kernel: str) -> str:
    return f"Linux {kernel}" + (" (ignores it)" if series(kernel) >= RATIO_SINCE else "")


def _bar(row: dict[Any, Any], kind: BarSeries) -> Measured:
    predicted = None if pandas.isna(row["predicted_mib_s"]) else float(row["predicted_mib_s"])
    value = float(row["steady_mib_s"])
    said = "" if predicted is None else in_three_digits(predicted)
    return Measured(kind, value, f"<b>{in_three_digits(value)}</b>{beside(said, '')}", predicted)


def _line_rate(figure: Figure, line: float) -> None:
    low, high = figure.layout.xaxis.range
    figure.update_xaxes(range=[low, max(high, 1.02 * line)])
    figure.add_vline(x=line, line={"color": GREY, "dash": "dot", "width": 1.5})
    figure.add_annotation(
        x=line,
        y=1,
        yref="paper",
        text=f"line rate {in_three_digits(line)}",
        showarrow=False,
        xanchor="right",
        yanchor="top",
        xshift=-4,
        font={"size": 12, "color": GREY},
    )


def _tell(rows: DataFrame, size: str) -> str:
    """The text alternative: the goodput of each kernel with each value."""
    said = []
    for kernel, own in rows.groupby("kernel", sort=False):
        values = ", ".join(
            f"{in_three_digits(row['steady_mib_s'])} with {row['adv_win_scale']}"
            for row in own.sort_values("adv_win_scale").to_dict("records")
        )
        said.append(f"{_kernel_in_words(str(kernel))}: {values}")
    return f"Steady goodput in MiB/s with a receive buffer of {size}. {'; '.join(said)}."
