"""What the notebook shows of the lab `sweeps`: figures, tables, and runs in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

import pandas

from labs.drive.result_columns import values_of
from labs.drive.units import KIB, MIB
from labs.errors import BadInput
from labs.experiments.sweeps.results import (
    Results,
    article,
    expected,
    grants,
    parameter,
    transferred,
)
from labs.experiments.sweeps.settings import WRITES_PER_WAKE, Settings
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import results_of
from labs.read.display.format import in_three_digits, is_known, size_in_words
from labs.read.display.rich_output import Table
from labs.read.figures.axes import DIGITS, POINTS, Axis
from labs.read.figures.heatmap import HeatMap
from labs.read.figures.lines import Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from labs.read.theory.bdp import bdp_bytes, line_goodput_bytes_s
from labs.read.theory.old_socket_buffers import (
    connected_send_bytes,
    granted_send_bytes,
    smallest_bytes,
)
from labs.read.theory.windows import granted_bytes, series

if TYPE_CHECKING:
    from pandas import DataFrame

    from labs.experiments.sweeps.conditions import Parameters
    from labs.read.runs.run import Run
    from labs.read.study import Study

__all__ = ["bdp_bytes", "connected_send_bytes", "describe", "describe_run", "findings"]
__all__ += ["goodput_by_buffer", "granted", "granted_bytes", "granted_send_bytes"]
__all__ += ["in_flight_by_write", "measured_and_predicted", "remarks", "sizes", "smallest_bytes"]
__all__ += ["surface", "unseen"]

SERIES = {
    "sender": "send buffer alone",
    "receiver": "receive buffer alone",
    "both": "both buffers",
    "fixed-256k": "send buffer, receiver 256 KiB",
    "fixed-8m": "send buffer, receiver 8 MiB",
}
"""The five series of the article, and what varies in each."""
REACHES_PCT = 95.0
"""A point with this share of the best goodput counts as reaching it."""
WITHIN_PCT = 5.0
AUTOMATIC = inf
"""The place of an automatic buffer among the sizes."""
BEST = ((16384, 256), (8192, 8192), (16384, AUTOMATIC))
"""The article's best pairs: the least send buffer and the receive buffer, in KiB. Its default
receive buffer is automatic."""
PAIRS = ("surface-", "sender-", "fixed-")
"""The conditions that fix the send buffer for one receive buffer, by the prefix of their names."""
BEYOND = 1.1
"""Points with more in flight than this multiple of the send buffer show their value."""
MOST_REQUESTS = 4
"""About the number of granted sizes that one sentence names."""


def _together(*studies: Study) -> DataFrame:
    """The results of several studies as one table, each condition once per kernel."""
    tables = [study.results() for study in studies if study.runs]
    if not tables:
        return pandas.DataFrame()
    return pandas.concat(tables).drop_duplicates(["condition", "kernel"])


def _in_series(table: DataFrame) -> DataFrame:
    """The runs with a goodput that are points of a series, with `series` and `size_kib`, in the
    order of both; nothing of an empty table."""
    if table.empty:
        return table
    names = table["condition"].str.extract(rf"^({'|'.join(SERIES)})-[0-9]+[km]$")[0]
    receiver, sender = table["requested_receive_kib"], table["requested_send_kib"]
    rows = table.assign(series=names, size_kib=receiver.where(names == "receiver", sender))
    rows = rows[names.notna() & rows["steady_mib_s"].notna()]
    order = rows["series"].map([*SERIES].index)
    return rows.assign(order=order, name=rows["series"].map(SERIES)).sort_values(
        ["order", "size_kib"]
    )


def _describe_series(rows: DataFrame) -> list[str]:
    """The ends of each series, and the size from which it is flat."""
    phrases = []
    for name, points in rows.groupby("name", sort=False):
        goodput, size = points["steady_mib_s"], points["size_kib"] * KIB
        full = size[goodput >= REACHES_PCT / 100 * goodput.max()].iloc[0]
        phrases.append(
            f"{name}: {in_three_digits(goodput.iloc[0])} MiB/s at {size_in_words(size.iloc[0])}, "
            f"{REACHES_PCT:.0f} % of the best goodput from {size_in_words(full)} on, "
            f"{in_three_digits(goodput.iloc[-1])} MiB/s at {size_in_words(size.iloc[-1])}"
        )
    return phrases


def _bdp_kib(rows: DataFrame) -> float:
    first = rows.iloc[0]
    return bdp_bytes(first["rate_mbit"], first["rtt_ms"]) / KIB


def _bdp_in_words(rows: DataFrame) -> str:
    return size_in_words(_bdp_kib(rows) * KIB)


goodput_by_buffer = Lines(
    "Goodput against the requested buffer",
    rows=lambda *studies: _in_series(_together(*studies)),
    of=Results,
    x=Axis("size_kib", "requested size", log=True, ticks=POINTS, unit_bytes=KIB),
    y=Axis("steady_mib_s", "steady goodput", begins_at_0=True),
    by="series",
    named=SERIES,
    looks={
        "sender": Look(BLUE),
        "receiver": Look(VERMILION, "dash", "square"),
        "both": Look(BLACK, symbol="diamond"),
        "fixed-256k": Look(GREEN, "dot", "triangle-up"),
        "fixed-8m": Look(PURPLE, "dashdot", "x"),
    },
    predicted=Prediction(
        every=True, mode="markers", look=Look(ORANGE, symbol="circle-open", size=16)
    ),
    marks=(
        Mark(
            lambda rows: line_goodput_bytes_s(float(rows["rate_mbit"].median())) / MIB,
            "line rate {digits} MiB/s",
            "y",
        ),
        Mark(_bdp_kib, lambda rows: f"BDP {_bdp_in_words(rows)}", dash="longdash"),
    ),
    height=520,
    describe=lambda rows: (
        "Steady goodput against the requested size, with a BDP of "
        f"{_bdp_in_words(rows)}. {'; '.join(_describe_series(rows))}."
    ),
    table={
        "name": "series",
        "size_kib": "requested, KiB",
        "steady_mib_s": "measured, MiB/s",
        "predicted_mib_s": "predicted, MiB/s",
    },
)


def _with_error(*studies: Study) -> DataFrame:
    """The runs with a prediction, and its error."""
    rows = _together(*studies)
    if rows.empty:
        return rows
    rows = rows[rows["predicted_mib_s"].notna() & rows["steady_mib_s"].notna()]
    return rows.assign(error_pct=100 * (rows["predicted_mib_s"] / rows["steady_mib_s"] - 1))


def _describe_error(rows: DataFrame) -> str:
    error = rows["error_pct"].abs()
    worst = rows["condition"].tolist()[int(error.argmax())]
    return (
        f"{len(rows)} transfers. The median error of the predicted steady goodput is "
        f"{error.median():.1f} %, the largest {error.max():.1f} % ({worst}); "
        f"{int((error <= WITHIN_PCT).sum())} are within {WITHIN_PCT:.0f} %."
    )


measured_and_predicted = Lines(
    "The model's error by measured goodput",
    rows=_with_error,
    of=Results,
    x=Axis("steady_mib_s", "measured steady goodput", log=True, ticks=DIGITS),
    y=Axis("error_pct", "error of the prediction", "%"),
    by="bound",
    named="limited by: {}",
    in_order=False,
    mode="markers",
    words=lambda row: (
        f"{row['condition']}: measured {in_three_digits(row['steady_mib_s'])}, "
        f"predicted {in_three_digits(row['predicted_mib_s'])} MiB/s"
    ),
    marks=(
        Mark(-WITHIN_PCT, axis="y", colour=SKY, until=WITHIN_PCT),
        Mark(0.0, axis="y", dash="solid", width=1),
    ),
    height=440,
    describe=_describe_error,
    table={
        "condition": "condition",
        "kernel": "kernel",
        "steady_mib_s": "measured, MiB/s",
        "predicted_mib_s": "predicted, MiB/s",
        "error_pct": "error, %",
        "bound": "limited by",
    },
)


def _pairs(*studies: Study) -> DataFrame:
    """The runs that fix both buffers, or leave the receiver's automatic. `is_best`: one of the
    article's best pairs, if the BDP of all is its own."""
    rows = _together(*studies)
    if rows.empty:
        return rows
    of_pairs = rows["condition"].str.startswith(PAIRS) & rows["requested_send_kib"].notna()
    rows = rows[of_pairs & rows["steady_mib_s"].notna()]
    rows = rows.fillna({"requested_receive_kib": AUTOMATIC})
    runs = (run for study in studies for run in study.runs if run.condition.startswith(PAIRS))
    is_articles = all(has_articles_parameters(article(), run, "A5.9", parameter) for run in runs)
    sizes_kib = zip(rows["requested_send_kib"], rows["requested_receive_kib"], strict=True)
    is_best = [
        is_articles and any(sender >= least and receiver == size for least, size in BEST)
        for sender, receiver in sizes_kib
    ]
    return rows.assign(is_best=is_best)


def _size_name(size_kib: float) -> str:
    return "auto" if size_kib == AUTOMATIC else size_in_words(size_kib * KIB)


def _describe_surface(rows: DataFrame) -> str:
    """The range, and the smallest pair with nearly the best goodput."""
    goodput = rows["steady_mib_s"]
    enough = rows[goodput >= REACHES_PCT / 100 * goodput.max()]
    sizes = enough["requested_send_kib"] * enough["requested_receive_kib"]
    least = enough.iloc[int(sizes.to_numpy().argmin())]
    return (
        f"A grid of {rows['requested_send_kib'].nunique()} send buffers and "
        f"{rows['requested_receive_kib'].nunique()} receive buffers. The goodput is between "
        f"{in_three_digits(goodput.min())} and {in_three_digits(goodput.max())} MiB/s; it follows "
        f"the smaller of the two buffers. The smallest pair with {REACHES_PCT:.0f} % of the best "
        f"has {_size_name(least['requested_send_kib'])} at the sender and "
        f"{_size_name(least['requested_receive_kib'])} at the receiver."
    )


surface = HeatMap(
    "Steady goodput (MiB/s) by send buffer and receive buffer",
    rows=_pairs,
    of=Results,
    value=Axis("steady_mib_s", "steady goodput"),
    x=Axis("requested_send_kib", "requested send buffer", ""),
    y=Axis("requested_receive_kib", "requested receive buffer", ""),
    named=lambda size_kib: _size_name(size_kib).replace(" ", "<br>"),
    bold_pct=REACHES_PCT,
    framed="is_best",
    frames="the article's best pairs",
    row_px=46,
    least_px=0,
    describe=_describe_surface,
    table=lambda rows: pandas.DataFrame(
        {
            "send buffer": rows["requested_send_kib"].map(_size_name),
            "receive buffer": rows["requested_receive_kib"].map(_size_name),
            "measured, MiB/s": rows["steady_mib_s"],
            "predicted, MiB/s": rows["predicted_mib_s"],
            "limited by": rows["bound"],
        }
    ),
)

NAGLE = {False: "Nagle's algorithm on", True: "TCP_NODELAY"}


def _writes(*studies: Study) -> DataFrame:
    """The runs that vary the size of a write. `writes` is that size, with the number of writes per
    wake-up if it is not iperf3's default."""
    rows = _together(*studies)
    if rows.empty:
        return rows
    rows = rows[rows["condition"].str.startswith("writes-") & rows["in_flight_kib"].notna()]
    rows = rows.sort_values(["writes_per_wake", "write_bytes"])
    names = [
        f"{row['write_bytes']:,.0f}"
        + f"<br>x {row['writes_per_wake']:,.0f}" * (row["writes_per_wake"] != WRITES_PER_WAKE)
        for row in rows.to_dict("records")
    ]
    return rows.assign(writes=names)


def _describe_writes(rows: DataFrame) -> str:
    """For each size of a write both values."""
    phrases = []
    for writes, some in rows.groupby("writes", sort=False):
        values = zip(some["in_flight_kib"], some["nodelay"].map(NAGLE), strict=True)
        texts = ", ".join(f"{in_three_digits(size)} KiB with {name}" for size, name in values)
        phrases.append(f"{str(writes).replace('<br>', ' ')} bytes: {texts}")
    return f"Payload in flight by the size of a write. {'; '.join(phrases)}."


in_flight_by_write = Lines(
    "Payload in flight by the size of a write",
    rows=_writes,
    of=Results,
    x=Axis("writes", "size of a write", "bytes", category=True),
    y=Axis("in_flight_kib", "payload in flight", log=True, ticks=DIGITS),
    by="nodelay",
    named=NAGLE,
    looks={
        False: Look(VERMILION, symbol="circle-open", size=12),
        True: Look(BLUE, symbol="x", size=12),
    },
    mode="markers",
    words=lambda row: (
        f"{row['in_flight_kib']:.4g} KiB in flight, {in_three_digits(row['steady_mib_s'])} MiB/s"
    ),
    label=lambda row: (
        in_three_digits(row["in_flight_kib"])
        if row["in_flight_kib"] > BEYOND * row["granted_send_kib"]
        else ""
    ),
    marks=(
        Mark(
            "granted_send_kib",
            lambda rows: f"send buffer<br>{size_in_words(rows['granted_send_kib'].iloc[0] * KIB)}",
            "y",
            dash="dash",
        ),
    ),
    height=460,
    describe=_describe_writes,
    table={
        "write_bytes": "write, bytes",
        "writes_per_wake": "writes per wake-up",
        "nodelay": "TCP_NODELAY",
        "in_flight_kib": "in flight, KiB",
        "steady_mib_s": "measured, MiB/s",
        "predicted_mib_s": "predicted, MiB/s",
    },
)

SIZE_COLUMNS = {
    "condition": "Condition",
    "kernel": "Linux",
    "requested_send_kib": "Requested to send (KiB)",
    "granted_send_kib": "Granted to send (KiB)",
    "used_send_kib": "Used to send (KiB)",
    "requested_receive_kib": "Requested to receive (KiB)",
    "granted_receive_kib": "Granted to receive (KiB)",
    "used_receive_kib": "Used to receive (KiB)",
    "advertised_kib": "Advertised (KiB)",
    "in_flight_kib": "In flight (KiB)",
    "steady_mib_s": "Steady goodput (MiB/s)",
}


def sizes(*studies: Study, conditions: tuple[str, ...] = ()) -> Table:
    """One row per run: each buffer as requested, granted and used, the window, and the payload in
    flight. Empty cells: nothing was requested, or nothing was transferred. A study without runs is
    left out."""
    return results_of(studies, SIZE_COLUMNS, conditions)


def granted(condition: str, *studies: Study) -> Table:
    """One row per request of a condition that only requests buffers: what getsockopt returned, on
    the kernel of each study. BadInput for a condition that requests none."""
    runs = [study.run(condition) for study in studies if condition in study.conditions]
    by_kernel = {run.kernel.release: grants(run) for run in runs}
    if not any(by_kernel.values()):
        raise BadInput(f"{condition} requests no buffers. Use setsockopt or setsockopt-raised")
    requests = sorted({size for granted_by in by_kernel.values() for size in granted_by})
    table: dict[str, list[int | None]] = {"Requested (bytes)": list(requests)}
    for release in sorted(by_kernel, key=series):
        for socket in ("send", "receive"):
            table[f"Linux {release}, to {socket} (bytes)"] = [
                by_kernel[release].get(size, {}).get(socket) for size in requests
            ]
    return Table(table)


def unseen(study: Study, *conditions: str) -> Table:
    """One row per condition with a transfer: what the program that writes does not learn from its
    writes."""
    rows = []
    for condition in conditions:
        results = Results(study.run(condition))
        ahead_bytes, acked_bytes = results.written_ahead_bytes, results.acked_bytes
        if ahead_bytes is None or acked_bytes is None:
            raise BadInput(f"{condition} transferred nothing. Use a condition with a transfer")
        rows.append(
            {
                "Condition": condition,
                "Written, not acknowledged (MiB)": ahead_bytes / MIB,
                "Dropped by the sender's queue": results.queue_drops,
                "Counted as retransmitted": results.retransmitted_segments,
                "Arrived (MiB)": acked_bytes / MIB,
            }
        )
    return Table(rows)


def describe(table: DataFrame) -> str:
    """One line per run: buffers, window, goodput and limit."""
    rows = table.to_dict("records")
    return "\n".join(f"- **{row['condition']}**: {_describe_row(row)}" for row in rows)


def _describe_row(row: Mapping[Any, Any]) -> str:
    note = f" Note: {row['notes']}." if row.get("notes") else ""
    if not is_known(row["steady_mib_s"]):
        return f"no transfer.{note}"
    return f"{', '.join(_phrases(row))}.{note}"


def _phrases(row: Mapping[Any, Any]) -> Iterator[str]:
    for end in ("send", "receive"):
        used, requested = _size(row[f"used_{end}_kib"]), row[f"requested_{end}_kib"]
        how = f" ({_size(requested)} requested)" if is_known(requested) else ", automatic"
        yield f"{end} buffer {used}{how}"
    text = (
        f"window of at most {_size(row['advertised_kib'])}; {in_three_digits(row['steady_mib_s'])} "
        f"MiB/s in steady state with {_size(row['in_flight_kib'])} in flight"
    )
    if is_known(row["predicted_mib_s"]):
        ends = [row[f"predicted_{end}_mib_s"] for end in ("low", "high")]
        predicted = in_three_digits(row["predicted_mib_s"])
        if all(map(is_known, ends)):
            predicted += f", between {' and '.join(map(in_three_digits, ends))}"
        text += f" (predicted: {predicted}, limited by: {row['bound']})"
    yield text


def _size(size_kib: float | None) -> str:
    if size_kib is None or not is_known(size_kib):
        return "unknown"
    return size_in_words(size_kib * KIB)


def describe_run(run: Run) -> str:
    """One run: its figures, and the predicted shares of idle time of the link, by reason."""
    if not transferred(run):
        return _describe_grants(run)
    results = Results(run)
    notes = "; ".join(note.text for note in results.notes())
    text = f"{_describe_row({**values_of(results), 'notes': notes})} Writes of "
    text += f"{results.write_bytes:,} bytes{' with TCP_NODELAY' * bool(results.nodelay)}."
    waits = sorted(expected(run).waits.items(), key=lambda item: -item[1])
    idle = [f"{100 * share:.0f} % {reason}" for reason, share in waits if share >= 0.005]
    if idle:
        text += f" Predicted idle time of the link in steady state: {', '.join(idle)}."
    return text


def _describe_grants(run: Run) -> str:
    """What a run that only requests buffers was granted, or why iperf3 refused the size."""
    if not run.settings_as(Settings).grants:
        return "; ".join(note.text for note in Results(run).notes()) or "no transfer"
    by_request = [*grants(run).items()]
    step = max(1, len(by_request) // MOST_REQUESTS)
    phrases = (
        f"a request of {size:,} bytes gives {bytes_of['send']:,} for sending and "
        f"{bytes_of['receive']:,} for receiving"
        for size, bytes_of in by_request[::step]
    )
    return f"{'; '.join(phrases)}."


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """What setsockopt grants, by request: a result that does not fit into one row per run. `runs`
    are the runs of a study by condition."""
    of_grants = {name: run for name, run in runs.items() if run.settings_as(Settings).grants}
    return {"grants": {name: grants(run) for name, run in of_grants.items()}}


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole: each series, and the model's error."""
    phrases = _describe_series(_in_series(table))
    predicted = table["predicted_mib_s"].astype(float)
    error = (100 * (predicted / table["steady_mib_s"].astype(float) - 1)).abs().dropna()
    if len(error):
        worst = table.loc[error.index, "condition"].tolist()[int(error.argmax())]
        phrases.append(
            f"predicted steady goodput: median error {error.median():.1f} %, largest "
            f"{error.max():.1f} % ({worst})"
        )
    return phrases
