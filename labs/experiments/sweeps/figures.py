"""What the notebook shows of the lab `sweeps`: figures, tables, and runs in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from pandas import DataFrame

from labs.errors import BadInput
from labs.experiments.sweeps.conditions import Parameters
from labs.experiments.sweeps.results import Results, article, parameter
from labs.experiments.sweeps.settings import WRITES_PER_WAKE
from labs.guest.units import KIB, MIB
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import results_of
from labs.read.display.format import in_three_digits, size_in_words
from labs.read.display.rich_output import Table
from labs.read.display.summary import Summary
from labs.read.figures.axes import DIGITS, POINTS, Axis
from labs.read.figures.declaration import in_group
from labs.read.figures.heatmap import HeatMap
from labs.read.figures.lines import Lines, Prediction
from labs.read.figures.marks import Mark
from labs.read.figures.plot import Look
from labs.read.figures.several_tables import joined
from labs.read.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from labs.read.readings.buffer_sweep import line_mib_s
from labs.read.readings.bulk_transfer import HOST_OF
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.bdp import bdp_bytes
from labs.read.theory.kernels import series
from labs.read.theory.windows import (
    connected_send_bytes,
    granted_bytes,
    granted_send_bytes,
    smallest_bytes,
)

__all__ = ["connected_send_bytes", "granted_bytes", "granted_send_bytes", "smallest_bytes"]
"""What is not defined here."""

GOODPUT = {"steady_mib_s": "measured, MiB/s", "predicted_mib_s": "predicted, MiB/s"}
SERIES = {
    "sender": "send buffer alone",
    "receiver": "receive buffer alone",
    "both": "both buffers",
    "fixed-256k": "send buffer, receiver 256 KiB",
    "fixed-8m": "send buffer, receiver 8 MiB",
}
"""The five series of the article, and what varies in each."""
LOOKS = (
    Look(BLUE),
    Look(VERMILION, "dash", "square"),
    Look(BLACK, symbol="diamond"),
    Look(GREEN, "dot", "triangle-up"),
    Look(PURPLE, "dashdot", "x"),
)
PREDICTED = Look(ORANGE, symbol="circle-open", size=16, mode="markers")
REACHES_PCT = 95.0
"""A point with this share of the best goodput counts as reaching it."""
WITHIN_PCT = 5.0
AUTOMATIC = inf
"""The place of an automatic buffer among the sizes."""
BEST = {256: 16384, 8192: 8192, AUTOMATIC: 16384}
"""The article's best pairs: the receive buffer and the least send buffer, in KiB. Its default
receive buffer is automatic."""
PAIRS = ("surface-", "sender-", "fixed-")
"""The conditions that fix the send buffer for one receive buffer, by the prefix of their names."""
BEYOND = 1.1
"""Points with more in flight than this multiple of the send buffer show their value."""
MOST_REQUESTS = 4
"""About the number of granted sizes that one sentence names."""


def _size_name(size_kib: float) -> str:
    return "auto" if size_kib == AUTOMATIC else size_in_words(size_kib * KIB)


def _size_on_two_lines(size_kib: float) -> str:
    return _size_name(size_kib).replace(" ", "<br>")


def _rows(choose: Callable[[DataFrame], DataFrame], *having: str) -> Callable[..., DataFrame]:
    """Makes the rows of a figure of several studies: of those with a value in these columns, the
    ones that are chosen."""

    def rows(*studies: Study) -> DataFrame:
        table = joined(*studies)
        return table if table.empty else choose(in_group(having=having)(table))

    return rows


def _in_series(table: DataFrame) -> DataFrame:
    """The runs that are points of a series, with `series` and `size_kib`, in the order of both."""
    names = table["condition"].str.extract(rf"^({'|'.join(SERIES)})-[0-9]+[km]$")[0]
    receiver, sender = table["requested_receive_kib"], table["requested_send_kib"]
    rows = table.assign(
        series=names.map(SERIES),
        size_kib=receiver.where(names == "receiver", sender),
        order=names.map(dict(zip(SERIES, range(len(SERIES)), strict=True))),
    )
    return rows[names.notna() & rows["steady_mib_s"].notna()].sort_values(["order", "size_kib"])


def _describe_series(rows: DataFrame) -> list[str]:
    """The ends of each series, and the size from which it is flat."""
    phrases = []
    for name, points in rows.groupby("series", sort=False):
        goodput, sizes = points["steady_mib_s"], (points["size_kib"] * KIB).map(size_in_words)
        full = sizes[goodput >= REACHES_PCT / 100 * goodput.max()].iloc[0]
        first, last = (
            f"{in_three_digits(goodput.iloc[end])} MiB/s at {sizes.iloc[end]}" for end in (0, -1)
        )
        best = f"{REACHES_PCT:.0f} % of the best goodput from {full} on"
        phrases.append(f"{name}: {first}, {best}, {last}")
    return phrases


def _bdp_kib(rows: DataFrame) -> float:
    first = rows.iloc[0]
    return bdp_bytes(first["rate_mbit"], first["rtt_ms"]) / KIB


def _describe_bdp(rows: DataFrame) -> str:
    return f"BDP {size_in_words(_bdp_kib(rows) * KIB)}"


goodput_by_buffer = Lines(
    "Goodput against the requested buffer",
    rows=_rows(_in_series),
    of=Results,
    x=Axis("size_kib", "requested size", log=True, ticks=POINTS, written=_size_name),
    y=Axis("steady_mib_s", "steady goodput", begins_at_0=True),
    by="series",
    looks=dict(zip(SERIES.values(), LOOKS, strict=True)),
    predicted=Prediction(each=True, look=PREDICTED),
    marks=(
        Mark(line_mib_s, "line rate {digits} MiB/s", "y"),
        Mark(_bdp_kib, _describe_bdp, dash="longdash"),
    ),
    height=348,
    describe=lambda rows: (
        f"Steady goodput by requested size; {_describe_bdp(rows)}. "
        f"{'; '.join(_describe_series(rows))}."
    ),
    table={"series": "series", "size_kib": "requested, KiB", **GOODPUT},
)


def _with_error(table: DataFrame) -> DataFrame:
    error = table["predicted_mib_s"].astype(float) / table["steady_mib_s"].astype(float) - 1
    return table.assign(error_pct=100 * error)


def _describe_error(rows: DataFrame) -> str:
    error = rows["error_pct"].abs()
    return (
        f"predicted steady goodput: median error {error.median():.1f} %, largest "
        f"{error.max():.1f} % ({rows['condition'].iloc[int(error.argmax())]})"
    )


measured_and_predicted = Lines(
    "The model's error by measured goodput",
    rows=_rows(_with_error, "predicted_mib_s", "steady_mib_s"),
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
    height=268,
    describe=lambda rows: (
        f"{len(rows)} transfers; {_describe_error(rows)}; "
        f"{(rows['error_pct'].abs() <= WITHIN_PCT).sum()} are within {WITHIN_PCT:.0f} %."
    ),
    table={
        "condition": "condition",
        "kernel": "kernel",
        **GOODPUT,
        "error_pct": "error, %",
        "bound": "limited by",
    },
)


def _pairs(*studies: Study) -> DataFrame:
    """The runs that fix both buffers, or leave the receiver's automatic. `is_best`: one of the
    article's best pairs; none is if the BDP of a run is another."""
    rows = _rows(
        lambda table: table[table["condition"].str.startswith(PAIRS)],
        "steady_mib_s",
        "requested_send_kib",
    )(*studies)
    if rows.empty:
        return rows
    rows = rows.fillna({"requested_receive_kib": AUTOMATIC})
    send, receive = rows["requested_send_kib"], rows["requested_receive_kib"]
    runs = (run for study in studies for run in study.runs if run.condition.startswith(PAIRS))
    comparable = all(has_articles_parameters(article(), run, "A5.9", parameter) for run in runs)
    return rows.assign(
        is_best=comparable & (send >= receive.map(BEST)),
        send=send.map(_size_name),
        receive=receive.map(_size_name),
    )


def _describe_surface(rows: DataFrame) -> str:
    """The range, and the smallest pair with nearly the best goodput."""
    goodput = rows["steady_mib_s"]
    low, high = map(in_three_digits, (goodput.min(), goodput.max()))
    enough = rows[goodput >= REACHES_PCT / 100 * goodput.max()]
    sizes = enough["requested_send_kib"] * enough["requested_receive_kib"]
    least = enough.iloc[int(sizes.to_numpy().argmin())]
    return (
        f"A grid of {rows['send'].nunique()} send buffers and {rows['receive'].nunique()} receive "
        f"buffers. The goodput is between {low} and {high} MiB/s; it follows the smaller of the "
        f"two buffers. The smallest pair with {REACHES_PCT:.0f} % of the best has {least['send']} "
        f"at the sender and {least['receive']} at the receiver."
    )


surface = HeatMap(
    "Steady goodput (MiB/s) by send buffer and receive buffer",
    rows=_pairs,
    of=Results,
    value=Axis("steady_mib_s", "steady goodput"),
    x=Axis("requested_send_kib", "requested send buffer", written=_size_on_two_lines),
    y=Axis("requested_receive_kib", "requested receive buffer", written=_size_on_two_lines),
    bold_pct=REACHES_PCT,
    framed="is_best",
    frames="the article's best pairs",
    describe=_describe_surface,
    table={"send": "send buffer", "receive": "receive buffer", **GOODPUT, "bound": "limited by"},
)

NAGLE = {False: "Nagle's algorithm on", True: "TCP_NODELAY"}


def _writes(table: DataFrame) -> DataFrame:
    """The runs that vary the size of a write. `writes` is that size, with the number of writes per
    wake-up if it is not iperf3's default."""
    rows = table[table["condition"].str.startswith("writes-")]
    rows = rows.sort_values(["writes_per_wake", "write_bytes"])
    many = rows["writes_per_wake"].map("<br>x {:,.0f}".format)
    many = many.where(rows["writes_per_wake"] != WRITES_PER_WAKE, "")
    return rows.assign(writes=rows["write_bytes"].map("{:,.0f}".format) + many)


in_flight_by_write = Lines(
    "Payload in flight by the size of a write",
    rows=_rows(_writes, "in_flight_kib"),
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
    height=288,
    table={
        "write_bytes": "write, bytes",
        "writes_per_wake": "writes per wake-up",
        "nodelay": "TCP_NODELAY",
        "in_flight_kib": "in flight, KiB",
        **GOODPUT,
    },
)

SIZE_COLUMNS = {
    "condition": "Condition",
    "kernel": "Linux",
    **{
        f"{stage}_{end}_kib": f"{stage.capitalize()} to {end} (KiB)"
        for end in HOST_OF
        for stage in ("requested", "granted", "used")
    },
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
    by_kernel = {run.kernel.release: Results(run).requests for run in runs}
    requests = sorted(set[int]().union(*by_kernel.values()))
    if not requests:
        raise BadInput(f"{condition} requests no buffers. Use setsockopt or setsockopt-raised")
    columns = {
        f"Linux {release}, to {end} (bytes)": [
            by_kernel[release].get(size, {}).get(end) for size in requests
        ]
        for release in sorted(by_kernel, key=series)
        for end in HOST_OF
    }
    return Table({"Requested (bytes)": requests, **columns})


def unseen(study: Study, *conditions: str) -> Table:
    """One row per condition with a transfer: what the program that writes does not learn from its
    writes."""
    table, names = study.results(), [study.run(name).condition for name in conditions]
    rows = table[table["condition"].isin(names)]
    if rows["acked_bytes"].isna().any():
        raise BadInput("a condition transferred nothing. Use conditions with a transfer")
    return Table(
        {
            "Condition": rows["condition"],
            "Written, not acknowledged (MiB)": rows["written_ahead_bytes"] / MIB,
            "Dropped by the sender's queue": rows["queue_drops"],
            "Counted as retransmitted": rows["retransmitted_segments"],
            "Arrived (MiB)": rows["acked_bytes"] / MIB,
        }
    )


describe = Summary(
    (
        "send buffer {1024 * used_send_kib:size}[? ({1024 * requested_send_kib:size} requested)]",
        "receive buffer {1024 * used_receive_kib:size}"
        "[? ({1024 * requested_receive_kib:size} requested)]",
        "window of at most {1024 * advertised_kib:size}",
        "{steady_mib_s:3} MiB/s in steady state with {1024 * in_flight_kib:size} in flight",
        "predicted {predicted_mib_s:3}"
        "[?, between {predicted_low_mib_s:3} and {predicted_high_mib_s:3}], limited by: {bound}",
    ),
    empty="no transfer",
)


_whole = describe.also("writes of {write_bytes} bytes, TCP_NODELAY: {nodelay}")


def describe_run(run: Run) -> str:
    """One run: its figures, and the predicted shares of idle time of the link, by reason."""
    results = Results(run)
    if results.received is None:
        return _describe_grants(results) or describe.of_run(results)
    waits = results.prediction.waits if results.prediction else {}
    idle = [
        f"{100 * share:.0f} % {reason}"
        for reason, share in sorted(waits.items(), key=lambda item: -item[1])
        if share >= 0.005
    ]
    predicted = f" Predicted idle time of the link in steady state: {', '.join(idle)}."
    return _whole.of_run(results) + predicted * bool(idle)


def _describe_grants(results: Results) -> str:
    """What a run that only requests buffers was granted; empty for others."""
    requests = [*results.requests.items()]
    return "; ".join(
        f"a request of {size:,} bytes gives {granted['send']:,} for sending and "
        f"{granted['receive']:,} for receiving"
        for size, granted in requests[:: max(1, len(requests) // MOST_REQUESTS)]
    ) + "." * bool(requests)


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """What setsockopt grants, by request: a result that does not fit into one row per run. `runs`
    are the runs of a study by condition."""
    every = {name: Results(run).requests for name, run in runs.items()}
    return {"grants": {name: requests for name, requests in every.items() if requests}}


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole: each series, and the model's error."""
    rows = in_group(having=["error_pct"])(_with_error(table))
    error = [] if rows.empty else [_describe_error(rows)]
    return [*_describe_series(_in_series(table)), *error]
