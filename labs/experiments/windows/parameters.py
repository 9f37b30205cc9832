"""The parameters of the lab `windows`: how a receive buffer fills."""

from __future__ import annotations

from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, parameter


@dataclass(frozen=True, kw_only=True)
class Windows(LabParameters):
    """The receive buffer, the segments and the path of the conditions, which change one each.

    The receiver's packets are always captured; with `capture` the sender's too, where it is
    another host.
    """

    rcvbuf_kib: int = parameter(
        32,
        unit="KiB",
        low=1,
        high=4096,
        help="SO_RCVBUF of the receiver, where the condition's name has no size",
    )
    mss_bytes: int = parameter(
        1024,
        unit="bytes",
        low=88,
        high=32_767,
        help="TCP_MAXSEG of both ends, where the condition's name has no size",
    )
    delay_ms: float = parameter(200.0, unit="ms", low=0, high=1000, help="RTT of the path")
    initcwnd: int = parameter(
        10_000,
        unit="segments",
        low=1,
        high=100_000,
        help="initial congestion window, an option of the sender's route",
    )
    initrwnd: int = parameter(
        1000,
        unit="segments",
        low=1,
        high=100_000,
        help="initial receive window of the condition initrwnd, an option of the receiver's route",
    )
    duration_s: float = parameter(
        10.0, unit="s", low=2, high=1000, help="time from connecting to the end of the run"
    )
