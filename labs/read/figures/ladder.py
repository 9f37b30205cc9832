"""The packet ladder: two vertical lines, one arrow per packet, stalls with their reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def ladder(
    segments: DataFrame,
    connection: int | None = None,
    *,
    rows: tuple[int, int] | None = None,
    source: Source = "",
    title: str = "Packet ladder",
    also: Mapping[int, Mapping[str, Any]] | None = None,
    reasons: bool = True,
) -> Figure:
    """The packets of one connection from top to bottom; at most 120.

    `segments` is a table of segments (`labs.capture.read`). `rows` are the first and the last row
    to draw; `connection` is by default that of the first of these segments. The vertical axis is
    not to scale: times are at the left, stalls have their reasons. `source` is a run, or the text
    of the caption. `also` are gaps to name that are no stalls, by the row after them: `gap_ms`,
    `reason`, `waiting`, `waited_for`. Without `reasons`, only the length of each silence is shown.

    Raises BadInput for a range without packets, or with more than fit.
    """
    packets, chosen = _chosen(segments, connection, rows)
    arrows = _arrows(packets, chosen)
    silences = find_stalls(explained_waits(packets))
    gaps = silences.table.set_index("after")
    more = {row: gap for row, gap in (also or {}).items() if row not in gaps.index}
    if more:
        gaps = concat([gaps, DataFrame.from_dict(more, orient="index")])
    if not reasons:
        gaps = gaps.assign(reason="", waiting=NOBODY)
    is_late = arrows.index.isin(gaps.index) & (arrows.index != arrows.index[0])
    arrows["at"] = (1 + STALL * is_late).cumsum() - 1
    beside = {"left_index": True, "right_index": True, "suffixes": ("", "_of_gap")}
    quiet = _silences(arrows[is_late].merge(gaps, **beside))
    height = float(arrows["at"].iloc[-1]) + 1
    foot = IN_ORDER + (RTT_UNKNOWN if silences.rtt_unknown else "")
    left_px = LEFT_PX + DIGIT_PX * int(arrows["time"].str.len().max())
    right_px = NOTES_PX if any(arrows["note"]) else RIGHT_PX
    return dressed(
        Figure(_traces(arrows)),
        {
            "annotations": [*_words(arrows, quiet), *_around(height, foot)],
            "shapes": [*_bars(quiet), *_lines(height)],
            "legend": LEGEND_ABOVE,
            "xaxis": {"visible": False, "range": [0, 1], "fixedrange": True},
            "yaxis": {"visible": False, "range": [height, -HEAD]},
        },
        title=f"{title}: {len(chosen)} packets of connection {int(chosen['connection'].iloc[0])}",
        caption=where_from(source),
        height=round(TOP_PX + TO_CAPTION_PX + CAPTION_PX + ROW_PX * (height + HEAD)),
        tell=_describe(arrows, quiet),
        table=_table(arrows),
        steps={"y": _steps(arrows, quiet, height)},
    ).update_layout(margin={"t": TOP_PX, "l": left_px, "r": right_px})


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


def _chosen(
    segments: DataFrame, connection: int | None, rows: tuple[int, int] | None
) -> tuple[DataFrame, DataFrame]:
    """All segments of the connection, and the requested ones."""
    asked = segments if rows is None else segments.loc[rows[0] : rows[1]]
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


def _arrows(packets: DataFrame, chosen: DataFrame) -> DataFrame:
    """One row per packet to draw: its words, time and marks, and what its arrow looks like."""
    state = states.connection_state(packets)
    marks = named_marks(state.marks, state.rows).loc[chosen.index]
    is_again = marks["retransmission"] | marks["out_of_order"]
    since_ms = (chosen["time_ns"] - chosen["time_ns"].iloc[0]) / 1e6
    # A fast or spurious retransmission is named by its kind.
    marks["retransmission"] &= ~(marks["fast_retransmission"] | marks["spurious_retransmission"])
    return chosen.assign(
        row=chosen.index,
        time=since_ms.map("{:,.3f}".format),
        words=[_packet(row) for row in chosen.to_dict("records")],
        note=[
            ", ".join(words for name, words in MARKS.items() if row[name])
            for row in marks.to_dict("records")
        ],
        is_again=is_again,
        is_bare=chosen["payload_bytes"] == 0,
    )


def _packet(row: Mapping[Any, Any]) -> str:
    """A packet in words: flags, length, sequence and acknowledgement numbers."""
    flags = ", ".join(name for bit, name in FLAGS.items() if row["flags"] & bit) or "no flag"
    phrases = [f"<b>{flags}</b>"]
    if row["payload_bytes"]:
        phrases.append(f"<b>{row['payload_bytes']:,} bytes</b> · seq {row['seq_rel']:,}")
    if row["flags"] & ACK:
        phrases.append(f"ack {row['ack_rel']:,}")
    return " · ".join(phrases)


def _silences(late: DataFrame) -> DataFrame:
    """One row per silence before a packet: where its bar begins, its lines, and its opacity."""
    because = late["reason"] == NAGLE_AND_DELAYED_ACK.name
    return DataFrame(
        {
            "top": late["at"] - 1 - STALL + SLANT,
            "lines": [_why(row) for row in late.to_dict("records")],
            "opacity": because.map({True: 0.28, False: 0.16}),
        }
    )


def _why(gap: Mapping[Any, Any]) -> list[str]:
    """How long a silence is, why, and who waits for whom, in short lines."""
    lines = [f"<b>{gap['gap_ms']:,.1f} ms of silence</b>"]
    if gap["reason"]:
        lines.append(gap["reason"])
    if gap["waiting"] != NOBODY:
        lines.append(f"the {gap['waiting']} waits for the {gap['waited_for']}")
    return lines


def _traces(arrows: DataFrame) -> list[Trace]:
    """Arrows by kind: data thick, acknowledgements thin, retransmissions dashed."""
    traces = []
    for _, some in arrows.groupby(["direction", "is_again", "is_bare"]):
        first = some.iloc[0]
        side, colour, dash = int(first["direction"]), VERMILION, "dash"
        name = AGAIN
        if not first["is_again"]:
            name, colour, dash = f"from the {NAMES[side]}", COLOURS[side], "solid"
        width, size = (1.3, 10) if first["is_bare"] else (2.6, 13)
        xs = [side, 1 - side, None] * len(some)
        ys = apart(some["at"], some["at"] + SLANT)
        says = hover(map(_hover, some.loc[some.index.repeat(3)].to_dict("records")))
        look = Look(colour, dash, width=width)
        trace = points(xs, ys, name, look, "lines+markers", legendgroup=name, **says)
        head = {"symbol": "arrow", "size": [0, size, 0] * len(some), "angleref": "previous"}
        traces.append({**trace, "marker": {**head, "opacity": 1, "color": colour}})
    once_in_legend(traces)
    return traces


def _hover(row: Mapping[Any, Any]) -> str:
    window = f"{row['window_bytes']:,} bytes"
    if row["window_bytes"] < 0:
        window = f"{row['window']:,}, of unknown scale"
    place = f"frame {row['frame']}, row {row['row']}, {row['time']} ms"
    return f"{place}<br>{row['words']}<br>window {window}"


def _words(arrows: DataFrame, quiet: DataFrame) -> Iterator[dict[str, Any]]:
    """Of each packet its words, its time at the left, its marks at the right; of each silence its
    lines in the middle."""
    for row in arrows.to_dict("records"):
        middle = row["at"] + SLANT / 2
        yield text_at(0.5, middle, row["words"], yanchor="bottom", yshift=1)
        yield text_at(0, middle, row["time"], GREY, xanchor="right", xshift=-10)
        if row["note"]:
            note = "<br>".join(wrap(row["note"], NOTE_LETTERS))
            right: dict[str, Any] = {"align": "left", "xanchor": "left", "xshift": 10}
            yield text_at(1, middle, note, VERMILION, **right)
    for top, lines in zip(quiet["top"], quiet["lines"], strict=True):
        yield text_at(0.5, top + STALL / 2, "<br>".join(lines))


def _around(height: float, foot: str) -> list[dict[str, Any]]:
    """The names of both sides and of the times, and what is below all."""
    left, right = (f"<b>{name}</b>" for name in NAMES)
    above: dict[str, Any] = {"yanchor": "bottom"}
    return [
        text_at(0, -0.5, left, size=14, yshift=3, xanchor="center", **above),
        text_at(1, -0.5, right, size=14, yshift=3, xanchor="right", xshift=20, **above),
        text_at(0, -0.5, "ms", GREY, yshift=4, xanchor="right", xshift=-34, **above),
        text_at(0.5, height, foot, GREY, **above),
    ]


def _bars(quiet: DataFrame) -> Iterator[dict[str, Any]]:
    """The bar of each silence between both lines."""
    look = {"type": "rect", "layer": "below", "fillcolor": ORANGE, "line": {"width": 0}}
    for top, opacity in zip(quiet["top"], quiet["opacity"], strict=True):
        ends = {"x0": 0, "x1": 1, "y0": top + EDGE, "y1": top + STALL - EDGE}
        yield {**look, **ends, "opacity": opacity}


def _lines(height: float) -> list[dict[str, Any]]:
    """The lines of both sides."""
    line = {"type": "line", "layer": "below", "line": {"color": BLACK, "width": 2}}
    return [{**line, "x0": x, "x1": x, "y0": -0.5, "y1": height} for x in (0, 1)]


def _steps(arrows: DataFrame, quiet: DataFrame, height: float) -> list[tuple[float, str]]:
    """The end of each arrow and of each silence; the last step has what is below, too."""
    ends = [*(arrows["at"] + SLANT), *(quiet["top"] + STALL - EDGE)]
    words = [*arrows["words"], *(lines[0] for lines in quiet["lines"])]
    *steps, (_, last) = sorted(zip(ends, map(plain, words), strict=True))
    return [*steps, (height, last)]


def _describe(arrows: DataFrame, quiet: DataFrame) -> str:
    """The text alternative: how many packets there are, and every silence."""
    silences = "; ".join(plain(", ".join(lines)) for lines in quiet["lines"])
    sides = [*arrows["direction"]]
    counts = ", ".join(f"{sides.count(side)} from the {NAMES[side]}" for side in (0, 1))
    ms = arrows["time"].iloc[-1]
    return f"{len(arrows)} packets within {ms} ms: {counts}. {silences or 'No silence'}."


def _table(arrows: DataFrame) -> DataFrame:
    return DataFrame(
        {
            "time, ms": arrows["time"],
            "from": [NAMES[side] for side in arrows["direction"]],
            "packet": arrows["words"].map(plain),
            "mark": arrows["note"],
        }
    )
