"""The raw files of a run and their parsers: what a parser refuses is named with its file.

The parsers are pure functions that raise Damaged for what a tool cannot have printed. This module
is the only caller that they have for a file of a run: an error that a parser does not raise on
purpose is damage of the file, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from labs.drive.record.stored_files import AGAIN, MOST_RAW_JSON_BYTES, parse, read_bytes
from labs.errors import Damaged
from labs.guest import tc
from labs.guest.host_load import FILE
from labs.guest.testbed.link import Measured

if TYPE_CHECKING:
    from labs.read.parse import http_clients, http_loads, proc, qdisc_samples, reports

T = TypeVar("T")
Reader = Callable[[bytes], T]
# What a parser raises for content that it does not expect, beyond Damaged.
UNEXPECTED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def parser(name: str) -> Callable[..., Any]:
    """A parser of `labs.read.parse` by its name, `module.function`.

    It is loaded when it is first used: a lab needs a few, and loading all takes as long as reading
    a run.
    """
    module, _, function = name.partition(".")

    def parse_with(content: Any, **more: Any) -> Any:
        return getattr(import_module(f"labs.read.parse.{module}"), function)(content, **more)

    return parse_with


def as_text(parser: Callable[[str], T]) -> Reader[T]:
    """A reader that gives the text of a file to a parser."""
    return lambda content: parser(content.decode("utf-8", "replace"))


def as_json(parser: Callable[[object], T]) -> Reader[T]:
    """A reader that gives the JSON in a file to a parser."""

    def read(content: bytes) -> T:
        if len(content) > MOST_RAW_JSON_BYTES:
            raise Damaged(f"{len(content)} bytes of JSON. Allowed: at most {MOST_RAW_JSON_BYTES}")
        return parser(parse(content))

    return read


def last_line(reader: Reader[T]) -> Reader[T]:
    """A reader of the last line of a file, for a program that adds one line per start."""
    return lambda content: reader(content.splitlines()[-1])


def _measured_down(data: Any) -> Measured:
    """The RTT and the rate that the check of a path measured from server to client."""
    measured = data["down"]["measured"]
    rate_mbit = measured["rate_mbit"]
    return Measured(float(measured["rtt_ms"]), None if rate_mbit is None else float(rate_mbit))


AB_REPORT: Reader[http_clients.Ab] = as_text(parser("http_clients.ab"))
FETCH: Reader[dict[str, Any]] = as_json(parser("reports.fetch"))
ASK: Reader[tuple[float, ...]] = as_json(parser("reports.ask"))
IPERF3_ERROR: Reader[str | None] = as_json(parser("reports.iperf3_error"))
MACHINES: Reader[dict[str, dict[str, Any]]] = as_json(parser("proc.machines"))
WRK: Reader[http_loads.Load] = as_text(parser("http_loads.wrk"))
VEGETA: Reader[tuple[http_loads.Hit, ...]] = as_text(parser("http_loads.vegeta"))
SERVER: Reader[reports.ServerReport] = as_json(parser("reports.server"))
KNOBS: Reader[tuple[reports.Setting, ...]] = as_json(parser("reports.settings"))
SOFTIRQS: Reader[dict[str, int]] = as_text(parser("proc.softirqs"))
INTERRUPTS: Reader[dict[str, int]] = as_text(parser("proc.interrupts"))
SWITCHES: Reader[Mapping[str, int]] = as_text(parser("proc.switches"))
SAMPLING: Reader[proc.Sampling] = last_line(as_json(parser("proc.sampling")))
STREAMS: Reader[tuple[reports.StreamReport, ...]] = as_json(parser("reports.streams"))
REQUESTS: Reader[tuple[reports.RequestReport, ...]] = as_json(parser("reports.requests"))
QUEUE: Reader[tuple[qdisc_samples.QueueSample, ...]] = parser("qdisc_samples.queue_samples")
MARKED: Reader[int] = as_json(parser("reports.marked_packets"))
PATH: Reader[Mapping[str, Any]] = as_json(parser("reports.as_is"))
PATH_DOWN: Reader[Measured] = as_json(_measured_down)
READERS: Mapping[str, Reader[object]] = {
    "ab.txt": AB_REPORT,
    "ask.json": ASK,
    "fetch.json": FETCH,
    "httping.txt": as_text(parser("http_clients.httping")),
    "iperf3.json": IPERF3_ERROR,
    FILE: MACHINES,
    "interrupts-after.txt": INTERRUPTS,
    "interrupts-before.txt": INTERRUPTS,
    "knobs.json": KNOBS,
    "nstat-after.txt": as_text(parser("proc.counters")),
    "nstat-before.txt": as_text(parser("proc.counters")),
    "sampler.json": SAMPLING,
    "path.json": PATH,
    "queue-down.bin": QUEUE,
    "queue-up.bin": QUEUE,
    "queues-after.json": MARKED,
    "queues-before.json": MARKED,
    "requests.json": REQUESTS,
    "samples.bin": parser("inet_diag.readable_samples"),
    "samples.csv": as_text(parser("socket_samples.samples")),
    "truesizes.csv": as_text(parser("socket_samples.truesizes")),
    "server.json": SERVER,
    "softirqs-after.txt": SOFTIRQS,
    "softirqs-before.txt": SOFTIRQS,
    "ss.txt": as_text(parser("ss.blocks")),
    "stat-after.txt": SWITCHES,
    "stat-before.txt": SWITCHES,
    "stream.json": STREAMS,
    "tc-after.txt": as_text(tc.queues),
    "tc-before.txt": as_text(tc.queues),
    "vegeta.csv": VEGETA,
    "wget.txt": as_text(parser("http_clients.wget")),
    "wrk.txt": WRK,
}
"""Who reads a file, by the last part of its name."""


AB_PERCENTILES = "ab.csv"
"""Read with the report next to it, and after that."""


def read(path: Path, reader: Reader[T]) -> T:
    """Return what a reader makes of a file; Damaged, with the file's name, if it refuses it."""
    content = read_bytes(path)
    try:
        return _read(content, reader)
    except Damaged as error:
        raise Damaged(f"{path}: {error}. {AGAIN}") from error


def check(folder: Path, names: Iterable[str]) -> None:
    """Read every raw file that has a reader; Damaged, with its name, for the first refused."""
    for name in sorted(names, key=lambda name: (name.endswith(AB_PERCENTILES), name)):
        host, _, last = name.rpartition("/")
        try:
            if last in READERS:
                _read(read_bytes(folder / name), READERS[last])
            elif last == AB_PERCENTILES:
                report = _read(read_bytes(folder / host / "ab.txt"), AB_REPORT)
                _read(read_bytes(folder / name), ab_percentiles(report))
        except Damaged as error:
            raise Damaged(f"{name}: {error}") from error


def _read(content: bytes, reader: Reader[T]) -> T:
    try:
        return reader(content)
    except UNEXPECTED as error:
        raise Damaged(f"it cannot be read ({type(error).__name__}: {str(error)[:80]})") from error


def ab_percentiles(report: http_clients.Ab) -> Reader[dict[int, float]]:
    """A reader of the file that ab -e wrote next to a report."""
    return as_text(partial(parser("http_clients.ab_percentiles"), requests=report.complete))
