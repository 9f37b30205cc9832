"""What the capture of a run shows of its answers: segments, ACKs, silences, sequences of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from labs.analysis.exchanges import SILENCE, Followed, exchanges, followed
from labs.analysis.explained import NAGLE_AND_DELAYED_ACK
from labs.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SYN, FIN, RST = 0x02, 0x01, 0x04
KEPT_TABLES = 64


@dataclass(frozen=True)
class Answered:
    """A capture in figures, over all its requests.

    `segments` and `acks` are the server's segments with payload and the client's without, per
    answer; `stalled_pct` the share of the requests in which the server waits for an ACK that the
    client holds back; `first_stalled_pct` the same of those that are the first on their
    connection; `closing_pct` the share whose last segment closes the connection (FIN).
    """

    requests: int
    segments: float
    acks: float
    stalled_pct: float
    first_stalled_pct: float
    closing_pct: float


def table_of(run: Run) -> DataFrame:
    """The segments that the server's tcpdump saw: what `labs.capture.read` makes of them."""
    return _read(run.file("server/capture.pcap"))


def requests_of(run: Run) -> DataFrame:
    """A row a request of the run, as `labs.analysis.exchanges.exchanges` has them."""
    return _exchanges(run.file("server/capture.pcap"))


@lru_cache(maxsize=2)
def _read(path: Path) -> DataFrame:
    from labs.capture import read

    return read(path)


@lru_cache(maxsize=KEPT_TABLES)
def _exchanges(path: Path) -> DataFrame:
    return exchanges(_read(path))


def answered(run: Run) -> Answered:
    """Count what a run's capture shows; a run without a request in it has zeros."""
    return figures(table_of(run), requests_of(run))


def figures(segments: DataFrame, requests: DataFrame) -> Answered:
    """The same of any table of segments and its exchanges."""
    count = len(requests)
    if not count:
        return Answered(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    flags, payload = segments["flags"], segments["payload_bytes"]
    parts = (segments["direction"] == 1) & (payload > 0)
    # The last part of the handshake acknowledges the SYN alone.
    acks = ((segments["direction"] == 0) & (payload == 0) & ((flags & (SYN | FIN | RST)) == 0)
            & (segments["ack_rel"] > 1))
    stalled = stalls_in(requests)
    first = requests["request"] == 0
    closing = parts & ((flags & FIN) != 0)
    return Answered(
        requests=count, segments=int(parts.sum()) / count, acks=int(acks.sum()) / count,
        stalled_pct=100 * int(stalled.sum()) / count,
        first_stalled_pct=100 * int((stalled & first).sum()) / max(1, int(first.sum())),
        closing_pct=100 * int(closing.sum()) / count)


def stalls_in(requests: DataFrame) -> Series[bool]:
    """For each request whether Nagle's algorithm waited in it for a delayed ACK."""
    silent = requests["steps"].map(lambda steps: SILENCE in steps).astype(bool)
    found: Series[bool] = silent & (requests["reason"] == NAGLE_AND_DELAYED_ACK)
    return found


def usual(run: Run) -> Followed:
    """The sequence of steps that most requests of a run follow, and what the others do."""
    table = requests_of(run)
    steps: Sequence[str] = () if table.empty else table["steps"].mode().iloc[0]
    return followed(table, steps)
