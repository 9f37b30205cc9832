"""The socket buffers of a transfer: requested, granted or refused, and the largest size used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from labs.drive.units import KIB, bytes_carried
from labs.experiments.sweeps.conditions import RMEM, WMEM
from labs.experiments.sweeps.experiment import IPERF3, REFUSED, REPORT, SAID
from labs.experiments.sweeps.settings import Settings
from labs.read.readings.goodput import own_socket
from labs.read.runs import raw_files
from labs.read.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

SETSOCKOPT, SYSCTL, AUTOMATIC = "setsockopt", "sysctl", "automatic"
SENDER, RECEIVER = "server", "client"


@dataclass(frozen=True)
class Buffer:
    """The buffer of one end of a transfer, in bytes.

    `requested_bytes` is the request of iperf3 (`fixed_by` SETSOCKOPT), or the request that would
    have given the size that a sysctl fixes (SYSCTL); None for a buffer that the kernel sizes
    (AUTOMATIC). `granted_bytes` is the size that getsockopt returns before the connection exists,
    or the sysctl's; None if iperf3 reported none. `used_bytes` is the largest size that a sample
    shows; None without samples.
    """

    fixed_by: str
    requested_bytes: int | None
    granted_bytes: int | None
    used_bytes: int | None


def parameter(run: Run, name: str) -> int | None:
    """The BDP of the requested link, in bytes; None for other names, or a link without a rate."""
    link = run.condition_asked.link
    if name != "bdp_bytes" or link.rate_mbit is None:
        return None
    return round(bytes_carried(link.rate_mbit, link.delay_ms))


def refusal(run: Run) -> str | None:
    """What iperf3 said of a size that it refused; None for a run that was not refused."""
    if f"{RECEIVER}/{REPORT}" in run.seal.files:
        error = run.read(f"{RECEIVER}/{REPORT}", raw_files.IPERF3_ERROR)
        return error if error and REFUSED in error else None
    if f"{RECEIVER}/{SAID}" not in run.seal.files:
        return None
    said = [line for line in run.text(f"{RECEIVER}/{SAID}").splitlines() if REFUSED in line]
    return said[0].removeprefix(f"{IPERF3}: ").removeprefix("parameter error - ") if said else None


def grants(run: Run) -> dict[int, dict[str, int]]:
    """The sizes that getsockopt returned after each request of a run that only requests buffers:
    by request and by `send` and `receive`, in bytes."""
    found: dict[int, dict[str, int]] = {}
    for one in run.buffers:
        if one.requested_bytes is not None and one.granted_bytes is not None:
            found.setdefault(one.requested_bytes, {})[one.socket] = one.granted_bytes
    return dict(sorted(found.items()))


def transferred(run: Run) -> bool:
    """Whether a run has a transfer: iperf3 was started, and did not refuse the size."""
    return run.capture(RECEIVER) is not None and refusal(run) is None


def send_buffer(run: Run) -> Buffer:
    """The sender's send buffer."""
    used_bytes = _largest(sender_rows(run), "sndbuf_bytes")
    return _buffer(run, SENDER, "send", run.settings_as(Settings).sndbuf_kib, used_bytes)


def receive_buffer(run: Run) -> Buffer:
    """The receiver's receive buffer."""
    rows = own_socket(run.samples(RECEIVER), "bytes_received") if transferred(run) else None
    used_bytes = _largest(rows, "rcvbuf_bytes")
    return _buffer(run, RECEIVER, "receive", run.settings_as(Settings).rcvbuf_kib, used_bytes)


def sender_rows(run: Run) -> DataFrame | None:
    """The samples of the socket that sent the data; None for a run without a transfer."""
    return own_socket(_sender_samples(run), "bytes_acked") if transferred(run) else None


@lru_cache(maxsize=1)
def _sender_samples(run: Run) -> DataFrame:
    return run.samples(SENDER)


def _buffer(run: Run, host: str, socket: str, fixed_kib: int, used_bytes: int | None) -> Buffer:
    requested = run.settings_as(Settings).requested_bytes
    if requested is None and fixed_kib:
        name = WMEM if socket == "send" else RMEM
        return Buffer(SYSCTL, fixed_kib * KIB, int(run.sysctl(host, name).split()[-1]), used_bytes)
    granted = [one.granted_bytes for one in run.buffers if (one.host, one.socket) == (host, socket)]
    fixed_by = AUTOMATIC if requested is None else SETSOCKOPT
    return Buffer(fixed_by, requested, granted[0] if granted else None, used_bytes)


def after_connecting_bytes(run: Run) -> int | None:
    """The send buffer of a connection that has sent little, which is the size that the kernel sets
    when the connection is established: that of iperf3's own control connection on the sender."""
    own = sender_rows(run)
    if own is None or own.empty:
        return None
    rows = _sender_samples(run)
    others = rows[(rows["cookie"] != own["cookie"].iloc[0]) & (rows["state"] == "ESTAB")]
    return _largest(others, "sndbuf_bytes")


def advertised_bytes(run: Run) -> int | None:
    """The largest window that the sender had been offered at a sample; None without samples."""
    return _largest(sender_rows(run), "snd_wnd_bytes")


def usual_in_flight_bytes(run: Run) -> int | None:
    """The median of the payload in flight over the samples; None without samples."""
    rows = sender_rows(run)
    if rows is None or rows.empty:
        return None
    return int((rows["unacked_segments"] * rows["snd_mss_bytes"]).median())


def written_ahead_bytes(run: Run) -> int | None:
    """The most bytes that the program had written and the peer had not acknowledged, over the
    samples; None without samples."""
    rows = sender_rows(run)
    if rows is None or rows.empty:
        return None
    in_flight = rows["bytes_sent"] - rows["bytes_retrans"] - rows["bytes_acked"]
    return int((rows["notsent_bytes"] + in_flight).max())


def _largest(rows: DataFrame | None, column: str) -> int | None:
    return None if rows is None or rows.empty else int(rows[column].max())
