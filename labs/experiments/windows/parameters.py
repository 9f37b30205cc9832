"""The parameters of the lab `windows`: how a receive buffer fills."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, parameter


@dataclass(frozen=True, kw_only=True)
class Windows(LabParameters):
    """The receive buffer, the segments and the path; each condition changes one of them.

    Packets are always captured at the receiver; with `capture` also at the sender, if it is
    another host.
    """

    rcvbuf_kib: int = parameter(
        32,
        unit="KiB",
        low=1,
        high=4096,
        help="SO_RCVBUF of the receiver, for conditions without a size in their name",
    )
    mss_bytes: int = parameter(
        1024,
        unit="bytes",
        low=88,
        high=32_767,
        help="TCP_MAXSEG of both ends, for conditions without a size in their name",
    )
    delay_ms: float = parameter(200.0, unit="ms", low=0, high=1000, help="RTT of the path")
    initcwnd: int = parameter(
        10_000,
        unit="segments",
        low=1,
        high=100_000,
        help="initial congestion window (route option of the sender)",
    )
    initrwnd: int = parameter(
        1000,
        unit="segments",
        low=1,
        high=100_000,
        help="initial receive window of the condition `initrwnd` (route option of the receiver)",
    )
    duration_s: float = parameter(
        10.0, unit="s", low=2, high=1000, help="time from connecting to the end of the run"
    )
