"""The parameters of the lab `buffers`: how big a socket buffer a long fast path needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, Scalar, parameter

# Emulated machines carry this rate, and the default buffers limit a download at it.
ON_MACHINES: Mapping[str, Scalar] = {"rate_mbit": 200.0, "transfer_mib": 128}


@dataclass(frozen=True, kw_only=True)
class Buffers(LabParameters):
    """A link, the buffers at its two ends, and a download of a given size."""

    rate_mbit: float = parameter(
        1000.0, unit="Mbit/s", low=0.1, high=100_000, help="rate of the link"
    )
    delay_ms: float = parameter(
        200.0, unit="ms", low=0, high=10_000, help="delay that the link adds to a round trip"
    )
    loss_pct: float = parameter(
        0.0, unit="%", low=0, high=50, help="share of the packets that the link drops"
    )
    jitter_ms: float = parameter(
        0.0, unit="ms", low=0, high=10_000, help="how far the delay may move to either side"
    )
    shaped_at: str = parameter(
        "server",
        choices=("server", "router"),
        help="where the link is shaped: on the sender itself, or on a router between the two",
    )
    buffer_mib: float = parameter(
        50.0, unit="MiB", low=0.01, high=1024, help="the size of a socket buffer that was raised"
    )
    client: str = parameter(
        "discard",
        choices=("discard", "wget"),
        help="who downloads: a program that discards in the kernel, or wget",
    )
    read_bytes: int = parameter(
        65_536, unit="bytes", low=1, high=67_108_864, help="what the client asks for in one read"
    )
    transfer_mib: int = parameter(
        1024, unit="MiB", low=1, high=65_536, help="the size of the file that is served"
    )
    limit_s: float = parameter(
        90.0, unit="s", low=0.1, high=3600, help="when a download is ended that has not finished"
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        return ON_MACHINES if (testbed, size) == ("vagrant", "small") else {}
