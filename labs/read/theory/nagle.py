"""Nagle's rule as Linux has it, and what it makes of an answer in one write or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.read.theory.delayed_ack import LARGEST_RTT_MS, acknowledged_at_once, rcv_mss_bytes, wait

BETWEEN_WRITES_MS = 0.1
"""An ACK of a shorter round trip is back before a program comes to its next write."""


def held_back(*, partial: bool, nodelay: bool, more_to_come: bool, small_unacked: bool) -> bool:
    """Whether a segment that could be sent stays behind.

    A full one never does. One that is not full waits for more under TCP_CORK or MSG_MORE; else,
    without TCP_NODELAY, as long as an earlier one that was not full is not acknowledged: Minshall's
    form of the rule, in which full segments do not count.
    Source: net/ipv4/tcp_output.c tcp_nagle_check(), tcp_minshall_check().
    """
    return partial and (more_to_come or (not nodelay and small_unacked))


@dataclass(frozen=True)
class Sent:
    """What of an answer leaves before anything of it is acknowledged, and what waits: payloads in
    bytes, a segment each."""

    at_once: tuple[int, ...]
    held: tuple[int, ...]


def sent(
    writes: Sequence[int],
    mss_bytes: int,
    *,
    nodelay: bool = False,
    joined: bool = False,
    acked_between: bool = False,
) -> Sent:
    """What becomes of an answer that is written in pieces of these sizes.

    `joined`: under TCP_CORK, or with MSG_MORE on all writes but the last. `acked_between`: each
    segment is acknowledged before the next write.
    """
    at_once: list[int] = []
    waiting, small_unacked = 0, False
    for place, size in enumerate(writes, start=1):
        waiting += size
        at_once += [mss_bytes] * (waiting // mss_bytes)
        waiting %= mss_bytes
        if waiting and not held_back(
            partial=True,
            nodelay=nodelay,
            more_to_come=joined and place < len(writes),
            small_unacked=small_unacked and not acked_between,
        ):
            at_once.append(waiting)
            waiting, small_unacked = 0, True
    return Sent(tuple(at_once), (waiting,) if waiting else ())


@dataclass(frozen=True)
class Answer:
    """The prediction for one answer: its segments, whether it waits for the client's timer, and
    how long it takes, in ms (`steady_ms`), the first one of a connection (`first_ms`), and the mean
    over all that are made on it; None where the theory has no word."""

    segments: int
    stalls: bool
    first_ms: float
    steady_ms: float
    mean_ms: float


def answer(
    writes: Sequence[int],
    mss_bytes: int,
    *,
    hz: int,
    rtt_ms: float,
    requests: int,
    nodelay: bool = False,
    joined: bool = False,
    quick: bool = False,
    closes: bool = False,
) -> Answer | None:
    """What a client sees that makes `requests` requests on a connection, one behind the other.

    `quick`: the client acknowledges at once, always; otherwise it does so for the first answer
    alone. `closes`: the server closes behind the answer, which sends what was held back
    (net/ipv4/tcp_output.c tcp_send_fin()). None for a round trip above 40 ms, with which the
    client's wait is no longer the shortest.
    """
    if rtt_ms > LARGEST_RTT_MS:
        return None
    near = quick and rtt_ms < BETWEEN_WRITES_MS
    found = sent(writes, mss_bytes, nodelay=nodelay, joined=joined, acked_between=near)
    held = bool(found.held) and not closes
    largest = max(found.at_once + found.held)
    at_once = acknowledged_at_once(sum(found.at_once), rcv_mss_bytes(largest), quick=quick)
    trips = 2 if held else 1
    first_ms = rtt_ms * (trips + 1)  # with the connect
    steady_ms = rtt_ms * trips + (wait(hz).most_ms if held and not at_once else 0.0)
    return Answer(
        segments=len(found.at_once) + len(found.held),
        stalls=held and not at_once,
        first_ms=first_ms,
        steady_ms=steady_ms,
        mean_ms=(first_ms + (requests - 1) * steady_ms) / requests,
    )
