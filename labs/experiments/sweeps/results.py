"""The results of a run of the lab `sweeps`: buffers, window, payload in flight and goodput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from labs.drive.result_columns import Note, column, part
from labs.drive.testbed.link import MSS_BYTES
from labs.drive.units import GIB, KIB, MIB, bytes_carried
from labs.experiments.sweeps.experiment import INTERRUPTED, IPERF3, REFUSED, REPORT, RESET, SAID
from labs.experiments.sweeps.settings import Settings
from labs.read.claims.ledger import article_beside
from labs.read.readings import bulk_transfer
from labs.read.readings.arrivals import arrivals
from labs.read.readings.bulk_transfer import (
    AUTOMATIC,
    RECEIVER,
    RMEM,
    SENDER,
    SETSOCKOPT,
    SYSCTL,
    WMEM,
    Buffer,
    BulkTransfer,
    Window,
    in_kib,
    sysctl_sizes,
    window,
)
from labs.read.readings.goodput import own_socket
from labs.read.readings.instruments import shaper_drops
from labs.read.runs import raw_files
from labs.read.runs.run import Run
from labs.read.stats.arrivals import Arrivals
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import Transfer, transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import Interval, shown
from labs.read.theory.receive_window import TIMESTAMP_BYTES

if TYPE_CHECKING:
    from pandas import DataFrame

SMALLEST_BYTES = 16 * KIB
"""The smallest granted buffer of the points at which the model was tested."""
VIRTUAL = "virtual"
NO_ERROR = "no error"
CLOCK_LIMITS_MBIT = 10_000.0
"""Above this rate the readings of the clock take as long as a packet: arch/um/kernel/time.c
timer_read(), TIMER_MULTIPLIER."""
article = partial(article_beside, __file__)
hidden = partial(part, hidden=True)
kib, hidden_kib = partial(part, unit="KiB", per=KIB), partial(hidden, unit="KiB", per=KIB)
costly = partial(part, hidden=True, costly=True)


class Results(BulkTransfer):
    """The figures of one run; None for those that it does not have. If iperf3 refused the size,
    only the request is known; a run that only requests buffers (`grants`) has no figures."""

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @property
    def transfer_settings(self) -> Settings | None:
        return None if self.settings.grants else self.settings

    @cached_property
    def sends(self) -> Buffer | None:
        return None if self.settings.grants else send_buffer(self.run)

    @cached_property
    def receives(self) -> Buffer | None:
        return None if self.settings.grants else receive_buffer(self.run)

    @cached_property
    def granted(self) -> Mapping[str, int | None]:
        """The sizes of both buffers before the connection exists."""
        ends = (("send", SENDER, self.sends), ("receive", RECEIVER, self.receives))
        return {end: granted(self.run, host, buffer) for end, host, buffer in ends if buffer}

    @cached_property
    def received(self) -> Arrivals | None:
        return arrivals(self.run) if transferred(self.run) else None

    @property
    def reached(self) -> Window | None:
        """The largest sizes over the samples."""
        return window(self.run) if self.received else None

    @cached_property
    def prediction(self) -> Transfer | None:
        predicted = expected(self.run) if self.received else None
        return None if predicted is None or predicted.cannot_say else predicted

    @property
    def no_prediction(self) -> str | None:
        return (expected(self.run).cannot_say or None) if self.received else None

    @cached_property
    def interval(self) -> Interval | None:
        return expected_interval(self.run) if self.received else None

    requested_send_kib = kib(
        "sends.requested_bytes", "send buffer requested at the sender (none: automatic)"
    )

    granted_send_kib = kib(
        "granted.send", "send buffer before connecting: getsockopt, or the sysctl"
    )
    used_send_kib = kib("reached.send_buffer_bytes", "largest send buffer (sk_sndbuf)")
    requested_receive_kib = kib(
        "receives.requested_bytes", "receive buffer requested at the receiver (none: automatic)"
    )

    granted_receive_kib = kib(
        "granted.receive", "receive buffer before connecting: getsockopt, or the sysctl"
    )
    used_receive_kib = kib("reached.receive_buffer_bytes", "largest receive buffer (sk_rcvbuf)")
    advertised_kib = kib("reached.offered_bytes", "largest window that was advertised")
    in_flight_kib = kib(
        "reached.usually_in_flight_bytes", "payload in flight, median over the samples"
    )
    goodput_mib_s = part(
        "goodput_bytes_s",
        "all payload divided by the time from its first to its last arrival",
        unit="MiB/s",
        predicted_by="predicted_goodput_mib_s",
        headline=True,
        per=MIB,
    )
    predicted_goodput_mib_s = costly(
        "prediction.goodput_bytes_s",
        "predicted goodput of the whole transfer",
        unit="MiB/s",
        per=MIB,
    )

    @column("what fixes the buffers: setsockopt, sysctl, or automatic at both ends", hidden=True)
    def fixed_by(self) -> str | None:
        return _fixed_by(self.sends, self.receives) if self.sends and self.receives else None

    write_bytes = hidden(
        "transfer_settings.write_bytes", "size of a write (iperf3 -l)", unit="bytes"
    )
    nodelay = hidden("transfer_settings.nodelay", "TCP_NODELAY (iperf3 -N)")
    writes_per_wake = hidden(
        "transfer_settings.writes_per_wake", "writes after each select() (iperf3 -b)"
    )
    mss_bytes = hidden("transfer_settings.mss_bytes", "iperf3 -M (0: the path's MSS)", unit="bytes")

    @column("automatic send buffer just after connecting", unit="KiB", hidden=True)
    def connected_send_kib(self) -> float | None:
        return in_kib(after_connecting_bytes(self.run)) if self.received else None

    transfer_bytes = hidden("received.payload_bytes", "payload that arrived", unit="bytes")
    took_s = hidden("received.took_s", "from the first arrival to the last", unit="s")

    @column("what iperf3 said when it refused the size", hidden=True)
    def refused(self) -> str | None:
        return None if self.settings.grants else refusal(self.run)

    @cached_property
    def requests(self) -> dict[int, dict[str, int]]:
        """What getsockopt returned after each request of a run that only requests buffers."""
        return grants(self.run) if self.settings.grants else {}

    @cached_property
    def largest(self) -> Mapping[str, int]:
        """The largest of these, by the end."""
        ends = ("send", "receive") if self.requests else ()
        return {end: max(sizes[end] for sizes in self.requests.values()) for end in ends}

    @cached_property
    def sender_samples(self) -> DataFrame | None:
        rows = sender_rows(self.run) if self.received else None
        return None if rows is None or rows.empty else rows

    @column("steady goodput, of what the link carries", unit="%", hidden=True)
    def line_share_pct(self) -> float | None:
        rate_mbit, steady_bytes_s = self.run.link.measured.rate_mbit, self.steady_bytes_s
        if rate_mbit is None or steady_bytes_s is None:
            return None
        return 100 * float(steady_bytes_s) / line_goodput_bytes_s(rate_mbit)

    @column("largest size that setsockopt was asked for", unit="bytes", hidden=True)
    def largest_request_bytes(self) -> int | None:
        return max(self.requests, default=None)

    largest_send_kib = hidden_kib("largest.send", "largest send buffer that setsockopt gave")
    largest_receive_kib = hidden_kib(
        "largest.receive", "largest receive buffer that setsockopt gave"
    )

    @column("send buffer after a request of 1 GiB", unit="KiB", hidden=True)
    def gib_send_kib(self) -> float | None:
        return in_kib(self.requests.get(GIB, {}).get("send"))

    @column("net.core.wmem_max", unit="bytes", hidden=True)
    def wmem_max_bytes(self) -> int | None:
        return int(self.run.sysctl("client", "net.core.wmem_max")) if self.requests else None

    @column("net.core.rmem_max", unit="bytes", hidden=True)
    def rmem_max_bytes(self) -> int | None:
        return int(self.run.sysctl("client", "net.core.rmem_max")) if self.requests else None

    queue_drops = hidden(shaper_drops, "packets that the shaper's queue dropped")

    @column("segments counted as retransmitted", hidden=True, costly=True)
    def retransmitted_segments(self) -> int | None:
        rows = self.sender_samples
        return None if rows is None else int(rows["total_retrans_segments"].max())

    @column("bytes that the peer acknowledged", unit="bytes", hidden=True, costly=True)
    def acked_bytes(self) -> int | None:
        rows = self.sender_samples
        return None if rows is None else int(rows["bytes_acked"].max())

    @column("bytes written and not acknowledged", unit="bytes", hidden=True, costly=True)
    def written_ahead_bytes(self) -> int | None:
        return written_ahead_bytes(self.run) if self.received else None

    asked_bytes = hidden(
        "transfer_settings.transfer_bytes",
        "the size of the transfer that was requested",
        unit="bytes",
    )

    @column("the error that the sender's iperf3 reports", hidden=True)
    def sender_error(self) -> str | None:
        if self.received is None:
            return None
        return self.run.read(f"{SENDER}/{REPORT}", raw_files.IPERF3_ERROR) or NO_ERROR

    @column("that error is none, or how each run ends", hidden=True)
    def ended_as_usual(self) -> bool | None:
        error = self.sender_error
        return None if error is None else error in (NO_ERROR, INTERRUPTED, RESET)

    def lab_notes(self) -> Iterator[Note]:
        run, asked_mbit = self.run, self.run.link.asked.rate_mbit or 0.0
        if run.testbed == VIRTUAL and asked_mbit > CLOCK_LIMITS_MBIT:
            checked_gbit = (run.link.measured.rate_mbit or 0.0) / 1e3
            yield Note(
                "clock",
                "the clock limits this: each reading of the virtual clock costs 256 ns, so the "
                f"link check sees {checked_gbit:.3g} of {asked_mbit / 1e3:g} Gbit/s",
            )
        if self.refused:
            size = f"{self.settings.window_kib:,} KiB"
            yield Note("refused", f"iperf3 refused {size}: {self.refused}")
        for end, buffer in (("send", self.sends), ("receive", self.receives)):
            if buffer is None or buffer.requested_bytes is None:
                continue
            size_bytes = self.granted[end]
            if size_bytes not in (None, 2 * buffer.requested_bytes):
                request = f"a request of {buffer.requested_bytes:,} bytes"
                yield Note("granted", f"{request} gave a {end} buffer of {size_bytes:,}")


def _fixed_by(*buffers: Buffer) -> str:
    """`setsockopt`, `sysctl`, or `automatic`: the first of these that fixes a buffer."""
    return max(
        (buffer.fixed_by for buffer in buffers), key=("automatic", "sysctl", "setsockopt").index
    )


def refusal(run: Run) -> str | None:
    """What iperf3 said of a size that it refused; None for a run that was not refused."""
    if f"{RECEIVER}/{REPORT}" in run.seal.files:
        error = run.read(f"{RECEIVER}/{REPORT}", raw_files.IPERF3_ERROR)
        return error if error and REFUSED in error else None
    if f"{RECEIVER}/{SAID}" not in run.seal.files:
        return None
    lines = run.text(f"{RECEIVER}/{SAID}").splitlines()
    line = next((line for line in lines if REFUSED in line), None)
    return line and line.removeprefix(f"{IPERF3}: ").removeprefix("parameter error - ")


def grants(run: Run) -> dict[int, dict[str, int]]:
    """The sizes that getsockopt returned after each request of a run that only requests buffers:
    by request and by `send` and `receive`, in bytes."""
    sizes: dict[int, dict[str, int]] = {}
    for buffer in run.buffers:
        if buffer.requested_bytes is not None and buffer.granted_bytes is not None:
            sizes.setdefault(buffer.requested_bytes, {})[buffer.socket] = buffer.granted_bytes
    return dict(sorted(sizes.items()))


def transferred(run: Run) -> bool:
    """Whether a run has a transfer: iperf3 was started, and did not refuse the size."""
    return run.capture(RECEIVER) is not None and refusal(run) is None


def send_buffer(run: Run) -> Buffer:
    """The sender's send buffer."""
    return _buffer(run, SENDER, "send", run.settings_as(Settings).sndbuf_kib, WMEM)


def receive_buffer(run: Run) -> Buffer:
    """The receiver's receive buffer."""
    return _buffer(run, RECEIVER, "receive", run.settings_as(Settings).rcvbuf_kib, RMEM)


def _buffer(run: Run, host: str, socket: str, fixed_kib: int, sysctl: str) -> Buffer:
    """A size that a sysctl fixes is the one that the kernel grants for a request of half of it."""
    requested = run.settings_as(Settings).requested_bytes
    if requested is not None:
        return Buffer(SETSOCKOPT, requested, _reported(run, host, socket) or 2 * requested)
    *_, largest = sysctl_sizes(run.sysctl(host, sysctl))
    return (
        Buffer(SYSCTL, fixed_kib * KIB, largest) if fixed_kib else Buffer(AUTOMATIC, None, largest)
    )


def granted(run: Run, host: str, buffer: Buffer) -> int | None:
    """The size of a buffer before the connection exists; None if iperf3 reported none."""
    if buffer.fixed_by == SYSCTL:
        return buffer.most_bytes
    return _reported(run, host, "send" if host == SENDER else "receive")


def _reported(run: Run, host: str, socket: str) -> int | None:
    """What getsockopt returned to iperf3."""
    of_socket = (row for row in run.buffers if (row.host, row.socket) == (host, socket))
    return next((row.granted_bytes for row in of_socket), None)


def sender_rows(run: Run) -> DataFrame | None:
    """The samples of the socket that sent the data; None for a run without a transfer."""
    return own_socket(_sender_samples(run), "bytes_acked") if transferred(run) else None


@lru_cache(maxsize=1)
def _sender_samples(run: Run) -> DataFrame:
    return run.samples(SENDER)


def after_connecting_bytes(run: Run) -> int | None:
    """The send buffer of a connection that has sent little, which is the size that the kernel sets
    when the connection is established: that of iperf3's own control connection on the sender."""
    data = sender_rows(run)
    if data is None or data.empty:
        return None
    rows = _sender_samples(run)
    others = rows[(rows["cookie"] != data["cookie"].iloc[0]) & (rows["state"] == "ESTAB")]
    return None if others.empty else int(others["sndbuf_bytes"].max())


def written_ahead_bytes(run: Run) -> int | None:
    """The most bytes that the program had written and the peer had not acknowledged, over the
    samples; None without samples."""
    rows = sender_rows(run)
    if rows is None or rows.empty:
        return None
    in_flight = rows["bytes_sent"] - rows["bytes_retrans"] - rows["bytes_acked"]
    return int((rows["notsent_bytes"] + in_flight).max())


def expected(run: Run) -> Transfer:
    """The predicted transfer, computed from the measured link, both buffers and the kernel."""
    if not run.link.ok:
        return _cannot_say("the link is not as requested")
    sizes = (send_buffer(run).fixed_bytes, receive_buffer(run).fixed_bytes)
    fixed = [size for size in sizes if size is not None]
    if min(fixed, default=SMALLEST_BYTES) < SMALLEST_BYTES:
        return _cannot_say(f"a buffer below {SMALLEST_BYTES // KIB} KiB holds a few packets")
    return transfer(flow_of(run), run.settings_as(Settings).transfer_bytes)


def expected_interval(run: Run) -> Interval | None:
    """How far the result may lie from the prediction, where single packets decide; None where
    they do not, or if the theory cannot say."""
    if expected(run).cannot_say:
        return None
    return shown(flow_of(run), run.settings_as(Settings).transfer_bytes)


def _cannot_say(reason: str) -> Transfer:
    return Transfer(0.0, 0.0, 0.0, "", (), {}, reason)


def flow_of(run: Run) -> Flow:
    """The transfer of a run as the model takes it. BadInput for a link without a rate."""
    settings = run.settings_as(Settings)
    return bulk_transfer.flow_of(
        run,
        send_buffer(run),
        receive_buffer(run),
        mss_bytes=settings.mss_bytes - TIMESTAMP_BYTES if settings.mss_bytes else MSS_BYTES,
        write_bytes=settings.write_bytes,
        nodelay=settings.nodelay,
        writes_per_wake=settings.writes_per_wake,
    )


def parameter(run: Run, name: str) -> int | None:
    """The BDP of the requested link, in bytes; None for other names, or a link without a rate."""
    link = run.condition_asked.link
    if name != "bdp_bytes" or link.rate_mbit is None:
        return None
    return round(bytes_carried(link.rate_mbit, link.delay_ms))
