"""The two socket buffers of a transfer: requested, granted, and the largest size that was used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.condition import read_settings
from labs.drive.units import KIB
from labs.experiments.sweeps.conditions import RMEM, WMEM
from labs.experiments.sweeps.settings import Settings
from labs.read.readings.goodput import own_socket
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


def settings_of(run: Run) -> Settings:
    """The settings of a run's condition."""
    return read_settings(Settings, run.inputs["condition"]["settings"])


def send_buffer(run: Run) -> Buffer:
    """The sender's send buffer."""
    rows = own_socket(run.samples(SENDER), "bytes_acked")
    return _buffer(run, SENDER, "send", settings_of(run).sndbuf_kib, _largest(rows, "sndbuf_bytes"))


def receive_buffer(run: Run) -> Buffer:
    """The receiver's receive buffer."""
    rows = own_socket(run.samples(RECEIVER), "bytes_received")
    used_bytes = _largest(rows, "rcvbuf_bytes")
    return _buffer(run, RECEIVER, "receive", settings_of(run).rcvbuf_kib, used_bytes)


def _buffer(run: Run, host: str, socket: str, fixed_kib: int, used_bytes: int | None) -> Buffer:
    requested = settings_of(run).requested_bytes
    if requested is None and fixed_kib:
        name = WMEM if socket == "send" else RMEM
        return Buffer(SYSCTL, fixed_kib * KIB, int(run.sysctl(host, name).split()[-1]), used_bytes)
    granted = [one.granted_bytes for one in run.buffers if (one.host, one.socket) == (host, socket)]
    fixed_by = AUTOMATIC if requested is None else SETSOCKOPT
    return Buffer(fixed_by, requested, granted[0] if granted else None, used_bytes)


def after_connecting_bytes(run: Run) -> int | None:
    """The send buffer of a connection that has sent little, which is the size that the kernel sets
    when the connection is established: that of iperf3's own control connection on the sender."""
    rows = run.samples(SENDER)
    own = own_socket(rows, "bytes_acked")
    if own.empty:
        return None
    others = rows[(rows["cookie"] != own["cookie"].iloc[0]) & (rows["state"] == "ESTAB")]
    return _largest(others, "sndbuf_bytes")


def advertised_bytes(run: Run) -> int | None:
    """The largest window that the sender had been offered at a sample; None without samples."""
    return _largest(own_socket(run.samples(SENDER), "bytes_acked"), "snd_wnd_bytes")


def usual_in_flight_bytes(run: Run) -> int | None:
    """The median of the payload in flight over the samples; None without samples."""
    rows = own_socket(run.samples(SENDER), "bytes_acked")
    if rows.empty:
        return None
    return int((rows["unacked_segments"] * rows["snd_mss_bytes"]).median())


def _largest(rows: DataFrame, column: str) -> int | None:
    return None if rows.empty else int(rows[column].max())
