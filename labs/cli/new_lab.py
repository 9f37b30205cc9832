"""The time to transfer a file over links with the same rate and different delays.

`labs run ./new_lab.py` runs `measure` on the hosts: import the standard library and labs.guest.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.parameters import LabParameters, parameter
from labs.drive.result_columns import column
from labs.guest.bench import Bench
from labs.guest.condition import Condition, as_settings, read_settings
from labs.guest.download import fetch_and_discard, serve_file
from labs.guest.testbed.link import Link

if TYPE_CHECKING:
    from labs.read.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    file_kib: int = parameter(100, unit="KiB", low=1, high=1_000_000, help="size of the file")


@dataclass(frozen=True)
class Settings:
    file_bytes: int = 102_400
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    settings = as_settings(Settings(file_bytes=1024 * p.file_kib, capture=p.capture))
    delays_ms = {"near": 10.0, "far": 100.0}
    return tuple(Condition(name, Link(100.0, ms), {}, settings) for name, ms in delays_ms.items())


def tools(condition: Condition) -> tuple[str, ...]:
    return ("nginx",)  # the programs that `measure` starts on the hosts


def measure(bench: Bench, condition: Condition) -> None:
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    server = serve_file(bench, settings.file_bytes, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,) if settings.capture else ())
    fetch_and_discard(bench, limit_s=60)
    bench.unwatch()
    server.stop()


class Results:
    def __init__(self, run: "Run") -> None:
        self.run = run
        self.fetch: dict[str, int] = run.fetch() or {}

    @column("time from connect to the last byte", unit="ms", headline=True)
    def took_ms(self) -> float:
        return (self.fetch["end_ns"] - self.fetch["before_ns"]) / 1e6

    @column("the same time in round trips of the link")
    def round_trips(self) -> float:
        return self.took_ms / self.run.link.measured.rtt_ms
