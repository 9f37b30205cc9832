"""The parameters of the lab `nagle`: Nagle's algorithm and delayed ACKs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, Scalar, parameter

# An emulated machine needs more than 1 ms of CPU time per request, which would mask the stall.
ON_MACHINES: Mapping[str, Scalar] = {"concurrency": 2}


@dataclass(frozen=True, kw_only=True)
class Nagle(LabParameters):
    """The load, the response and the link.

    The server's packets are always captured; with `capture` the client's too.
    """

    requests: int = parameter(
        1000, low=10, high=100_000, help="number of requests of the load generator (ab -n)"
    )
    concurrency: int = parameter(100, low=1, high=500, help="number of concurrent requests (ab -c)")
    page_bytes: int = parameter(612, unit="bytes", low=1, high=1_000_000, help="size of the page")
    pieces: int = parameter(
        10, low=2, high=100, help="number of writes per response in the conditions pieces-..."
    )
    delay_ms: float = parameter(0.0, unit="ms", low=0, high=1000, help="RTT that the link adds")
    capture_file: str = parameter(
        "",
        pattern=r"[^\x00\n]*",
        form="a pcap or pcapng file, or nothing",
        several=False,
        help="a capture of your own to analyse like those of the runs",
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        return ON_MACHINES if (testbed, size) == ("vagrant", "small") else {}
