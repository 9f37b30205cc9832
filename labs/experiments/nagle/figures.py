"""What a notebook shows of the lab `nagle`: figures, tables and sentences.

Tables and sentences about requests in any capture are in `labs.read.display.requests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.drive.testbeds import OF_RUNS, VIRTUAL
from labs.experiments.nagle.conditions import Parameters
from labs.experiments.nagle.results import CLAIMS, Results, article
from labs.experiments.nagle.settings import NGINX_HEAD_BYTES, Settings
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import Printed, as_printed, beside_wireshark, last_match, results_of
from labs.read.display.format import in_digits, is_known, milliseconds
from labs.read.display.provenance import of_table
from labs.read.display.requests import describe_requests, sequences, waits
from labs.read.display.rich_output import Table
from labs.read.display.summary import Summary
from labs.read.figures.axes import Axis
from labs.read.figures.bars import Bar, Bars
from labs.read.figures.ecdf import MIDDLE, SHARE, even_step, in_steps, latency, time_to_ack
from labs.read.figures.ladder import ladder_of_request
from labs.read.figures.lines import BARS, Lines
from labs.read.figures.marks import Mark
from labs.read.figures.panels import Multiples
from labs.read.figures.style import BLUE, SKY, VERMILION, nothing, plain
from labs.read.flows.exchanges import describe_steps
from labs.read.flows.rtt import time_to_ack as waits_for_ack
from labs.read.readings.latency import SMALLEST_MS
from labs.read.readings.responses import (
    own_requests,
    own_table,
    packets_of,
    requests_of,
    table_of,
    typical,
    usual,
)
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.nagle import answer, sent, wait

__all__ = ["NGINX_HEAD_BYTES", "answer", "beside_wireshark", "describe_requests"]
__all__ += ["ladder_of_request", "own_requests", "own_table", "packets_of", "requests_of", "sent"]
__all__ += ["sequences", "typical", "wait", "waits"]

OURS_MS = ("mean_ms", "predicted_mean_ms", "p50_ms", "predicted_p50_ms", "p99_ms")
"""The columns whose times are meaningless below 1 ms in virtual time."""
CELLS = {
    "off": "Nagle,<br>delayed ACK",
    "quickack": "Nagle,<br>quick ACK",
    "on": "no Nagle,<br>delayed ACK",
    "on-quickack": "no Nagle,<br>quick ACK",
}
"""The conditions of the matrix and their headings."""
MOST_STEPS = 60
STALL_MS = {"40 ms: shortest delay of an ACK": 40.0}
CLOSED_LOOP = (
    "ab is a closed-loop client: while a request stalls it sends no others, so its "
    "percentiles count requests, not time (coordinated omission)"
)
SEQUENCES = {"sequence_off": "off", "sequence_on": "on"}
AB_LINE = r"^Time per request: .*\(mean\)$"


def _time(value: float) -> str:
    return milliseconds(value, SMALLEST_MS)


def _has_meaning(row: Mapping[Any, Any], value: float) -> bool:
    return not OF_RUNS[row["testbed"]].virtual_time or value >= SMALLEST_MS


def _stalls(row: Mapping[Any, Any]) -> str:
    return f"{row['stalled_pct']:.3g} % stall" if row["stalled_pct"] else ""


def _with_meaning(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns, in which times of ours without meaning are said to be below 1."""
    shown, virtual = rows[list(columns)].astype(object), rows["testbed"] == VIRTUAL.name
    for name in set(OURS_MS).intersection(columns):
        short = virtual & (rows[name].astype(float) < SMALLEST_MS)
        shown[name] = shown[name].mask(short, f"below {SMALLEST_MS:g}")
    return shown


by_condition = Bars(
    "Time per request by condition",
    of=Results,
    bars=(Bar("mean_ms", "measured, mean", BLUE, published="article_ms"),),
    words="time per request",
    digits=_time,
    is_drawn=_has_meaning,
    remark=_stalls,
    table=lambda rows: _with_meaning(
        rows, ("condition", *OURS_MS[:2], "article_ms", "p50_ms", "p99_ms", "stalled_pct")
    ),
)

segments = Bars(
    "Segments and ACKs per response",
    of=Results,
    bars=(
        Bar("segments_per_answer", "segments of the server", BLUE),
        Bar("acks_per_answer", "ACKs of the client", SKY),
    ),
    words="number per response",
    digits=lambda value: in_digits(float(f"{value:.3g}")),
    note="predicted: segments, except in the first response",
)


def matrix(study: Study) -> Figure:
    """Nagle's algorithm and delayed ACKs, each on and off: how long requests took.

    A cell shows the share of requests by their time, with the predicted time of all but the first
    request of a connection, to be compared with the median. All cells have the same axis, from 0 to
    the longest time, in at most 60 steps. Times are those of the capture at the server; requests
    without a response have none, and are counted above the cell.
    """
    title = "Nagle's algorithm and delayed ACKs, on and off"
    cells = study.results()
    cells = cells[cells["condition"].isin(CELLS)]
    if len(cells) < len(CELLS):
        return nothing(title, "requires the conditions " + ", ".join(CELLS))
    times = {name: requests_of(study.run(name))["latency_ms"] for name in CELLS}
    drawn = pandas.concat([*times.values(), cells["predicted_p50_ms"].astype(float)]).dropna()
    if drawn.empty:
        return nothing(title, "no request of these runs was answered")
    step = even_step(float(drawn.max()), MOST_STEPS)
    ends = (min(0.0, float(drawn.min())) // step * step, (float(drawn.max()) // step + 2) * step)
    cells = cells.set_index("condition").loc[[*CELLS]].reset_index()
    cells["lost"] = [int(times[name].isna().sum()) for name in CELLS]
    steps = pandas.concat(in_steps(times[name], step).assign(condition=name) for name in CELLS)
    return Multiples(
        title,
        panel_of=Lines(
            "",
            x=Axis(MIDDLE, "time", "ms", range=ends),
            y=Axis(SHARE, "share", "%", range=(0, 104)),
            mode=BARS,
            words=lambda row: (
                f"{row[SHARE]:.1f} %: {row[MIDDLE] - step / 2:g} to {row[MIDDLE] + step / 2:g} ms"
            ),
            height=200,
            marks=(Mark("predicted_p50_ms", colour=VERMILION, dash="dash", width=2),),
        ),
        by="condition",
        named=lambda rows: CELLS[rows["condition"].iloc[0]],
        remark=_describe_cell,
        caption=lambda rows: of_table(cells),
        note="dashed: predicted for all but the first request",
        describe=_describe_matrix,
        table=lambda rows: _table_of_cells(cells),
    )(cells.merge(steps, on="condition", how="left"))


def _describe_cell(rows: DataFrame) -> str:
    """What is written above a cell, where no bar can be; short lines fit a narrow page."""
    cell = rows.iloc[0]
    lost = f", {cell['lost']} not answered" if cell["lost"] else ""
    expected_ms = cell["predicted_p50_ms"]
    predicted = f"predicted {_time(expected_ms)}" if is_known(expected_ms) else "no prediction"
    return (
        f"median <b>{_time(cell['p50_ms'])}</b><br>{cell['stalled_pct']:.3g} % stall{lost}"
        f"<br><span style='color:{VERMILION}'>┆ {predicted}</span>"
    )


def _describe_matrix(rows: DataFrame) -> str:
    """What is written above each cell."""
    cells = rows.groupby("condition", sort=False)
    above = [(CELLS[str(name)], _describe_cell(some).replace("┆ ", "")) for name, some in cells]
    return "; ".join(f"{plain(name)}: {plain(text.replace('<br>', ', '))}" for name, text in above)


def _table_of_cells(cells: DataFrame) -> DataFrame:
    columns = ("condition", "mean_ms", "p50_ms", "predicted_p50_ms", "stalled_pct", "requests")
    shown = _with_meaning(cells, columns)
    shown.insert(0, "cell", [plain(CELLS[name]) for name in cells["condition"]])
    return shown


def distribution(study: Study, *conditions: str) -> Figure:
    """The cumulative distribution of the time per request, for each of these conditions.

    Times are those of the capture at the server, from a request to the last part of the response.
    """
    chosen = conditions or study.conditions
    times = {name: requests_of(study.run(name))["latency_ms"] for name in chosen}
    return latency(times, lines_ms=STALL_MS, **_source_of(study, chosen))


def acks(study: Study, *conditions: str) -> Figure:
    """The cumulative distribution of the time until a segment of the server is acknowledged."""
    chosen = conditions or study.conditions
    times = {name: waits_for_ack(table_of(study.run(name))) for name in chosen}
    return time_to_ack(times, **_source_of(study, chosen))


def _source_of(study: Study, chosen: Sequence[str]) -> dict[str, Any]:
    """The source of the runs of these conditions, and below which time their times mean nothing."""
    rows = study.results()
    virtual = (rows["testbed"] == VIRTUAL.name).any()
    source = of_table(rows[rows["condition"].isin(chosen)])
    return {"source": source, "below_ms": SMALLEST_MS if virtual else None}


def ladder(run: Run) -> Figure:
    """The packets of one request of the most frequent sequence."""
    request = typical(requests_of(run))
    return ladder_of_request(table_of(run), request, run, title=f"{run.condition}: one request")


def means(study: Study, *conditions: str) -> Table:
    """One row per condition: how its predicted mean follows from the time of a typical request.

    The first requests on their connections shorten or lengthen it, and so does ab, which computes
    the mean from its whole duration: it has one connection only until the first header is there.
    """
    runs = {name: Results(study.run(name)) for name in conditions}
    rows = []
    for name, results in runs.items():
        if theory := results.prediction:
            first_ms = (theory.first_ms - theory.steady_ms) / results.requests_per_connection
            start_ms = theory.mean_ms - theory.steady_ms - first_ms
            steps_ms = (theory.steady_ms, first_ms, start_ms, theory.mean_ms)
            rows.append((name, *steps_ms, results.mean_ms))
    heads = ("Typical request", "First requests", "Start of ab", "Predicted mean", "Measured mean")
    return Table(rows, columns=["Condition", *(f"{head} (ms)" for head in heads)]).round(1)


def held_segments(study: Study, *conditions: str) -> Table:
    """One row per condition: how long the second part of the first response was held back, what
    released it, and how often the first part was retransmitted meanwhile."""
    held = ((name, Results(study.run(name)).held) for name in conditions)
    rows = [
        (name, part.held_ms, "an ACK" if part.acknowledged else "no ACK", part.retransmissions)
        for name, part in held
        if part is not None
    ]
    columns = ["Condition", "Held (ms)", "Released by", "Retransmissions meanwhile"]
    return Table(rows, columns=columns)


def exchanged(study: Study, *conditions: str) -> Table:
    """One row per condition: time, packets per response, and the payload share of all bytes."""
    columns = {
        "condition": "Condition",
        "mean_ms": "Time (ms)",
        "segments_per_answer": "Segments of the response",
        "packets_per_answer": "All packets",
        "payload_pct": "Payload share of all bytes (%)",
    }
    return results_of([study], columns, conditions)


def by_ab(study: Study, *conditions: str) -> Table:
    """The line of ab that the article quotes, from the run of each condition, next to the article's
    if the run has its parameters."""
    lines = []
    for name in conditions:
        run, claim = study.run(name), article().claim(CLAIMS[name])
        comparable = has_articles_parameters(article(), run, claim.id)
        theirs = f"Time per request: {claim.figure:.3f} [ms] (mean)" if comparable else ""
        settings = run.settings_as(Settings)
        command = f"ab -n {settings.requests} -c {settings.concurrency} -k ({name})"
        lines.append(Printed(command, theirs, last_match(run, "client/ab.txt", AB_LINE)))
    return as_printed(lines)


describe = Summary(
    (
        "mean {mean_or_limit_ms:.1f} ms",
        "predicted {predicted_mean_ms:ms}[?, article {article_ms:.3f} ms]",
        "{stalled_pct:pct} of requests wait for a delayed ACK",
        "segments per response: {segments_per_answer}, ACKs: {acks_per_answer}",
    ),
    empty="no response",
)


def describe_run(run: Run) -> str:
    """One run: the most frequent sequence, its stall and the reason, and the other sequences."""
    return str(describe_requests(requests_of(run)))


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """The results of a study beyond one row per run: the sequence of steps with Nagle's algorithm
    (`off`) and without (`on`), and the share of requests that follow it; the same for the capture
    that the parameters name, if any. `remarks` repeats each in one line.

    `runs` are those of a study by condition.
    """
    sources = {
        name: (condition, requests_of(runs[condition]))
        for name, condition in SEQUENCES.items()
        if condition in runs
    }
    if file := parameters.capture_file:
        sources["sequence_own"] = (str(file), own_requests(str(file)))
    values: dict[str, Any] = {"remarks": []}
    for name, (source, requests) in sources.items():
        most = usual(requests)
        others = [{"steps": list(steps), "requests": n} for steps, n in most.others.items()]
        share = most.share if most.requests else None
        values |= {name: list(most.steps), f"{name}_share": share, f"{name}_others": others}
        counts = f"{most.follow} of {most.requests} requests"
        values["remarks"].append(f"{source}: {counts}: {describe_steps(most.steps)}")
    return values


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole."""
    return [CLOSED_LOOP] if (table["requests"] > 0).any() else []
