"""The results of a run of the lab `stack`: latency, throughput, and the work of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from labs.drive.result_columns import Note, column
from labs.experiments.stack.latencies import latencies, mean_us, of_vegeta, of_wrk, settings_of
from labs.experiments.stack.settings import EPOLL, WRK, Settings
from labs.read.claims.ledger import Article, read
from labs.read.parse.server_report import ServerReport, Setting
from labs.read.runs.raw_files import INTERRUPTS, KNOBS, SERVER, SOFTIRQS, SWITCHES, Reader
from labs.read.runs.run import Run

SENT_SHARE = 0.98
"""An open loop that sends a smaller share of its requests does not reach its nominal rate."""
NO_CONTEXT = "the sockets have no NAPI context that could be polled (SO_INCOMING_NAPI_ID is 0)"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The figures of one run; None for those that it does not have."""

    p50_us: float | None = column("median latency", unit="us", headline=True)
    mean_us: float | None = column("mean latency", unit="us")
    printed_mean_us: float | None = column("mean latency that wrk prints", unit="us", hidden=True)
    p99_us: float | None = column("99th percentile of the latency", unit="us")
    p999_us: float | None = column("99.9th percentile", unit="us", hidden=True)
    p9999_us: float | None = column("99.99th percentile", unit="us", hidden=True)
    max_us: float | None = column("largest latency", unit="us", hidden=True)
    requests_s: float | None = column("responses", unit="per s")
    rate_s: int | None = column("requested rate (0: closed loop)", unit="per s", hidden=True)
    requests: int | None = column("requests", hidden=True)
    failed: int | None = column("requests that failed", hidden=True)
    cpu_us: float | None = column("CPU time of the server per request", unit="us")
    switches: float | None = column("context switches of the machine per request")
    interrupts: float | None = column("interrupts of the machine per request")
    received_softirqs: float | None = column("NET_RX softirqs per request")
    polls: float | None = column("calls of epoll_wait per request", hidden=True)
    serving: int | None = column("threads that answered requests", hidden=True)
    connections: int | None = column("connections", hidden=True)
    timeout_ms: int | None = column("timeout of epoll_wait (0: polling)", unit="ms", hidden=True)
    effective: bool | None = column("whether every setting was applied here", hidden=True)
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run, from its load generator, its server and the kernel's counters."""
    settings, measured = settings_of(run), latencies(run)
    about = load_of(run, settings)
    done = about["requests"]
    found = knobs(run)
    return Results(
        p50_us=float(measured.percentile_us(50)),
        mean_us=mean_us(run),
        printed_mean_us=of_wrk(run).added_mean_us if settings.load == WRK else None,
        p99_us=float(measured.percentile_us(99)),
        p999_us=float(measured.percentile_us(99.9)),
        p9999_us=float(measured.percentile_us(99.99)),
        max_us=float(measured.max_us),
        requests_s=1e6 * done / about["took_us"],
        rate_s=settings.rate_per_s,
        requests=done,
        failed=about["failed"],
        switches=grown(run, "stat", SWITCHES)["ctxt"] / done,
        interrupts=sum(grown(run, "interrupts", INTERRUPTS).values()) / done,
        received_softirqs=grown(run, "softirqs", SOFTIRQS)["NET_RX"] / done,
        connections=settings.connections,
        timeout_ms=settings.timeout_ms,
        effective=all(one.effective for one in found),
        notes=tuple(notes(run, settings, found, about)),
        **of_the_server(server_of(run)),
    )


def of_the_server(said: ServerReport | None) -> dict[str, Any]:
    """The CPU time and the calls of epoll_wait per request, and the threads that served."""
    if said is None:
        return {}
    served = max(1, said.requests)
    return {
        "cpu_us": (said.user_us + said.system_us) / served,
        "polls": sum(one.waits for one in said.threads) / served,
        "serving": said.serving,
    }


def load_of(run: Run, settings: Settings) -> dict[str, Any]:
    """The requests of a run, those that failed, and the time that they took."""
    if settings.load == WRK:
        said = of_wrk(run)
        return {"requests": said.requests, "failed": said.failed, "took_us": said.duration_us}
    hits = of_vegeta(run)
    end_ns = max(one.began_ns + one.latency_ns for one in hits)
    return {
        "requests": len(hits),
        "failed": sum(one.status != 200 for one in hits),
        "took_us": (end_ns - hits[0].began_ns) / 1000,
    }


def server_of(run: Run) -> ServerReport | None:
    """The report of the server in C; None with another server."""
    if settings_of(run).server != EPOLL:
        return None
    return run.read("server/server.json", SERVER)


def grown(run: Run, name: str, reader: Reader[Any]) -> dict[str, int]:
    """By how much the kernel's counters grew during the load."""
    before, after = (run.read(f"server/{name}-{when}.txt", reader) for when in ("before", "after"))
    return {key: after[key] - before.get(key, 0) for key in after}


@cache
def knobs(run: Run) -> tuple[Setting, ...]:
    """The settings of a run as read back from the machine and from the server."""
    found, settings, said = run.read("server/knobs.json", KNOBS), settings_of(run), server_of(run)
    if said is None:
        return found
    waiting = "polling" if settings.timeout_ms == 0 else "blocking"
    polled = any(one.empty_waits for one in said.threads)
    own = [Setting("waiting", waiting, "polling" if polled else "blocking", True, "")]
    without_napi = "" if any(one.napi_id for one in said.threads) else NO_CONTEXT
    if without_napi:
        found = tuple(
            replace(one, effective=False, because=one.because or without_napi)
            if one.factor == "deferred_irqs"
            else one
            for one in found
        )
    if settings.threads > 1:
        told = f"{len(said.threads)}, of which {said.serving} answered requests"
        several = said.serving > 1 and settings.connections > 1
        why = "" if several else "a connection is served by one thread"
        own.append(Setting("threads", str(settings.threads), told, several, why))
    if settings.busy_poll_us:
        one = said.threads[0]
        told = f"{one.busy_poll_us} (epoll: {one.epoll_busy_poll_us})"
        requested = str(settings.busy_poll_us)
        own.append(Setting("busy_poll_us", requested, told, not without_napi, without_napi))
    return (*found, *own)


def notes(
    run: Run, settings: Settings, found: tuple[Setting, ...], about: Mapping[str, Any]
) -> Iterator[Note]:
    """Notes on a run: settings that were not applied, requests that failed or were never sent."""
    if not run.link.ok:
        yield Note("link", "link not as asked")
    for one in found:
        if not one.effective:
            told = f"{one.factor} {one.requested}: not applied here ({one.because})"
            yield Note("not_applied", told)
    if about["failed"]:
        yield Note("failed", f"{about['failed']} requests failed")
    intended = settings.rate_per_s * settings.duration_s
    if about["requests"] < SENT_SHARE * intended:
        yield Note("sent_fewer", f"vegeta sent {about['requests']:,} of {intended:,} requests")


@cache
def article() -> Article:
    """The claims of article 2."""
    return read(Path(__file__).with_name("article2.toml"))
