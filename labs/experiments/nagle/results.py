"""The results of a run of the lab `nagle`: response times, stalls, and the predictions, which are
from its writes, link and kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

from labs.drive.result_columns import Note, column
from labs.drive.testbed.link import MSS_BYTES
from labs.experiments.nagle.requests import Answered, answered
from labs.experiments.nagle.settings import AB, Settings
from labs.read.claims.ledger import article_beside, figure_of_claim
from labs.read.readings.instruments import capture_losses
from labs.read.readings.latency import SMALLEST_MS, Latency, latency
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines
from labs.read.theory.nagle import Answer, answer, sent

CLAIMS = {"off": "A3.1", "on": "A3.2"}
"""The claims with a mean time per request, by condition."""
BELOW_1_MS = "below_1_ms"
USUAL_HZ = 250
"""The value of most distributions, for a run whose value is neither known nor counted."""
article = partial(article_beside, __file__)


class Results:
    """The figures of one run; None for those that it does not have."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @cached_property
    def latency(self) -> Latency:
        return latency(self.run)

    @cached_property
    def captured(self) -> Answered:
        return answered(self.run)

    @cached_property
    def prediction(self) -> Answer | None:
        return expected(self.run)

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @column(
        "mean time per request, at the client",
        unit="ms",
        predicted_by="predicted_mean_ms",
        headline=True,
    )
    def mean_ms(self) -> float | None:
        return self.latency.mean_ms

    @column("median time per request, at the client", unit="ms", predicted_by="predicted_p50_ms")
    def p50_ms(self) -> float | None:
        return self.latency.p50_ms

    @column("99th percentile of the time per request, at the client", unit="ms")
    def p99_ms(self) -> float | None:
        return self.latency.p99_ms

    @column("predicted mean", unit="ms")
    def predicted_mean_ms(self) -> float | None:
        return self.prediction.mean_ms if self.prediction else None

    @column("predicted median", unit="ms")
    def predicted_p50_ms(self) -> float | None:
        return median_ms(self.run)

    @column("the article's mean", unit="ms")
    def article_ms(self) -> float | None:
        claim = CLAIMS.get(self.run.condition)
        return (claim and figure_of_claim(article(), self.run, claim)) or None

    @column("the claim with the article's figure", hidden=True)
    def article_claim(self) -> str | None:
        return None if self.article_ms is None else CLAIMS[self.run.condition]

    @column("share of requests that wait for a delayed ACK, in the capture", unit="%")
    def stalled_pct(self) -> float | None:
        return self.captured.stalled_pct

    @column("whether requests stall, as predicted", hidden=True)
    def predicted_stalls(self) -> bool | None:
        return self.prediction.stalls if self.prediction else None

    @column(
        "segments with payload per response, without the first of each connection",
        predicted_by="predicted_segments",
    )
    def segments_per_answer(self) -> float | None:
        return self.captured.segments

    @column("predicted segments per response", hidden=True)
    def predicted_segments(self) -> float | None:
        return self.prediction.segments if self.prediction else None

    @column("ACKs without payload per response, without the first of each connection")
    def acks_per_answer(self) -> float | None:
        return self.captured.acks

    @column(
        "packets per response, with the request and all ACKs, without the first of each connection"
    )
    def packets_per_answer(self) -> float | None:
        return self.captured.packets

    @column("payload share of the bytes of these packets", unit="%", hidden=True)
    def payload_pct(self) -> float | None:
        return self.captured.payload_pct

    @column("requests, as the client counted them")
    def requests(self) -> int | None:
        return self.latency.requests

    @column("requests that failed", hidden=True)
    def failed(self) -> int | None:
        return self.latency.failed

    @column("requests in the capture", hidden=True)
    def captured_requests(self) -> int | None:
        return self.captured.requests

    @column("requests in nginx's log", hidden=True)
    def served_requests(self) -> int | None:
        name = "server/access.log"  # our own server has none
        return len(self.run.text(name).splitlines()) if name in self.run.seal.files else None

    @column("TCP_NODELAY at the server", hidden=True)
    def nodelay(self) -> bool | None:
        return self.settings.nodelay

    @column("connections are kept open", hidden=True)
    def keepalive(self) -> bool | None:
        return self.settings.keepalive

    @column("what makes the client acknowledge at once", hidden=True)
    def quickack(self) -> str | None:
        return self.settings.quickack

    @column("the server program", hidden=True)
    def server(self) -> str | None:
        return self.settings.server

    @column("how a response is written", hidden=True)
    def writes(self) -> str | None:
        return self.settings.writes

    @column("the body of a response", unit="bytes", hidden=True)
    def page_bytes(self) -> int | None:
        return self.settings.page_bytes

    def notes(self) -> Iterator[Note]:
        """A link off its target, failed requests, instruments that disagree."""
        if not self.run.link.ok:
            yield Note("link", "link not as asked")
        if self.latency.failed:
            yield Note("failed", f"{self.latency.failed} requests failed")
        counts = {
            "the client": self.latency.requests,
            "the capture": self.captured.requests,
            "nginx": self.served_requests,
        }
        counted = {name: count for name, count in counts.items() if count is not None}
        if len(set(counted.values())) > 1:
            text = ", ".join(f"{name} {count}" for name, count in counted.items())
            yield Note("instruments", f"instruments disagree on the requests: {text}")
        if lost := capture_losses(self.run):
            yield Note("capture_lost", f"tcpdump lost {lost} packets")
        if self.run.testbed == "virtual" and self.latency.mean_ms < SMALLEST_MS:
            text = "times below 1 ms are not meaningful in virtual time"
            yield Note(BELOW_1_MS, text, excludes=True)


def goodput_mbit(run: Run) -> float:
    """The goodput of the body of a run with one request, from the request to the last byte."""
    return 8e-3 * run.settings_as(Settings).page_bytes / latency(run).mean_ms


def hz_of(run: Run) -> int:
    """The ticks per second of the kernel that delays ACKs, which is the client's."""
    counted = machines(run).get("client", Machine()).hz
    return run.kernel.hz or counted or USUAL_HZ


def expected(run: Run) -> Answer | None:
    """The theory's prediction for the responses of a run; None for what it does not cover: loss,
    jitter, ACKs that are dropped, pauses between writes, and several round trips per response."""
    settings, asked = run.settings_as(Settings), run.link.asked
    if asked.loss_pct or asked.jitter_ms or settings.drop_acks_ms or settings.write_every_ms:
        return None
    rtt_ms, by_ab = run.link.measured.rtt_ms, settings.client == AB
    predicted = answer(
        settings.written_bytes,
        MSS_BYTES,
        hz=hz_of(run),
        rtt_ms=rtt_ms,
        requests=settings.on_a_connection,
        nodelay=settings.nodelay,
        joined=settings.joined,
        quick=settings.always_quick,
        closes=not settings.keepalive,
        handshake=by_ab,
    )
    if predicted is None or not by_ab or settings.concurrency == 1:
        return predicted
    alone_ms = header_ms(settings, rtt_ms) * settings.concurrency / settings.requests
    return replace(predicted, mean_ms=predicted.mean_ms + alone_ms)


def header_ms(settings: Settings, rtt_ms: float) -> float:
    """How long ab has only one connection: it opens the others when it has the whole header of the
    first response (read_response() in ab.c of httpd 2.4).

    That takes the handshake and one round trip, or two if the header exceeds what is sent at once.
    """
    first = sent(
        settings.written_bytes, MSS_BYTES, nodelay=settings.nodelay, joined=settings.joined
    )
    return rtt_ms * (2 if sum(first.at_once) >= settings.header_bytes else 3)


def median_ms(run: Run) -> float | None:
    """The predicted median: the time of a first request if all requests are, else of the others."""
    predicted = expected(run)
    if predicted is None:
        return None
    alone = run.settings_as(Settings).on_a_connection == 1
    return predicted.first_ms if alone else predicted.steady_ms
