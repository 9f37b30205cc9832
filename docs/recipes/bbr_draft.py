"""The test cases in the appendix of the IETF's draft on BBR, as far as flows over a path show them.

docs/bbr-draft.md has the cases, and what these runs say of each.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters
from labs.drive.result_columns import part
from labs.guest.bench import Bench
from labs.guest.condition import Condition
from labs.guest.flows import Flow, Traffic, traffic_from_json
from labs.guest.laid_path import batch, check_direction, laid
from labs.guest.testbed.path import Change, Direction, NetworkPath, Queue
from labs.guest.testbed.path_lines import QUEUE, SHAPED, places_of_router
from labs.guest.traffic import lines, perform, tools

if TYPE_CHECKING:
    from labs.read.runs.run import Run

__all__ = ["lines", "tools"]

BACK = Direction(delay_ms=20)
FLOW = Flow("bbr")
LIMITED = Flow("bbr", app_mbit=4)
"""An application that writes a fifth of what the link carries, every 10 ms."""
DOWN, UP = places_of_router()
AT_THE_ROUTER = {
    # A bucket of 100 kB, and room for one packet only: what exceeds the tokens is dropped.
    "policed": f"qdisc change dev {DOWN.out_device} parent {SHAPED} handle {QUEUE} "
    "tbf rate 10mbit burst 100kb limit 1514",
    # ACKs leave every 40 ms.
    "aggregated": f"qdisc change dev {UP.ifb} root handle 30: "
    "netem limit 10000 delay 20ms slot 40ms 40ms",
}
"""What the path of a condition has besides, as words of tc."""


def over(
    *changes: Change, rate_mbit: float = 20, queue: Queue | None = None, reorder_pct: float = 0
) -> NetworkPath:
    """40 ms, and a FIFO of four BDPs, so that nothing is lost unless a case asks for it."""
    queue = queue or Queue(bdp=4)
    return NetworkPath(
        Direction(rate_mbit, 20, reorder_pct=reorder_pct, queue=queue), BACK, changes
    )


def traffics() -> Iterator[tuple[str, NetworkPath, float, Flow]]:
    long, faster, loss = Queue(packets=100), Change(3, rate_mbit=20), Change(8, loss_pct=5)
    yield "steady", over(), 12, FLOW
    yield "limited", over(), 12, LIMITED
    yield "limited-loss", over(Change(1, loss_pct=25)), 6, Flow("bbr", app_mbit=10)
    yield "drain-slower", over(Change(0.68, rate_mbit=5)), 6, FLOW
    yield "probe-slower", over(Change(3, rate_mbit=18)), 5, FLOW
    yield "late-limit", over(faster, loss, rate_mbit=2), 9, LIMITED
    yield "idle", over(), 14, Flow("bbr", app_mbit=1, chunk_s=12)
    yield "aggregated", over(), 8, FLOW
    yield "sub-packet", over(rate_mbit=0.2, queue=Queue(packets=20)), 20, FLOW
    yield "faster", over(faster, rate_mbit=2, queue=long), 6, FLOW
    yield "faster-loss", over(faster, Change(3.3, loss_pct=5), rate_mbit=2, queue=long), 5, FLOW
    yield "slower", over(Change(3, rate_mbit=2), queue=Queue(bdp=1)), 14, FLOW
    yield "policed", over(rate_mbit=10, queue=Queue("tbf")), 12, FLOW
    yield "reordered", over(reorder_pct=1), 4, FLOW
    yield "late-acks", over(Change(3, delay_ms=820)), 6, FLOW


def measure(bench: Bench, condition: Condition) -> None:
    """As `labs.guest.traffic.measure`, with the line of AT_THE_ROUTER after the check."""
    traffic = traffic_from_json(condition.plan)
    with laid(bench, traffic) as sides:
        reports = {side.name: check_direction(bench, side).as_json() for side in sides}
        batch(bench, [line for side in sides for line in side.after_the_check()])
        if more := str(condition.settings["at_the_router"]):
            bench.testbed.hosts()["router"].run(("tc", *more.split()))
        said = perform(bench, traffic, sides)
        for side in sides:
            reports[side.name]["queue"] = None if side.queue is None else asdict(side.queue)
    (bench.folder / "path.json").write_text(json.dumps(reports | said, indent=1) + "\n")


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


def conditions(p: Parameters) -> tuple[Condition, ...]:
    return tuple(
        Traffic(path, (flow,), duration_s, sample_ms=5, capture=False).condition(
            name, p.testbed, settings={"at_the_router": AT_THE_ROUTER.get(name, "")}
        )
        for name, path, duration_s, flow in traffics()
    )


class Results:
    def __init__(self, run: "Run") -> None:
        from labs.read.readings.traffic_results import TrafficResults  # noqa: PLC0415  the hosts cannot load it

        self.flows = TrafficResults(run)

    goodput_mbit = part("flows.goodput_mbit", "goodput", unit="Mbit/s", kind=float, headline=True)

    lost_pct = part("flows.lost_pct", "packets that the queue dropped", unit="%", kind=float)
