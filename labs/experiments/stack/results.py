"""The results of a run of the lab `stack`: latency, throughput, and the work of the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from pandas import DataFrame

from labs.drive.result_columns import Note, column, part
from labs.experiments.stack.settings import EPOLL, WRK, Settings
from labs.read.claims.ledger import article_beside
from labs.read.parse.http_loads import Hit, Wrk, intended_us
from labs.read.parse.server_report import ServerReport, Setting
from labs.read.runs import raw_files
from labs.read.runs.raw_files import INTERRUPTS, KNOBS, SERVER, SOFTIRQS, SWITCHES, VEGETA, Reader
from labs.read.runs.run import Run
from labs.read.stats.effects import Comparisons, Factor
from labs.read.stats.repetitions import Repeated
from labs.read.theory.queueing import SECOND_US, Server

CLOSED = "closed"
"""The condition that is the closed loop of the open ones."""
SENT_SHARE = 0.98
"""An open loop that sends a smaller share of its requests does not reach its nominal rate."""
NO_CONTEXT = "the sockets have no NAPI context that could be polled (SO_INCOMING_NAPI_ID is 0)"
article = partial(article_beside, __file__)
hidden = partial(part, hidden=True)


@dataclass(frozen=True)
class Load:
    """The requests of a run, those that failed, and the time that they took."""

    requests: int
    failed: int
    took_us: float


class Results:
    """The figures of one run; None for those that it does not have."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @cached_property
    def latencies(self) -> Latencies:
        return latencies(self.run)

    @cached_property
    def load(self) -> Load:
        return load_of(self.run)

    @cached_property
    def server(self) -> ServerReport | None:
        return server_of(self.run)

    @column("median latency", unit="us", headline=True)
    def p50_us(self) -> float | None:
        return float(self.latencies.percentile_us(50))

    @column("mean latency", unit="us")
    def mean_us(self) -> float | None:
        return mean_us(self.run)

    @column("mean latency that wrk prints", unit="us", hidden=True)
    def printed_mean_us(self) -> float | None:
        return of_wrk(self.run).added_mean_us if self.settings.load == WRK else None

    @column("99th percentile of the latency", unit="us")
    def p99_us(self) -> float | None:
        return float(self.latencies.percentile_us(99))

    @column("99.9th percentile", unit="us", hidden=True)
    def p999_us(self) -> float | None:
        return float(self.latencies.percentile_us(99.9))

    @column("99.99th percentile", unit="us", hidden=True)
    def p9999_us(self) -> float | None:
        return float(self.latencies.percentile_us(99.99))

    @column("largest latency", unit="us", hidden=True)
    def max_us(self) -> float | None:
        return float(self.latencies.max_us)

    @column("responses", unit="per s")
    def requests_s(self) -> float | None:
        return 1e6 * self.load.requests / self.load.took_us

    rate_s = hidden("settings.rate_per_s", "requested rate (0: closed loop)", unit="per s")
    requests = hidden("load.requests", "requests")
    failed = hidden("load.failed", "requests that failed")

    @column("CPU time of the server per request", unit="us")
    def cpu_us(self) -> float | None:
        if self.server is None:
            return None
        return (self.server.user_us + self.server.system_us) / max(1, self.server.requests)

    @column("context switches of the machine per request")
    def switches(self) -> float | None:
        return grown(self.run, "stat", SWITCHES)["ctxt"] / self.load.requests

    @column("interrupts of the machine per request")
    def interrupts(self) -> float | None:
        return sum(grown(self.run, "interrupts", INTERRUPTS).values()) / self.load.requests

    @column("NET_RX softirqs per request")
    def received_softirqs(self) -> float | None:
        return grown(self.run, "softirqs", SOFTIRQS)["NET_RX"] / self.load.requests

    @column("calls of epoll_wait per request", hidden=True)
    def polls(self) -> float | None:
        if self.server is None:
            return None
        return sum(thread.waits for thread in self.server.threads) / max(1, self.server.requests)

    serving = hidden("server.serving", "threads that answered requests")
    connections = hidden("settings.connections", "connections")
    timeout_ms = hidden("settings.timeout_ms", "timeout of epoll_wait (0: polling)", unit="ms")

    @column("whether every setting was applied here", hidden=True)
    def effective(self) -> bool | None:
        return all(setting.effective for setting in knobs(self.run))

    def notes(self) -> Iterator[Note]:
        """Settings that were not applied, requests that failed or were never sent."""
        if not self.run.link.ok:
            yield Note("link", "link not as asked")
        for setting in knobs(self.run):
            if not setting.effective:
                text = f"{setting.factor} {setting.requested}: not applied here"
                yield Note("not_applied", f"{text} ({setting.because})")
        if self.load.failed:
            yield Note("failed", f"{self.load.failed} requests failed")
        intended, sent = self.settings.rate_per_s * self.settings.duration_s, self.load.requests
        if sent < SENT_SHARE * intended:
            yield Note("sent_fewer", f"vegeta sent {sent:,} of {intended:,} requests")


def load_of(run: Run) -> Load:
    """What the load generator of a run did."""
    if run.settings_as(Settings).load == WRK:
        report = of_wrk(run)
        return Load(report.requests, report.failed, report.duration_us)
    hits = of_vegeta(run)
    end_ns = max(hit.began_ns + hit.latency_ns for hit in hits)
    failed = sum(hit.status != 200 for hit in hits)
    return Load(len(hits), failed, (end_ns - hits[0].began_ns) / 1000)


def server_of(run: Run) -> ServerReport | None:
    """The report of the server in C; None with another server."""
    if run.settings_as(Settings).server != EPOLL:
        return None
    return run.read("server/server.json", SERVER)


def grown(run: Run, name: str, reader: Reader[Any]) -> dict[str, int]:
    """By how much the kernel's counters grew during the load."""
    before, after = (run.read(f"server/{name}-{when}.txt", reader) for when in ("before", "after"))
    return {key: after[key] - before.get(key, 0) for key in after}


@cache
def knobs(run: Run) -> tuple[Setting, ...]:
    """The settings of a run as read back from the machine and from the server."""
    applied, settings = run.read("server/knobs.json", KNOBS), run.settings_as(Settings)
    server = server_of(run)
    if server is None:
        return applied
    waiting = "polling" if settings.timeout_ms == 0 else "blocking"
    polled = any(thread.empty_waits for thread in server.threads)
    of_server = [Setting("waiting", waiting, "polling" if polled else "blocking", True, "")]
    without_napi = "" if any(thread.napi_id for thread in server.threads) else NO_CONTEXT
    if without_napi:
        applied = tuple(
            replace(setting, effective=False, because=setting.because or without_napi)
            if setting.factor == "deferred_irqs"
            else setting
            for setting in applied
        )
    if settings.threads > 1:
        shown = f"{len(server.threads)}, of which {server.serving} answered requests"
        several = server.serving > 1 and settings.connections > 1
        why = "" if several else "a connection is served by one thread"
        of_server.append(Setting("threads", str(settings.threads), shown, several, why))
    if settings.busy_poll_us:
        thread = server.threads[0]
        shown = f"{thread.busy_poll_us} (epoll: {thread.epoll_busy_poll_us})"
        requested = str(settings.busy_poll_us)
        of_server.append(Setting("busy_poll_us", requested, shown, not without_napi, without_napi))
    return (*applied, *of_server)


@dataclass(frozen=True, eq=False)
class Latencies:
    """Distinct latencies in microseconds, ascending, and the number of requests up to each."""

    values_us: npt.NDArray[np.int64]
    up_to: npt.NDArray[np.int64]

    @property
    def requests(self) -> int:
        """The number of requests."""
        return int(self.up_to[-1])

    @property
    def max_us(self) -> int:
        """The largest latency."""
        return int(self.values_us[-1])

    def percentile_us(self, percent: float) -> int:
        """The least latency that at least `percent` of all requests do not exceed (nearest rank).

        `percent` is taken to two decimals, so that the rank is computed in whole numbers. wrk has
        the same rank, except that it takes the next one if the share is a whole number of requests
        (stats.c, stats_percentile).
        """
        rank = -(-round(100 * percent) * self.requests // 10_000)
        return int(self.values_us[np.searchsorted(self.up_to, max(1, rank))])


@lru_cache(maxsize=1)
def of_wrk(run: Run) -> Wrk:
    """The report of wrk. The last one is cached."""
    return run.read("client/wrk.txt", raw_files.WRK)


@lru_cache(maxsize=1)
def of_vegeta(run: Run) -> tuple[Hit, ...]:
    """The requests of vegeta. The last ones are cached."""
    return run.read("client/vegeta.csv", VEGETA)


def latencies_us(run: Run) -> Mapping[int, int]:
    """The number of requests per latency in microseconds: from the moment of sending in a closed
    loop, and from the intended moment in an open loop."""
    settings = run.settings_as(Settings)
    if settings.load == WRK:
        return of_wrk(run).latencies_us
    return Counter(intended_us(of_vegeta(run), settings.rate_per_s))


def mean_us(run: Run) -> float:
    """The mean latency of a run in microseconds."""
    counts = latencies_us(run)
    return sum(value * count for value, count in counts.items()) / sum(counts.values())


@cache
def latencies(run: Run) -> Latencies:
    """The latencies of one run."""
    return _counted(latencies_us(run))


def merged(runs: Iterable[Run]) -> Latencies:
    """The latencies of the requests of several runs together."""
    total: Counter[int] = Counter()
    for run in runs:
        total.update(latencies_us(run))
    return _counted(total)


def _counted(requests: Mapping[int, int]) -> Latencies:
    values = np.array(sorted(requests), dtype=np.int64)
    return Latencies(values, np.cumsum([requests[value] for value in values.tolist()]))


def _by_delay(suffix: str) -> dict[str, str]:
    return {f"rx-usecs-{us}-{suffix}": f"rx-usecs-0-{suffix}" for us in (1, 100, 500)}


COMPARED = Comparisons(
    what="latency",
    columns={"p50_us": "median", "p99_us": "99th percentile", "requests_s": ""},
    factors=(
        Factor("blocking", {f"blocking-{n}": f"polling-{n}" for n in ("c1", "many")}, "waiting"),
        Factor(
            "connections",
            {
                "polling-many": "polling-c1",
                **dict.fromkeys(("blocking-many", "blocking-c5"), "blocking-c1"),
            },
        ),
        Factor("CPUs kept awake", {"awake-c1": "blocking-c1"}),
        Factor(
            "rules",
            {
                **dict.fromkeys(
                    ("rules-idle-c1", "rules-10-c1", "polling-rules-100-c1"), "polling-c1"
                ),
                "polling-rules-100-many": "polling-many",
                "rules-conntrack-c1": "polling-c1",
            },
        ),
        Factor("busy polling", {"busy-poll-c1": "gro-c1"}, "busy_poll_us"),
        Factor("threads", {f"threads-2-{n}": f"polling-{n}" for n in ("c1", "many")}),
        # As in the article, each queue has a thread of its own.
        Factor(
            "queues and threads",
            {
                **{f"queues-2-{n}": f"gro-{n}" for n in ("c1", "many")},
                "work-queues-2-many": "work-many",
            },
            "queues",
        ),
        Factor("pinning", dict.fromkeys(("same-cpu-c1", "unpinned-c1"), "polling-c1")),
        Factor("offloads", dict.fromkeys(("gro-c1", "offloads-off-c1"), "polling-c1")),
        Factor(
            "coalescing",
            {**_by_delay("c1"), **_by_delay("many"), "rx-usecs-2000-c1": "rx-usecs-0-c1"},
            "rx_usecs",
        ),
        Factor(
            "deferred interrupts",
            {f"irqs-deferred-{n}": f"gro-{n}" for n in ("c1", "many")},
            "deferred_irqs",
        ),
        Factor("CPU of the interrupt", {"irq-same-c1": "irq-apart-c1"}, "interrupts"),
        Factor(
            "receive processing", {f"rps-same-{n}": f"polling-{n}" for n in ("c1", "many")}, "rps"
        ),
        Factor("server", {f"nginx-{n}": f"blocking-unpinned-{n}" for n in ("c1", "many")}),
    ),
    interactions={
        "blocking and connections": ("polling-c1", "blocking-c1", "polling-many", "blocking-many"),
        "blocking and rules": (
            *("polling-c1", "blocking-c1", "polling-rules-100-c1", "blocking-rules-100-c1"),
        ),
        "connections and rules": (
            *("polling-c1", "polling-many", "polling-rules-100-c1", "polling-rules-100-many"),
        ),
    },
    read_back=knobs,
    beside="pinning",
    beside_in_words="server and load share a CPU in only one of the two conditions",
)
"""What shows the effect of each setting."""


def loops(repeated: Iterable[Repeated]) -> DataFrame:
    """The closed loop, then the open loops by rate (0 in the closed one): medians of their
    repetitions. Loops without undisturbed runs are left out."""
    columns = ("rate_s", "requests_s", "p50_us", "p99_us")
    rows = [
        {"condition": some.condition, **{name: some.median(name) for name in columns}}
        for some in repeated
        if some.counted and (some.condition == CLOSED or some.median("rate_s"))
    ]
    return DataFrame(rows, columns=["condition", *columns]).sort_values("rate_s", kind="stable")


def server(repeated: Iterable[Repeated]) -> Server | None:
    """The server of the loops; None without undisturbed runs of the closed loop."""
    closed = next((some for some in repeated if some.condition == CLOSED and some.counted), None)
    per_s = closed and closed.median("requests_s")
    if closed is None or not per_s:
        return None
    settings = closed.middle.settings_as(Settings)
    service_us = SECOND_US / per_s
    return Server(settings.work_us, service_us, settings.connections, settings.duration_s)
