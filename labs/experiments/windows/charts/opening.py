"""Charts of how the receive window opens, round trip by round trip."""

from __future__ import annotations

from collections.abc import Mapping

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure, Scatter

from labs.experiments.windows.packets import round_trips, syn_ack
from labs.read.display.format import size_in_words
from labs.read.display.provenance import of_table
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    NO_RUNS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    dressed,
    nothing,
)
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.windows import series

TITLE = "The window by round trip"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
DASHES = ("solid", "dash", "dot", "dashdot")
TABLE_COLUMNS = {
    "run": "run",
    "round_trip": "round trip",
    "packets": "packets",
    "payload_bytes": "payload accepted, bytes",
    "window_bytes": "largest window, bytes",
}
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star")


def opening(study: Study, *conditions: str) -> Figure:
    """The largest window that the receiver offered in each round trip, for these conditions."""
    names = [name for name in conditions or study.conditions if name in study.conditions]
    rows = study.results()
    runs = {name: study.run(name) for name in names}
    return _opening(TITLE, runs, rows[rows["condition"].isin(names)])


def opening_by_kernel(condition: str, *studies: Study) -> Figure:
    """The same for one condition on the kernel of each study."""
    with_it = sorted(
        (one for one in studies if condition in one.conditions),
        key=lambda one: series(one.runs[0].kernel.release),
    )
    if not with_it:
        return nothing(TITLE, NO_RUNS)
    rows = pandas.concat([one.results() for one in with_it])
    runs = [one.run(condition) for one in with_it]
    cells = {f"Linux {run.kernel.release}": run for run in runs}
    return _opening(f"{TITLE}: {condition}", cells, rows[rows["condition"] == condition])


def _opening(title: str, runs: Mapping[str, Run], rows: DataFrame) -> Figure:
    """A line per run; a point per round trip in which a packet arrived."""
    tables = {name: _from_handshake(run) for name, run in runs.items()}
    if not tables:
        return nothing(title, NO_RUNS)
    figure = Figure(
        [
            Scatter(
                x=table["round_trip"].tolist(),
                y=table["window_bytes"].tolist(),
                mode="lines+markers",
                name=name,
                line={
                    "color": COLOURS[place % len(COLOURS)],
                    "width": 2,
                    "dash": DASHES[place % len(DASHES)],
                },
                marker={
                    "size": 8,
                    "color": COLOURS[place % len(COLOURS)],
                    "symbol": SYMBOLS[place % len(SYMBOLS)],
                },
                customdata=table["payload_bytes"].tolist(),
                hovertemplate="%{y:,} bytes in round trip %{x}; %{customdata:,} bytes arrived"
                "<extra>" + name + "</extra>",
            )
            for place, (name, table) in enumerate(tables.items())
        ]
    )
    figure.update_xaxes(title="round trip (0: the handshake)", dtick=1)
    figure.update_yaxes(title="largest window offered, bytes", rangemode="tozero", tickformat=",")
    whole = pandas.concat([table.assign(run=name) for name, table in tables.items()])
    return dressed(
        figure,
        title=title,
        caption=of_table(rows),
        height=460,
        tell=_tell(tables),
        table=whole[list(TABLE_COLUMNS)].rename(columns=TABLE_COLUMNS),
    ).update_layout(showlegend=True)


def _from_handshake(run: Run) -> DataFrame:
    """The round trips of a run, after a row for the SYN-ACK, which is round trip 0."""
    offered = {"round_trip": 0, "packets": 0, "payload_bytes": 0}
    offered["window_bytes"] = syn_ack(run).window_bytes
    return pandas.concat([pandas.DataFrame([offered]), round_trips(run)], ignore_index=True)


def _tell(tables: Mapping[str, DataFrame]) -> str:
    """The text alternative: where each line begins, and its highest point."""
    said = [
        f"{name}: from {size_in_words(table['window_bytes'].iloc[0])} to at most "
        f"{size_in_words(table['window_bytes'].max())}, in {len(table) - 1} round trips"
        for name, table in tables.items()
    ]
    return f"Largest window offered in each round trip. {'; '.join(said)}."
