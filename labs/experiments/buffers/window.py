"""What bounded a download: the window, the buffers, the link's bandwidth-delay product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.read.readings.goodput import own_socket
from labs.read.runs.run import Run
from labs.read.theory import bdp as theory

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Window:
    """The largest sizes that a download came to, in bytes, and how its sender spent the time.

    Of what was in flight also the median over the samples: the usual state, bursts aside.
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


def bdp_bytes(run: Run) -> float | None:
    """The bandwidth-delay product of the link as it was measured; None if it has no rate."""
    found = run.link.measured
    if found.rate_mbit is None:
        return None
    return theory.bdp_bytes(found.rate_mbit, found.rtt_ms)


def window(run: Run) -> Window | None:
    """Read both hosts' samples; None for a transfer that was over before they saw it."""
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
    """Shares of the busy time at the last moment of the transfer."""
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
