"""Two downloads at the same time: does each get half of the link?"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labs.drive.bench import FETCH, Bench
from labs.drive.condition import Condition, as_settings, read_settings
from labs.drive.download import serve_file
from labs.drive.parameters import LabParameters
from labs.drive.result_columns import column
from labs.drive.testbed.link import Link
from labs.drive.units import MIB

if TYPE_CHECKING:
    from labs.read.runs.run import Run

LIMIT_S = 10.0
CLIENTS = ("one", "two")


@dataclass(frozen=True, kw_only=True)
class Parameters(LabParameters):
    pass


@dataclass(frozen=True)
class Settings:
    file_bytes: int = 1024 * MIB
    sample_ms: int = 100
    capture: bool = False


def conditions(p: Parameters) -> tuple[Condition, ...]:
    settings = as_settings(Settings(capture=p.capture))
    name = "net.ipv4.tcp_congestion_control"
    return tuple(
        Condition(control, Link(100.0, 40.0), {"server": {name: control}}, settings)
        for control in ("cubic", "bbr")
    )


def tools(condition: Condition) -> tuple[str, ...]:
    return ("nginx",)


def measure(bench: Bench, condition: Condition) -> None:
    settings, port = read_settings(Settings, condition.settings), condition.link.port
    server = serve_file(bench, settings.file_bytes, port)
    bench.watch(port, settings.sample_ms, capture=(bench.client,) if settings.capture else ())
    clients = [
        bench.client.program(
            FETCH,
            (
                *("--to", bench.server.address, "--port", str(port), "--path", "/bigfile"),
                *("--read-bytes", "65536", "--limit-s", str(LIMIT_S)),
                *("--out", bench.path(bench.client, f"{name}.json")),
            ),
            stdout=bench.path(bench.client, f"{name}.txt"),
        )
        for name in CLIENTS
    ]
    for name, client in zip(CLIENTS, clients, strict=True):
        bench.finish(client, LIMIT_S + 30)
        client.stop()
        bench.keep(bench.client, bench.path(bench.client, f"{name}.json"), f"{name}.json")
    bench.unwatch()
    server.stop()


@dataclass(frozen=True)
class Results:
    one_mib_s: float = column("goodput of the first client", unit="MiB/s", headline=True)
    two_mib_s: float = column("goodput of the second client", unit="MiB/s")


def results(run: "Run") -> Results:
    one, two = (json.loads(run.text(f"client/{name}.json")) for name in CLIENTS)
    return Results(
        *(
            fetch["bytes"] / MIB / ((fetch["end_ns"] - fetch["before_ns"]) / 1e9)
            for fetch in (one, two)
        )
    )
