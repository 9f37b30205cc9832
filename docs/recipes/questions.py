"""Twenty questions about flows that share a link. Run one: --only two-downloads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters
from labs.drive.result_columns import part
from labs.guest.condition import Condition
from labs.guest.flows import Flow, Requests, Traffic
from labs.guest.testbed.path import Change, Direction, NetworkPath, Queue
from labs.guest.traffic import lines, measure, tools
from labs.guest.units import MIB

if TYPE_CHECKING:
    from labs.read.runs.run import Run

__all__ = ["lines", "measure", "tools"]

BACK = Direction(delay_ms=20)
PATH = NetworkPath(Direction(20, 20), BACK)
"""20 Mbit/s and 40 ms, with a FIFO of one BDP: 66 packets."""


def two_downloads() -> dict[str, Traffic]:
    return {"two-downloads": Traffic(PATH, (Flow(), Flow(start_s=2)), 8)}


def bbr_or_cubic() -> dict[str, Traffic]:
    def over(bdp: float) -> Traffic:
        path = NetworkPath(Direction(20, 20, queue=Queue(bdp=bdp)), BACK)
        return Traffic(path, (Flow("bbr"), Flow("cubic")), 8)

    return {"bbr-cubic-small": over(0.5), "bbr-cubic-large": over(8)}


def slow_way_back() -> dict[str, Traffic]:
    def back(rate_mbit: float) -> Traffic:
        path = NetworkPath(Direction(20, 20), Direction(rate_mbit, 20, queue=Queue(packets=50)))
        return Traffic(path, (Flow(),), 6)

    return {"acks-1000k": back(1), "acks-100k": back(0.1)}


def mobile_link() -> dict[str, Traffic]:
    path = NetworkPath(
        Direction(20, 20, queue=Queue(packets=300)),
        BACK,
        (Change(2, rate_mbit=4), Change(4, delay_ms=60), Change(6, rate_mbit=20)),
    )
    return {f"mobile-{one}": Traffic(path, (Flow(one),), 8) for one in ("cubic", "bbr")}


def fq_codel_or_fifo() -> dict[str, Traffic]:
    def through(queue: Queue) -> Traffic:
        path = NetworkPath(Direction(20, 20, queue=queue), BACK)
        return Traffic(path, (Flow(), Flow()), 6, Requests())

    return {"fifo": through(Queue("pfifo", bdp=4)), "fq-codel": through(Queue("fq_codel"))}


def small_buffer() -> dict[str, Traffic]:
    def buffered(packets: int) -> Traffic:
        path = NetworkPath(Direction(20, 20, queue=Queue(packets=packets)), BACK)
        return Traffic(path, (Flow("reno"),), 8)

    return {"buffer-5": buffered(5), "buffer-66": buffered(66)}


def short_beside_long() -> dict[str, Traffic]:
    short = tuple(Flow(start_s=2 + 0.4 * i, size_bytes=100_000) for i in range(10))
    return {"short-beside-long": Traffic(PATH, (Flow(), *short), 8)}


def pausing_reader() -> dict[str, Traffic]:
    return {"pause": Traffic(PATH, (Flow(), Flow(pause_at_s=3, pause_s=2)), 8)}


def many_requests() -> dict[str, Traffic]:
    def every(ms: float) -> Traffic:
        return Traffic(PATH, (Flow(start_s=2),), 6, Requests(every_ms=ms, size_bytes=20_000))

    return {"requests-50": every(20), "requests-100": every(10)}


def different_rtts() -> dict[str, Traffic]:
    def near_and_far(control: str) -> Traffic:
        return Traffic(PATH, (Flow(control), Flow(control, extra_delay_ms=80)), 8)

    return {f"rtts-{one}": near_and_far(one) for one in ("reno", "cubic")}


def losses_in_runs() -> dict[str, Traffic]:
    def losing(run: float | None) -> Traffic:
        path = NetworkPath(Direction(20, 20, loss_pct=1, loss_run=run), BACK)
        return Traffic(path, (Flow(),), 8)

    return {"loss-single": losing(None), "loss-runs": losing(5)}


def every_nth_packet() -> dict[str, Traffic]:
    path = NetworkPath(Direction(20, 20, drop_every=400), BACK)
    return {f"nth-{one}": Traffic(path, (Flow(one),), 8) for one in ("reno", "bbr")}


def marks_or_drops() -> dict[str, Traffic]:
    def through(ecn: bool) -> Traffic:
        path = NetworkPath(Direction(20, 20, queue=Queue("codel", ecn=ecn)), BACK)
        return Traffic(path, (Flow(ecn=ecn), Flow(ecn=ecn)), 6)

    return {"drops": through(False), "marks": through(True)}


def video_beside_download() -> dict[str, Traffic]:
    video = Flow(app_mbit=5, chunk_s=1)
    return {
        "video-alone": Traffic(PATH, (video,), 6),
        "video-download": Traffic(PATH, (video, Flow()), 6),
    }


def upload() -> dict[str, Traffic]:
    def through(queue: Queue) -> Traffic:
        path = NetworkPath(Direction(20, 20), Direction(2, 20, queue=queue))
        return Traffic(path, (Flow(direction="up"), Flow()), 6, Requests())

    return {"upload-fifo": through(Queue(packets=100)), "upload-cake": through(Queue("cake"))}


def incast() -> dict[str, Traffic]:
    flows = tuple(Flow(size_bytes=64_000) for _ in range(32))
    return {"incast": Traffic(PATH, flows, 6)}


def reordering() -> dict[str, Traffic]:
    path = NetworkPath(Direction(20, 20, reorder_pct=1), BACK)
    return {"in-order": Traffic(PATH, (Flow(),), 6), "reordered": Traffic(path, (Flow(),), 6)}


def receive_buffer() -> dict[str, Traffic]:
    sizes = {"rcvbuf-32k": MIB // 32, "rcvbuf-256k": MIB // 4}
    return {one: Traffic(PATH, (Flow(rcvbuf_bytes=size),), 5) for one, size in sizes.items()}


def own_queue() -> dict[str, Traffic]:
    path = NetworkPath(Direction(20, 20, queue=Queue(bdp=8)), BACK)
    return {f"alone-{one}": Traffic(path, (Flow(one),), 8) for one in ("cubic", "vegas", "bbr")}


def ten_flows() -> dict[str, Traffic]:
    def through(queue: Queue) -> Traffic:
        path = NetworkPath(Direction(20, 20, queue=queue), BACK)
        return Traffic(path, (*(Flow() for _ in range(9)), Flow("bbr")), 8)

    return {"ten-fifo": through(Queue(bdp=2)), "ten-fq": through(Queue("fq"))}


QUESTIONS: tuple[Callable[[], dict[str, Traffic]], ...] = (
    two_downloads,
    bbr_or_cubic,
    slow_way_back,
    mobile_link,
    fq_codel_or_fifo,
    small_buffer,
    short_beside_long,
    pausing_reader,
    many_requests,
    different_rtts,
    losses_in_runs,
    every_nth_packet,
    marks_or_drops,
    video_beside_download,
    upload,
    incast,
    reordering,
    receive_buffer,
    own_queue,
    ten_flows,
)


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


def conditions(p: Parameters) -> tuple[Condition, ...]:
    return tuple(
        traffic.condition(name, p.testbed)
        for question in QUESTIONS
        for name, traffic in question().items()
    )


class Results:
    def __init__(self, run: "Run") -> None:
        from labs.read.readings.traffic_results import TrafficResults  # noqa: PLC0415  the hosts cannot load it

        self.flows = TrafficResults(run)

    goodput_mbit = part(
        "flows.goodput_mbit", "goodput of all downloads", unit="Mbit/s", kind=float, headline=True
    )

    share_pct = part("flows.share_pct", "share of the flows like the first", unit="%", kind=float)

    queue_p50_ms = part("flows.queue_p50_ms", "median delay in the queue", unit="ms", kind=float)

    lost_pct = part("flows.lost_pct", "packets that the queue dropped", unit="%", kind=float)

    request_p50_ms = part(
        "flows.request_p50_ms", "median latency of requests", unit="ms", kind=float
    )

    completed_ms = part(
        "flows.completed_ms", "until the last flow with a size arrived", unit="ms", kind=float
    )
