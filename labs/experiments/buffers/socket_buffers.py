"""The socket buffers and windows of a run: what was requested and set, and what was reached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from labs.drive.units import MIB
from labs.experiments.buffers.settings import Settings
from labs.read.readings.goodput import own_socket
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory import bdp as theory
from labs.read.theory.windows import granted_bytes

if TYPE_CHECKING:
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
