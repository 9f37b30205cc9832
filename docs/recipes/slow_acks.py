"""A download whose ACKs return over a slow path."""

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


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


@dataclass(frozen=True)
class Settings:
    ack_kbit: int
    file_bytes: int = 32 * MIB
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            f"acks-{kbit}k",
            Link(100.0, 40.0),
            {},
            as_settings(Settings(ack_kbit=kbit, capture=p.capture)),
        )
        for kbit in (1_000, 500, 200)
    )


def tools(condition: Condition) -> tuple[str, ...]:
    return ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    device, rate = bench.client.device, f"{settings.ack_kbit}kbit"
    for words in (
        f"qdisc add dev {device} root handle 1: htb default 10",
        f"class add dev {device} parent 1: classid 1:10 htb rate {rate}",
    ):
        bench.client.run(("tc", *words.split()))
    server = serve_file(bench, settings.file_bytes, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,) if settings.capture else ())
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
