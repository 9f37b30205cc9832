"""What the samples of a run's sockets show: how buffers and windows grow, and where a sender loses
time; and what setsockopt grants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.read.claims.formulas import farthest_from
from labs.read.readings.bulk_transfer import RMEM_MAX, WMEM_MAX
from labs.read.readings.goodput import sampled_socket
from labs.read.runs.run import Run
from labs.read.theory.bdp import line_goodput_bytes_s

if TYPE_CHECKING:
    from pandas import DataFrame

SAMPLED = {"client": ("bytes_received", "rcvbuf_bytes"), "server": ("bytes_acked", "sndbuf_bytes")}
"""The counter that tells a host's own socket, and the column of its buffer."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a host's buffer that were sampled, and the last rcv_ssthresh, in bytes."""

    first: int
    last: int
    smallest: int
    largest: int
    window: int | None


def sizes(run: Run, host: str) -> Sizes | None:
    """The buffer of the client's or the server's socket; None if it was not sampled."""
    counter, column = SAMPLED[host]
    rows = sampled_socket(run, host, counter)
    if rows.empty or column not in rows:
        return None
    buffer = rows[column].dropna()
    window = rows["rcv_ssthresh_bytes"].dropna() if "rcv_ssthresh_bytes" in rows else buffer[:0]
    return Sizes(
        int(buffer.iloc[0]),
        int(buffer.iloc[-1]),
        int(buffer.min()),
        int(buffer.max()),
        None if window.empty else int(window.iloc[-1]),
    )


CORE = {"receive": RMEM_MAX, "send": WMEM_MAX}
TWICE = 2


@dataclass(frozen=True)
class Grants:
    """What setsockopt granted in a run: sizes requested up to the core maximum, as a multiple, the
    one farthest from twice; those above it, in units of it; and the smallest, by socket."""

    times: float | None
    count: int
    smallest: Mapping[str, int]
    capped_times: float | None
    cap_bytes: int | None
    largest_request_bytes: int | None
    largest_grant_bytes: int | None


def grants_of(run: Run) -> Grants:
    """The grants of a run; requests that got the minimum are not counted as multiples."""
    rows = [
        (row.socket, row.requested_bytes, row.granted_bytes or 0, int(run.sysctl(row.host, cap)))
        for row in run.buffers
        if row.requested_bytes and (cap := CORE.get(row.socket))
    ]
    below = [row for row in rows if row[1] <= row[3]]
    raised = {(socket, granted) for socket, asked, granted, _ in below if granted > TWICE * asked}
    smallest = dict(raised) if len({socket for socket, _ in raised}) == len(raised) else {}
    times = [
        granted / asked
        for socket, asked, granted, _ in below
        if smallest.get(socket) != granted or granted <= TWICE * asked
    ]
    above = [row for row in rows if row[1] > row[3]]
    capped = [granted / cap for _, _, granted, cap in above]
    largest = max(rows, key=lambda row: row[1], default=None)
    return Grants(
        farthest_from(TWICE, times) if times else None,
        len(times),
        smallest,
        farthest_from(TWICE, capped) if {row[0] for row in above} == set(CORE) else None,
        min((row[3] for row in rows), default=None),
        largest[1] if largest else None,
        largest[2] if largest else None,
    )


NEAR = 0.05
"""How close a sample must be to the article's sample, by the bytes received until then."""
OF_THE_WINDOW = ("rcv_ssthresh_bytes", "rcv_space_bytes", "rcvbuf_bytes")


@dataclass(frozen=True)
class Growth:
    """The samples of the client's socket that contain its window; none in an empty table."""

    rows: DataFrame

    @property
    def most_bytes(self) -> float | None:
        """The largest rcv_ssthresh."""
        return None if self.rows.empty else float(self.rows["rcv_ssthresh_bytes"].max())

    @property
    def buffer_bytes(self) -> int | None:
        """The receive buffer at the last sample."""
        return None if self.rows.empty else int(self.rows["rcvbuf_bytes"].iloc[-1])

    @property
    def last_bytes(self) -> int | None:
        """rcv_ssthresh at the last sample."""
        return None if self.rows.empty else int(self.rows["rcv_ssthresh_bytes"].iloc[-1])

    def at(self, column: str, received: int) -> float | None:
        """A value at the last sample with at most `received` bytes; None if that sample is too
        early for a value that still grows."""
        if self.rows.empty:
            return None
        until = self.rows[self.rows["bytes_received"] <= received * (1 + NEAR)]
        if until.empty:
            return None
        last = until.iloc[-1]
        settled = (self.most_bytes or 0) * (1 - NEAR) <= last["rcv_ssthresh_bytes"]
        near = abs(last["bytes_received"] / received - 1) <= NEAR
        return float(last[column]) if settled or near else None


def growth(run: Run) -> Growth:
    """How the receive window of a run grows."""
    rows = sampled_socket(run, "client", "bytes_received")
    if not {*OF_THE_WINDOW} <= set(rows):
        return Growth(rows.iloc[:0])
    return Growth(rows[rows["rcv_ssthresh_bytes"].notna() & rows["rcvbuf_bytes"].notna()])


SLOW_START, RECOVERY, AVOIDANCE = "slow start", "fast recovery", "congestion avoidance"
RECOVERING = (2, 3, 4)
"""TCP_CA_CWR, TCP_CA_Recovery and TCP_CA_Loss (include/uapi/linux/tcp.h)."""


def lost_s(run: Run) -> Mapping[str, float]:
    """How much longer a download took than a full line would, by the phase of its sender: recovery
    by tcpi_ca_state, slow start by cwnd < ssthresh; empty if the sender was not sampled."""
    rows = sampled_socket(run, "server", "bytes_acked")
    if rows.empty or "ca_state" not in rows or not run.link.measured.rate_mbit:
        return {}
    slow_start = rows["snd_cwnd_segments"] < rows["snd_ssthresh_segments"]
    phases = slow_start.map({True: SLOW_START, False: AVOIDANCE})
    phases = phases.mask(rows["ca_state"].isin(RECOVERING), RECOVERY)
    line = line_goodput_bytes_s(float(run.link.measured.rate_mbit))
    # What happens until the next sample belongs to the phase of this one.
    took_s = rows["at_ns"].diff().shift(-1) / 1e9
    lost = took_s - rows["bytes_acked"].diff().shift(-1) / line
    return {
        phase: float(lost[phases == phase].sum()) for phase in (SLOW_START, RECOVERY, AVOIDANCE)
    }
