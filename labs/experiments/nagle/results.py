"""The results of a run of the lab `nagle`: response times, stalls, and the predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from labs.drive.result_columns import Note, column
from labs.experiments.nagle.prediction import expected, median_ms, settings_of
from labs.experiments.nagle.requests import Answered, answered
from labs.read.claims.ledger import Article, figure_of_claim, read
from labs.read.readings.instruments import capture_losses
from labs.read.readings.latency import SMALLEST_MS, Latency, latency
from labs.read.runs.run import Run

CLAIMS = {"off": "A3.1", "on": "A3.2"}
"""The claims with a mean time per request, by condition."""
BELOW_1_MS = "below_1_ms"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The figures of one run; None for those that it does not have."""

    mean_ms: float | None = column(
        "mean time per request, at the client",
        unit="ms",
        predicted_by="predicted_mean_ms",
        headline=True,
    )
    p50_ms: float | None = column(
        "median time per request, at the client", unit="ms", predicted_by="predicted_p50_ms"
    )
    p99_ms: float | None = column(
        "99th percentile of the time per request, at the client", unit="ms"
    )
    predicted_mean_ms: float | None = column("predicted mean", unit="ms")
    predicted_p50_ms: float | None = column("predicted median", unit="ms")
    article_ms: float | None = column("the article's mean", unit="ms")
    article_claim: str | None = column("the claim with the article's figure", hidden=True)
    stalled_pct: float | None = column(
        "share of requests that wait for a delayed ACK, in the capture", unit="%"
    )
    predicted_stalls: bool | None = column("whether requests stall, as predicted", hidden=True)
    segments_per_answer: float | None = column(
        "segments with payload per response, without the first of each connection",
        predicted_by="predicted_segments",
    )
    predicted_segments: float | None = column("predicted segments per response", hidden=True)
    acks_per_answer: float | None = column(
        "ACKs without payload per response, without the first of each connection"
    )
    packets_per_answer: float | None = column(
        "packets per response, with the request and all ACKs, without the first of each connection"
    )
    payload_pct: float | None = column(
        "payload share of the bytes of these packets", unit="%", hidden=True
    )
    requests: int | None = column("requests, as the client counted them")
    failed: int | None = column("requests that failed", hidden=True)
    captured_requests: int | None = column("requests in the capture", hidden=True)
    served_requests: int | None = column("requests in nginx's log", hidden=True)
    nodelay: bool | None = column("TCP_NODELAY at the server", hidden=True)
    keepalive: bool | None = column("connections are kept open", hidden=True)
    quickack: str | None = column("what makes the client acknowledge at once", hidden=True)
    server: str | None = column("the server program", hidden=True)
    writes: str | None = column("how a response is written", hidden=True)
    page_bytes: int | None = column("the body of a response", unit="bytes", hidden=True)
    notes: tuple[Note, ...] = field(default=())


def results(run: Run) -> Results:
    """The figures of one run: times at the client, predictions, and counts from the capture."""
    took, seen, theory = latency(run), answered(run), expected(run)
    settings, claim = settings_of(run), CLAIMS.get(run.condition)
    articles_own = claim and figure_of_claim(article(), run, claim)
    served = served_requests(run)
    return Results(
        mean_ms=took.mean_ms,
        p50_ms=took.p50_ms,
        p99_ms=took.p99_ms,
        predicted_mean_ms=theory.mean_ms if theory else None,
        predicted_p50_ms=median_ms(run),
        article_ms=articles_own or None,
        article_claim=claim if articles_own else None,
        stalled_pct=seen.stalled_pct,
        predicted_stalls=theory.stalls if theory else None,
        segments_per_answer=seen.segments,
        predicted_segments=theory.segments if theory else None,
        acks_per_answer=seen.acks,
        packets_per_answer=seen.packets,
        payload_pct=seen.payload_pct,
        requests=took.requests,
        failed=took.failed,
        captured_requests=seen.requests,
        served_requests=served,
        nodelay=settings.nodelay,
        keepalive=settings.keepalive,
        quickack=settings.quickack,
        server=settings.server,
        writes=settings.writes,
        page_bytes=settings.page_bytes,
        notes=tuple(notes(run, took, seen, served)),
    )


@cache
def article() -> Article:
    """The claims of article 3."""
    return read(Path(__file__).with_name("article3.toml"))


def served_requests(run: Run) -> int | None:
    """The number of lines in nginx's log; None for our own server, which has no log."""
    name = "server/access.log"
    return len(run.text(name).splitlines()) if name in run.seal.files else None


def notes(run: Run, took: Latency, seen: Answered, served: int | None) -> Iterator[Note]:
    """Notes on a run: a link off its target, failed requests, instruments that disagree."""
    if not run.link.ok:
        yield Note("link", "link not as asked")
    if took.failed:
        yield Note("failed", f"{took.failed} requests failed")
    counts = {"the client": took.requests, "the capture": seen.requests, "nginx": served}
    known = {name: count for name, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in known.items())
        yield Note("instruments", f"instruments disagree on the requests: {said}")
    lost = capture_losses(run)
    if lost:
        yield Note("capture_lost", f"tcpdump lost {lost} packets")
    if run.testbed == "virtual" and took.mean_ms < SMALLEST_MS:
        yield Note(BELOW_1_MS, "times below 1 ms are not meaningful in virtual time", excludes=True)
