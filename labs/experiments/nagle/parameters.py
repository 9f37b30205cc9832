"""The parameters of the lab `nagle`: where a stall of 40 ms in an answer of two parts is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labs.drive.parameters.declare import LabParameters, Scalar, parameter

# An emulated machine works for more than 1 ms on a request: many at a time would hide the stall.
ON_MACHINES: Mapping[str, Scalar] = {"concurrency": 2}


@dataclass(frozen=True, kw_only=True)
class Nagle(LabParameters):
    """How many requests a load generator makes, and how it is answered.

    The server's packets are always captured; with `capture` the client's too.
    """

    requests: int = parameter(
        1000, low=10, high=100_000, help="how many requests the load generator makes (ab -n)"
    )
    concurrency: int = parameter(
        100, low=1, high=500, help="how many of them are under way at a time (ab -c)"
    )
    page_bytes: int = parameter(
        612, unit="bytes", low=1, high=1_000_000, help="the size of the page that is served"
    )
    pieces: int = parameter(
        10, low=2, high=100, help="in how many writes a chatty server writes its answer"
    )
    delay_ms: float = parameter(
        0.0, unit="ms", low=0, high=1000, help="delay that the link adds to a round trip"
    )
    capture_file: str = parameter(
        "",
        pattern=r"[^\x00\n]*",
        form="a pcap or pcapng file, or nothing",
        help="a capture of your own, to be read as the runs' are",
    )

    @classmethod
    def testbed_defaults(cls, testbed: str, size: str) -> Mapping[str, Scalar]:
        return ON_MACHINES if (testbed, size) == ("vagrant", "small") else {}
