"""What the capture of a run shows of its answers: segments, ACKs, silences, sequences of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs.errors import BadInput
from labs.read import capture
from labs.read.capture.segment_table import FIN, RST, SYN
from labs.read.flows.connection_state import mss_bytes
from labs.read.flows.exchanges import AND_SO_ON, SILENCE, Followed, exchanges, followed
from labs.read.flows.stalls import NAGLE_AND_DELAYED_ACK
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame, Series

KEPT_TABLES = 64


@dataclass(frozen=True)
class Answered:
    """A capture in figures, over all its requests.

    `segments` and `acks` are the server's segments with payload and the client's without, per
    answer; what a capture shows in one piece because the device cuts it up (TSO) counts as the
    segments that it becomes. `stalled_pct` is the share of the requests in which the server waits
    for an ACK that the client holds back; `first_stalled_pct` the same of those that are the
    first on their connection; `closing_pct` the share whose last segment closes it (FIN).
    """

    requests: int
    segments: float
    acks: float
    stalled_pct: float
    first_stalled_pct: float
    closing_pct: float


def table_of(run: Run) -> DataFrame:
    """The segments that the server's tcpdump saw: what `labs.capture.read` makes of them."""
    return own_table(run.file("server/capture.pcap"))


def requests_of(run: Run) -> DataFrame:
    """One row per request of the run, as `labs.read.flows.exchanges.exchanges` has them."""
    return own_requests(run.file("server/capture.pcap"))


def own_table(path: str | Path) -> DataFrame:
    """The segments of any capture; BadInput or Damaged for a file that is none."""
    return _read(*_as_it_is(Path(path)))


def own_requests(path: str | Path) -> DataFrame:
    """One row per request of any capture; BadInput or Damaged for a file that is none."""
    return _exchanges(*_as_it_is(Path(path)))


def _as_it_is(path: Path) -> tuple[Path, int, int]:
    """A file with its time of change and its size: one that was written again is another file."""
    try:
        found = path.stat()
    except OSError:
        return path, 0, 0  # the reader says what is wrong with it
    return path, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int, size: int) -> DataFrame:
    return capture.read(path)


@lru_cache(maxsize=KEPT_TABLES)
def _exchanges(path: Path, mtime_ns: int, size: int) -> DataFrame:
    return exchanges(_read(path, mtime_ns, size))


def answered(run: Run) -> Answered:
    """Count what a run's capture shows; a run without a request in it has zeros."""
    return figures(table_of(run), requests_of(run))


def packets_of(segments: DataFrame, request: Series[Any]) -> list[int]:
    """The rows of a table of segments that belong to one request, a row of its exchanges."""
    stretch = segments.loc[request["first_row"] : request["last_row"]]
    return [int(row) for row in stretch.index[stretch["connection"] == request["connection"]]]


def figures(segments: DataFrame, requests: DataFrame) -> Answered:
    """The same of any table of segments and its exchanges."""
    count = len(requests)
    if not count:
        return Answered(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    flags, payload = segments["flags"], segments["payload_bytes"]
    parts = (segments["direction"] == 1) & (payload > 0)
    length = payload.to_numpy()[parts].astype("int64")
    pieces = -(-length // mss_bytes(segments)[parts])
    # The last part of the handshake acknowledges the SYN alone.
    acks = (
        (segments["direction"] == 0)
        & (payload == 0)
        & ((flags & (SYN | FIN | RST)) == 0)
        & (segments["ack_rel"] > 1)
    )
    stalled = stalls_in(requests)
    first = requests["request"] == 0
    closing = parts & ((flags & FIN) != 0)
    return Answered(
        requests=count,
        segments=int(pieces.sum()) / count,
        acks=int(acks.sum()) / count,
        stalled_pct=100 * int(stalled.sum()) / count,
        first_stalled_pct=100 * int((stalled & first).sum()) / max(1, int(first.sum())),
        closing_pct=100 * int(closing.sum()) / count,
    )


def stalls_in(requests: DataFrame) -> Series[bool]:
    """For each request whether Nagle's algorithm waited in it for a delayed ACK."""
    silent = requests["steps"].map(lambda steps: SILENCE in steps).astype(bool)
    found: Series[bool] = silent & (requests["reason"] == NAGLE_AND_DELAYED_ACK)
    return found


def usual(requests: DataFrame) -> Followed:
    """The sequence of steps that most requests follow, and what the others do."""
    return following(requests, () if requests.empty else requests["steps"].mode().iloc[0])


def following(requests: DataFrame, steps: Sequence[str]) -> Followed:
    """How many requests take these steps with a packet a step, and what the others do.

    One that takes them with more packets (two ACKs where the list has one) is among the others,
    its list with "and so on" behind it.
    """
    packets = sum(step != SILENCE for step in steps)
    more = (requests["steps"] == tuple(steps)) & (requests["segments"] != packets)
    told = requests["steps"].where(~more, requests["steps"].map(lambda own: (*own, AND_SO_ON)))
    return followed(requests.assign(steps=told), steps)


def typical(requests: DataFrame, steps: Sequence[str] | None = None) -> Series[Any]:
    """One request that goes as most do, or in these steps; the second of its kind if there are
    several, for the first may still meet the beginning. BadInput if there is none."""
    if not requests.empty and steps is None:
        steps = requests["steps"].mode().iloc[0]
    found = requests[requests["steps"] == tuple(steps or ())]
    if found.empty:
        raise BadInput(
            "no request in this capture follows these steps; "
            "labs.read.flows.exchanges.exchanges has the steps of each"
        )
    one: Series[Any] = found.iloc[min(1, len(found) - 1)]
    return one
