"""Responses in the capture of a run: segments, ACKs, stalls, steps, and held segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from labs.errors import BadInput
from labs.guest.testbed.link import FRAME_BYTES, MSS_BYTES
from labs.read import capture
from labs.read.capture.segment_table import FIN, RST, SYN
from labs.read.flows.connection_state import connection_state, mss_bytes
from labs.read.flows.exchanges import AND_SO_ON, SILENCE, Followed, exchanges, followed
from labs.read.flows.reasons import NAGLE_AND_DELAYED_ACK
from labs.read.runs.run import Run

KEPT_TABLES = 64
HEADERS_BYTES = FRAME_BYTES - MSS_BYTES
"""Ethernet, IPv4 and TCP with timestamps."""


@dataclass(frozen=True)
class Answered:
    """The figures of a capture.

    `segments` are the server's segments with payload, `acks` the client's without, and `packets`
    all packets of both hosts, with the request, per response; `payload_pct` is the share of their
    bytes that is payload. A packet that the device splits (TSO) counts as the segments that it
    becomes. The first response of each connection is left out of these if there are others: the
    client is in quick ACK mode, and the kernel joins small writes (`autocorked`). `stalled_pct` is
    the share of requests in which the server waits for a delayed ACK; `first_stalled_pct` the same
    of those that are the first on their connection; `closing_pct` the share whose last segment
    closes the connection (FIN).
    """

    requests: int
    segments: float = 0.0
    acks: float = 0.0
    packets: float = 0.0
    payload_pct: float = 0.0
    stalled_pct: float = 0.0
    first_stalled_pct: float = 0.0
    closing_pct: float = 0.0


def autocorked(run: Run) -> int:
    """How many writes of the server the kernel joined with the next one, because the segment before
    was still with the device: net/ipv4/tcp.c tcp_should_autocork(), counted as TCPAutoCorking."""
    return run.nstat("server").get("TcpExtTCPAutoCorking", 0)


def table_of(run: Run) -> DataFrame:
    """The segments that the server's tcpdump captured, as `labs.capture.read` returns them."""
    return own_table(run.file("server/capture.pcap"))


def requests_of(run: Run) -> DataFrame:
    """One row per request of the run, as `labs.read.flows.exchanges.exchanges` returns them."""
    return own_requests(run.file("server/capture.pcap"))


def own_table(path: str | Path) -> DataFrame:
    """The segments of any capture; BadInput or Damaged for another file."""
    return _read(*_as_it_is(Path(path)))


def own_requests(path: str | Path) -> DataFrame:
    """One row per request of any capture; BadInput or Damaged for another file."""
    return _exchanges(*_as_it_is(Path(path)))


def _as_it_is(path: Path) -> tuple[Path, int, int]:
    """A file with its modification time and size: a file that was rewritten is another one."""
    try:
        stat = path.stat()
    except OSError:
        return path, 0, 0  # the reader reports what is wrong with it
    return path, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int, size: int) -> DataFrame:
    return capture.read(path)


@lru_cache(maxsize=KEPT_TABLES)
def _exchanges(path: Path, mtime_ns: int, size: int) -> DataFrame:
    return exchanges(_read(path, mtime_ns, size))


def packets_of(segments: DataFrame, request: Series[Any]) -> list[int]:
    """The rows of a table of segments that belong to one request, which is a row of its
    exchanges."""
    stretch = segments.loc[request["first_row"] : request["last_row"]]
    return [int(row) for row in stretch.index[stretch["connection"] == request["connection"]]]


def answered(segments: DataFrame, requests: DataFrame) -> Answered:
    """The figures of a table of segments and its exchanges; zeros if it has no request."""
    if requests.empty:
        return Answered(0)
    flags, payload, stalled = segments["flags"], segments["payload_bytes"], stalls_in(requests)
    first = requests["request"] == 0
    later = _later(segments, requests)
    responses = int((~first).sum()) or len(requests)
    parts = (segments["direction"] == 1) & (payload > 0)
    length = payload.to_numpy().astype("int64")
    pieces = -(-length // mss_bytes(segments))
    packets, carried = int(pieces[later].clip(1).sum()), int(length[later].sum())
    # The last segment of the handshake only acknowledges the SYN.
    only_ack = (payload == 0) & ((flags & (SYN | FIN | RST)) == 0) & (segments["ack_rel"] > 1)
    acks = (segments["direction"] == 0) & only_ack
    return Answered(
        requests=len(requests),
        segments=int(pieces[parts & later].sum()) / responses,
        acks=int((acks & later).sum()) / responses,
        packets=packets / responses,
        payload_pct=100 * carried / (carried + packets * HEADERS_BYTES),
        stalled_pct=100 * int(stalled.sum()) / len(requests),
        first_stalled_pct=100 * int(stalled[first].sum()) / max(1, int(first.sum())),
        closing_pct=100 * int((parts & ((flags & FIN) != 0)).sum()) / len(requests),
    )


def _later(segments: DataFrame, requests: DataFrame) -> Series[bool]:
    """For each segment whether it belongs to a response that is not the first of its connection; if
    every response is the first one, whether it belongs to any."""
    begin = requests[requests["request"] == 1].set_index("connection")["first_row"]
    if begin.empty:
        begin = requests.groupby("connection")["first_row"].min()
    end = requests.groupby("connection")["last_row"].max()
    connection = segments["connection"]
    # Missing, and therefore false, for a connection without such a response.
    return connection.map(begin).le(segments.index) & connection.map(end).ge(segments.index)


def stalls_in(requests: DataFrame) -> Series[bool]:
    """For each request whether Nagle's algorithm waited for a delayed ACK."""
    silent = requests["steps"].map(lambda steps: SILENCE in steps).astype(bool)
    stalled: Series[bool] = silent & (requests["reason"] == NAGLE_AND_DELAYED_ACK.name)
    return stalled


def usual(requests: DataFrame) -> Followed:
    """The sequence of steps that most requests follow, and those of the others."""
    return following(requests, next(iter(requests["steps"].mode()), ()))


def following(requests: DataFrame, steps: Sequence[str]) -> Followed:
    """How many requests take these steps with one packet per step, and the steps of the others.

    A request that takes them with more packets (two ACKs where the list has one) is one of the
    others; its list ends with "and so on".
    """
    packets = sum(step != SILENCE for step in steps)
    more = (requests["steps"] == tuple(steps)) & (requests["segments"] != packets)
    longer = requests["steps"].map(lambda taken: (*taken, AND_SO_ON))
    return followed(requests.assign(steps=requests["steps"].where(~more, longer)), steps)


def typical(requests: DataFrame) -> Series[Any]:
    """One request with the most frequent steps; the second one if there are several, because the
    first may belong to the start of its connection. BadInput without requests."""
    if requests.empty:
        raise BadInput("there is no request in this capture. Allowed: a capture of TCP requests")
    matches = requests[requests["steps"] == usual(requests).steps]
    request: Series[Any] = matches.iloc[min(1, len(matches) - 1)]
    return request


@dataclass(frozen=True)
class HeldSegment:
    """A segment that Nagle's algorithm held back: the time from the part before it until it was
    sent, whether an ACK of that part had arrived, and how often that part was retransmitted."""

    held_ms: float
    acknowledged: bool
    retransmissions: int


def held_segment(segments: DataFrame) -> HeldSegment | None:
    """The second part of the first response in a capture of the server; None if none was sent."""
    state = connection_state(segments)
    data = [at for at in state.carrying.tolist() if state.direction[at] == 1]
    # Those of the same response acknowledge the same request.
    same = (state.connection, state.ack)
    data = [at for at in data if all(values[at] == values[data[0]] for values in same)]
    second = next((at for at in data if state.begin[at] >= state.end[data[0]]), None)
    if second is None:
        return None
    first = data[0]
    return HeldSegment(
        held_ms=float(state.time_ns[second] - state.time_ns[first]) / 1e6,
        acknowledged=bool(state.acked[1][second] >= state.end[first]),
        retransmissions=sum(first < at < second for at in data),
    )
