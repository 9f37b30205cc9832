"""The results of a run of the lab `stack`: latency, throughput, and the work of the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from pandas import DataFrame, Series

from labs.drive.result_columns import Note, part
from labs.experiments.stack.settings import EPOLL, WRK, Settings
from labs.guest.host_load import HERE
from labs.read.claims.ledger import article_beside
from labs.read.parse.http_loads import Load, intended_us
from labs.read.parse.reports import ServerReport, Setting
from labs.read.readings.run_results import RunResults, from_run, hidden, hidden_column, settings_as
from labs.read.runs import raw_files
from labs.read.runs.raw_files import INTERRUPTS, KNOBS, SERVER, SOFTIRQS, SWITCHES, VEGETA, Reader
from labs.read.runs.run import Run
from labs.read.stats.effects import Comparisons, Factor
from labs.read.stats.machines import machines
from labs.read.stats.repetitions import Repeated
from labs.read.theory.queueing import SECOND_US, Server

CLOSED = "closed"
"""The condition that is the closed loop of the open ones."""
SENT_SHARE = 0.98
"""An open loop that sends a smaller share of its requests does not reach its nominal rate."""
NO_CONTEXT = "the sockets have no NAPI context that could be polled (SO_INCOMING_NAPI_ID is 0)"
WAITS = ("blocking", "polling")
article = partial(article_beside, __file__)
ratio, latency = partial(part, kind=float), partial(part, unit="us", kind=float)


def of_percent(percent: float) -> Callable[[Run], float]:
    """What computes this percentile of the latency."""
    return lambda run: percentile_us(latencies(run), percent)


def growth(name: str, reader: Reader[Any], *counters: str) -> Callable[[Run], float]:
    """What computes by how much these counters of the kernel, or all of a file, grew during the
    load, per request."""

    def counted(run: Run) -> float:
        files = (f"server/{name}-{when}.txt" for when in ("before", "after"))
        before, after = (run.read(file, reader) for file in files)
        grown: int = sum(after[key] - before.get(key, 0) for key in counters or after)
        return grown / load_of(run).requests

    return counted


def not_applied(run: Run) -> list[Setting]:
    """The settings that were not applied on this machine."""
    return [setting for setting in knobs(run) if not setting.effective]


def refused(factor: str) -> Callable[[Run], str | None]:
    """What computes why a setting was not applied on this machine; None if it was."""
    return lambda run: next(
        (
            f"{factor} {setting.requested} ({setting.because})"
            for setting in not_applied(run)
            if setting.factor == factor
        ),
        None,
    )


def too_few_cpus(run: Run) -> str | None:
    """Why threads of emulated machines cannot run at the same time; None if they can."""
    cpus = {name: machine.cpus or 0 for name, machine in machines(run).items()}
    host, wanted = cpus.pop(HERE, 0), sum(cpus.values())
    few = run.where.machines and 0 < host < wanted
    return f"{host} CPUs for {wanted} of its virtual machines" if few else None


@cache
def load_of(run: Run) -> Load:
    """What the load generator of a run did. Latencies are from the moment of sending in a closed
    loop, and from the intended moment in an open loop."""
    settings = run.settings_as(Settings)
    if settings.load == WRK:
        return run.read("client/wrk.txt", raw_files.WRK)
    hits = run.read("client/vegeta.csv", VEGETA)
    took_us = (max(hit.began_ns + hit.latency_ns for hit in hits) - hits[0].began_ns) / 1000
    failed = sum(hit.status != 200 for hit in hits)
    return Load(len(hits), failed, took_us, Counter(intended_us(hits, settings.rate_per_s)))


def server_of(run: Run) -> ServerReport | None:
    """The report of the server in C; None with another server."""
    if run.settings_as(Settings).server != EPOLL:
        return None
    return run.read("server/server.json", SERVER)


@cache
def knobs(run: Run) -> tuple[Setting, ...]:
    """The settings of a run as read back from the machine and from the server."""
    applied, server = run.read("server/knobs.json", KNOBS), server_of(run)
    if server is None:
        return applied
    no_napi = "" if any(thread.napi_id for thread in server.threads) else NO_CONTEXT
    settings = (
        replace(setting, effective=False, because=setting.because or no_napi)
        if no_napi and setting.factor == "deferred_irqs"
        else setting
        for setting in applied
    )
    return (*settings, *_of_server(run.settings_as(Settings), server, no_napi))


def _of_server(settings: Settings, server: ServerReport, no_napi: str) -> Iterator[Setting]:
    """What the server reads back of its settings; `no_napi` is why it cannot poll the device."""
    asked, polled = settings.timeout_ms == 0, any(thread.empty_waits for thread in server.threads)
    yield Setting("waiting", WAITS[asked], WAITS[polled], True, "")
    if settings.threads > 1:
        shown = f"{len(server.threads)}, of which {server.serving} answered requests"
        several = server.serving > 1 and settings.connections > 1
        why = "" if several else "a connection is served by one thread"
        yield Setting("threads", str(settings.threads), shown, several, why)
    if settings.busy_poll_us:
        thread = server.threads[0]
        shown = f"{thread.busy_poll_us} (epoll: {thread.epoll_busy_poll_us})"
        yield Setting("busy_poll_us", str(settings.busy_poll_us), shown, not no_napi, no_napi)


@cache
def latencies(run: Run) -> Series[int]:
    """The latencies of one run, as `merged`."""
    return merged((run,))


class Results(RunResults):
    """The figures of one run; None for those that it does not have."""

    settings = settings_as(Settings)

    load = from_run(load_of)
    server = from_run(server_of)

    p50_us = latency(of_percent(50), "median latency", headline=True)

    mean_us = part("load.mean_us", "mean latency", unit="us")
    printed_mean_us = hidden("load.added_mean_us", "mean latency that wrk prints", unit="us")
    p99_us = latency(of_percent(99), "99th percentile of the latency")
    p999_us = latency(of_percent(99.9), "99.9th percentile", hidden=True)
    p9999_us = latency(of_percent(99.99), "99.99th percentile", hidden=True)
    max_us = latency(of_percent(100), "largest latency", hidden=True)
    requests_s = part("load.per_s", "responses", unit="per s")
    rate_s = hidden("settings.rate_per_s", "requested rate (0: closed loop)", unit="per s")
    requests = hidden("load.requests", "requests")
    failed = hidden("load.failed", "requests that failed")
    cpu_us = part("server.cpu_us", "CPU time of the server per request", unit="us")
    switches = ratio(
        growth("stat", SWITCHES, "ctxt"), "context switches of the machine per request"
    )
    interrupts = ratio(growth("interrupts", INTERRUPTS), "interrupts of the machine per request")
    received_softirqs = ratio(growth("softirqs", SOFTIRQS, "NET_RX"), "NET_RX softirqs per request")
    polls = hidden("server.polls", "calls of epoll_wait per request")
    serving = hidden("server.serving", "threads that answered requests")
    connections = hidden("settings.connections", "connections")
    timeout_ms = hidden("settings.timeout_ms", "timeout of epoll_wait (0: polling)", unit="ms")

    threads = hidden("settings.threads", "threads of the server")
    refused_rx_usecs = hidden(
        refused("rx_usecs"), "why the interrupt delay was not applied", kind=str
    )
    refused_pinning = hidden(refused("pinning"), "why programs were not pinned to CPUs", kind=str)
    refused_threads = hidden(refused("threads"), "why not all threads were used", kind=str)
    few_cpus = hidden(too_few_cpus, "why threads cannot run at the same time")

    @hidden_column("median latency, if the interrupt delay was applied", unit="us")
    def delayed_p50_us(self) -> float | None:
        return None if self.refused_rx_usecs else self.p50_us

    @hidden_column("whether every setting was applied here")
    def effective(self) -> bool | None:
        return not not_applied(self.run)

    def lab_notes(self) -> Iterator[Note]:
        """Settings that were not applied, requests that failed or were never sent."""
        for setting in not_applied(self.run):
            text = f"{setting.factor} {setting.requested}: not applied here ({setting.because})"
            yield Note("not_applied", text)
        if self.load.failed:
            yield Note("failed", f"{self.load.failed} requests failed")
        intended, sent = self.settings.rate_per_s * self.settings.duration_s, self.load.requests
        if sent < SENT_SHARE * intended:
            yield Note("sent_fewer", f"vegeta sent {sent:,} of {intended:,} requests")


def merged(runs: Iterable[Run]) -> Series[int]:
    """The number of requests up to each latency in microseconds, of several runs together."""
    counts = sum((Counter(load_of(run).latencies_us) for run in runs), Counter[int]())
    return Series(counts, dtype=int).sort_index().cumsum().astype(int)


def percentile_us(up_to: Series[int], percent: float) -> int:
    """The least latency that at least `percent` of all requests do not exceed (nearest rank).

    `percent` is taken to two decimals, so that the rank is computed in whole numbers. wrk has the
    same rank, except that it takes the next one if the share is a whole number of requests
    (stats.c, stats_percentile).
    """
    rank = -(-round(100 * percent) * int(up_to.iloc[-1]) // 10_000)
    place = int(up_to.searchsorted(max(1, rank)))
    return int(up_to.index[place])


def _factor(name: str, *pairs: str, setting: str = "") -> Factor:
    """A factor by its pairs, `condition / the one without the setting`; a pair with `{}` is two:
    with one connection, and with many."""
    texts = dict.fromkeys(pair.replace("{}", end) for pair in pairs for end in ("c1", "many"))
    return Factor(name, dict(text.split(" / ") for text in texts), setting)


COMPARED = Comparisons(
    what="latency",
    columns={"p50_us": "median", "p99_us": "99th percentile", "requests_s": ""},
    factors=(
        _factor("blocking", "blocking-{} / polling-{}", setting="waiting"),
        _factor(
            "connections",
            "polling-many / polling-c1",
            "blocking-many / blocking-c1",
            "blocking-c5 / blocking-c1",
        ),
        _factor("CPUs kept awake", "awake-c1 / blocking-c1"),
        _factor(
            "rules",
            "rules-idle-c1 / polling-c1",
            "rules-10-c1 / polling-c1",
            "polling-rules-100-{} / polling-{}",
            "rules-conntrack-c1 / polling-c1",
        ),
        _factor("busy polling", "busy-poll-c1 / gro-c1", setting="busy_poll_us"),
        _factor("threads", "threads-2-{} / polling-{}"),
        # As in the article, each queue has a thread of its own.
        _factor(
            "queues and threads",
            "queues-2-{} / gro-{}",
            "work-queues-2-many / work-many",
            setting="queues",
        ),
        _factor("pinning", "same-cpu-c1 / polling-c1", "unpinned-c1 / polling-c1"),
        _factor("offloads", "gro-c1 / polling-c1", "offloads-off-c1 / polling-c1"),
        _factor(
            "coalescing",
            "rx-usecs-1-c1 / rx-usecs-0-c1",
            "rx-usecs-100-c1 / rx-usecs-0-c1",
            "rx-usecs-500-c1 / rx-usecs-0-c1",
            "rx-usecs-1-many / rx-usecs-0-many",
            "rx-usecs-100-many / rx-usecs-0-many",
            "rx-usecs-500-many / rx-usecs-0-many",
            "rx-usecs-2000-c1 / rx-usecs-0-c1",
            setting="rx_usecs",
        ),
        _factor("deferred interrupts", "irqs-deferred-{} / gro-{}", setting="deferred_irqs"),
        _factor("CPU of the interrupt", "irq-same-c1 / irq-apart-c1", setting="interrupts"),
        _factor("receive processing", "rps-same-{} / polling-{}", setting="rps"),
        _factor("server", "nginx-{} / blocking-unpinned-{}"),
    ),
    interactions={
        name: text.split(" / ")
        for name, text in {
            "blocking and connections": "polling-c1 / blocking-c1 / polling-many / blocking-many",
            "blocking and rules": "polling-c1 / blocking-c1 / "
            "polling-rules-100-c1 / blocking-rules-100-c1",
            "connections and rules": "polling-c1 / polling-many / "
            "polling-rules-100-c1 / polling-rules-100-many",
        }.items()
    },
    read_back=knobs,
    beside="pinning",
    beside_in_words="server and load share a CPU in only one of the two conditions",
)
"""What shows the effect of each setting."""


def medians(conditions: Iterable[Repeated], columns: Collection[str]) -> DataFrame:
    """One row per condition, with the median of each column, or None."""
    rows = [(each.condition, *map(each.median, columns)) for each in conditions]
    return DataFrame(rows, columns=["condition", *columns], dtype=object)


def loops(repeated: Iterable[Repeated]) -> DataFrame:
    """The closed loop, then the open loops by rate (0 in the closed one): medians of their
    repetitions. Loops without undisturbed runs are left out."""
    rows = medians(
        (loop for loop in repeated if loop.counted), ("rate_s", "requests_s", "p50_us", "p99_us")
    )
    is_loop = (rows["condition"] == CLOSED) | (rows["rate_s"] != 0)
    return rows[is_loop].infer_objects().sort_values("rate_s", kind="stable")


def server(repeated: Iterable[Repeated]) -> Server | None:
    """The server of the loops; None without undisturbed runs of the closed loop."""
    closed = next((loop for loop in repeated if loop.condition == CLOSED and loop.counted), None)
    per_s = closed and closed.median("requests_s")
    if closed is None or not per_s:
        return None
    settings = closed.middle.settings_as(Settings)
    service_us = SECOND_US / per_s
    return Server(settings.work_us, service_us, settings.connections, settings.duration_s)


def parameter(run: Run, name: str) -> int | None:
    """`many_connections`: the connections of a condition with many of them; None for others."""
    is_many = name == "many_connections" and run.condition.endswith("many")
    return run.settings_as(Settings).connections if is_many else None
