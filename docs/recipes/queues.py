"""A download through a bottleneck with one queue or another, and the RTT under its load."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.bench import Bench
from labs.drive.condition import Condition, as_settings, read_settings
from labs.drive.download import fetch_and_discard, serve_file
from labs.drive.parameters import LabParameters
from labs.drive.result_columns import column
from labs.drive.testbed.link import Link
from labs.drive.units import MIB

if TYPE_CHECKING:
    from labs.read.runs.run import Run

QUEUES = {
    "pfifo": "pfifo limit 1000",
    "short": "pfifo limit 50",
    "fq": "fq",
    "fq_codel": "fq_codel",
}


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


@dataclass(frozen=True)
class Settings:
    queue: str
    file_bytes: int = 32 * MIB
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    link = Link(20.0, shaped_at="router")
    return tuple(
        Condition(name, link, {}, as_settings(Settings(queue=queue, capture=p.capture)))
        for name, queue in QUEUES.items()
    )


def tools(condition: Condition) -> tuple[str, ...]:
    return ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    router, client = bench.testbed.router, bench.client
    assert router is not None
    # Class 1:10 is the link. The delay is on the way of the ACKs.
    place = ("dev", router.device, "parent", "1:10", "handle", "20:")
    router.run(("tc", "qdisc", "replace", *place, *settings.queue.split()))
    client.run(("tc", "qdisc", "add", "dev", client.device, "root", "netem", "delay", "40ms"))
    server = serve_file(bench, settings.file_bytes, port)
    bench.watch(port, settings.sample_ms, capture=(client,) if settings.capture else ())
    fetch_and_discard(bench, limit_s=90)
    bench.unwatch()
    server.stop()


@dataclass(frozen=True)
class Results:
    goodput_mib_s: float = column("bytes of the body per second", unit="MiB/s", headline=True)
    loaded_rtt_ms: float = column("median RTT of the download, in the server's kernel", unit="ms")


def results(run: "Run") -> Results:
    fetch = run.fetch() or {}
    took_s = (fetch["end_ns"] - fetch["before_ns"]) / 1e9
    samples = run.samples("server")
    return Results(fetch["bytes"] / MIB / took_s, float(samples["rtt_us"].median()) / 1e3)
