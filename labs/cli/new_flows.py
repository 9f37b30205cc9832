"""Two flows that share a link, with concurrent small requests.

`labs run ./new_flows.py` runs them on the hosts; labs/guest/flows.py has all that can be set.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters, parameter
from labs.drive.result_columns import part
from labs.guest.condition import Condition
from labs.guest.flows import Flow, Requests, Traffic
from labs.guest.testbed.path import Direction, NetworkPath, Queue
from labs.guest.traffic import lines, measure, tools

if TYPE_CHECKING:
    from labs.read.runs.run import Run

__all__ = ["lines", "measure", "tools"]  # what runs on the hosts


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    rate_mbit: float = parameter(20.0, unit="Mbit/s", low=1, high=1000, help="rate of the link")


def conditions(p: Parameters) -> tuple[Condition, ...]:
    def over(queue: Queue) -> Traffic:
        path = NetworkPath(Direction(p.rate_mbit, 20, queue=queue), Direction(delay_ms=20))
        return Traffic(path, (Flow("cubic"), Flow("bbr", start_s=1)), 6, Requests())

    queues = {"fifo": Queue("pfifo", bdp=1), "fq-codel": Queue("fq_codel")}
    return tuple(over(queue).condition(name, p.testbed) for name, queue in queues.items())


class Results:
    def __init__(self, run: "Run") -> None:
        from labs.read.readings.traffic_results import TrafficResults

        self.flows = TrafficResults(run)

    goodput_mbit = part(
        "flows.goodput_mbit", "goodput of both flows", unit="Mbit/s", kind=float, headline=True
    )

    share_pct = part("flows.share_pct", "share of the first flow", unit="%", kind=float)

    queue_p50_ms = part("flows.queue_p50_ms", "median queueing delay", unit="ms", kind=float)

    request_p50_ms = part(
        "flows.request_p50_ms", "median latency of requests", unit="ms", kind=float
    )
