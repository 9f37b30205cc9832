"""The theory's prediction for a run of the lab `nagle`: from its writes, link and kernel."""

from __future__ import annotations

from dataclasses import replace

from labs.drive.condition import read_settings
from labs.drive.testbed.link import MSS_BYTES
from labs.experiments.nagle.settings import AB, Settings
from labs.read.runs.run import Run
from labs.read.stats.machines import Machine, machines
from labs.read.theory.nagle import Answer, answer, sent

USUAL_HZ = 250
"""The value of most distributions, for a run whose value is neither known nor counted."""


def settings_of(run: Run) -> Settings:
    """The settings of a run's condition."""
    return read_settings(Settings, run.inputs["condition"]["settings"])


def hz_of(run: Run) -> int:
    """The ticks per second of the kernel that delays ACKs, which is the client's."""
    counted = machines(run).get("client", Machine()).hz
    return run.kernel.hz or counted or USUAL_HZ


def expected(run: Run) -> Answer | None:
    """The theory's prediction for the responses of a run; None for what it does not cover: loss,
    jitter, ACKs that are dropped, pauses between writes, and several round trips per response."""
    settings, asked = settings_of(run), run.link.asked
    if asked.loss_pct or asked.jitter_ms or settings.drop_acks_ms or settings.write_every_ms:
        return None
    rtt_ms, by_ab = run.link.measured.rtt_ms, settings.client == AB
    found = answer(
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
    if found is None or not by_ab or settings.concurrency == 1:
        return found
    alone_ms = header_ms(settings, rtt_ms) * settings.concurrency / settings.requests
    return replace(found, mean_ms=found.mean_ms + alone_ms)


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
    found = expected(run)
    if found is None:
        return None
    return found.first_ms if settings_of(run).on_a_connection == 1 else found.steady_ms
