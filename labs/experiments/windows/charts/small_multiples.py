"""Charts of a receive buffer side by side: over kernels, and over tcp_adv_win_scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure
from plotly.subplots import make_subplots

from labs.experiments.windows.charts.packet_lines import (
    BUFFER,
    BY_PACKET,
    IN_USE,
    QUEUED,
    SSTHRESH,
    WINDOW,
    ending,
    known,
    line,
    marks,
    top,
)
from labs.experiments.windows.packets import DEFAULT_SCALE, packets
from labs.experiments.windows.settings import Settings
from labs.read.display.provenance import of_table
from labs.read.figures.style import NO_RUNS, dressed, nothing
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.windows import series

LINES = (BUFFER, IN_USE, QUEUED, SSTHRESH, WINDOW)
ACROSS, CELL_PX, FRAME_PX = 2, 240, 150
THINNER = 0.75
BELOW_AXIS = -0.07
"""The position of the marks below the axis, as a share of the largest size; more than in a large
chart, because the cells are low."""


def over_kernels(condition: str, *studies: Study) -> Figure:
    """One condition on the kernel of each study, from the oldest to the newest."""
    with_it = sorted((one for one in studies if condition in one.conditions), key=_series)
    runs = [one.run(condition) for one in with_it]
    cells = {f"Linux {run.kernel.release}": run for run in runs}
    return _multiples(f"Condition {condition} by kernel", cells, _rows(with_it, (condition,)))


def over_scales(study: Study, *conditions: str) -> Figure:
    """These conditions of a study in the order of their tcp_adv_win_scale."""
    runs = sorted(
        (study.run(name) for name in conditions if name in study.conditions), key=scale_of
    )
    cells = {f"tcp_adv_win_scale = {scale_of(run)}": run for run in runs}
    return _multiples("The receive buffer by tcp_adv_win_scale", cells, _rows([study], conditions))


def _series(study: Study) -> tuple[int, int]:
    return series(study.runs[0].kernel.release)


def scale_of(run: Run) -> int:
    """The tcp_adv_win_scale of a run; the kernel's default if the condition does not set it."""
    scale = run.settings_as(Settings).adv_win_scale
    return DEFAULT_SCALE if scale is None else scale


def _rows(studies: list[Study], conditions: tuple[str, ...]) -> DataFrame:
    """The results of these conditions, for the caption."""
    tables = [one.results() for one in studies]
    if not tables:
        return pandas.DataFrame()
    rows = pandas.concat(tables)
    return rows[rows["condition"].isin(conditions)]


def _multiples(title: str, runs: Mapping[str, Run], rows: DataFrame) -> Figure:
    """A small chart per run, by name, in two columns with common axes."""
    tables = {name: packets(run) for name, run in runs.items()}
    tables = {name: table for name, table in tables.items() if not table.empty}
    if not tables:
        return nothing(title, NO_RUNS)
    down = -(-len(tables) // ACROSS)
    figure = make_subplots(
        rows=down,
        cols=ACROSS,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.05,
        vertical_spacing=0.34 / down,
    )
    highest = max(top(table, LINES) for table in tables.values())
    seen: set[str] = set()
    for place, (name, table) in enumerate(tables.items()):
        _cell(
            figure,
            divmod(place, ACROSS),
            f"<b>{name}</b><br>{ending(table).replace(', ', '<br>')}",
            table,
            highest,
            seen,
        )
    figure.update_yaxes(range=[2 * BELOW_AXIS * highest, highest], tickformat=",")
    figure.update_xaxes(showticklabels=True)
    figure.update_xaxes(title=BY_PACKET.title, row=down)
    figure.update_yaxes(title="bytes", col=1)
    return dressed(
        figure,
        title=title,
        caption=of_table(rows),
        height=FRAME_PX + CELL_PX * down,
        tell=f"{title}. Memory in use at the end, of the buffer: "
        + "; ".join(f"{name}: {ending(one)}" for name, one in tables.items()),
        table=_endings(tables),
    ).update_layout(margin_t=130, legend_tracegroupgap=0)


def _cell(
    figure: Figure,
    place: tuple[int, int],
    heading: str,
    table: DataFrame,
    highest: float,
    seen: set[str],
) -> None:
    """The lines and marks of one run; each name appears in the legend once."""
    where = {"row": place[0] + 1, "col": place[1] + 1}
    lines = [replace(one, width=THINNER * one.width) for one in known(table, LINES)]
    for trace in [*(line(table, one) for one in lines), *marks(table, lowest=BELOW_AXIS * highest)]:
        figure.add_trace(trace.update(showlegend=trace.name not in seen), **where)
        seen.add(trace.name)
    figure.add_annotation(
        x=0,
        y=1,
        xref="x domain",
        yref="y domain",
        xanchor="left",
        yanchor="bottom",
        yshift=2,
        text=heading,
        align="left",
        showarrow=False,
        font={"size": 11},
        **where,
    )


def _endings(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The last packet of each run."""
    return pandas.DataFrame(
        [
            {
                "run": name,
                "packets": len(table),
                **{f"{one.name}, bytes": table[one.column].iloc[-1] for one in LINES},
                "dropped": int((table["dropped"] > 0).sum()),
            }
            for name, table in tables.items()
        ]
    )
