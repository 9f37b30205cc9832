"""Requests and their responses: the steps of each, its longest gap, and who waited for whom.

A request is the data that the client sends before the server responds; the exchange lasts until
the next request. Only headers are used, so a capture without payload is sufficient, and any
protocol of requests and responses can be analysed.

The steps of article 3 (A3.3, A3.4) are `ARTICLE_OFF` and `ARTICLE_ON`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy
from pandas import DataFrame

from labs.read.capture import tcp_marks as bits
from labs.read.capture.segment_table import ACK, FIN, IN_PARTS, RST, SYN, must_fit
from labs.read.flows.connection_state import ConnectionState, Elements
from labs.read.flows.reasons import IDLE, Wait
from labs.read.flows.waits import MIN_GAP_MS, Waits, explained_waits

REQUEST: Final = "request"
FIRST: Final = "first part"
REST: Final = "rest"
WHOLE: Final = "whole response"
SILENCE: Final = "silence"
CLIENT_ACK: Final = "client's ACK"
SERVER_ACK: Final = "server's ACK"
AGAIN: Final = "retransmission"
LATE: Final = "out of order"
PROBE: Final = "probe"
WINDOW: Final = "window update"
AND_SO_ON: Final = "and so on"

ARTICLE_OFF: Final = (REQUEST, FIRST, SILENCE, CLIENT_ACK, REST, CLIENT_ACK)
ARTICLE_ON: Final = (REQUEST, FIRST, REST, CLIENT_ACK)
MOST_STEPS: Final = 16
"""Longer lists end with "and so on", because responses of many segments are not compared."""

EXCHANGE_BYTES: Final = 1_200
"""Memory per row while `exchanges` makes the table; measured."""

COLUMNS: Final = (
    "connection", "request", "at_ns", "first_row", "last_row", "segments", "request_bytes",
    "answer_bytes", "first_byte_ms", "latency_ms", "gap_ms", "gap_before", "reason", "waiting",
    "waited_for", "steps",
)  # fmt: skip


@dataclass(frozen=True)
class Followed:
    """How many requests follow a list of steps, and the steps of the others with their counts."""

    steps: tuple[str, ...]
    follow: int
    others: dict[tuple[str, ...], int]

    @property
    def requests(self) -> int:
        return self.follow + sum(self.others.values())

    @property
    def share(self) -> float:
        """From 0 to 1; NaN if there is no request."""
        return self.follow / self.requests if self.requests else float("nan")


def exchanges(segments: DataFrame, *, min_gap_ms: float = MIN_GAP_MS) -> DataFrame:
    """One row per request, ordered by time, of a table of segments (`labs.capture.read`).

    `connection`, `request` (its number on the connection, from 0), `at_ns`, `first_row`,
    `last_row` (labels of the table), `segments`, `request_bytes`, `answer_bytes`,
    `first_byte_ms` and `latency_ms` (from the request's first segment to the response's first and
    last; NaN without a response), `gap_ms` (the longest gap; a stall, as below, takes precedence
    over a gap that the distance explains) and `gap_before` (the label of the segment that ended
    it), `reason`, `waiting` and `waited_for` (see `labs.read.flows.reasons`), `steps` (a tuple of
    the names of this module). A gap is a step (SILENCE) if it exceeds, by `min_gap_ms`, the time
    that the end which ends it takes to answer.
    Raises Missing if it takes more memory than is available.
    """
    waits = explained_waits(segments)
    bounds = _bounds(waits.state)
    must_fit(len(bounds) * EXCHANGE_BYTES, f"{len(bounds):,} requests", IN_PARTS)
    rows = [_row(waits, number, first, last, min_gap_ms * 1e6) for number, first, last in bounds]
    table = DataFrame(rows, columns=list(COLUMNS))
    return table.sort_values("at_ns", kind="stable", ignore_index=True)


def followed(table: DataFrame, steps: Sequence[str]) -> Followed:
    """How many rows of `exchanges` take these steps, and the other steps by descending count."""
    wanted = tuple(steps)
    counts = Counter(table["steps"])
    follow = counts.pop(wanted, 0)
    return Followed(wanted, follow, dict(counts.most_common()))


def describe_steps(steps: Sequence[str]) -> str:
    """Steps as one line: request; first part; silence; client's ACK; rest; client's ACK."""
    return "; ".join(steps)


def _bounds(state: ConnectionState) -> list[tuple[int, int, int]]:
    """Number, first place and end of every exchange.

    The end of the connection and keep-alives also end an exchange.
    """
    asks = (state.length > 0) & (state.direction == 0) & (state.end > state.sent[0])
    answers = (state.length > 0) & (state.direction == 1)
    over = ((state.flags & (FIN | RST | SYN)) != 0) & (state.length == 0)
    room = numpy.where(
        state.direction == 0, state.edge[0] - state.sent[0], state.edge[1] - state.sent[1]
    )
    over |= ((state.marks & bits.KEEP_ALIVE) != 0) & (room > 0)
    bounds = []
    for first, last in state.edges:
        number, begun, answered = 0, -1, False
        for at in range(first, last):
            if begun >= 0 and (over[at] or (asks[at] and answered)):
                bounds.append((number, begun, at))
                number, begun, answered = number + 1, -1, False
            if asks[at] and begun < 0:
                begun = at
            answered = answered or bool(answers[at])
        if begun >= 0:
            bounds.append((number, begun, last))
    return bounds


def _row(waits: Waits, number: int, first: int, last: int, min_gap_ns: float) -> tuple[object, ...]:
    state, each = waits.state, waits.state.each
    times, rows = each.time_ns, state.rows
    answer = numpy.flatnonzero((state.length[first:last] > 0) & (state.direction[first:last] == 1))
    ends = (first + answer[[0, -1]]).tolist() if len(answer) else []
    stalled = [place for place in range(first + 1, last) if waits.is_stalled(place, min_gap_ns)]

    def length_ns(at: int) -> int:
        return waits.gaps[at].wait_ns if stalled else times[at] - times[at - 1]

    # A stall takes precedence over a longer gap that the distance explains.
    longest = max(stalled or range(first + 1, last), key=length_ns, default=None)
    wait = Wait(IDLE) if longest is None else waits.why(longest)
    return (
        int(state.connection[first]),
        number,
        times[first],
        rows[first],
        rows[last - 1],
        last - first,
        _new_bytes(state, 0, first, last),
        _new_bytes(state, 1, first, last),
        *([(times[at] - times[first]) / 1e6 for at in ends] or [float("nan")] * 2),
        0.0 if longest is None else (times[longest] - times[longest - 1]) / 1e6,
        None if longest is None else rows[longest],
        wait.reason.name,
        wait.waiting,
        wait.waited_for,
        _steps(state, range(first, last), stalled),
    )


def _new_bytes(state: ConnectionState, side: int, first: int, last: int) -> int:
    """The bytes that a side sent: retransmitted bytes count once; missing packets are included."""
    carries = (state.direction[first:last] == side) & (state.length[first:last] > 0)
    if not carries.any():
        return 0
    begin = state.begin[first:last][carries]
    reach = int((begin + state.length[first:last][carries]).max())
    return max(0, reach - max(int(begin.min()), int(state.sent[side][first])))


def _steps(state: ConnectionState, places: range, stalled: Sequence[int]) -> tuple[str, ...]:
    """The steps in order; a step that repeats is listed once."""
    steps: list[str] = []
    for at in places:
        if at in stalled:
            steps.append(SILENCE)
        step = _step(state.each, at, begun=FIRST in steps or REST in steps)
        goes_on = step == REST and steps[-2:] == [REST, CLIENT_ACK]
        if step is not None and [step] != steps[-1:] and not goes_on:
            steps.append(step)
        if len(steps) > MOST_STEPS:
            return (*steps[:MOST_STEPS], AND_SO_ON)
    if FIRST in steps and REST not in steps:
        steps = [WHOLE if name == FIRST else name for name in steps]
    return tuple(steps)


def _step(each: Elements, at: int, *, begun: bool) -> str | None:
    marked, by = each.marks[at], each.direction[at]
    if marked & (bits.KEEP_ALIVE | bits.ZERO_WINDOW_PROBE):
        return PROBE
    if each.length[at]:
        if each.end[at] <= each.sent[by][at]:
            return LATE if marked & bits.OUT_OF_ORDER else AGAIN
        return REQUEST if by == 0 else REST if begun else FIRST
    if marked & bits.WINDOW_UPDATE:
        return WINDOW
    if each.flags[at] & ACK:
        return CLIENT_ACK if by == 0 else SERVER_ACK
    return None
