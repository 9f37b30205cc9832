"""The account of a capture: for each connection and for the file, what its time was spent on.

The time of a connection, from its first to its last segment, is divided among the reasons of
`labs.read.flows.reasons`: the parts add up to the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy

from labs.read.capture.connection_tracking import UNREACHABLE, connection_rows, number_of
from labs.read.capture.parts import whole_connections
from labs.read.capture.reader import read_columns
from labs.read.capture.segment_table import (
    ACK,
    FIN,
    HTTP_REQUEST,
    RST,
    SYN,
    TLS_HANDSHAKE,
    Remarks,
    Table,
    remarks,
)
from labs.read.flows.connection_gaps import WINDOWS, refusals
from labs.read.flows.connection_state import ConnectionState
from labs.read.flows.limits import LIMITS, UNKNOWN_BYTES, Rounds
from labs.read.flows.reasons import (
    CLOSED_LATE,
    CONGESTION_WINDOW,
    DELAYED_ACK,
    DOUBLE_LOSS,
    FAST_RECOVERY,
    FILTERED,
    GAVE_UP,
    HANDSHAKE,
    HTTP_TURN,
    NAMES,
    NOBODY,
    PATH,
    REFUSED,
    RESET,
    ROUND_TRIP,
    SEND_BUFFER,
    SENDING,
    SPURIOUS,
    SYN_REPEATED,
    TAIL_LOSS,
    TIMEOUT,
    TLS_TURN,
    TURN,
    UNANSWERED,
    UNREACHABLE_HOST,
    UNTOLD,
    explained,
)
from labs.read.flows.rtt import spreads_ms
from labs.read.flows.verdict import Judge, Verdict, explained_waits
from labs.read.flows.waits import LOOKED_AT_NS, Waits

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_FRAMES: Final = 6
CERTAIN, LIKELY = "certain", "likely"
INFERRED: Final = (SEND_BUFFER, CONGESTION_WINDOW, PATH, TAIL_LOSS, UNTOLD)
"""The capture shows these only by what is missing or by a pattern."""
LOSSES: Final = (TIMEOUT, TAIL_LOSS, DOUBLE_LOSS, FAST_RECOVERY, SPURIOUS, GAVE_UP)
NEVER_ANSWERED: Final = (REFUSED, FILTERED, UNREACHABLE_HOST, UNANSWERED)
HOST_CODES: Final = (0, 1, 5, 6, 7, 8, 11, 12)
"""Codes of ICMP type 3 by which a router says that it has no route, or that nobody is there. The
others are of a firewall: 9, 10 and 13 (RFC 1812 5.2.7.1), and 2 and 3, which a host never sends
about TCP (RFC 1122 3.2.2.1)."""
FREE_EVENTS: Final = (DELAYED_ACK, SPURIOUS)
EVENTS: Final = (*NEVER_ANSWERED, RESET, *LOSSES)
"""Reported even if they cost no time."""


@dataclass(frozen=True)
class Finding:
    """One reason of a connection: how often, how long, and the frames that show it.

    `frames` are pairs: the packets before and after each of the longest waits, or one packet twice.
    """

    reason: str
    waiting: str
    waited_for: str
    count: int
    time_ms: float
    longest_ms: float
    frames: tuple[tuple[int, int], ...]
    confidence: str
    detail: str = ""

    @property
    def is_usual(self) -> bool:
        """Whether every connection spends time in this way."""
        return explained(self.reason).is_usual

    @property
    def costs(self) -> bool:
        """Whether its time is lost to anyone: a late end costs nothing unless the other end, which
        had closed, waited for it."""
        return explained(self.reason).costs and (
            self.reason != CLOSED_LATE or self.waiting != NOBODY
        )

    @property
    def is_trouble(self) -> bool:
        happened = self.time_ms > 0 or self.reason in EVENTS
        return not self.is_usual and self.costs and happened


@dataclass(frozen=True)
class Account:
    """What the time of one connection was spent on; `findings` are ordered by time."""

    connection: int
    client: str
    server: str
    first_frame: int
    last_frame: int
    duration_ms: float
    client_bytes: int
    server_bytes: int
    rtt_ms: float | None  # of the path: the shortest
    rtt_spread_ms: tuple[float, float, float] | None  # 10th, 50th, 90th percentile as seen
    findings: tuple[Finding, ...]
    turns: dict[str, int]

    @property
    def lost_ms(self) -> float:
        """The time of all findings that are trouble."""
        return sum(finding.time_ms for finding in self.findings if finding.is_trouble)

    @property
    def worst(self) -> Finding | None:
        """The finding that cost most and names frames; of those without a cost the first."""
        return next(
            (finding for finding in self.findings if finding.is_trouble and finding.frames), None
        )

    @property
    def rank(self) -> tuple[bool, float]:
        events = any(finding.is_trouble and finding.reason in EVENTS for finding in self.findings)
        return (self.lost_ms > 0 or events, self.lost_ms)


@dataclass(frozen=True)
class FileAccount:
    """The account of a file: the verdict on it, and its connections, most time lost first."""

    file: str
    remarks: Remarks
    verdict: Verdict
    accounts: tuple[Account, ...]
    totals: tuple[Finding, ...]
    errors: Mapping[int, str]
    """By connection: the reason that an ICMP error gives."""


def explain(path: str | Path, *, connection: int | str | None = None) -> FileAccount:
    """Explain a capture: for each connection what its time was spent on, most time lost first.

    `connection` selects one, by its number in `labs.capture.connections` or by both its ends
    ("10.0.0.1:40000-10.0.0.2:80"). Raises what `labs.capture.read` raises, BadInput for a
    connection that the capture does not have.
    """
    with whole_connections(path, connection) as parts:
        held, errors = remarks(parts.reader.counts), icmp_errors(parts.reader.connections)
        return _explained(str(path), parts.tables, parts.connections, held, errors)


def read_account(
    path: str | Path, connection: int | str | None = None
) -> tuple[DataFrame, FileAccount]:
    """The same, with the table of segments that it explains, which must fit into memory."""
    columns, reader = read_columns(path)
    table = columns.table()
    rows = connection_rows(reader.connections)
    if connection is not None:
        table = table[table["connection"] == number_of(rows, connection)]
    file_remarks = remarks(reader.counts)
    return table, account(str(path), table, rows, file_remarks, icmp_errors(reader.connections))


def account(
    file: str,
    segments: Table,
    connections: Sequence[dict[str, Any]],
    held: Remarks,
    errors: Mapping[int, str] | None = None,
) -> FileAccount:
    """The same, of a table of segments and the rows of its connections."""
    return _explained(file, (segments,), connections, held, errors or {})


def _explained(
    file: str,
    parts: Iterable[Table],
    connections: Sequence[dict[str, Any]],
    held: Remarks,
    errors: Mapping[int, str],
) -> FileAccount:
    judge = Judge()

    def of_part(segments: Table) -> list[Account]:
        waits, kept, copies = explained_waits(segments, errors)
        judge.add(kept, waits, copies)
        state = waits.state
        edges = zip(state.starts[:-1].tolist(), state.starts[1:].tolist(), strict=True)
        return [
            _account(waits, connections[int(state.connection[first])], first, last, spread_ms)
            for (first, last), spread_ms in zip(edges, spreads_ms(state), strict=True)
        ]

    # As a function, so that each part is freed before the next one is read.
    accounts = [account for part_accounts in map(of_part, parts) for account in part_accounts]
    accounts.sort(key=lambda account: account.connection)
    accounts.sort(key=lambda account: account.rank, reverse=True)
    judged = judge.verdict(
        clipped=held.counts.get("headers_cut", 0), backwards=held.counts.get("backwards", 0)
    )
    return FileAccount(file, held, judged, tuple(accounts), _totals(accounts), errors)


def icmp_errors(connections: numpy.ndarray[Any, Any]) -> dict[int, str]:
    """The connections to which an ICMP error answered, and what it means."""
    codes = connections[:, UNREACHABLE].tolist()
    return {
        number: UNREACHABLE_HOST if word - 1 in HOST_CODES else FILTERED
        for number, word in enumerate(codes)
        if word
    }


def _totals(accounts: Sequence[Account]) -> tuple[Finding, ...]:
    """The findings of all connections, one per reason and pair of ends."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for account in accounts:
        for finding in account.findings:
            key = (finding.reason, finding.waiting, finding.waited_for)
            groups.setdefault(key, []).append(finding)
    totals = [
        Finding(
            *key,
            count=sum(finding.count for finding in findings),
            time_ms=sum(finding.time_ms for finding in findings),
            longest_ms=max(finding.longest_ms for finding in findings),
            frames=max(findings, key=lambda finding: finding.longest_ms).frames,
            confidence=LIKELY
            if any(finding.confidence == LIKELY for finding in findings)
            else CERTAIN,
        )
        for key, findings in groups.items()
    ]
    return tuple(sorted(totals, key=lambda finding: -finding.time_ms))


class _Sums:
    """The findings of one connection while they are collected."""

    def __init__(self) -> None:
        self.times: Counter[tuple[str, str, str]] = Counter()
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.places: dict[tuple[str, str, str], list[tuple[int, int, int]]] = {}
        self.details: dict[tuple[str, str, str], str] = {}
        self.unsure: set[tuple[str, str, str]] = set()

    def add(
        self,
        reason: str,
        time_ns: int,
        frames: tuple[int, int] | None = None,
        ends: tuple[str, str] = (NOBODY, NOBODY),
        count: int = 1,
    ) -> tuple[str, str, str]:
        key = (reason, *ends)
        self.times[key] += time_ns
        self.counts[key] += count
        if frames is not None:
            self.places.setdefault(key, []).append((time_ns, *frames))
        return key

    def findings(self, confidence: dict[str, str]) -> tuple[Finding, ...]:
        made = []
        for key, time_ns in self.times.items():
            longest = sorted(self.places.get(key, ()), key=lambda place: -place[0])
            made.append(
                Finding(
                    *key,
                    count=self.counts[key],
                    time_ms=time_ns / 1e6,
                    longest_ms=longest[0][0] / 1e6 if longest else 0.0,
                    frames=tuple((begin, end) for _, begin, end in longest[:SHOWN_FRAMES]),
                    confidence=LIKELY if key in self.unsure else confidence.get(key[0], CERTAIN),
                    detail=self.details.get(key, ""),
                )
            )
        return tuple(sorted(made, key=lambda finding: -finding.time_ms))


def _account(
    waits: Waits,
    row: dict[str, Any],
    first: int,
    last: int,
    spread_ms: tuple[float, float, float] | None,
) -> Account:
    state = waits.state
    number = int(state.connection[first])
    sums = _Sums()
    _of_gaps(waits, first, last, sums)
    _of_losses(waits, number, sums)
    _of_ends(waits, first, last, sums, waits.errors.get(number, ""))
    turns = _turns(state, first, last)
    measured = bool(waits.far.measured[first])
    doubtful = not measured or waits.holes.get(number, 0) > 0
    findings = sums.findings(
        {
            name: LIKELY
            for name, *_ in sums.times
            if name in INFERRED or (doubtful and name not in NEVER_ANSWERED)
        }
    )
    return Account(
        connection=number,
        client=_end(row["client"], row["client_port"]),
        server=_end(row["server"], row["server_port"]),
        first_frame=int(state.frame[first]),
        last_frame=int(state.frame[last - 1]),
        duration_ms=float(state.time_ns[last - 1] - state.time_ns[first]) / 1e6,
        client_bytes=int(row["client_bytes"] or 0),
        server_bytes=int(row["server_bytes"] or 0),
        rtt_ms=float(waits.far.rtt_ns[first]) / 1e6 if measured else None,
        rtt_spread_ms=spread_ms,
        findings=findings,
        turns=turns,
    )


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _of_gaps(waits: Waits, first: int, last: int, sums: _Sums) -> None:
    """Divide the time of a connection among the reasons of its gaps."""
    state = waits.state
    number = int(state.connection[first])
    places = numpy.arange(first + 1, last)
    lengths = numpy.maximum(0, numpy.diff(state.time_ns[first:last]))
    looked_at = numpy.zeros(len(places), dtype=bool)
    for gap in waits.gaps_between(first, last):
        place = gap.place
        looked_at[place - first - 1] = True
        frames = int(state.frame[place - 1]), int(state.frame[place])
        is_free = gap.wait.reason in FREE_EVENTS and gap.instead is None
        if gap.wait_ns and is_free and gap.wait.waiting == NOBODY:
            if gap.wait.reason == DELAYED_ACK and gap.rest not in WINDOWS:
                sums.add(DELAYED_ACK, 0, frames)  # else the sender did wait for that ACK
            sums.add(gap.rest, gap.length_ns, frames, _ends_of(state, gap.rest, place))
            continue
        if gap.wait_ns:
            cause = gap.cause
            key = sums.add(cause.reason, gap.wait_ns, frames, (cause.waiting, cause.waited_for))
            if not gap.is_sure:
                sums.unsure.add(key)
            if gap.wait.reason == UNTOLD and state.flags[place] & RST:
                sums.details[key] = f"nothing was sent until the {cause.waited_for} reset"
            if gap.instead is not None and gap.wait.reason != SPURIOUS:
                sums.add(gap.wait.reason, 0, frames)
        if gap.length_ns > gap.wait_ns:
            repairs = gap.rest == FAST_RECOVERY
            ends = _ends_of(state, gap.rest, place)
            ends = (gap.wait.waiting, gap.wait.waited_for) if repairs else ends
            sums.add(gap.rest, gap.length_ns - gap.wait_ns, frames, ends)
    for place in places[~looked_at & (lengths >= LOOKED_AT_NS)].tolist():
        if place in waits.undecided:
            frames = int(state.frame[place - 1]), int(state.frame[place])
            sums.add(ROUND_TRIP, int(lengths[place - first - 1]), frames)
            looked_at[place - first - 1] = True
    _of_short_gaps(waits, number, first, places[~looked_at], lengths[~looked_at], sums)


def _of_short_gaps(
    waits: Waits,
    number: int,
    first: int,
    places: numpy.ndarray[Any, Any],
    lengths: numpy.ndarray[Any, Any],
    sums: _Sums,
) -> None:
    """The time of gaps too short to be looked at one by one, by the limit of the round."""
    state = waits.state
    limits = waits.rounds.get(number, [])
    if not limits:
        if lengths.sum():
            sums.add(SENDING, int(lengths.sum()))
        return
    sender = numpy.where(
        state.length[places] > 0, state.direction[places], 1 - state.direction[places]
    )
    for rounds in limits:
        mine = (
            sender == rounds.direction if len(limits) > 1 else numpy.ones(len(places), dtype=bool)
        )
        _of_rounds(rounds, state.time_ns[places - 1][mine], lengths[mine], sums)


def _of_rounds(
    rounds: Rounds, time: numpy.ndarray[Any, Any], lengths: numpy.ndarray[Any, Any], sums: _Sums
) -> None:
    """The same for one sender: `lengths` are its gaps, `time` when they began."""
    which, inside = rounds.at(time)
    outside = int(lengths[~inside].sum())
    if outside:
        sums.add(SENDING, outside)
    each = numpy.bincount(rounds.reason[which[inside]], lengths[inside], minlength=len(LIMITS))
    for code in numpy.unique(rounds.reason).tolist():
        name, chosen = LIMITS[code], rounds.reason == code
        ends = round_ends(name, rounds.direction)
        key = sums.add(name, int(each[code]), None, ends, count=int(chosen.sum()))
        most, window = (
            int(rounds.flight_bytes[chosen].max()),
            int(rounds.window_bytes[chosen].max()),
        )
        sums.details[key] = f"at most {most:,} bytes in flight"
        if window < UNKNOWN_BYTES // 2:
            sums.details[key] += f", window {window:,} bytes"
        if name == UNTOLD and rounds.is_even[chosen].all():
            sums.details[key] = "the path's rate, pacing, or a program that writes evenly"


def round_ends(reason: str, sender: int) -> tuple[str, str]:
    """Who waits for whom while that limits a sender."""
    if reason in WINDOWS:
        return NAMES[sender], NAMES[1 - sender]
    if reason in (SEND_BUFFER, CONGESTION_WINDOW):
        return NAMES[1 - sender], NAMES[sender]
    return NOBODY, NOBODY


def _ends_of(state: ConnectionState, reason: str, place: int) -> tuple[str, str]:
    by = int(state.direction[place])
    return round_ends(reason, by if state.length[place] else 1 - by)


def _of_losses(waits: Waits, number: int, sums: _Sums) -> None:
    state = waits.state
    for episode in waits.episodes.get(number, ()):
        frames = int(state.frame[max(episode.first, 0)]), int(state.frame[episode.places[0]])
        ends = (NAMES[1 - episode.direction], NAMES[episode.direction])
        key = (episode.reason, *ends)
        if key in sums.times:
            continue
        sums.add(episode.reason, 0, frames, ends)
    for reason in LOSSES:
        episodes = [
            episode for episode in waits.episodes.get(number, ()) if episode.reason == reason
        ]
        for side in (0, 1):
            mine = [episode for episode in episodes if episode.direction == side]
            key = (reason, NAMES[1 - side], NAMES[side])
            if mine and key in sums.times:
                expired = sum(len(episode.timers) for episode in mine)
                sums.counts[key] = max(1, expired) if reason == TIMEOUT else len(mine)
                repeated = sum(len(episode.places) for episode in mine)
                if repeated > sums.counts[key]:
                    sums.details[key] = f"{repeated:,} retransmissions"


def _of_ends(waits: Waits, first: int, last: int, sums: _Sums, error: str) -> None:
    """How the connection began and ended, where that is trouble."""
    state = waits.state
    here = slice(first, last)
    flags, direction = state.flags[here], state.direction[here]
    syn = (flags & SYN) != 0
    acked = (flags & ACK) != 0
    rst = numpy.flatnonzero((flags & RST) != 0)
    asked = bool((syn & ~acked).any())
    established = bool((syn & acked).any()) or not asked or bool((state.length[here] > 0).any())
    if not established:
        syns = int((syn & (direction == 0)).sum())
        refused = refusals(state, first, last)
        # A single SYN may have been answered where the capture did not see it.
        alone = UNANSWERED if syns > 1 and bool(syn.all()) else UNTOLD
        reason = error or (REFUSED if refused else alone)
        at = refused[0] if refused else first
        frames = int(state.frame[max(first, at - 1)]), int(state.frame[at])
        count = {REFUSED: len(refused), UNANSWERED: syns - 1, UNTOLD: 1}.get(reason, syns)
        _as_one(sums, reason, frames, count)
        return
    if not len(rst) or direction.min() == direction.max():
        return
    at = first + int(rst[0])
    by = int(state.direction[at])
    left = [
        int(state.sent[side][at] - max(0, state.acked[side][at])) if state.sent[side][at] > 0 else 0
        for side in (0, 1)
    ]
    fins = [bool(((flags & FIN) != 0)[direction == side].any()) for side in (0, 1)]
    fins_before = [
        bool(((flags[: at - first] & FIN) != 0)[direction[: at - first] == side].any())
        for side in (0, 1)
    ]
    gave_up = any(key[0] == GAVE_UP for key in sums.times)
    if gave_up or (all(fins_before) or (any(fins) and fins_before[by] and not any(left))):
        return
    if fins_before[by] and left[1 - by] <= 1 and left[by] <= 1:
        return
    frames = int(state.frame[max(first, at - 1)]), int(state.frame[at])
    key = sums.add(RESET, 0, frames, (NAMES[1 - by], NAMES[by]))
    sums.details[key] = "all data had been acknowledged"
    if any(left):
        sums.details[key] = (
            f"unacknowledged then: {left[0]:,} bytes of the client, {left[1]:,} of the server"
        )


def _as_one(sums: _Sums, reason: str, frames: tuple[int, int], count: int) -> None:
    """One finding for a connection that was never established, in place of its parts."""
    ends = (NAMES[0], NAMES[1])
    keys = [key for key in sums.times if key[0] in (SYN_REPEATED, *NEVER_ANSWERED, UNTOLD)]
    keys += [key for key in sums.times if key[0] in (HANDSHAKE, SENDING, ROUND_TRIP)]
    time_ns = sum(sums.times.pop(key) for key in keys)
    places = [place for key in keys for place in sums.places.pop(key, ())]
    for key in keys:
        sums.counts.pop(key, None)
    made = sums.add(reason, time_ns, None, ends)
    sums.places[made] = places or [(time_ns, *frames)]
    sums.counts[made] = count


def _turns(state: ConnectionState, first: int, last: int) -> dict[str, int]:
    """How many requests the server answered, by what they begin with."""
    here = slice(first, last)
    carrying = numpy.flatnonzero(state.length[here] > 0)
    if not len(carrying):
        return {}
    direction = state.direction[here][carrying]
    answers = numpy.flatnonzero((direction[1:] == 1) & (direction[:-1] == 0)) + 1
    content = state.content[here][carrying]
    kinds = Counter(
        TLS_TURN
        if TLS_HANDSHAKE in (content[place], content[place - 1])
        else HTTP_TURN
        if content[place - 1] == HTTP_REQUEST
        else TURN
        for place in answers.tolist()
    )
    return dict(kinds)
