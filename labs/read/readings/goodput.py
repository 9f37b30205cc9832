"""A download as its client saw it: when the body began and ended, how it grew, and the bytes that
the client's kernel counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from labs.guest.units import MILLISECOND_NS, SECOND_NS
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

FEWEST_POINTS = 3
SETTLED_PCT = 5.0
IP_HEADER_BYTES = 20
TCP_HEADER_BYTES = 20
TIMESTAMPS_BYTES = 12
# What a SYN-ACK carries beyond a data segment's options: MSS, SACK permitted, window scale.
SYN_BYTES = {True: 8, False: 12}


@dataclass(frozen=True)
class Download:
    """The body of one reply; times are nanoseconds of the client's CLOCK_REALTIME.

    `timeline` are moments and the bytes had by then, from (first_byte_ns, 0) to (end_ns,
    bytes). `own_mib_s` is the client's own figure of its speed, in MiB/s, if it prints one;
    `counted`, that the bytes are the kernel's, for a client that was ended before it could say.
    """

    started_ns: int
    first_byte_ns: int
    end_ns: int
    bytes: int
    timeline: tuple[tuple[int, int], ...]
    own_mib_s: float | None = None
    counted: bool = False

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.first_byte_ns) / SECOND_NS

    @property
    def goodput_bytes_s(self) -> float | None:
        """Mean over the body; None if it took no time."""
        return self.bytes / self.duration_s if self.duration_s > 0 else None

    @property
    def steady_bytes_s(self) -> float | None:
        """Mean over the last third of the time; None if the timeline says too little."""
        return self.third_bytes_s(2)

    @property
    def settled(self) -> bool | None:
        """Whether the last third is as fast as the one before (SETTLED_PCT)."""
        before, last = self.third_bytes_s(1), self.third_bytes_s(2)
        return abs(last / before - 1) <= SETTLED_PCT / 100 if last is not None and before else None

    def third_bytes_s(self, third: int) -> float | None:
        """Mean over one third of the time (0, 1 or 2); None if the timeline says too little."""
        length = (self.end_ns - self.first_byte_ns) / 3
        begin, end = third * length, (third + 1) * length
        at = numpy.array([at_ns - self.first_byte_ns for at_ns, _ in self.timeline], dtype=float)
        had = numpy.array([size for _, size in self.timeline], dtype=float)
        if length <= 0 or int(((at >= begin) & (at <= end)).sum()) < FEWEST_POINTS:
            return None
        first, last = numpy.interp([begin, end], at, had)
        return float(last - first) / (length / SECOND_NS)

    def goodput_over_time(self, step_s: float) -> tuple[list[float], list[float]]:
        """Goodput of each whole step of the body: seconds since `started_ns` at its end, bytes/s.

        The last step is omitted if there are others: the burst that ends a file is not a rate.
        """
        count = int(self.duration_s / step_s)
        ends = numpy.arange(count) * step_s if count > 1 else numpy.array([0, self.duration_s])
        had = numpy.interp(
            ends,
            [(at_ns - self.first_byte_ns) / SECOND_NS for at_ns, _ in self.timeline],
            [size for _, size in self.timeline],
        )
        offset_s = (self.first_byte_ns - self.started_ns) / SECOND_NS
        return (ends[1:] + offset_s).tolist(), (numpy.diff(had) / numpy.diff(ends)).tolist()


def download(run: Run) -> Download:
    """Read the download of a run, with any client."""
    fetched = run.fetch()
    return from_wget(run) if fetched is None else from_fetch(fetched)


def from_fetch(fetched: dict[str, Any]) -> Download:
    """Read what the discarding client wrote (labs/guest/programs/fetch.py)."""
    begin, end = fetched["first_byte_ns"], fetched["end_ns"]
    points = [(at_ns, size) for at_ns, size in fetched["timeline"] if begin < at_ns < end]
    return Download(
        started_ns=fetched.get("before_ns", fetched["connect_ns"]),
        first_byte_ns=begin,
        end_ns=end,
        bytes=fetched["bytes"],
        timeline=((begin, 0), *points, (end, fetched["bytes"])),
    )


def from_wget(run: Run) -> Download:
    """Put a download of wget together: bytes from its log, times from its socket's samples.

    wget writes three digits. The first byte is due one RTT after the request, which the socket
    dates (tcpi_last_data_sent); the end is reached from the last sample at the rate of the second
    before it. Without samples after the first byte (a transfer shorter than their period) the
    duration is wget's own.
    """
    log = run.wget()
    if log is None:
        raise AssertionError(f"{run.name}: neither fetch.json nor wget.txt")
    counted = log.saved_bytes is None
    size = (received_bytes(run) if counted else log.saved_bytes) or 0
    rows = own_socket(run.samples("client"), "bytes_received")
    points, requested, end = [], 0, run.moments["end"]
    rtt_ns = round(run.link.measured.rtt_ms * MILLISECOND_NS)
    if len(rows) >= FEWEST_POINTS:
        last = rows.iloc[-1]
        requested = int(last["at_ns"]) - int(last["last_data_sent_ms"]) * MILLISECOND_NS
        points = [(at, had) for at, had in _points(rows) if at > requested + rtt_ns and had]
    if not points:
        begin = end - round((log.duration_s or 0) * SECOND_NS)
        return Download(begin, begin, end, size, ((begin, 0), (end, size)), log.mean_mib_s, counted)
    begin = requested + rtt_ns
    if run.ended == "complete":
        end = min(_reached(points, size), end)
    inside = [(at, had) for at, had in points if at < end and had < size]
    return Download(
        requested - rtt_ns,
        begin,
        end,
        size,
        ((begin, 0), *inside, (end, size)),
        log.mean_mib_s,
        counted,
    )


def _points(rows: DataFrame) -> list[tuple[int, int]]:
    """Moments and the bytes received by then."""
    if rows.empty:
        return []
    columns = (rows[name].astype(int).tolist() for name in ("at_ns", "bytes_received"))
    return list(zip(*columns, strict=True))


def received_bytes(run: Run) -> int | None:
    """Payload that TCP of the client received, from its IP counters; None if they are not there.

    IpExtInOctets counts one header for segments coalesced by GRO, and IpInReceives counts them as
    one packet (net/ipv4/ip_input.c ip_rcv_core()), so one header is subtracted per packet of the
    stack. The HTTP header is payload too; segments received twice count twice.
    """
    counted = run.nstat("client")
    if "IpExtInOctets" not in counted or "IpInReceives" not in counted:
        return None
    stamped = run.sysctls["client"]["after"].get("net.ipv4.tcp_timestamps", "1") != "0"
    header = IP_HEADER_BYTES + TCP_HEADER_BYTES + TIMESTAMPS_BYTES * stamped
    return counted["IpExtInOctets"] - header * counted["IpInReceives"] - SYN_BYTES[stamped]


def sampled_socket(run: Run, host: str, counter: str) -> DataFrame:
    """The samples of a host's socket that carried the most; empty for a run without samples."""
    if f"{host}/samples.bin" not in run.seal.files:
        from pandas import DataFrame  # noqa: PLC0415  results need only numpy

        return DataFrame()
    return own_socket(run.samples(host), counter)


def own_socket(samples: DataFrame, counter: str, columns: Sequence[str] | None = None) -> DataFrame:
    """The samples of the socket that carried the most, by a counter that only grows.

    `columns` are those that are needed, of nearly a hundred; without it, all. The check of the link
    before a run leaves sockets that close while the samplers start.
    """
    if counter not in samples:
        return samples.iloc[:0]
    wanted = samples if columns is None else samples.filter(items=list(columns))
    usable = samples[counter].notna() & (samples["state"] != "SYN-RECV")
    if not usable.any():
        return wanted.iloc[:0]
    most: Any = samples[counter][usable].idxmax()
    cookies = samples["cookie"]
    rows: DataFrame = wanted[usable & (cookies == cookies[most])]
    return rows


def _reached(points: Sequence[tuple[int, int]], size: int) -> int:
    """When `size` is reached, extrapolated from the second before the last point."""
    last_ns, last = points[-1]
    before_ns, before = next(
        (point for point in points if last_ns - point[0] <= SECOND_NS), points[-1]
    )
    if last <= before:
        return last_ns
    return last_ns + round((size - last) * (last_ns - before_ns) / (last - before))
