"""The results of a run of the lab `sweeps`: buffers, window, payload in flight and goodput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial

from labs.drive.result_columns import Note, part
from labs.experiments.sweeps.experiment import INTERRUPTED, IPERF3, REFUSED, REPORT, RESET, SAID
from labs.experiments.sweeps.settings import Settings
from labs.guest.testbed.link import MSS_BYTES
from labs.guest.units import GIB, KIB, MIB, bytes_carried
from labs.read.claims.ledger import article_beside
from labs.read.readings.arrivals import arrivals
from labs.read.readings.bulk_transfer import (
    AUTOMATIC,
    HOST_OF,
    RECEIVER,
    RMEM_MAX,
    SENDER,
    SETSOCKOPT,
    SYSCTL,
    WMEM_MAX,
    Buffer,
    BulkTransfer,
    buffer_of,
    flow_of,
)
from labs.read.readings.instruments import shaper_drops
from labs.read.readings.run_results import hidden, hidden_column, settings_as, size
from labs.read.runs import raw_files
from labs.read.runs.run import Run
from labs.read.stats.arrivals import Arrivals
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import transfer
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.receiver import TIMESTAMP_BYTES

SMALLEST_BYTES = 16 * KIB
"""The smallest granted buffer of the points at which the model was tested."""
NO_ERROR = "no error"
CLOCK_LIMITS_MBIT = 10_000.0
"""Above this rate the readings of the clock take as long as a packet: arch/um/kernel/time.c
timer_read(), TIMER_MULTIPLIER."""
article = partial(article_beside, __file__)
costly = partial(hidden, costly=True)
kib, hidden_kib = partial(part, unit="KiB", per=KIB), partial(hidden, unit="KiB", per=KIB)


class Results(BulkTransfer):
    """The figures of one run; None for those that it does not have. If iperf3 refused the size,
    only the request is known; a run that only requests buffers (`grants`) has no figures."""

    settings = settings_as(Settings)
    predict = staticmethod(transfer)

    @property
    def asked(self) -> Settings | None:
        """The settings of a transfer."""
        return None if self.settings.grants else self.settings

    @cached_property
    def ends(self) -> Mapping[str, Buffer]:
        """The buffers that send and receive."""
        settings = self.settings
        ends = {}
        for end, kib in (("send", settings.sndbuf_kib), ("receive", settings.rcvbuf_kib)):
            buffer = buffer_of(self.run, HOST_OF[end], settings.requested_bytes)
            # A size that a sysctl fixes is the one that the kernel grants for half of it.
            ends[end] = replace(buffer, requested_bytes=kib * KIB) if kib else buffer
        return ends

    @cached_property
    def granted(self) -> Mapping[str, int | None]:
        """The sizes of both buffers before the connection exists: what getsockopt returned to
        iperf3, or the sysctl; None if iperf3 reports none."""
        if not self.asked:
            return {}
        reported = {(row.host, row.socket): row.granted_bytes for row in self.run.buffers}
        return {
            end: buffer.most_bytes
            if buffer.fixed_by == SYSCTL
            else reported.get((HOST_OF[end], end))
            for end, buffer in self.ends.items()
        }

    @cached_property
    def received(self) -> Arrivals | None:
        """What arrived; None if iperf3 was not started, or refused the size."""
        if self.run.capture(RECEIVER) is None or self.refused is not None:
            return None
        return arrivals(self.run)

    @cached_property
    def flow(self) -> Flow:
        """The transfer as the model takes it. BadInput for a link without a rate."""
        settings = self.settings
        return flow_of(
            self.run,
            self.ends["send"],
            self.ends["receive"],
            mss_bytes=settings.mss_bytes - TIMESTAMP_BYTES if settings.mss_bytes else MSS_BYTES,
            write_bytes=settings.write_bytes,
            nodelay=settings.nodelay,
            writes_per_wake=settings.writes_per_wake,
        )

    @property
    def modelled_bytes(self) -> int:
        return self.settings.transfer_bytes

    @property
    def not_modelled(self) -> str | None:
        if self.received is None:
            return None
        if not self.run.link.ok:
            return "the link is not as requested"
        sizes = [buffer.fixed_bytes or SMALLEST_BYTES for buffer in self.ends.values()]
        if min(sizes) < SMALLEST_BYTES:
            return f"a buffer below {SMALLEST_BYTES // KIB} KiB holds a few packets"
        return ""

    requested_send_kib = kib(
        "ends.send.requested_bytes", "send buffer requested at the sender (none: automatic)"
    )
    granted_send_kib = kib(
        "granted.send", "send buffer before connecting: getsockopt, or the sysctl"
    )
    used_send_kib = kib("window.send_buffer_bytes", "largest send buffer (sk_sndbuf)")
    requested_receive_kib = kib(
        "ends.receive.requested_bytes", "receive buffer requested at the receiver (none: automatic)"
    )
    granted_receive_kib = kib(
        "granted.receive", "receive buffer before connecting: getsockopt, or the sysctl"
    )
    used_receive_kib = kib("window.receive_buffer_bytes", "largest receive buffer (sk_rcvbuf)")
    advertised_kib = kib("window.offered_bytes", "largest window that was advertised")
    in_flight_kib = kib(
        "window.usually_in_flight_bytes", "payload in flight, median over the samples"
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

    @hidden_column("what fixes the buffers: setsockopt, sysctl, or automatic at both ends")
    def fixed_by(self) -> str | None:
        fixed_by = [buffer.fixed_by for buffer in self.ends.values()]
        return max(fixed_by, key=(AUTOMATIC, SYSCTL, SETSOCKOPT).index) if self.asked else None

    write_bytes = size("asked.write_bytes", "size of a write (iperf3 -l)")
    nodelay = hidden("asked.nodelay", "TCP_NODELAY (iperf3 -N)")
    writes_per_wake = hidden("asked.writes_per_wake", "writes after each select() (iperf3 -b)")
    mss_bytes = size("asked.mss_bytes", "iperf3 -M (0: the path's MSS)")

    @hidden_column("automatic send buffer just after connecting", unit="KiB")
    def connected_send_kib(self) -> float | None:
        """That of iperf3's own control connection on the sender, which has sent little."""
        data = self.samples[SENDER]
        if data.empty:
            return None
        rows = self.run.samples(SENDER)
        others = rows[(rows["cookie"] != data["cookie"].iloc[0]) & (rows["state"] == "ESTAB")]
        return None if others.empty else int(others["sndbuf_bytes"].max()) / KIB

    transfer_bytes = size("received.payload_bytes", "payload that arrived")
    took_s = hidden("received.took_s", "from the first arrival to the last", unit="s")

    @hidden_column("what iperf3 said when it refused the size")
    def refused(self) -> str | None:
        run, report, printed = self.run, f"{RECEIVER}/{REPORT}", f"{RECEIVER}/{SAID}"
        lines: list[str] = []
        if report in run.seal.files:
            lines = [run.read(report, raw_files.IPERF3_ERROR) or ""]
        elif printed in run.seal.files:
            lines = run.text(printed).splitlines()
        line = next((line for line in lines if REFUSED in line), None)
        return line and line.removeprefix(f"{IPERF3}: ").removeprefix("parameter error - ")

    @cached_property
    def requests(self) -> dict[int, dict[str, int]]:
        """What getsockopt returned after each request of a run that only requests buffers: by
        request and by `send` and `receive`, in bytes."""
        sizes: dict[int, dict[str, int]] = {}
        for row in self.run.buffers if self.settings.grants else ():
            if row.requested_bytes is not None and row.granted_bytes is not None:
                sizes.setdefault(row.requested_bytes, {})[row.socket] = row.granted_bytes
        return dict(sorted(sizes.items()))

    @cached_property
    def most(self) -> Mapping[str, int | None]:
        """The largest of these requests, what it and 1 GiB gave, and the maxima of setsockopt."""
        if not self.requests:
            return {}
        return {
            "request": max(self.requests),
            **{end: max(sizes[end] for sizes in self.requests.values()) for end in HOST_OF},
            "of_gib": self.requests.get(GIB, {}).get("send"),
            "to_send": int(self.run.sysctl(RECEIVER, WMEM_MAX)),
            "to_receive": int(self.run.sysctl(RECEIVER, RMEM_MAX)),
        }

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The largest of these counters over the samples."""
        rows = self.samples[SENDER]
        if rows.empty:
            return {}
        in_flight = rows["bytes_sent"] - rows["bytes_retrans"] - rows["bytes_acked"]
        return {
            "again": int(rows["total_retrans_segments"].max()),
            "acked": int(rows["bytes_acked"].max()),
            "ahead": int((rows["notsent_bytes"] + in_flight).max()),
        }

    @hidden_column("steady goodput, of what the link carries", unit="%")
    def line_share_pct(self) -> float | None:
        rate_mbit, steady_bytes_s = self.run.link.measured.rate_mbit, self.steady_bytes_s
        if rate_mbit is None or steady_bytes_s is None:
            return None
        return 100 * float(steady_bytes_s) / line_goodput_bytes_s(rate_mbit)

    largest_request_bytes = size("most.request", "largest size that setsockopt was asked for")
    largest_send_kib = hidden_kib("most.send", "largest send buffer that setsockopt gave")
    largest_receive_kib = hidden_kib("most.receive", "largest receive buffer that setsockopt gave")
    gib_send_kib = hidden_kib("most.of_gib", "send buffer after a request of 1 GiB")
    wmem_max_bytes = size("most.to_send", WMEM_MAX)
    rmem_max_bytes = size("most.to_receive", RMEM_MAX)
    queue_drops = hidden(shaper_drops, "packets that the shaper's queue dropped")
    retransmitted_segments = costly("counts.again", "segments counted as retransmitted")
    acked_bytes = costly("counts.acked", "bytes that the peer acknowledged", unit="bytes")
    written_ahead_bytes = costly("counts.ahead", "bytes written and not acknowledged", unit="bytes")
    asked_bytes = size("asked.transfer_bytes", "the size of the transfer that was requested")

    @hidden_column("the error that the sender's iperf3 reports")
    def sender_error(self) -> str | None:
        if self.received is None:
            return None
        return self.run.read(f"{SENDER}/{REPORT}", raw_files.IPERF3_ERROR) or NO_ERROR

    @hidden_column("that error is none, or how each run ends")
    def ended_as_usual(self) -> bool | None:
        error = self.sender_error
        return None if error is None else error in (NO_ERROR, INTERRUPTED, RESET)

    def lab_notes(self) -> Iterator[Note]:
        asked_mbit = self.run.link.asked.rate_mbit or 0.0
        if self.run.where.virtual_time and asked_mbit > CLOCK_LIMITS_MBIT:
            checked_gbit = (self.run.link.measured.rate_mbit or 0.0) / 1e3
            yield Note(
                "clock",
                "the clock limits this: each reading of the virtual clock costs 256 ns, so the "
                f"link check sees {checked_gbit:.3g} of {asked_mbit / 1e3:g} Gbit/s",
            )
        if self.refused:
            text = f"iperf3 refused {self.settings.window_kib:,} KiB: {self.refused}"
            yield Note("refused", text)
        for end, buffer in self.ends.items():
            size_bytes, request_bytes = self.granted.get(end), buffer.requested_bytes
            if request_bytes and size_bytes not in (None, 2 * request_bytes):
                request = f"a request of {request_bytes:,} bytes"
                yield Note("granted", f"{request} gave a {end} buffer of {size_bytes:,}")


def parameter(run: Run, name: str) -> int | None:
    """The BDP of the requested link, in bytes; None for other names, or a link without a rate."""
    link = run.condition_asked.link
    if name != "bdp_bytes" or link.rate_mbit is None:
        return None
    return round(bytes_carried(link.rate_mbit, link.delay_ms))
