"""The time-sequence graph: data of one side, acknowledgements, and the edge of the window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy
from pandas import DataFrame, concat

from labs.errors import BadInput
from labs.read.capture.segment_table import ACK, SYN
from labs.read.capture.tcp_marks import marks
from labs.read.display.format import size_in_words
from labs.read.figures.axes import Axis
from labs.read.figures.lines import Lines
from labs.read.figures.plot import Look
from labs.read.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Source,
    where_from,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_POINTS = 4000
MOMENTS = 12
"""Rows of the table behind the graph."""
NAMES = ("client", "server")
# Marks of data, of which the first that applies is drawn; and of the other side's ACKs.
ON_DATA = ("retransmission", "out_of_order", "window_full")
ON_ACKS = ("zero_window", "duplicate_ack")
WORDS = {"duplicate_ack": "duplicate ACK"}
LOOKS = {
    "edge": Look(SKY, shape="hv"),
    "acknowledged": Look(GREEN, "dash", shape="hv"),
    "data": Look(BLUE, size=3, width=3, mode="lines+markers"),
    "retransmission": Look(VERMILION, symbol="x", mode="markers"),
    "out_of_order": Look(ORANGE, symbol="diamond", mode="markers"),
    "window_full": Look(BLACK, symbol="line-ew-open", mode="markers"),
    "zero_window": Look(BLACK, symbol="square", mode="markers"),
    "duplicate_ack": Look(GREY, symbol="triangle-up-open", mode="markers"),
}


def time_sequence(
    segments: DataFrame,
    connection: int = 0,
    *,
    direction: int | None = None,
    seconds: tuple[float, float] | None = None,
    source: Source = "",
) -> Figure:
    """Sequence numbers against time for one direction of a connection.

    `segments` is a table of segments (`labs.capture.read`). `direction` is 0 for what the client
    sent, 1 for the server, by default the one that sent more payload. Bars are segments, from
    their first byte to their last; below them the line of acknowledgements, above them the edge of
    the receiver's window. `seconds` since the connection's first segment cut a stretch out. Of
    more than 4,000 segments every n-th is drawn, and all that are marked; the caption says so.
    Raises BadInput for a connection that does not exist.
    """
    packets = _connection(segments, connection)
    packets = packets.join(marks(packets)[[*ON_DATA, *ON_ACKS]])
    packets = packets.assign(s=(packets["time_ns"] - packets["time_ns"].iloc[0]) / 1e9)
    if seconds is not None:
        packets = packets[packets["s"].between(*seconds)]
    carried = packets.groupby("direction")["payload_bytes"].sum()
    side = int(carried.get(1, 0) > carried.get(0, 0)) if direction is None else direction
    is_sent = packets["direction"] == side
    data = _with_mark(packets[is_sent & (packets["payload_bytes"] > 0)], ON_DATA)
    answers = _with_mark(packets[~is_sent & ((packets["flags"] & (ACK | SYN)) == ACK)], ON_ACKS)
    every = ceil(max(len(data), len(answers)) / MOST_POINTS) or 1
    title = f"Time-sequence graph: data of the {NAMES[side]} on connection {connection}"
    thinned = f" · every {every}th segment is drawn" if every > 1 else ""
    counts = concat([data["mark"], answers["mark"]]).value_counts()
    names = {kind: f"{_called(kind)} ({count})" for kind, count in counts.items()}
    names |= {"data": f"data of the {NAMES[side]}", "edge": "edge of the window"}
    names["acknowledged"] = f"acknowledged by the {NAMES[1 - side]}"
    return Lines(
        title,
        rows=lambda data, answers: data if data.empty else concat(_series(data, answers, every)),
        empty=f"the {NAMES[side]} sends no data there",
        x=Axis("s", "seconds since the connection's first segment", ""),
        y=Axis("bytes", "sequence number", "bytes"),
        by="series",
        named=names,
        looks=LOOKS,
        mode="lines",
        predicted=None,
        in_order=False,
        words=lambda row: row["words"],
        caption=lambda rows: where_from(source) + thinned,
        describe=lambda rows: _describe(title, data),
        table=lambda rows: _moments(data, answers),
        height=348,
    )(data, answers)


def _connection(segments: DataFrame, connection: int) -> DataFrame:
    packets = segments[segments["connection"] == connection]
    if packets.empty:
        last = -1 if segments.empty else int(segments["connection"].max())
        raise BadInput(
            f"no connection {connection}; the capture has "
            f"{f'connections 0 to {last}' if last >= 0 else 'no TCP at all'}"
        )
    return packets


def _with_mark(rows: DataFrame, kinds: Sequence[str]) -> DataFrame:
    """The rows with the first of these marks that applies to each; empty for none."""
    return rows.assign(mark=numpy.select([rows[kind] for kind in kinds], kinds, ""))


def _series(data: DataFrame, answers: DataFrame, every: int) -> Iterator[DataFrame]:
    """The lines and the marks from below to above, with the words of each point."""
    some = answers.iloc[::every]
    edge = (some["ack_rel"] + some["window_bytes"]).where(some["window_bytes"] >= 0)
    yield _line("edge", some.assign(bytes=edge), "may send up to")
    yield _line("acknowledged", some.assign(bytes=some["ack_rel"].cummax()), "acknowledged up to")
    ends = (data["seq_rel"], data["seq_rel"] + data["payload_bytes"], numpy.nan)
    bars = concat([data.assign(bytes=end).iloc[::every] for end in ends])
    yield _line("data", bars.sort_index(kind="stable"), "data:")
    for rows, kinds, heights in ((data, ON_DATA, "seq_rel"), (answers, ON_ACKS, "ack_rel")):
        for kind in kinds:
            marked = rows[rows["mark"] == kind]
            sizes = map(size_in_words, marked["payload_bytes"])
            yield _line(kind, marked.assign(bytes=marked[heights]), f"{_called(kind)}:", sizes)


def _line(
    series: str, rows: DataFrame, what: str, values: Iterable[str] | None = None
) -> DataFrame:
    """The rows of a series, whose words are its values, or else its bytes."""
    pairs = zip(values or map("{:,.0f}".format, rows["bytes"]), rows["s"], strict=True)
    return rows.assign(series=series, words=[f"{what} {value} at {s:.6f} s" for value, s in pairs])


def _called(kind: str) -> str:
    return WORDS.get(kind, kind.replace("_", " "))


def _describe(title: str, data: DataFrame) -> str:
    """How much was sent in which time, and how many segments again."""
    return (
        f"{title}. {len(data):,} segments carry {size_in_words(data['payload_bytes'].sum())} in "
        f"{data['s'].iloc[-1] - data['s'].iloc[0]:.3g} s; {int(data['retransmission'].sum()):,} of "
        "them are retransmissions."
    )


def _moments(data: DataFrame, answers: DataFrame) -> DataFrame:
    """The graph at a few moments: what was sent, acknowledged, and permitted until then."""
    moments = numpy.linspace(data["s"].iloc[0], data["s"].iloc[-1], MOMENTS)
    columns = {
        "sent, bytes": (data, (data["seq_rel"] + data["payload_bytes"]).cummax()),
        "acknowledged, bytes": (answers, answers["ack_rel"].cummax()),
        "permitted, bytes": (answers, answers["ack_rel"] + answers["window_bytes"]),
    }
    table = {"time, s": moments.tolist()}
    for head, (rows, values) in columns.items():
        before = [int((rows["s"] <= at).sum()) - 1 for at in moments]
        table[head] = [int(values.iloc[place]) if place >= 0 else None for place in before]
    return DataFrame(table, dtype=object)
