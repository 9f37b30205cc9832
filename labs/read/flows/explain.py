"""The account of a capture: for each connection and for the file, what its time was spent on.

The time of a connection, from its first to its last segment, is divided among the reasons of
`labs.read.flows.reasons`: the parts add up to the whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy

from labs.read.capture.connection_tracking import connection_rows, number_of
from labs.read.capture.parts import whole_connections
from labs.read.capture.reader import read_columns
from labs.read.capture.segment_table import (
    FIN,
    HTTP_REQUEST,
    RST,
    SYN,
    TLS_HANDSHAKE,
    Remarks,
    Table,
    remarks,
)
from labs.read.flows import path as of_path
from labs.read.flows import reasons as why
from labs.read.flows.account import (
    CERTAIN,
    LIKELY,
    UNKNOWN,
    Account,
    Confidence,
    FileAccount,
    Finding,
    Total,
)
from labs.read.flows.connection_state import Array, ConnectionState
from labs.read.flows.dialogue import Dialogue, Gap
from labs.read.flows.limits import UNKNOWN_BYTES, Rounds
from labs.read.flows.losses import Episode
from labs.read.flows.path import Facts, facts_of
from labs.read.flows.reasons import (
    NAMES,
    NOBODY,
    ROUND_LIMITS,
    WINDOWS,
    Certainty,
    Doubt,
    Reason,
    Wait,
)
from labs.read.flows.rtt import spread_ms
from labs.read.flows.verdict import Judge
from labs.read.flows.waits import explained_waits

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_FRAMES: Final = 6
FREE: Final = (why.DELAYED_ACK, why.SPURIOUS)
"""Without anybody who waited, the time before these belongs to what limited the sender."""
ATTEMPTS: Final = (why.SYN_REPEATED, why.UNTOLD)
SENDERS: Final = (why.SEND_BUFFER, why.CONGESTION_WINDOW, why.ECN_MARKS, why.PROGRAM_WINDOW)
ENDS: Final = (why.GAVE_UP, why.IDLE_TIMEOUT, why.KEEP_ALIVE_UNANSWERED)
PASSED: Final = (why.HANDSHAKE, why.SENDING, why.ROUND_TRIP)
"""What the time of an attempt to connect is besides."""


def explain(path: str | Path, *, connection: int | str | None = None) -> FileAccount:
    """Explain a capture: for each connection what its time was spent on, most time lost first.

    `connection` selects one, by its number in `labs.capture.connections` or by both its ends
    ("10.0.0.1:40000-10.0.0.2:80"). Raises what `labs.capture.read` raises, BadInput for a
    connection that the capture does not have.
    """
    with whole_connections(path, connection) as parts:
        held, facts = remarks(parts.reader.counts), facts_of(parts.reader.connections)
        return account(str(path), parts.tables, parts.connections, held, facts)


def read_account(
    path: str | Path, connection: int | str | None = None
) -> tuple[DataFrame, FileAccount]:
    """The same, with the table of segments that it explains, which must fit into memory."""
    columns, reader = read_columns(path)
    table = columns.table()
    rows = connection_rows(reader.connections)
    if connection is not None:
        table = table[table["connection"] == number_of(rows, connection)]
    facts = facts_of(reader.connections)
    return table, account(str(path), (table,), rows, remarks(reader.counts), facts)


def account(
    file: str,
    parts: Iterable[Table],
    connections: Sequence[dict[str, Any]],
    held: Remarks,
    facts: Mapping[int, Facts],
) -> FileAccount:
    """The account of tables of segments, each with whole connections, and of the rows of these."""
    judge = Judge()

    def of_part(segments: Table) -> list[Account]:
        waits = explained_waits(segments, facts)
        judge.add(waits)
        return [
            _account(file, connection, connections[connection.number])
            for connection in waits.connections
        ]

    # As a function, so that each part is freed before the next one is read.
    accounts = [*chain.from_iterable(map(of_part, parts))]
    accounts.sort(key=lambda account: account.connection)
    accounts.sort(key=lambda account: account.rank, reverse=True)
    judged = judge.verdict(held)
    return FileAccount(file, held, judged, tuple(accounts), _totals(accounts), facts)


def _totals(accounts: Sequence[Account]) -> tuple[Total, ...]:
    """The findings of all connections, one per reason and pair of ends."""
    counts: Counter[Wait] = Counter()
    times_ms: defaultdict[Wait, float] = defaultdict(float)
    for account in accounts:
        for finding in account.findings:
            wait = Wait(finding.reason, finding.waiting, finding.waited_for)
            counts[wait] += finding.count
            times_ms[wait] += finding.time_ms
    totals = [Total(*wait, count, times_ms[wait]) for wait, count in counts.items()]
    return tuple(sorted(totals, key=lambda total: -total.time_ms))


@dataclass
class _Sum:
    """A finding while it is collected: `places` are its waits with the frames around each."""

    time_ns: int = 0
    count: int = 0
    places: list[tuple[int, int, int]] = field(default_factory=list)
    detail: str = ""
    is_sure: bool = True
    doubts: Counter[Doubt] = field(default_factory=Counter)

    def add(self, time_ns: int, frames: tuple[int, int] | None = None, count: int = 1) -> None:
        self.time_ns += time_ns
        self.count += count
        if frames is not None:
            self.places.append((time_ns, *frames))

    def finding(self, wait: Wait, *, is_doubtful: bool) -> Finding:
        longest = sorted(self.places, key=lambda place: -place[0])
        doubt = max(self.doubts, key=self.doubts.__getitem__, default=why.ACK_OR_LATE)
        is_untold = wait.reason is why.UNTOLD
        return Finding(
            *wait,
            count=self.count,
            time_ms=self.time_ns / 1e6,
            longest_ms=longest[0][0] / 1e6 if longest else 0.0,
            frames=tuple((begin, end) for _, begin, end in longest[:SHOWN_FRAMES]),
            confidence=UNKNOWN if is_untold else self._confidence(wait.reason, is_doubtful),
            detail=self.detail,
            either=doubt.either if is_untold else (),
            decide=doubt.decide if is_untold else "",
        )

    def _confidence(self, reason: Reason, is_doubtful: bool) -> Confidence:
        is_inferred = reason.certainty is Certainty.INFERRED
        needs_all = reason.certainty is not Certainty.PLAIN
        return LIKELY if is_inferred or not self.is_sure or (is_doubtful and needs_all) else CERTAIN


_Sums = defaultdict[Wait, _Sum]


def _account(file: str, connection: Dialogue, row: dict[str, Any]) -> Account:
    state, first, last = connection.state, connection.first, connection.last
    sums = _Sums(_Sum)
    _add_gaps(connection, sums)
    _add_losses(connection, sums)
    _add_end(connection, sums)
    is_doubtful = not connection.far.is_measured or connection.hole_count > 0
    findings = [total.finding(wait, is_doubtful=is_doubtful) for wait, total in sums.items()]
    return Account(
        file=file,
        connection=connection.number,
        client=_end(row["client"], row["client_port"]),
        server=_end(row["server"], row["server_port"]),
        first_frame=int(state.frame[first]),
        last_frame=int(state.frame[last - 1]),
        duration_ms=float(_lengths(state, first, last).sum()) / 1e6,
        client_bytes=int(row["client_bytes"] or 0),
        server_bytes=int(row["server_bytes"] or 0),
        rtt_ms=connection.far.rtt_ns / 1e6 if connection.far.is_measured else None,
        rtt_spread_ms=spread_ms(state, first, last),
        findings=tuple(sorted(findings, key=lambda finding: -finding.time_ms)),
        turns=_turns(state, first, last),
        options=of_path.offered(connection, row),
    )


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _lengths(state: ConnectionState, first: int, last: int) -> Array:
    """The gaps of a connection. Together they last from its first to its last segment, even if its
    clock was set back meanwhile: no time counts that comes again."""
    times = state.time_ns[first:last]
    later = numpy.minimum.accumulate(times[::-1])[::-1]
    lengths: Array = numpy.diff(numpy.maximum(later, times[0]))
    return lengths


def _add_gaps(connection: Dialogue, sums: _Sums) -> None:
    """Divide the time of a connection among the reasons of its gaps."""
    state, first = connection.state, connection.first
    lengths = _lengths(state, first, connection.last)
    is_short = numpy.ones(len(lengths), dtype=bool)
    for gap in connection.gaps:
        is_short[gap.place - first - 1] = False
        _add_gap(connection, gap, int(lengths[gap.place - first - 1]), sums)
    for place in connection.undecided:
        is_short[place - first - 1] = False
        sums[Wait(why.ROUND_TRIP)].add(int(lengths[place - first - 1]), state.frames(place))
    short = numpy.flatnonzero(is_short)
    _add_short_gaps(state, connection.rounds, short + first + 1, lengths[short], sums)


def _add_gap(connection: Dialogue, gap: Gap, length_ns: int, sums: _Sums) -> None:
    state, cause, wait_ns = connection.state, gap.cause, min(gap.wait_ns, length_ns)
    frames, by = state.frames(gap.place), state.each.direction[gap.place]
    sender = by if state.each.length[gap.place] else 1 - by
    rest = _limited(gap.rest, sender)

    def count(reason: Reason) -> int:  # rounds are counted as rounds
        return int(connection.bulk[sender] is None or reason not in ROUND_LIMITS)

    if wait_ns and cause.reason in FREE and cause.waiting == NOBODY:
        if cause.reason is why.DELAYED_ACK and gap.rest not in WINDOWS:
            sums[cause].add(0, frames)  # else the sender did wait for that ACK
        sums[rest].add(length_ns, frames, count(gap.rest))
        return
    if wait_ns:
        total = sums[cause]
        total.add(wait_ns, frames, count(cause.reason))
        total.is_sure &= gap.is_sure
        if gap.doubt is not None:
            total.doubts[gap.doubt] += wait_ns
        if gap.instead is not None and gap.wait.reason is not why.SPURIOUS:
            sums[Wait(gap.wait.reason)].add(0, frames)
    if length_ns > wait_ns:
        if gap.rest in (
            why.FAST_RECOVERY,
            why.NO_SACK,
        ):  # the round trip belongs to those who wait beyond it
            rest = gap.wait._replace(reason=gap.rest)
        sums[rest].add(length_ns - wait_ns, frames, count(gap.rest))
        if gap.rest is why.UNTOLD:
            sums[rest].doubts[why.SENDER_LIMIT] += length_ns - wait_ns


def _add_short_gaps(
    state: ConnectionState, limits: list[Rounds], places: Array, lengths: Array, sums: _Sums
) -> None:
    """The time of gaps too short to be looked at one by one, by the limit of the round."""
    if not limits and lengths.any():
        sums[Wait(why.SENDING)].add(int(lengths.sum()))
    by = state.direction[places]
    sender = numpy.where(state.length[places] > 0, by, 1 - by)
    for rounds in limits:
        chosen = (sender == rounds.direction) | (len(limits) == 1)
        _add_rounds(rounds, state.time_ns[places - 1][chosen], lengths[chosen], sums)


def _add_rounds(rounds: Rounds, times_ns: Array, lengths: Array, sums: _Sums) -> None:
    """The same for one sender: `lengths` are its gaps, `times_ns` when they began."""
    which, inside = rounds.at(times_ns)
    if outside := int(lengths[~inside].sum()):
        sums[Wait(why.SENDING)].add(outside)
    for limit in sorted({*rounds.reason.tolist()}, key=str):
        chosen = rounds.reason == limit
        total = sums[_limited(limit, rounds.direction)]
        spent_ns = int(lengths[inside & chosen[which]].sum())
        total.add(spent_ns, count=int(chosen.sum()))
        total.detail = f"at most {int(rounds.flight_bytes[chosen].max()):,} bytes in flight"
        window = int(rounds.window_bytes[chosen].max())
        if window < UNKNOWN_BYTES // 2:
            total.detail += f", window {window:,} bytes"
        if limit is why.UNTOLD:
            known = window < UNKNOWN_BYTES // 2
            doubt = why.SENDER_LIMIT if known else why.SCALE_UNKNOWN
            total.doubts[why.PATH_OR_PACED if rounds.is_even[chosen].all() else doubt] += spent_ns


def _limited(reason: Reason, sender: int) -> Wait:
    """Who waits for whom while that limits a sender."""
    if reason in WINDOWS:
        return Wait(reason, NAMES[sender], NAMES[1 - sender])
    if reason in SENDERS:
        return Wait(reason, NAMES[1 - sender], NAMES[sender])
    return Wait(reason)


def _add_losses(connection: Dialogue, sums: _Sums) -> None:
    episodes: defaultdict[Wait, list[Episode]] = defaultdict(list)
    for episode in connection.episodes:
        episodes[episode.wait].append(episode)
    for wait, alike in episodes.items():
        if wait not in sums:
            first, frame = alike[0], connection.each.frame
            sums[wait].add(0, (frame[max(first.first, 0)], frame[first.places[0]]))
        if wait.reason is why.UNTOLD:
            continue
        total = sums[wait]
        expired = sum(len(episode.timers) for episode in alike)
        repeated = sum(len(episode.places) for episode in alike)
        total.count = max(1, expired) if wait.reason is why.TIMEOUT else len(alike)
        if wait.reason in (why.PATH_MTU, why.NO_SACK):
            total.count = repeated
        elif repeated > total.count:
            total.detail = f"{repeated:,} retransmissions"
        total.detail = next((each.detail for each in alike if each.detail), total.detail)
        total.is_sure &= all(episode.is_sure for episode in alike)


def _add_end(connection: Dialogue, sums: _Sums) -> None:
    """How the connection began and ended, where that is trouble."""
    state = connection.state
    if connection.overtaken:
        side = state.each.direction[connection.overtaken[0]]
        total = sums[Wait(why.REORDERED, NOBODY, NAMES[side])]
        for place in connection.overtaken:
            total.add(0, state.frames(place))
    if connection.missing is not None:
        side, count, place = connection.missing
        total = sums[Wait(why.NEVER_ARRIVED, NAMES[1 - side], NAMES[side])]
        frame = state.each.frame[place]
        total.add(0, (frame, frame), 0)
        total.detail = f"{count:,} bytes, as the SACK of frame {frame} shows"
    repeated = sums.get(Wait(why.SYN_REPEATED, "server", "client"))
    if repeated is not None and of_path.lost_syn_ack(connection):
        repeated.detail = "the server had answered: its SYN-ACK was lost"
    flags = state.flags[connection.first : connection.last]
    resets = connection.first + numpy.flatnonzero(flags & RST)
    if not connection.is_established:
        _add_unestablished(connection, sums)
    elif len(resets) and connection.has_both:
        _add_reset(connection, int(resets[0]), sums)


def _add_unestablished(connection: Dialogue, sums: _Sums) -> None:
    """One finding for a connection that was never established, in place of its parts."""
    state, refused = connection.state, connection.refusals
    syn = (state.flags[connection.first : connection.last] & SYN) != 0
    syns = connection.count_before(connection.last, 0, SYN)
    # A single SYN may have been answered where the capture did not see it.
    alone = why.UNANSWERED if syns > 1 and syn.all() else why.UNTOLD
    reason = connection.facts.refusal or (why.REFUSED if refused else alone)
    counts = {why.REFUSED: len(refused), why.UNANSWERED: syns - 1, why.UNTOLD: 1}
    replaced = [
        wait
        for wait in sums
        if wait.reason.certainty is Certainty.PLAIN or wait.reason in (*ATTEMPTS, *PASSED)
    ]
    replaced.sort(key=lambda wait: wait.reason in PASSED)
    parts = {wait: sums.pop(wait) for wait in replaced}
    wait = Wait(reason, *NAMES)
    total = sums[wait]
    total.count = counts.get(reason, syns)
    total.time_ns = sum(part.time_ns for part in parts.values())
    total.places = [place for part in parts.values() for place in part.places]
    total.detail = parts.get(wait, total).detail
    total.doubts[why.ANSWER_UNSEEN] += 1
    if not total.places:
        at = refused[0] if refused else connection.first
        total.places = [(total.time_ns, *state.frames(at, connection.first))]


def _add_reset(connection: Dialogue, at: int, sums: _Sums) -> None:
    """The first reset, unless the connection was over by then."""
    state, by, first = connection.state, connection.each.direction[at], connection.first
    left = [
        max(0, int(sent[at] - max(0, acked[at]))) if sent[at] > 0 else 0
        for sent, acked in zip(state.sent, state.acked, strict=True)
    ]
    closed = [connection.count_before(at, side, FIN) for side in (0, 1)]
    told = {wait.reason for wait in sums}
    if all(closed) or not told.isdisjoint(ENDS):
        return
    if closed[by] and (not any(left) or (left[1 - by] <= 1 and left[by] <= 1)):
        return
    detail, is_sure = of_path.foreign_reset(connection, at)
    reason = why.FOREIGN_RESET if detail else why.RESET
    if of_path.meets_old_connection(connection, at + 1):
        return
    if not detail and of_path.refuses_syn_ack(connection, at):
        reason = why.SYN_ACK_REFUSED
    elif not detail and not any(left) and why.IDLE in told:
        reason = why.CLOSED_BY_RESET
    total = sums[Wait(reason, NAMES[1 - by], NAMES[by])]
    total.add(0, state.frames(at, first), int(total.count == 0))
    total.is_sure = is_sure or not detail
    total.detail = detail
    if reason is why.RESET:
        total.detail = "all data had been acknowledged"
    if any(left) and reason is why.RESET:
        total.detail = (
            f"unacknowledged then: {left[0]:,} bytes of the client, {left[1]:,} of the server"
        )


def _turns(state: ConnectionState, first: int, last: int) -> dict[str, int]:
    """How many requests the server answered, by what they begin with."""
    carrying = numpy.flatnonzero(state.length[first:last] > 0) + first
    direction, content = state.direction[carrying], state.content[carrying]
    answered = (direction[1:] == 1) & (direction[:-1] == 0)
    requests, responses = content[:-1][answered].tolist(), content[1:][answered].tolist()
    turns: Counter[str] = Counter()
    for request, response in zip(requests, responses, strict=True):
        kind = why.HTTP_TURN if request == HTTP_REQUEST else why.TURN
        turns[why.TLS_TURN.name if TLS_HANDSHAKE in (request, response) else kind.name] += 1
    return dict(turns)
