"""Reno, CUBIC and BBR over a link that loses packets."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters, parameter
from labs.drive.result_columns import column
from labs.guest.bench import Bench
from labs.guest.condition import Condition, as_settings, read_settings
from labs.guest.download import fetch_and_discard, serve_file
from labs.guest.testbed.link import Link, queue_packets
from labs.guest.units import MIB

if TYPE_CHECKING:
    from labs.read.runs.run import Run

RATE_MBIT, DELAY_MS = 100.0, 40.0


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    loss_pct: float = parameter(1.0, unit="%", low=0, high=50, help="lost packets")


@dataclass(frozen=True)
class Settings:
    file_bytes: int = 64 * MIB
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    # At a router packets are dropped one by one; at a sender, in pieces of up to 45.
    queue = queue_packets(RATE_MBIT, DELAY_MS)
    link = Link(RATE_MBIT, DELAY_MS, p.loss_pct, shaped_at="router", queue_packets=queue)
    settings = as_settings(Settings(capture=p.capture))
    name = "net.ipv4.tcp_congestion_control"
    return tuple(
        Condition(control, link, {"server": {name: control}}, settings)
        for control in ("reno", "cubic", "bbr")
    )


def tools(condition: Condition) -> tuple[str, ...]:
    return ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    server = serve_file(bench, settings.file_bytes, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,) if settings.capture else ())
    fetch_and_discard(bench, limit_s=90)
    bench.unwatch()
    server.stop()


class Results:
    def __init__(self, run: "Run") -> None:
        self.run = run
        self.fetch: dict[str, int] = run.fetch() or {}

    @column("bytes of the body per second", unit="MiB/s", headline=True)
    def goodput_mib_s(self) -> float:
        took_s = (self.fetch["end_ns"] - self.fetch["before_ns"]) / 1e9
        return self.fetch["bytes"] / MIB / took_s

    @column("dropped by the link", unit="%")
    def lost_pct(self) -> float | None:
        return self.run.link.measured.loss_pct
