"""A download with a small receive buffer: sysctls of each host."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters
from labs.drive.result_columns import column
from labs.guest.bench import Bench
from labs.guest.condition import Condition, Sysctls, as_settings, read_settings
from labs.guest.download import fetch_and_discard, serve_file
from labs.guest.testbed.link import Link
from labs.guest.units import MIB

if TYPE_CHECKING:
    from labs.read.runs.run import Run

SYSCTLS: dict[str, Sysctls] = {
    "default": {},
    "small": {
        "client": {"net.ipv4.tcp_rmem": "4096 65536 65536"},
        "server": {"net.ipv4.tcp_slow_start_after_idle": "0"},
    },
}


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


@dataclass(frozen=True)
class Settings:
    file_bytes: int = 16 * MIB
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    settings = as_settings(Settings(capture=p.capture))
    return tuple(
        Condition(name, Link(100.0, 40.0), sysctls, settings) for name, sysctls in SYSCTLS.items()
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
        self.fetch: dict[str, int] = run.fetch() or {}

    @column("bytes of the body per second", unit="MiB/s", headline=True)
    def goodput_mib_s(self) -> float:
        took_s = (self.fetch["end_ns"] - self.fetch["before_ns"]) / 1e9
        return self.fetch["bytes"] / MIB / took_s
