"""What happens to a receive queue: when packets are dropped, and what a collapse does."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from labs.drive.units import SECOND_NS
from labs.experiments.windows.packets import RECEIVER, packets, return_ns, samples_of
from labs.read.display.beside import last_match
from labs.read.runs.run import Run

DROPS = "TcpExtTCPRcvQDrop"


@dataclass(frozen=True)
class Collapse:
    """The queue was collapsed at a packet: rcv_ssthresh before and after it, the bytes queued
    after it, and the packets that were coalesced before it."""

    packet: int
    before: int
    after: int
    queued: int
    coalesced: int

    @property
    def falls(self) -> bool:
        """Whether rcv_ssthresh fell."""
        return self.after < self.before


def collapses(run: Run) -> tuple[Collapse, ...]:
    """The collapses of a run in order."""
    table = packets(run)
    ssthresh, coalesced = table["rcv_ssthresh_bytes"], table["coalesced"].fillna(0).cumsum()
    return tuple(
        Collapse(
            int(table["packet"].iloc[at]),
            int(ssthresh.iloc[max(0, at - 1)]),
            int(ssthresh.iloc[at]),
            int(table["recv_q_bytes"].iloc[at]),
            int(coalesced.iloc[max(0, at - 1)]),
        )
        for at in (int(place) for place in table.index[table["collapsed"].fillna(0) > 0])
    )


def drop_times(run: Run) -> list[float]:
    """When TCPRcvQDrop grew, in seconds since the first write."""
    written_ns = int(packets(run)["time_ns"].iloc[0]) - return_ns(run)
    counted = [(one.time_ns, one.counters.get("TCPRcvQDrop") or 0) for one in samples_of(run)]
    return [
        (time_ns - written_ns) / SECOND_NS
        for (_, before), (time_ns, after) in pairwise(counted)
        for _ in range(after - before)
    ]


def printed_drops(run: Run) -> str:
    """The line with which nstat -az tells the receiver's drops at the end of a run."""
    return last_match(run, f"{RECEIVER}/nstat-after.txt", rf"^{DROPS} .*$")
