"""What the notebook shows of the lab `windows`: figures, tables, and runs in sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas
from pandas import DataFrame
from plotly.graph_objects import Figure

from labs.drive.result_columns import values_of
from labs.errors import BadInput
from labs.experiments.windows.conditions import Parameters
from labs.experiments.windows.results import Results, article, packets
from labs.read.claims.formulas import describe as sentence
from labs.read.claims.ledger import has_articles_parameters
from labs.read.display.beside import Printed, last_match, results_of, same_packets
from labs.read.display.beside import as_printed as lines_as_printed
from labs.read.display.format import heading, in_digits
from labs.read.display.provenance import facts, of_run
from labs.read.display.rich_output import Table
from labs.read.display.summary import Summary
from labs.read.figures.axes import POINTS, Axis
from labs.read.figures.lines import Lines
from labs.read.figures.panels import Multiples
from labs.read.figures.plot import Look
from labs.read.figures.style import BLACK, BLUE, GREEN, GREY, GRID, ORANGE, PURPLE, SKY, VERMILION
from labs.read.readings.receive_queue import DROPS, RECEIVER, parts, printed_drops
from labs.read.runs.run import Run
from labs.read.study import Study
from labs.read.theory.kernels import series
from labs.read.theory.windows import granted_bytes

__all__ = ["granted_bytes", "same_packets"]

BUFFER = {"rcvbuf_bytes": "buffer (skmem_rb)"}
SIZES = {
    **BUFFER,
    "rmem_bytes": "memory in use (skmem_r)",
    "recv_q_bytes": "data queued (Recv-Q)",
    "acked_bytes": "acknowledged",
    "rcv_ssthresh_bytes": "rcv_ssthresh",
    "window_left_bytes": "window left, on the wire",
    "predicted_window_left_bytes": "window left, predicted",
}
"""The sizes of a packet that are drawn as lines: column and name."""
EVENTS = ("coalesced", "collapsed", "dropped")
"""The events of a packet that are drawn as marks, on the line of the memory in use or, if the
packet was coalesced with the one before it, below the axis."""
MARKS = {f"{name}_at": name for name in EVENTS}
LOOKS = {
    "rcvbuf_bytes": Look(BLACK, "dashdot"),
    "rmem_bytes": Look(BLUE, width=2.5),
    "recv_q_bytes": Look(GREEN),
    "acked_bytes": Look(SKY, "dash"),
    "rcv_ssthresh_bytes": Look(PURPLE, "dash"),
    "window_left_bytes": Look(ORANGE, width=2.5),
    "predicted_window_left_bytes": Look(BLACK, "dot", width=1.5),
    "coalesced_at": Look(GREY, symbol="line-ns-open", size=8, mode="markers"),
    "collapsed_at": Look(VERMILION, symbol="circle-open", size=13, mode="markers"),
    "dropped_at": Look(BLACK, symbol="x-thin", size=9, mode="markers"),
}
OF_CELLS = ("rcvbuf_bytes", "rmem_bytes", "recv_q_bytes", "rcv_ssthresh_bytes", "window_left_bytes")
"""The sizes that small charts have."""
AXES = {"packet": "packet number", "time": "seconds since the first packet"}
PACKET = Axis("packet", AXES["packet"], "")
BYTES = Axis("rmem_bytes", "size", "bytes")
BELOW_AXIS, BELOW_CELL = -0.02675, -0.0749
"""Where the marks below the axis are, as a share of the largest size; small charts are low."""
ROWS_OF_TABLE = 12
"""Rows of the table behind a chart."""


def _with_marks(table: DataFrame, below: float, sizes: tuple[str, ...] = (*SIZES,)) -> DataFrame:
    """Packets with the heights of their marks: `coalesced_at`, `collapsed_at`, `dropped_at`."""
    lowest = below * float(table[[*sizes]].astype(float).max().max())
    used = table["rmem_bytes"]
    heights = {"coalesced": used * 0 + lowest, "collapsed": used, "dropped": used}
    return table.assign(
        **{f"{name}_at": heights[name].where(table[name].fillna(0) > 0) for name in EVENTS}
    )


def _some(rows: DataFrame, sizes: Mapping[str, str], *counts: str) -> DataFrame:
    """Some packets at equal distances, with the first and the last: sizes and counts."""
    step = max(1, -(-len(rows) // ROWS_OF_TABLE))
    places = sorted({*range(0, len(rows), step), len(rows) - 1})
    heads = {name: f"{words}, bytes" for name, words in sizes.items() if rows[name].notna().any()}
    some = rows.iloc[places][["packet", *heads, *counts]].astype(object)
    return some.where(some.notna(), None).rename(columns=heads)


PACKETS = Lines(
    "The receive buffer packet by packet",
    rows=lambda run: _with_marks(packets(run), BELOW_AXIS),
    x=PACKET,
    y=BYTES,
    lines={**SIZES, **MARKS},
    looks=LOOKS,
    predicted=None,
    mode="lines",
    height=388,
    table=lambda rows: _some(rows, SIZES, *EVENTS),
)


def by_packet(run: Run) -> Figure:
    """The sizes of a receive buffer at each packet that arrived, in bytes on one axis; the buttons
    above the plot switch to an axis of time.

    The values of the socket were sampled after it had processed the packet. Marks: the packet was
    coalesced with the one before it, the queue was collapsed, or the packet was dropped.
    """
    figure = replace(
        PACKETS,
        title=f"{PACKETS.title}: {run.condition}",
        caption=lambda rows: of_run(run),
        describe=lambda rows: describe_run(run),
    )(run)
    times = packets(run).set_index("packet")["time_s"]
    numbers = [list(map(int, trace.x)) for trace in figure.data]
    places = {"packet": numbers, "time": [times[xs].tolist() for xs in numbers]}
    buttons = [
        {
            "label": f"by {name}",
            "method": "update",
            "args": [{"x": xs}, {"xaxis.title.text": AXES[name]}],
        }
        for name, xs in places.items()
    ]
    return figure.update_layout(updatemenus=[{**SWITCH, "buttons": buttons}])


SWITCH = {
    **{"type": "buttons", "direction": "right", "font": {"size": 12}, "bordercolor": GREY},
    **{"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 6, "t": 0}},
}
PARTS = {
    "payload_bytes": "payload (Recv-Q)",
    "structures_bytes": "sk_buff and skb_shared_info",
    "unused_bytes": "unused rest of the packets' buffers",
    "promised_bytes": "promised window",
    "free_bytes": "free",
}
"""The parts of a buffer from the bottom: column and name."""


def budget(run: Run) -> DataFrame:
    """The parts of a run's receive buffer at each packet, in bytes (`receive_queue.parts`)."""
    return parts(packets(run)).assign(**facts(run))


by_part = Lines(
    lambda rows: f"What the receive buffer holds: {rows['condition'].iloc[0]}",
    rows=budget,
    x=PACKET,
    y=replace(BYTES, begins_at_0=True),
    lines={**PARTS, **BUFFER},
    looks={
        **LOOKS,
        **{
            name: Look(colour, stacked=True)
            for name, colour in zip(PARTS, (GREEN, BLUE, SKY, ORANGE, GRID), strict=True)
        },
    },
    predicted=None,
    mode="lines",
    height=308,
    note="the number of skbs, which divides the metadata into structures and unused rest, is "
    "simulated",
    table=lambda rows: _some(rows, PARTS),
)


def _rows(
    table_of: Callable[[Run], DataFrame],
    named: str,
    studies: Sequence[Study],
    conditions: Sequence[str],
) -> DataFrame:
    """A table of each run below each other, in the order of conditions and kernels, with its name
    and what a caption says about it. `named` has parts of the run and its results in braces."""
    runs = [run for study in studies for run in study.runs if run.condition in conditions]
    runs.sort(key=lambda run: (conditions.index(run.condition), series(run.kernel.release)))
    tables = [
        table_of(run).assign(run=named.format(run=run, of=Results(run)), **facts(run))
        for run in runs
    ]
    return pandas.concat(tables, ignore_index=True) if tables else DataFrame()


def _opened(run: Run) -> DataFrame:
    """The round trips of a run, after a row for the SYN-ACK, which is round trip 0."""
    results, first = Results(run), {"round_trip": 0, "packets": 0, "payload_bytes": 0}
    first["window_bytes"] = results.offered.window_bytes
    return pandas.concat([DataFrame([first]), results.rounds], ignore_index=True)


opening = Lines(
    "The window by round trip",
    rows=lambda study, *conditions: _rows(
        _opened, "{run.condition}", [study], conditions or study.conditions
    ),
    x=Axis("round_trip", "round trip (0: the handshake)", "", ticks=POINTS),
    y=Axis("window_bytes", "largest window offered", "bytes", begins_at_0=True),
    by="run",
    words=lambda row: (
        f"{row['window_bytes']:,} bytes in round trip {row['round_trip']}; "
        f"{row['payload_bytes']:,} bytes arrived"
    ),
    height=288,
    table={
        "run": "run",
        "round_trip": "round trip",
        "packets": "packets",
        "payload_bytes": "payload accepted, bytes",
        "window_bytes": "largest window, bytes",
    },
)
"""The largest window that the receiver offered in each round trip, for conditions of a study."""

opening_by_kernel = replace(
    opening,
    title=lambda rows: ": ".join(["The window by round trip", *_conditions(rows)]),
    rows=lambda condition, *studies: _rows(
        _opened, "Linux {run.kernel.release}", studies, [condition]
    ),
)
"""The same for one condition on the kernel of each study."""


def _conditions(rows: DataFrame) -> list[str]:
    return [] if rows.empty else [*rows["condition"].unique()]


def _cells(named: str, studies: Sequence[Study], conditions: Sequence[str]) -> DataFrame:
    """Packets of several runs, with the heights of marks in small charts."""
    rows = _rows(packets, named, studies, conditions)
    return rows if rows.empty else _with_marks(rows, BELOW_CELL, OF_CELLS)


def _describe_end(table: DataFrame) -> str:
    """The last packet with a sample: `73,984 of 65,536 bytes, 13 dropped`."""
    last = table[table["rmem_bytes"].notna()].iloc[-1]
    dropped = int((table["dropped"] > 0).sum())
    text = f"{in_digits(last['rmem_bytes'])} of {in_digits(last['rcvbuf_bytes'])} bytes"
    return f"{text}, {dropped:,} dropped" if dropped else text


def _describe_cells(rows: DataFrame) -> str:
    ends = (f"{name}: {_describe_end(table)}" for name, table in rows.groupby("run", sort=False))
    return f"Memory in use at the end, of the buffer: {'; '.join(ends)}."


def _last(rows: DataFrame) -> DataFrame:
    """The last packet of each run."""
    sizes = {f"{SIZES[name]}, bytes": (name, lambda of: of.iloc[-1]) for name in OF_CELLS}
    dropped = ("dropped", lambda marks: (marks > 0).sum())
    runs = rows.groupby("run", sort=False, as_index=False)
    return runs.agg(packets=("packet", "count"), **sizes, dropped=dropped)


over_kernels = Multiples(
    lambda rows: " ".join(["Condition", *_conditions(rows), "by kernel"]),
    rows=lambda condition, *studies: _cells("Linux {run.kernel.release}", studies, [condition]),
    panel_of=replace(
        PACKETS,
        lines={**{name: SIZES[name] for name in OF_CELLS}, **MARKS},
        looks={name: replace(look, width=0.75 * look.width) for name, look in LOOKS.items()},
        height=170,
    ),
    by="run",
    named=lambda rows: str(rows["run"].iloc[0]).replace(" = ", "<br>= "),
    remark=lambda rows: _describe_end(rows).replace(", ", "<br>").replace(" of ", " of<br>"),
    describe=_describe_cells,
    table=_last,
)
"""One condition on the kernel of each study, from the oldest to the newest."""


over_scales = replace(
    over_kernels,
    title="The receive buffer by tcp_adv_win_scale",
    rows=lambda study, *conditions: _cells(
        "tcp_adv_win_scale = {of.adv_win_scale}", [study], conditions
    ),
)
"""Conditions of a study, by their tcp_adv_win_scale."""

KERNEL_COLUMNS = {
    "condition": "Condition",
    "kernel": "Linux",
    "recv_q": "Data queued (bytes)",
    "payload_pct": "Payload share of the buffer (%)",
    "metadata_bytes": "Metadata per packet (bytes)",
    "overshoot_bytes": "Above the buffer (bytes)",
    "beyond_window": "Sent beyond the window",
    "dropped_in_window": "Dropped with an open window",
    "window_max_bytes": "Largest window (bytes)",
}


def by_kernel(*studies: Study, conditions: tuple[str, ...] = ()) -> Table:
    """One row per condition and kernel: memory per packet, payload share, window and drops.

    Studies without runs are left out.
    """
    table = results_of(studies, KERNEL_COLUMNS, conditions)
    table = table.sort_values("Linux", key=lambda names: names.map(series), kind="stable")
    return table.sort_values("Condition", kind="stable", ignore_index=True)


PART_COLUMNS = {
    **{name: heading(name) for name in ("packet", *PARTS)},
    **{"promised_bytes": "Promised window (bytes)", "rcvbuf_bytes": "Buffer (bytes)"},
}


def budget_at(run: Run, *numbers: int) -> Table:
    """The parts of the receive buffer after the packets with these numbers, in bytes; negative
    numbers count from the end. BadInput for a number that no packet has."""
    table = budget(run)
    count = len(table)
    for number in numbers:
        if not 1 <= abs(number) <= count:
            raise BadInput(f"there is no packet {number}. Allowed: 1 to {count}, or -{count} to -1")
    return _table(table.iloc[[number - (number > 0) for number in numbers]], PART_COLUMNS)


def _table(rows: DataFrame, heads: Mapping[str, str]) -> Table:
    return Table({head: rows[name].tolist() for name, head in heads.items()})


def drops(run: Run) -> Table:
    """One row per dropped packet: its time, its first byte, and the window left before it."""
    dropped = Results(run).drops
    since_s = (dropped["time_s"] - dropped["time_s"].min()).round(3)
    heads = {
        "packet": "Packet",
        "time_s": "After the first drop (s)",
        "seq": "First byte",
        "before_window_left_bytes": "Window left before (bytes)",
    }
    return _table(dropped.assign(time_s=since_s), heads)


def rounds(run: Run) -> Table:
    """One row per round trip: packets, payload, the largest window offered, and window updates."""
    heads = {
        "round_trip": "Round trip",
        "packets": "Packets",
        "payload_bytes": "Payload accepted (bytes)",
        "window_bytes": "Largest window (bytes)",
        "rcv_ssthresh_bytes": "rcv_ssthresh (bytes)",
        "updates": "Window updates",
    }
    return _table(Results(run).rounds, heads)


def as_printed(run: Run) -> Table:
    """What `ss -m` and `nstat -az` print about the receiver at the end of a run, next to what the
    article prints if the run has its parameters."""
    used, allowed, queued, dropped = (
        int(article().claim(id_).figures[name])
        for id_, name in (("A4.2", "in use"), ("A4.1", ""), ("A4.3", "Recv-Q"), ("A4.4", "dropped"))
    )
    local = rf"^ESTAB +\d+ +\d+ +\S+:{run.condition_asked.link.port} .*\n\s+skmem:\(\S+\)"
    printed = [f"ESTAB {queued} 0 ... skmem:(r{used},rb{allowed},...)", f"{DROPS} {dropped} 0.0"]
    shown = printed if has_articles_parameters(article(), run, "A4.4") else ["", ""]
    return lines_as_printed(
        (
            Printed("ss -m", shown[0], last_match(run, f"{RECEIVER}/ss.txt", local)),
            Printed(f"nstat -az {DROPS}", shown[1], printed_drops(run)),
        )
    )


describe = Summary(
    (
        "{recv_q} bytes of data in {skmem_r} bytes of memory, of a buffer of {skmem_rb}"
        "[?, at most {overshoot_bytes} above it]",
        "the largest window is {window_max_bytes:size}",
        "{packets} packets arrived[?, {coalesced} coalesced][?, {dropped} dropped]"
        "[?, {dropped_in_window} of them although the window was open]"
        "[?, {collapsed} buffers collapsed]",
    ),
    empty="no data",
)
_whole = describe.also(
    "the queue is first collapsed at packet {first_collapse}",
    "the predicted window is equal to the one on the wire at {predicted_equal_pct} % of the "
    "packets[?, and deviates by at most {deviation_bytes} bytes]",
)


def describe_run(run: Run) -> str:
    """One run: its state at the end, its events, and the accuracy of the predicted window."""
    return _whole.of(values_of(Results(run)))


def findings(runs: Mapping[str, Run], parameters: Parameters) -> dict[str, Any]:
    """The results of a study besides one row per run: the window by round trip for each
    condition. `runs` are the runs of a study by condition."""
    tables = {name: Results(run).rounds.to_json(orient="records") for name, run in runs.items()}
    return {"round_trips": {name: json.loads(table) for name, table in tables.items()}}


def remarks(table: DataFrame) -> list[str]:
    """Remarks on the results as a whole: the share of packets with the predicted window."""
    *_, worst = table.sort_values("deviation_bytes").to_dict("records")
    least = float(table["predicted_equal_pct"].min())
    return [sentence(EQUAL, {**worst, "least": least}.__getitem__)]


EQUAL = (
    "predicted window: equal to the one on the wire at {least} % of the packets of each run[? or "
    "more; largest deviation {deviation_bytes} bytes ({condition})]"
)
