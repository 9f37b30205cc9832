"""The packet ladder: two vertical lines, one arrow per packet, stalls with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from textwrap import wrap
from typing import Any

from pandas import DataFrame, Series, concat
from plotly.graph_objects import Figure

from labs.errors import BadInput
from labs.read.capture.segment_table import (
    ACK,
    CWR,
    ECE,
    FIN,
    IN_PARTS,
    PSH,
    ROW_BYTES,
    RST,
    SYN,
    URG,
    must_fit,
)
from labs.read.capture.tcp_marks import named_marks
from labs.read.figures.plot import Look, Trace, apart, hover, once_in_legend, points, text_at
from labs.read.figures.style import (
    BLACK,
    BLUE,
    CAPTION_PX,
    GREEN,
    GREY,
    LEGEND_ABOVE,
    ORANGE,
    TO_CAPTION_PX,
    VERMILION,
    Source,
    dressed,
    plain,
    where_from,
)
from labs.read.flows import connection_state as states
from labs.read.flows.reasons import NAGLE_AND_DELAYED_ACK, NOBODY
from labs.read.flows.waits import explained_waits, find_stalls
from labs.read.readings.responses import packets_of
from labs.read.runs.run import Run

MOST_PACKETS, USUAL_PACKETS = 120, 40
ROW_PX, TOP_PX = 28, 88
LEFT_PX, DIGIT_PX, NOTES_PX, RIGHT_PX = 22, 7, 120, 28
"""The margins: the left one holds the times, the right one the marks of packets."""
SLANT, STALL, EDGE, HEAD = 0.45, 2.3, 0.12, 1.3
"""In rows: how far an arrow falls; a silence, and its distance from the packets around it; the
names of both sides."""
NOTE_LETTERS = 16
"""How many letters of a note fit next to the right line."""
IN_ORDER = "in chronological order, not to scale"
RTT_UNKNOWN = "; the RTT cannot be measured: not all stalls are marked"
COLOURS = (BLUE, GREEN)
NAMES = ("client", "server")
AGAIN = "retransmitted or out of order"
AFTER_DELAY = " · the server's packets are captured after the delay"
"""Source: net/core/dev.c dev_hard_start_xmit(): a capture sees a packet when the queue lets it go.
"""
FLAGS = {SYN: "SYN", FIN: "FIN", RST: "RST", PSH: "PSH"}
FLAGS |= {URG: "URG", ACK: "ACK", ECE: "ECE", CWR: "CWR"}
# Written in this order; a packet has one or two.
MARKS = {
    "fast_retransmission": "fast retransmission",
    "spurious_retransmission": "spurious retransmission",
    "retransmission": "retransmission",
    "out_of_order": "out of order",
    "duplicate_ack": "duplicate ACK",
    "lost_segment": "lost segment before",
    "ack_lost_segment": "ACK of uncaptured data",
    "zero_window": "zero window",
    "window_full": "window full",
    "window_update": "window update",
    "keep_alive_ack": "keep-alive ACK",
    "keep_alive": "keep-alive",
    "zero_window_probe_ack": "zero-window probe ACK",
    "zero_window_probe": "zero-window probe",
}
IMPLIED = {"fast_retransmission": "retransmission", "spurious_retransmission": "retransmission"}


@dataclass(frozen=True)
class _Arrow:
    at: float
    side: int
    words: str
    time: str
    note: str
    is_again: bool
    has_data: bool
    hover: str

    def texts(self) -> list[dict[str, Any]]:
        """Its words, its time at the left, its marks at the right."""
        middle, note = self.at + SLANT / 2, "<br>".join(wrap(self.note, NOTE_LETTERS))
        at_left: dict[str, Any] = {"xanchor": "right", "xshift": -10}
        at_right: dict[str, Any] = {"xanchor": "left", "xshift": 10}
        texts = [
            text_at(0.5, middle, self.words, yanchor="bottom", yshift=1),
            text_at(0, middle, self.time, GREY, **at_left),
            text_at(1, middle, note, VERMILION, align="left", **at_right),
        ]
        return texts if note else texts[:2]


@dataclass(frozen=True)
class _Silence:
    top: float
    lines: tuple[str, ...]
    opacity: float

    def shape(self) -> dict[str, Any]:
        """The bar between both lines."""
        ends = {"x0": 0, "x1": 1, "y0": self.top + EDGE, "y1": self.top + STALL - EDGE}
        look = {"fillcolor": ORANGE, "opacity": self.opacity, "line": {"width": 0}}
        return {"type": "rect", "layer": "below", **ends, **look}

    def text(self) -> dict[str, Any]:
        """Its lines in the middle of the bar."""
        return text_at(0.5, self.top + STALL / 2, "<br>".join(self.lines))


@dataclass(frozen=True)
class _Ladder:
    """Arrows and silences from top to bottom; one unit of the y axis is one packet."""

    arrows: list[_Arrow]
    silences: list[_Silence]
    height: float
    foot: str

    def traces(self) -> list[Trace]:
        """Arrows by kind: data thick, acknowledgements thin, retransmissions dashed."""
        traces = []
        for side, is_again, has_data in product((0, 1), (False, True), (True, False)):
            kind = (side, is_again, has_data)
            arrows = [a for a in self.arrows if (a.side, a.is_again, a.has_data) == kind]
            if arrows:
                traces.append(self._trace(arrows, *kind))
        once_in_legend(traces)
        return traces

    def _trace(self, arrows: Sequence[_Arrow], side: int, is_again: bool, has_data: bool) -> Trace:
        name = AGAIN if is_again else f"from the {NAMES[side]}"
        colour = VERMILION if is_again else COLOURS[side]
        look = Look(colour, "dash" if is_again else "solid", width=2.6 if has_data else 1.3)
        xs = apart([side] * len(arrows), [1 - side] * len(arrows))
        ys = apart([arrow.at for arrow in arrows], [arrow.at + SLANT for arrow in arrows])
        texts = hover(arrow.hover for arrow in arrows for _ in range(3))
        trace = points(xs, ys, name, look, "lines+markers", legendgroup=name, **texts)
        sizes = [0, 13 if has_data else 10, 0] * len(arrows)
        head = {"symbol": "arrow", "size": sizes, "angleref": "previous", "opacity": 1}
        return {**trace, "marker": {**head, "color": colour}}

    def layout(self) -> dict[str, Any]:
        """All words and shapes, and both axes, which are not seen."""
        line = {"type": "line", "layer": "below", "line": {"color": BLACK, "width": 2}}
        sides = [{**line, "x0": x, "x1": x, "y0": -0.5, "y1": self.height} for x in (0, 1)]
        above: dict[str, Any] = {"yanchor": "bottom"}
        left, right = (f"<b>{name}</b>" for name in NAMES)
        heads = [
            text_at(0, -0.5, left, size=14, yshift=3, xanchor="center", **above),
            text_at(1, -0.5, right, size=14, yshift=3, xanchor="right", xshift=20, **above),
            text_at(0, -0.5, "ms", GREY, yshift=4, xanchor="right", xshift=-34, **above),
            text_at(0.5, self.height, self.foot, GREY, **above),
        ]
        texts = [text for arrow in self.arrows for text in arrow.texts()]
        return {
            "annotations": [*texts, *(silence.text() for silence in self.silences), *heads],
            "shapes": [*(silence.shape() for silence in self.silences), *sides],
            "legend": LEGEND_ABOVE,
            "xaxis": {"visible": False, "range": [0, 1], "fixedrange": True},
            "yaxis": {"visible": False, "range": [self.height, -HEAD]},
        }

    def margin(self) -> dict[str, float]:
        """The margins that have room for times and notes."""
        longest = max(len(arrow.time) for arrow in self.arrows)
        has_notes = any(arrow.note for arrow in self.arrows)
        right = NOTES_PX if has_notes else RIGHT_PX
        return {"t": TOP_PX, "l": LEFT_PX + DIGIT_PX * longest, "r": right}

    def steps(self) -> list[tuple[float, str]]:
        """The end of each arrow and of each silence; the last step has what is below, too."""
        ends = [(arrow.at + SLANT, plain(arrow.words)) for arrow in self.arrows]
        ends += [(quiet.top + STALL - EDGE, plain(quiet.lines[0])) for quiet in self.silences]
        *steps, (_, last) = sorted(ends)
        return [*steps, (self.height, last)]

    def describe(self) -> str:
        """The text alternative: how many packets there are, and every silence."""
        silences = "; ".join(plain(", ".join(silence.lines)) for silence in self.silences)
        counts = (
            f"{sum(arrow.side == side for arrow in self.arrows)} from the {NAMES[side]}"
            for side in (0, 1)
        )
        number, ms = len(self.arrows), self.arrows[-1].time
        return f"{number} packets within {ms} ms: {', '.join(counts)}. {silences or 'No silence'}."

    def table(self) -> DataFrame:
        """One row per packet."""
        heads = ("time, ms", "from", "packet", "mark")
        rows = (
            (arrow.time, NAMES[arrow.side], plain(arrow.words), arrow.note) for arrow in self.arrows
        )
        return DataFrame(rows, columns=heads)


def ladder(
    segments: DataFrame,
    connection: int | None = None,
    *,
    rows: tuple[int, int] | None = None,
    seconds: tuple[float, float] | None = None,
    source: Source = "",
    title: str = "Packet ladder",
    also: Mapping[int, Mapping[str, Any]] | None = None,
    reasons: bool = True,
) -> Figure:
    """The packets of one connection from top to bottom; at most 120.

    `segments` is a table of segments (`labs.capture.read`). `rows` are the first and the last
    row to draw, `seconds` a range of times since the first segment of the table; `connection` is by
    default that of the first of these segments. The vertical axis is not to scale: times are at the
    left, stalls have their reasons. `source` is a run, or the text of the caption. `also` are gaps
    to name that are no stalls, by the row after them: `gap_ms`, `reason`, `waiting`, `waited_for`.
    Without `reasons`, only the length of each silence is shown.

    Raises BadInput for a range without packets, or with more than fit.
    """
    packets, chosen = _chosen(segments, connection, rows, seconds)
    state = states.connection_state(packets)
    silences = find_stalls(explained_waits(packets)[0])
    stalls = _with(silences.table[silences.table["after"].isin(chosen.index[1:])], also or {})
    if not reasons:
        stalls = stalls.assign(reason="", waiting=NOBODY)
    marked = named_marks(state.marks, state.rows).loc[chosen.index]
    foot = IN_ORDER + (RTT_UNKNOWN if silences.rtt_unknown else "")
    drawn = _Ladder(*_laid_out(chosen, marked, stalls), foot)
    rows_px = ROW_PX * (drawn.height + HEAD)
    return dressed(
        Figure(drawn.traces()),
        drawn.layout(),
        title=f"{title}: {len(chosen)} packets of connection {int(chosen['connection'].iloc[0])}",
        caption=where_from(source),
        height=round(TOP_PX + TO_CAPTION_PX + CAPTION_PX + rows_px),
        tell=drawn.describe(),
        table=drawn.table(),
        steps={"y": drawn.steps()},
    ).update_layout(margin=drawn.margin())


def ladder_of_request(
    segments: DataFrame, request: Series[Any], source: Source = "", *, title: str = "One request"
) -> Figure:
    """The packets of one request, or the first packets of a long one.

    `segments` are those of the capture, `request` is a row of
    `labs.read.flows.exchanges.exchanges`. For a link with a delay, the caption says where in the
    path the packets were captured.
    """
    rows = packets_of(segments, request)
    shown = rows[:MOST_PACKETS]
    more = "" if len(shown) == len(rows) else f", the first of {len(rows):,} packets"
    delayed = isinstance(source, Run) and source.link.asked.delay_ms
    return ladder(
        segments,
        int(request["connection"]),
        source=where_from(source) + (AFTER_DELAY if delayed else ""),
        title=title + more,
        rows=(shown[0], shown[-1]),
    )


def _with(stalls: DataFrame, also: Mapping[int, Mapping[str, Any]]) -> DataFrame:
    """Stalls and further gaps, by the row after them."""
    stalls = stalls.set_index("after")
    more = {after: gap for after, gap in also.items() if after not in stalls.index}
    return concat([stalls, DataFrame.from_dict(more, orient="index")]) if more else stalls


def _chosen(
    segments: DataFrame,
    connection: int | None,
    rows: tuple[int, int] | None,
    seconds: tuple[float, float] | None,
) -> tuple[DataFrame, DataFrame]:
    """All segments of the connection, and the requested ones."""
    asked = segments if rows is None else segments.loc[rows[0] : rows[1]]
    if seconds is not None and len(segments):
        since = (asked["time_ns"] - segments["time_ns"].iloc[0]) / 1e9
        asked = asked[since.between(*seconds)]
    if connection is not None:
        asked = asked[asked["connection"] == connection]
    if asked.empty:
        raise BadInput(_no_packets(segments))
    number = asked["connection"].iloc[0]
    chosen = asked[asked["connection"] == number]
    if len(chosen) > MOST_PACKETS:
        raise BadInput(
            f"{len(chosen)} packets are too many for a ladder; at most {MOST_PACKETS} "
            f"fit: choose rows or times, such as rows {chosen.index[0]} to "
            f"{chosen.index[MOST_PACKETS // 3 - 1]}"
        )
    packets = segments["connection"] == number
    size = int(packets.sum()) * (ROW_BYTES + states.ROW_BYTES)
    must_fit(size, f"the packets of connection {number}", IN_PARTS)
    return segments[packets], chosen


def _no_packets(segments: DataFrame) -> str:
    """Why a range has no packets."""
    if segments.empty:
        return "the capture has no TCP at all"
    return (
        f"no packets in that range: the capture has rows 0 to {len(segments) - 1} and connections "
        f"0 to {segments['connection'].max()}; choose another connection, rows or times"
    )


def _laid_out(
    chosen: DataFrame, marked: DataFrame, stalls: DataFrame
) -> tuple[list[_Arrow], list[_Silence], float]:
    """The arrows and silences with their places, and the height of all."""
    place, arrows, silences = 0.0, [], []
    since_ms = (chosen["time_ns"] - chosen["time_ns"].iloc[0]) / 1e6
    records = chosen.assign(time=since_ms.map("{:,.3f}".format)).to_dict("records")
    for label, row in zip(chosen.index.tolist(), records, strict=True):
        if label in stalls.index:
            silences.append(_silence(stalls.loc[label], place - 1 + SLANT))
            place += STALL
        notes = [name for name in MARKS if marked.at[label, name]]
        arrows.append(_arrow({**row, "row": label}, place, notes))
        place += 1
    return arrows, silences, place


def _arrow(row: Mapping[Any, Any], place: float, notes: Sequence[str]) -> _Arrow:
    implied = {IMPLIED.get(name) for name in notes}
    words, time = _words(row), row["time"]
    window = f"{row['window_bytes']:,} bytes"
    if row["window_bytes"] < 0:
        window = f"{row['window']:,}, of unknown scale"
    return _Arrow(
        at=place,
        side=row["direction"],
        words=words,
        time=time,
        note=", ".join(MARKS[name] for name in notes if name not in implied),
        is_again=not {"retransmission", "out_of_order"}.isdisjoint(notes),
        has_data=row["payload_bytes"] > 0,
        hover=f"frame {row['frame']}, row {row['row']}, {time} ms<br>{words}<br>window {window}",
    )


def _silence(row: Any, top: float) -> _Silence:
    """How long a stall is, why, and who waits for whom, in short lines."""
    lines = [f"<b>{row['gap_ms']:,.1f} ms of silence</b>", *filter(None, [row["reason"]])]
    if row["waiting"] != NOBODY:
        lines.append(f"the {row['waiting']} waits for the {row['waited_for']}")
    is_nagle = row["reason"] == NAGLE_AND_DELAYED_ACK.name
    return _Silence(top, tuple(lines), 0.28 if is_nagle else 0.16)


def _words(row: Mapping[Any, Any]) -> str:
    """A packet in words: flags, length, sequence and acknowledgement numbers."""
    flags = ", ".join(name for bit, name in FLAGS.items() if row["flags"] & bit) or "no flag"
    phrases = [f"<b>{flags}</b>"]
    if row["payload_bytes"]:
        phrases.append(f"<b>{row['payload_bytes']:,} bytes</b> · seq {row['seq_rel']:,}")
    if row["flags"] & ACK:
        phrases.append(f"ack {row['ack_rel']:,}")
    return " · ".join(phrases)
