"""The packet ladder: two vertical lines, one arrow per packet, stalls with their reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from pandas import DataFrame, concat
from plotly.graph_objects import Figure, Scatter

from labs.errors import BadInput
from labs.read.capture.segment_table import (
    ACK,
    CWR,
    ECE,
    FIN,
    IN_PARTS,
    PSH,
    RST,
    SYN,
    URG,
    must_fit,
)
from labs.read.capture.segment_table import ROW_BYTES as TABLE_BYTES
from labs.read.capture.tcp_marks import named_marks
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
from labs.read.flows.connection_state import ROW_BYTES, connection_state
from labs.read.flows.reasons import NAGLE_AND_DELAYED_ACK, NOBODY
from labs.read.flows.stalls import find_stalls
from labs.read.flows.verdict import explained_waits

MOST_PACKETS, USUAL_PACKETS = 120, 40
ROW_PX = 28
TOP_PX = 88
LEFT_PX, DIGIT_PX, NOTES_PX, RIGHT_PX = 22, 7, 120, 28
"""The margins: the left one holds the times, the right one the marks of packets."""
SLANT, STALL = 0.45, 2.3
NOTE_LETTERS = 16
"""How many letters of a note fit next to the right line."""
IN_ORDER = "in chronological order, not to scale"
RTT_UNKNOWN = "; the RTT cannot be measured: not all stalls are marked"
COLOURS = (BLUE, GREEN)
FLAGS = (
    (SYN, "SYN"),
    (FIN, "FIN"),
    (RST, "RST"),
    (PSH, "PSH"),
    (URG, "URG"),
    (ACK, "ACK"),
    (ECE, "ECE"),
    (CWR, "CWR"),
)
# Said in this order; a packet has one or two.
SAID = {
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
AGAIN = ("retransmission", "out_of_order")


EDGE = 0.12
"""Between a silence and the packets around it."""


@dataclass(frozen=True)
class _Arrow:
    at: float
    side: int
    words: str
    time: str
    note: str
    again: bool
    data: bool
    hover: str


def ladder(
    segments: DataFrame,
    connection: int | None = None,
    *,
    rows: tuple[int, int] | None = None,
    seconds: tuple[float, float] | None = None,
    source: Source = "",
    names: Sequence[str] = ("client", "server"),
    title: str = "Packet ladder",
    also: Mapping[int, Mapping[str, Any]] | None = None,
    reasons: bool = True,
) -> Figure:
    """The packets of one connection from top to bottom; at most 120.

    `segments` is a table of segments (`labs.capture.read`). `rows` are the first and the last
    row to draw, `seconds` a range of times since the first segment of the table; `connection` is by
    default that of the first of these segments. The vertical axis is not to scale: times are at the
    left, stalls have their reasons. `names` are those of the client and the server. `source` is a
    run, or the text of the caption. `also` are gaps to name that are no stalls, by the row after
    them: `gap_ms`, `reason`, `waiting`, `waited_for`. Without `reasons`, only the length of each
    silence is shown.

    Raises BadInput for a range without packets, or with more than fit.
    """
    packets, chosen = _stretch(segments, connection, rows, seconds)
    state = connection_state(packets)
    silences = find_stalls(explained_waits(packets)[0])
    stalls = _with(silences.table[silences.table["after"].isin(chosen.index[1:])], also or {})
    if not reasons:
        stalls = stalls.assign(reason="", waiting=NOBODY)
    marked = named_marks(state.marks, state.rows).loc[chosen.index]
    figure = Figure()
    arrows, bars, height = _laid_out(chosen, marked, stalls, int(chosen["time_ns"].iloc[0]))
    _draw(figure, arrows, names)
    figure.update_layout(**_written(arrows, bars, names, height, silences.rtt_unknown))
    number = int(chosen["connection"].iloc[0])
    below_px = TO_CAPTION_PX + CAPTION_PX
    dressed(
        figure,
        title=f"{title}: {len(chosen)} packets of connection {number}",
        caption=where_from(source),
        height=round(TOP_PX + below_px + ROW_PX * (height + 1.3)),
        tell=_tell(arrows, stalls, names),
        table=_numbers(arrows, names),
        steps={"y": _steps(arrows, bars, names, height)},
    )
    figure.update_xaxes(visible=False, range=[0, 1], fixedrange=True)
    figure.update_yaxes(visible=False, range=[height, -1.3])
    noted = any(arrow.note for arrow in arrows)
    longest = max(len(arrow.time) for arrow in arrows)
    return figure.update_layout(
        margin={
            "t": TOP_PX,
            "l": LEFT_PX + DIGIT_PX * longest,
            "r": NOTES_PX if noted else RIGHT_PX,
        }
    )


def _written(
    arrows: Sequence[_Arrow],
    bars: Sequence[tuple[float, Any]],
    names: Sequence[str],
    height: float,
    rtt_unknown: int,
) -> dict[str, Any]:
    """All words and shapes at once: added one by one, each addition would check all existing."""
    return {
        "annotations": [
            *(text for arrow in arrows for text in _texts(arrow)),
            *(_name(top, row, names) for top, row in bars),
            *_heads(names),
            _text(0.5, height, _foot(rtt_unknown), GREY, yanchor="bottom"),
        ],
        "shapes": [
            *(_bar(top, row) for top, row in bars),
            *(_line(side, height) for side in (0, 1)),
        ],
        "legend": LEGEND_ABOVE,
    }


def _steps(
    arrows: Sequence[_Arrow], bars: Sequence[tuple[float, Any]], names: Sequence[str], height: float
) -> list[tuple[float, str]]:
    """The end of each arrow and of each silence; the last step has what is below, too."""
    packets = [(arrow.at + SLANT, plain(arrow.words)) for arrow in arrows]
    silences = [(top + STALL - EDGE, plain(_of_stall(row, names)[0])) for top, row in bars]
    steps = sorted([*packets, *silences])
    return [*steps[:-1], (height, steps[-1][1])]


def _with(stalls: DataFrame, also: Mapping[int, Mapping[str, Any]]) -> DataFrame:
    """Stalls and further gaps, by the row after them."""
    stalls = stalls.set_index("after")
    more = {after: gap for after, gap in also.items() if after not in stalls.index}
    return concat([stalls, DataFrame.from_dict(more, orient="index")]) if more else stalls


def _foot(rtt_unknown: int) -> str:
    return IN_ORDER + (RTT_UNKNOWN if rtt_unknown else "")


def _numbers(arrows: Sequence[_Arrow], names: Sequence[str]) -> DataFrame:
    """One row per packet that is drawn."""
    return DataFrame(
        {
            "time, ms": arrow.time,
            "from": names[arrow.side],
            "packet": plain(arrow.words),
            "mark": arrow.note,
        }
        for arrow in arrows
    )


def _tell(arrows: list[_Arrow], stalls: DataFrame, names: Sequence[str]) -> str:
    """The text alternative: how many packets there are, and every stall."""
    of = [sum(arrow.side == side for arrow in arrows) for side in (0, 1)]
    silences = [plain(", ".join(_of_stall(row, names))) for _, row in stalls.iterrows()]
    return (
        f"{len(arrows)} packets within {arrows[-1].time} ms: {of[0]} from the {names[0]}, {of[1]} "
        f"from the {names[1]}. {'; '.join(silences) or 'No silence'}."
    )


def _stretch(
    segments: DataFrame,
    connection: int | None,
    rows: tuple[int, int] | None,
    seconds: tuple[float, float] | None,
) -> tuple[DataFrame, DataFrame]:
    """All segments of the connection, and the requested ones."""
    asked = segments
    if rows is not None:
        asked = asked.loc[rows[0] : rows[1]]
    if seconds is not None and len(segments):
        since = (asked["time_ns"] - segments["time_ns"].iloc[0]) / 1e9
        asked = asked[(since >= seconds[0]) & (since <= seconds[1])]
    if connection is not None:
        asked = asked[asked["connection"] == connection]
    if asked.empty:
        numbers = sorted(segments["connection"].unique().tolist())
        if not numbers:
            raise BadInput("the capture has no TCP at all")
        raise BadInput(
            f"no packets in that range: the capture has rows 0 to "
            f"{len(segments) - 1} and connections 0 to {numbers[-1]}; choose another "
            "connection, rows or times"
        )
    number = asked["connection"].iloc[0]
    chosen = asked[asked["connection"] == number]
    if len(chosen) > MOST_PACKETS:
        raise BadInput(
            f"{len(chosen)} packets are too many for a ladder; at most {MOST_PACKETS} "
            f"fit: choose rows or times, such as rows {chosen.index[0]} to "
            f"{chosen.index[MOST_PACKETS // 3 - 1]}"
        )
    packets = segments["connection"] == number
    must_fit(
        int(packets.sum()) * (TABLE_BYTES + ROW_BYTES),
        f"the packets of connection {number}",
        IN_PARTS,
    )
    return segments[packets], chosen


def _laid_out(
    chosen: DataFrame, marked: DataFrame, stalls: DataFrame, begin_ns: int
) -> tuple[list[_Arrow], list[tuple[float, Any]], float]:
    """The arrows and stalls with their places, and the height of all."""
    place, arrows, bars = 0.0, [], []
    for label, row in zip(chosen.index.tolist(), chosen.to_dict("records"), strict=True):
        if label in stalls.index:
            bars.append((place - 1 + SLANT, stalls.loc[label]))
            place += STALL
        notes = [name for name in SAID if marked.at[label, name]]
        implied = {IMPLIED[name] for name in notes if name in IMPLIED}
        time = f"{(row['time_ns'] - begin_ns) / 1e6:,.3f}"
        words = _words(row)
        arrows.append(
            _Arrow(
                at=place,
                side=row["direction"],
                words=words,
                time=time,
                note=", ".join(SAID[name] for name in notes if name not in implied),
                again=any(name in AGAIN for name in notes),
                data=row["payload_bytes"] > 0,
                hover=f"frame {row['frame']}, row {label}, {time} ms<br>{words}<br>"
                f"window {_window(row)}",
            )
        )
        place += 1
    return arrows, bars, place


def _window(row: Mapping[Any, Any]) -> str:
    if row["window_bytes"] < 0:
        return f"{row['window']:,}, of unknown scale"
    return f"{row['window_bytes']:,} bytes"


def _words(row: Mapping[Any, Any]) -> str:
    """A packet in words: flags, length, sequence and acknowledgement numbers."""
    flags = ", ".join(name for bit, name in FLAGS if row["flags"] & bit) or "no flag"
    phrases = [f"<b>{flags}</b>"]
    if row["payload_bytes"]:
        phrases.append(f"<b>{row['payload_bytes']:,} bytes</b> · seq {row['seq_rel']:,}")
    if row["flags"] & ACK:
        phrases.append(f"ack {row['ack_rel']:,}")
    return " · ".join(phrases)


def _draw(figure: Figure, arrows: list[_Arrow], names: Sequence[str]) -> None:
    for side in (0, 1):
        for again in (False, True):
            for data in (True, False):
                shown = [
                    arrow
                    for arrow in arrows
                    if (arrow.side, arrow.again, arrow.data) == (side, again, data)
                ]
                name = "retransmitted or out of order" if again else f"from the {names[side]}"
                _lines(figure, shown, name, VERMILION if again else COLOURS[side], data, again)


def _texts(arrow: _Arrow) -> list[dict[str, Any]]:
    """The texts of an arrow: its words, its time at the left, its marks at the right."""
    middle = arrow.at + SLANT / 2
    texts = [
        _text(0.5, middle, arrow.words, BLACK, yanchor="bottom", yshift=1),
        _text(0, middle, arrow.time, GREY, xanchor="right", xshift=-10),
    ]
    if arrow.note:
        note = "<br>".join(wrap(arrow.note, NOTE_LETTERS))
        texts.append(_text(1, middle, note, VERMILION, xanchor="left", xshift=10, align="left"))
    return texts


def _text(
    x: float, y: float, words: str, colour: str, size: float = 12, **place: Any
) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "text": words,
        "showarrow": False,
        "font": {"size": size, "color": colour},
        **place,
    }


def _lines(
    figure: Figure, arrows: list[_Arrow], name: str, colour: str, data: bool, again: bool
) -> None:
    """Arrows of one kind: data thick, acknowledgements thin, retransmissions dashed."""
    if not arrows:
        return
    shown = {trace.name for trace in figure.data}
    figure.add_trace(
        Scatter(
            x=[x for arrow in arrows for x in (arrow.side, 1 - arrow.side, None)],
            y=[y for arrow in arrows for y in (arrow.at, arrow.at + SLANT, None)],
            mode="lines+markers",
            name=name,
            legendgroup=name,
            showlegend=name not in shown,
            line={
                "color": colour,
                "width": 2.6 if data else 1.3,
                "dash": "dash" if again else "solid",
            },
            marker={
                "symbol": "arrow",
                "size": [0, 13 if data else 10, 0] * len(arrows),
                "angleref": "previous",
                "color": colour,
                "opacity": 1,
            },
            text=[arrow.hover for arrow in arrows for _ in range(3)],
            hovertemplate="%{text}<extra></extra>",
        )
    )


def _bar(top: float, row: Any) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": 0,
        "x1": 1,
        "y0": top + EDGE,
        "y1": top + STALL - EDGE,
        "fillcolor": ORANGE,
        "line": {"width": 0},
        "layer": "below",
        "opacity": 0.28 if row["reason"] == NAGLE_AND_DELAYED_ACK else 0.16,
    }


def _name(top: float, row: Any, names: Sequence[str]) -> dict[str, Any]:
    return _text(0.5, top + STALL / 2, "<br>".join(_of_stall(row, names)), BLACK, 12)


def _of_stall(row: Any, names: Sequence[str]) -> list[str]:
    """How long a stall is, why, and who waits for whom, in short lines."""
    told = dict(zip(("client", "server"), names, strict=True))
    words = [f"<b>{row['gap_ms']:,.1f} ms of silence</b>", *filter(None, [row["reason"]])]
    if row["waiting"] != NOBODY:
        words.append(f"the {told[row['waiting']]} waits for the {told[row['waited_for']]}")
    return words


def _heads(names: Sequence[str]) -> list[dict[str, Any]]:
    heads = [
        _text(
            side,
            -0.5,
            f"<b>{names[side]}</b>",
            BLACK,
            14,
            yanchor="bottom",
            yshift=3,
            xanchor="right" if side else "center",
            xshift=20 if side else 0,
        )
        for side in (0, 1)
    ]
    return [
        *heads,
        _text(0, -0.5, "ms", GREY, xanchor="right", xshift=-34, yanchor="bottom", yshift=4),
    ]


def _line(side: int, height: float) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": side,
        "x1": side,
        "y0": -0.5,
        "y1": height,
        "layer": "below",
        "line": {"color": BLACK, "width": 2},
    }
