"""The parameters of the lab `sweeps`: goodput against the size of socket buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, Scalar, parameter
from labs.experiments.sweeps.settings import WRITE_BYTES_MAX

# Emulated machines carry this rate, and the BDP is between the sizes of the series.
ON_MACHINES: Mapping[str, Scalar] = {"rate_mbit": 100.0, "delay_ms": 20.0, "transfer_mib": 16}


@dataclass(frozen=True, kw_only=True)
class Sweeps(LabParameters):
    """A link, and the transfers that iperf3 makes over it with different socket buffers.

    The client always captures packets, because the times of a transfer are those of its arrivals.
    """

    rate_mbit: float = parameter(
        1000.0, unit="Mbit/s", low=0.1, high=100_000, help="rate of the link"
    )
    delay_ms: float = parameter(8.0, unit="ms", low=0.01, high=10_000, help="RTT of the link")
    write_bytes: int = parameter(
        2048,
        unit="bytes",
        low=1,
        high=WRITE_BYTES_MAX,
        help="size of a write (iperf3 -l) of the series",
    )
    transfer_mib: int = parameter(
        8, unit="MiB", low=1, high=65_536, help="bytes of a transfer, at most"
    )
    sndbuf_kib: int = parameter(
        64,
        unit="KiB",
        low=1,
        high=524_288,
        help="send buffer of the conditions that vary the size of a write",
    )
    limit_s: float = parameter(
        60.0, unit="s", low=0.1, high=3600, help="when a transfer is ended that has not finished"
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        return ON_MACHINES if (testbed, size) == ("vagrant", "small") else {}
