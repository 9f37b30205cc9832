"""The results of a run of the lab `sweeps`: buffers, window, payload in flight and goodput."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

from labs.drive.result_columns import Note, column
from labs.drive.units import GIB, KIB, MIB
from labs.experiments.sweeps.experiment import INTERRUPTED, REPORT, RESET
from labs.experiments.sweeps.prediction import expected, expected_interval
from labs.experiments.sweeps.settings import Settings
from labs.experiments.sweeps.socket_buffers import (
    SENDER,
    Buffer,
    advertised_bytes,
    after_connecting_bytes,
    grants,
    receive_buffer,
    refusal,
    send_buffer,
    sender_rows,
    transferred,
    usual_in_flight_bytes,
    written_ahead_bytes,
)
from labs.read.claims.ledger import article_beside
from labs.read.readings.arrivals import arrivals
from labs.read.readings.instruments import capture_losses, shaper_drops, under_memory_pressure
from labs.read.runs import raw_files
from labs.read.runs.run import Run
from labs.read.stats.arrivals import Arrivals
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import Transfer
from labs.read.theory.bulk_interval import Interval

if TYPE_CHECKING:
    from pandas import DataFrame

VIRTUAL = "virtual"
NO_ERROR = "no error"
CLOCK_LIMITS_MBIT = 10_000.0
"""Above this rate the readings of the clock take as long as a packet: arch/um/kernel/time.c
timer_read(), TIMER_MULTIPLIER."""
article = partial(article_beside, __file__)


class Results:
    """The figures of one run; None for those that it does not have."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @cached_property
    def sends(self) -> Buffer | None:
        """The sender's buffer; None for a run that only requests buffers."""
        return None if self.settings.grants else send_buffer(self.run)

    @cached_property
    def receives(self) -> Buffer | None:
        return None if self.settings.grants else receive_buffer(self.run)

    @cached_property
    def transfer(self) -> Arrivals | None:
        return arrivals(self.run) if transferred(self.run) else None

    @cached_property
    def theory(self) -> Transfer | None:
        predicted = expected(self.run) if self.transfer else None
        return None if predicted is None or predicted.cannot_say else predicted

    @cached_property
    def interval(self) -> Interval | None:
        return expected_interval(self.run) if self.transfer else None

    @column("send buffer requested at the sender (none: automatic)", unit="KiB")
    def requested_send_kib(self) -> float | None:
        return in_kib(self.sends.requested_bytes) if self.sends else None

    @column("send buffer before connecting: getsockopt, or the sysctl", unit="KiB")
    def granted_send_kib(self) -> float | None:
        return in_kib(self.sends.granted_bytes) if self.sends else None

    @column("largest send buffer (sk_sndbuf)", unit="KiB")
    def used_send_kib(self) -> float | None:
        return in_kib(self.sends.used_bytes) if self.sends else None

    @column("receive buffer requested at the receiver (none: automatic)", unit="KiB")
    def requested_receive_kib(self) -> float | None:
        return in_kib(self.receives.requested_bytes) if self.receives else None

    @column("receive buffer before connecting: getsockopt, or the sysctl", unit="KiB")
    def granted_receive_kib(self) -> float | None:
        return in_kib(self.receives.granted_bytes) if self.receives else None

    @column("largest receive buffer (sk_rcvbuf)", unit="KiB")
    def used_receive_kib(self) -> float | None:
        return in_kib(self.receives.used_bytes) if self.receives else None

    @column("largest window that was advertised", unit="KiB")
    def advertised_kib(self) -> float | None:
        return in_kib(advertised_bytes(self.run)) if self.transfer else None

    @column("payload in flight, median over the samples", unit="KiB")
    def in_flight_kib(self) -> float | None:
        return in_kib(usual_in_flight_bytes(self.run)) if self.transfer else None

    @column(
        "all payload divided by the time from its first to its last arrival",
        unit="MiB/s",
        predicted_by="predicted_goodput_mib_s",
        headline=True,
    )
    def goodput_mib_s(self) -> float | None:
        return in_mib(self.goodput_bytes_s)

    @column(
        "the same over the last third of that time", unit="MiB/s", predicted_by="predicted_mib_s"
    )
    def steady_mib_s(self) -> float | None:
        return in_mib(self.steady_bytes_s)

    @column("predicted goodput of the whole transfer", unit="MiB/s", hidden=True, costly=True)
    def predicted_goodput_mib_s(self) -> float | None:
        return in_mib(self.theory.goodput_bytes_s) if self.theory else None

    @column("predicted steady goodput", unit="MiB/s", costly=True)
    def predicted_mib_s(self) -> float | None:
        return in_mib(self.theory.steady_bytes_s) if self.theory else None

    @column(
        "lowest prediction of the steady goodput, where it depends on single packets",
        unit="MiB/s",
        costly=True,
    )
    def predicted_low_mib_s(self) -> float | None:
        return in_mib(self.interval.steady_bytes_s[0]) if self.interval else None

    @column("highest prediction of the steady goodput, likewise", unit="MiB/s", costly=True)
    def predicted_high_mib_s(self) -> float | None:
        return in_mib(self.interval.steady_bytes_s[1]) if self.interval else None

    @column("limit: what keeps the link idle in steady state, in theory", costly=True)
    def bound(self) -> str | None:
        return self.theory.bound if self.theory else None

    @column("why there is no prediction", hidden=True, costly=True)
    def cannot_say(self) -> str | None:
        return (expected(self.run).cannot_say or None) if self.transfer else None

    @column("what fixes the buffers: setsockopt, sysctl, or automatic at both ends", hidden=True)
    def fixed_by(self) -> str | None:
        return _fixed_by(self.sends, self.receives) if self.sends and self.receives else None

    @column("size of a write (iperf3 -l)", unit="bytes", hidden=True)
    def write_bytes(self) -> int | None:
        return None if self.settings.grants else self.settings.write_bytes

    @column("TCP_NODELAY (iperf3 -N)", hidden=True)
    def nodelay(self) -> bool | None:
        return None if self.settings.grants else self.settings.nodelay

    @column("writes after each select() (iperf3 -b)", hidden=True)
    def writes_per_wake(self) -> int | None:
        return None if self.settings.grants else self.settings.writes_per_wake

    @column("iperf3 -M (0: the path's MSS)", unit="bytes", hidden=True)
    def mss_bytes(self) -> int | None:
        return None if self.settings.grants else self.settings.mss_bytes

    @column("automatic send buffer just after connecting", unit="KiB", hidden=True)
    def connected_send_kib(self) -> float | None:
        return in_kib(after_connecting_bytes(self.run)) if self.transfer else None

    @column("as goodput_mib_s", unit="bytes/s", hidden=True)
    def goodput_bytes_s(self) -> float | None:
        return self.transfer.goodput_bytes_s if self.transfer else None

    @column("as steady_mib_s", unit="bytes/s", hidden=True)
    def steady_bytes_s(self) -> float | None:
        return self.transfer.steady_bytes_s if self.transfer else None

    @column("payload that arrived", unit="bytes", hidden=True)
    def transfer_bytes(self) -> int | None:
        return self.transfer.payload_bytes if self.transfer else None

    @column("from the first arrival to the last", unit="s", hidden=True)
    def took_s(self) -> float | None:
        return self.transfer.took_s if self.transfer else None

    @column("what iperf3 said when it refused the size", hidden=True)
    def refused(self) -> str | None:
        return None if self.settings.grants else refusal(self.run)

    @cached_property
    def requests(self) -> dict[int, dict[str, int]]:
        """What getsockopt returned after each request of a run that only requests buffers."""
        return grants(self.run) if self.settings.grants else {}

    @cached_property
    def sender_samples(self) -> DataFrame | None:
        rows = sender_rows(self.run) if self.transfer else None
        return None if rows is None or rows.empty else rows

    @column("steady goodput, of what the link carries", unit="%", hidden=True)
    def line_share_pct(self) -> float | None:
        rate_mbit, steady_bytes_s = self.run.link.measured.rate_mbit, self.steady_bytes_s
        if rate_mbit is None or steady_bytes_s is None:
            return None
        return 100 * steady_bytes_s / line_goodput_bytes_s(rate_mbit)

    @column("largest size that setsockopt was asked for", unit="bytes", hidden=True)
    def largest_request_bytes(self) -> int | None:
        return max(self.requests, default=None)

    @column("largest send buffer that setsockopt gave", unit="KiB", hidden=True)
    def largest_send_kib(self) -> float | None:
        return self._granted("send")

    @column("largest receive buffer that setsockopt gave", unit="KiB", hidden=True)
    def largest_receive_kib(self) -> float | None:
        return self._granted("receive")

    @column("send buffer after a request of 1 GiB", unit="KiB", hidden=True)
    def gib_send_kib(self) -> float | None:
        return in_kib(self.requests.get(GIB, {}).get("send"))

    @column("net.core.wmem_max", unit="bytes", hidden=True)
    def wmem_max_bytes(self) -> int | None:
        return int(self.run.sysctl("client", "net.core.wmem_max")) if self.requests else None

    @column("net.core.rmem_max", unit="bytes", hidden=True)
    def rmem_max_bytes(self) -> int | None:
        return int(self.run.sysctl("client", "net.core.rmem_max")) if self.requests else None

    @column("packets that the shaper's queue dropped", hidden=True)
    def queue_drops(self) -> int | None:
        return shaper_drops(self.run)

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
        return written_ahead_bytes(self.run) if self.transfer else None

    @column("the size of the transfer that was requested", unit="bytes", hidden=True)
    def asked_bytes(self) -> int | None:
        return None if self.settings.grants else self.settings.transfer_bytes

    @column("the error that the sender's iperf3 reports", hidden=True)
    def sender_error(self) -> str | None:
        if self.transfer is None:
            return None
        return self.run.read(f"{SENDER}/{REPORT}", raw_files.IPERF3_ERROR) or NO_ERROR

    @column("that error is none, or how each run ends", hidden=True)
    def ended_as_usual(self) -> bool | None:
        error = self.sender_error
        return None if error is None else error in (NO_ERROR, INTERRUPTED, RESET)

    def _granted(self, end: str) -> float | None:
        return in_kib(max((sizes[end] for sizes in self.requests.values()), default=None))

    def notes(self) -> Iterator[Note]:
        """What a reader of the figures must know; nothing for a regular run."""
        run, asked_mbit = self.run, self.run.link.asked.rate_mbit or 0.0
        if not run.link.ok:
            yield Note("link", "link not as asked")
        if run.testbed == VIRTUAL and asked_mbit > CLOCK_LIMITS_MBIT:
            checked = f"{(run.link.measured.rate_mbit or 0.0) / 1e3:.3g} of {asked_mbit / 1e3:g}"
            yield Note(
                "clock",
                "the clock limits this: each reading of the virtual clock costs 256 ns, so the "
                f"link check sees {checked} Gbit/s",
            )
        if self.refused:
            size = f"{self.settings.window_kib:,} KiB"
            yield Note("refused", f"iperf3 refused {size}: {self.refused}")
        yield from self.grants()
        if self.transfer is None:
            return
        if run.ended == "limit":
            yield Note("limit", "ended by the time limit")
        if drops := shaper_drops(run):
            text = f"the shaper's queue overflowed and dropped {drops} packets"
            yield Note("shaper_drops", text)
        if lost := capture_losses(run):
            yield Note("capture_lost", f"the capture lost {lost} packets")
        if under_memory_pressure(run):
            yield Note("memory_pressure", "TCP came under memory pressure")

    def grants(self) -> Iterator[Note]:
        """A note for each buffer that is not twice the requested size."""
        for end, buffer in (("send", self.sends), ("receive", self.receives)):
            if buffer is None or buffer.requested_bytes is None:
                continue
            if buffer.granted_bytes not in (None, 2 * buffer.requested_bytes):
                request = f"a request of {buffer.requested_bytes:,} bytes"
                text = f"{request} gave a {end} buffer of {buffer.granted_bytes:,}"
                yield Note("granted", text)


def _fixed_by(*buffers: Buffer) -> str:
    """`setsockopt`, `sysctl`, or `automatic`: the first of these that fixes a buffer."""
    return max(
        (buffer.fixed_by for buffer in buffers), key=("automatic", "sysctl", "setsockopt").index
    )


def in_kib(size: float | None) -> float | None:
    return None if size is None else size / KIB


def in_mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
