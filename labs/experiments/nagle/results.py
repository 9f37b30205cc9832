"""The results of a run of the lab `nagle`: response times, stalls, and the predictions, which are
from its writes, link and kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

from labs.drive.result_columns import Note, column, part
from labs.experiments.nagle.settings import AB, Settings
from labs.guest.testbed.link import MSS_BYTES
from labs.read.claims.ledger import article_beside, figure_of_claim
from labs.read.display.requests import describe_following
from labs.read.flows.exchanges import ARTICLE_OFF, ARTICLE_ON
from labs.read.readings.latency import SMALLEST_MS, Latency, latency
from labs.read.readings.responses import (
    Answered,
    HeldSegment,
    answered,
    autocorked,
    following,
    held_segment,
    packets_of,
    requests_of,
    table_of,
    typical,
)
from labs.read.readings.run_results import RunResults, from_run, hidden, hidden_column, settings_as
from labs.read.stats.machines import Machine, machines
from labs.read.theory.nagle import Answer, Wait, answer, sent, wait

CLAIMS = {"off": "A3.1", "on": "A3.2"}
"""The claims with a mean time per request, by condition."""
BELOW_1_MS = "below_1_ms"
USUAL_HZ = 250
"""The value of most distributions, for a run whose value is neither known nor counted."""
article = partial(article_beside, __file__)


class Results(RunResults):
    """The figures of one run; None for those that it does not have."""

    settings = settings_as(Settings)

    @cached_property
    def latency(self) -> Latency:
        return latency(self.run)

    @cached_property
    def captured(self) -> Answered:
        return answered(table_of(self.run), self.exchanges)

    exchanges = from_run(requests_of)

    @cached_property
    def prediction(self) -> Answer | None:
        """The theory's prediction for the responses; None for what it does not cover: loss, jitter,
        ACKs that are dropped, pauses between writes, and several round trips per response."""
        settings, asked = self.settings, self.run.link.asked
        if asked.loss_pct or asked.jitter_ms or settings.drop_acks_ms or settings.write_every_ms:
            return None
        by_ab = settings.client == AB
        predicted = answer(
            settings.written_bytes,
            MSS_BYTES,
            hz=self.hz,
            rtt_ms=self.run.link.measured.rtt_ms,
            requests=settings.on_a_connection,
            nodelay=settings.nodelay,
            joined=settings.joined,
            quick=settings.always_quick,
            closes=not settings.keepalive,
            handshake=by_ab,
        )
        if predicted is None or not by_ab or settings.concurrency == 1:
            return predicted
        alone_ms = self.header_ms * settings.concurrency / settings.requests
        return replace(predicted, mean_ms=predicted.mean_ms + alone_ms)

    @property
    def header_ms(self) -> float:
        """How long ab has only one connection: it opens the others when it has the whole header of
        the first response (read_response() in ab.c of httpd 2.4).

        That takes the handshake and one round trip, or two if the header exceeds what is sent at
        once.
        """
        settings = self.settings
        first = sent(
            settings.written_bytes, MSS_BYTES, nodelay=settings.nodelay, joined=settings.joined
        )
        trips = 2 if sum(first.at_once) >= settings.header_bytes else 3
        return self.run.link.measured.rtt_ms * trips

    @property
    def is_below_limit(self) -> bool:
        """Whether virtual time does not measure the times of the run."""
        return self.run.is_virtual and self.latency.mean_ms < SMALLEST_MS

    @cached_property
    def delay(self) -> Wait:
        """How long the client delays an ACK, as predicted."""
        return wait(self.hz)

    @cached_property
    def held(self) -> HeldSegment | None:
        return held_segment(table_of(self.run))

    @cached_property
    def response_bytes(self) -> list[int]:
        """The payload of each segment of a typical response."""
        if self.exchanges.empty:
            return []
        segments = table_of(self.run)
        packets = segments.loc[packets_of(segments, typical(self.exchanges))]
        sizes: list[int] = packets[packets["direction"] == 1]["payload_bytes"].tolist()
        return sizes

    mean_ms = part(
        "latency.mean_ms",
        "mean time per request, at the client",
        unit="ms",
        predicted_by="predicted_mean_ms",
        headline=True,
    )
    p50_ms = part(
        "latency.p50_ms",
        "median time per request, at the client",
        unit="ms",
        predicted_by="predicted_p50_ms",
    )
    p99_ms = part(
        "latency.p99_ms", "99th percentile of the time per request, at the client", unit="ms"
    )
    predicted_mean_ms = part("prediction.mean_ms", "predicted mean", unit="ms")

    @column("predicted median", unit="ms")
    def predicted_p50_ms(self) -> float | None:
        """The time of a first request if all requests are, else of the others."""
        if self.prediction is None:
            return None
        alone = self.settings.on_a_connection == 1
        return self.prediction.first_ms if alone else self.prediction.steady_ms

    @column("the article's mean", unit="ms")
    def article_ms(self) -> float | None:
        claim = CLAIMS.get(self.run.condition)
        return (claim and figure_of_claim(article(), self.run, claim)) or None

    @hidden_column("the claim with the article's figure")
    def article_claim(self) -> str | None:
        return None if self.article_ms is None else CLAIMS[self.run.condition]

    stalled_pct = part(
        "captured.stalled_pct",
        "share of requests that wait for a delayed ACK, in the capture",
        unit="%",
    )
    predicted_stalls = hidden("prediction.stalls", "whether requests stall, as predicted")
    segments_per_answer = part(
        "captured.segments",
        "segments with payload per response, without the first of each connection",
        predicted_by="predicted_segments",
    )
    predicted_segments = hidden(
        "prediction.segments", "predicted segments per response", kind=float
    )
    acks_per_answer = part(
        "captured.acks", "ACKs without payload per response, without the first of each connection"
    )
    packets_per_answer = part(
        "captured.packets",
        "packets per response, with the request and all ACKs, without the first of each connection",
    )
    payload_pct = hidden(
        "captured.payload_pct", "payload share of the bytes of these packets", unit="%"
    )
    requests = part("latency.requests", "requests, as the client counted them")
    failed = hidden("latency.failed", "requests that failed")
    captured_requests = hidden("captured.requests", "requests in the capture")

    @hidden_column("requests in nginx's log")
    def served_requests(self) -> int | None:
        name = "server/access.log"  # our own server has none
        return len(self.run.text(name).splitlines()) if name in self.run.seal.files else None

    nodelay = hidden("settings.nodelay", "TCP_NODELAY at the server")
    keepalive = hidden("settings.keepalive", "connections are kept open")
    quickack = hidden("settings.quickack", "what makes the client acknowledge at once")
    server = hidden("settings.server", "the server program")
    writes = hidden("settings.writes", "how a response is written")
    page_bytes = hidden("settings.page_bytes", "the body of a response", unit="bytes")
    pieces = hidden("settings.pieces", "the writes of a response, if they are of equal size")
    requests_per_connection = hidden("settings.on_a_connection", "requests of a connection")

    @hidden_column("ticks per second of the client's kernel")
    def hz(self) -> int:
        counted = machines(self.run).get("client", Machine()).hz
        return self.run.kernel.hz or counted or USUAL_HZ

    delayed_least_ms = hidden(
        "delay.least_ms", "the shortest delay of an ACK, as predicted", unit="ms"
    )
    delayed_most_ms = hidden(
        "delay.most_ms", "the longest delay of an ACK, as predicted", unit="ms"
    )

    @hidden_column("mean_ms, or its limit where virtual time does not measure it")
    def mean_or_limit_ms(self) -> float | str:
        return f"below {SMALLEST_MS:g}" if self.is_below_limit else self.latency.mean_ms

    @hidden_column("predicted share of requests that wait for a delayed ACK", unit="%")
    def predicted_stalled_pct(self) -> float | None:
        stalls = self.prediction is not None and self.prediction.stalls
        return 100 * (1 - 1 / self.settings.on_a_connection) if stalls else 0.0

    first_stalled_pct = hidden(
        "captured.first_stalled_pct", "stalled_pct of the first requests of a connection", unit="%"
    )
    closing_pct = hidden(
        "captured.closing_pct",
        "share of responses whose last segment closes the connection",
        unit="%",
    )
    autocorked = hidden(autocorked, "writes that the kernel joined with the next (TCPAutoCorking)")

    @hidden_column("goodput of a response's body", unit="Mbit/s")
    def body_mbit(self) -> float:
        return 8e-3 * self.settings.page_bytes / self.latency.mean_ms

    held_ms = hidden("held.held_ms", "until the held segment is sent", unit="ms")
    held_acknowledged = hidden("held.acknowledged", "an ACK arrived before the held segment")
    held_retransmissions = hidden("held.retransmissions", "retransmissions before the held segment")
    first_segment_bytes = hidden(
        "response_bytes.0", "payload of a response's first segment", unit="bytes"
    )

    @hidden_column("payload of its other segments", unit="bytes")
    def other_segments_bytes(self) -> int | None:
        return sum(self.response_bytes[1:]) if self.response_bytes else None

    @hidden_column("requests with the article's steps for off", unit="%")
    def steps_off_pct(self) -> float | None:
        return self._following_pct(ARTICLE_OFF)

    @hidden_column("requests with the article's steps for on", unit="%")
    def steps_on_pct(self) -> float | None:
        return self._following_pct(ARTICLE_ON)

    @hidden_column("predicted: all but the first per connection", unit="%")
    def predicted_steps_pct(self) -> float | None:
        first = self.exchanges["request"] == 0
        return None if first.empty else 100 * (1 - float(first.mean()))

    @hidden_column("the same in words, with the steps of the others")
    def steps_off(self) -> str | None:
        return describe_following(self.exchanges, ARTICLE_OFF)

    @hidden_column("the same in words, with the steps of the others")
    def steps_on(self) -> str | None:
        return describe_following(self.exchanges, ARTICLE_ON)

    @hidden_column("median silence within the steps for off", unit="ms")
    def silence_ms(self) -> float | None:
        steps = following(self.exchanges, ARTICLE_OFF).steps
        silences = self.exchanges[self.exchanges["steps"] == steps]["gap_ms"]
        return None if silences.empty else float(silences.median())

    def _following_pct(self, steps: tuple[str, ...]) -> float | None:
        return None if self.exchanges.empty else 100 * following(self.exchanges, steps).share

    def lab_notes(self) -> Iterator[Note]:
        """Failed requests, instruments that disagree, and times without a meaning."""
        if self.latency.failed:
            yield Note("failed", f"{self.latency.failed} requests failed")
        counts = {
            "the client": self.requests,
            "the capture": self.captured_requests,
            "nginx": self.served_requests,
        }
        counted = {name: count for name, count in counts.items() if count is not None}
        if len(set(counted.values())) > 1:
            text = ", ".join(f"{name} {count}" for name, count in counted.items())
            yield Note("instruments", f"instruments disagree on the requests: {text}")
        if self.is_below_limit:
            text = "times below 1 ms are not meaningful in virtual time"
            yield Note(BELOW_1_MS, text, excludes=True)
