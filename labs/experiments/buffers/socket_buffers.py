"""The socket buffers and windows of a run: what was requested and set, and what was reached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.experiments.buffers.settings import Settings
from labs.read.claims.formulas import farthest_from
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory import bdp as theory
from labs.read.theory.windows import granted_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

RMEM, WMEM = "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"
RMEM_MAX, WMEM_MAX = "net.core.rmem_max", "net.core.wmem_max"


@dataclass(frozen=True)
class Buffer:
    """One end's buffer of a download.

    `requested_bytes` is what was requested of setsockopt, or the one size that the sysctl has;
    None for a buffer that the kernel sizes. `most_bytes` is the largest size it can reach.
    `via_setsockopt`: the program set it, not a sysctl.
    """

    requested_bytes: int | None
    most_bytes: int
    via_setsockopt: bool

    @property
    def fixed_bytes(self) -> int | None:
        """The size of a buffer that does not grow, else None."""
        return None if self.requested_bytes is None else self.most_bytes


@dataclass(frozen=True)
class Window:
    """The largest sizes that a download reached, in bytes, and how its sender spent the time.

    For the data in flight also the median over the samples: the usual state, without bursts.
    `limited_pct` is the share of the busy time in which the receiver's window or the sender's
    own buffer kept it from sending more (tcpi_rwnd_limited, tcpi_sndbuf_limited; net/ipv4/tcp.c
    tcp_get_info_chrono_stats()).
    """

    in_flight_bytes: int
    usually_in_flight_bytes: int
    offered_bytes: int
    congestion_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    limited_pct: dict[str, float]


def receive_buffer(run: Run) -> Buffer:
    """The client's buffer."""
    requested = run.settings_as(Settings).client_rcvbuf_bytes
    return _buffer(run, "client", requested, "receive", RMEM, RMEM_MAX)


def send_buffer(run: Run) -> Buffer:
    """The server's buffer."""
    requested = run.settings_as(Settings).server_sndbuf_bytes
    return _buffer(run, "server", requested, "send", WMEM, WMEM_MAX)


def _buffer(run: Run, host: str, requested: int | None, socket: str, name: str, cap: str) -> Buffer:
    if requested is not None:
        granted = granted_bytes(requested, int(run.sysctl(host, cap)), socket)
        return Buffer(requested, granted, True)
    _, first, largest = three(run.sysctl(host, name))
    return Buffer(largest if first == largest else None, max(first, largest), False)


def three(words: str) -> tuple[int, int, int]:
    """Minimum, first size and maximum, as tcp_rmem and tcp_wmem have them."""
    smallest, first, largest = map(int, words.split())
    return smallest, first, largest


def adv_win_scale(run: Run) -> int | None:
    """What tcp_adv_win_scale was on the client; kernels from 6.6 on keep it and ignore it."""
    value = run.sysctls["client"]["after"].get("net.ipv4.tcp_adv_win_scale")
    return None if value is None else int(value)


def congestion_control(run: Run) -> str | None:
    """The server's congestion control."""
    return run.sysctls["server"]["after"].get("net.ipv4.tcp_congestion_control")


def parameter(run: Run, name: str) -> float | None:
    """The size of the file or of the raised buffer, in MiB; None for what the run does not say."""
    if name == "transfer_mib":
        return run.settings_as(Settings).transfer_bytes / MIB
    if name == "buffer_mib":
        raised = run.inputs["condition"]["sysctls"].get("server", {}).get(WMEM)
        return None if raised is None else int(raised.split()[-1]) / MIB
    return None


def bdp_bytes(run: Run) -> float | None:
    """The bandwidth-delay product of the link as it was measured; None without rate or delay."""
    found = run.link.measured
    if found.rate_mbit is None:
        return None
    return theory.bdp_bytes(found.rate_mbit, found.rtt_ms) or None


@lru_cache(maxsize=KEPT_RUNS)
def window(run: Run) -> Window | None:
    """Read both hosts' samples; None for a transfer that was over before the first sample.

    Those of the last runs are cached.
    """
    server = own_socket(run.samples("server"), "bytes_acked")
    client = own_socket(run.samples("client"), "bytes_received")
    if server.empty or client.empty:
        return None
    mss = server["snd_mss_bytes"]
    in_flight = server["unacked_segments"] * mss
    return Window(
        in_flight_bytes=int(in_flight.max()),
        usually_in_flight_bytes=int(in_flight.median()),
        offered_bytes=int(server["snd_wnd_bytes"].max()) if "snd_wnd_bytes" in server else 0,
        congestion_bytes=int((server["snd_cwnd_segments"] * mss).max()),
        send_buffer_bytes=int(server["sndbuf_bytes"].max()),
        receive_buffer_bytes=int(client["rcvbuf_bytes"].max()),
        limited_pct=_limited(server),
    )


def _limited(server: DataFrame) -> dict[str, float]:
    """Shares of the busy time at the last sample of the transfer."""
    last = server[server["busy_time_us"].notna()].tail(1)
    if last.empty or not last["busy_time_us"].iloc[0]:
        return {}
    busy = float(last["busy_time_us"].iloc[0])
    return {
        name: 100 * float(last[column].iloc[0]) / busy
        for name, column in (
            ("receive window", "rwnd_limited_us"),
            ("send buffer", "sndbuf_limited_us"),
        )
    }


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
    rows = own_socket(run.samples(host), counter)
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
