"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from labs.drive.result_columns import Note, column
from labs.drive.units import MIB
from labs.experiments.buffers.prediction import (
    cannot_say,
    expected,
    expected_interval,
    expected_mean_bytes_s,
)
from labs.experiments.buffers.settings import Settings
from labs.experiments.buffers.socket_buffers import (
    adv_win_scale,
    congestion_control,
    parameter,
    receive_buffer,
    send_buffer,
    settings_of,
)
from labs.read.claims.ledger import Article, figures_by_column, read
from labs.read.later import LazyResults, later
from labs.read.readings.goodput import download
from labs.read.readings.instruments import (
    ALLOWED_PCT,
    apart_pct,
    capture_losses,
    goodputs,
    shaper_drops,
    under_memory_pressure,
)
from labs.read.runs.run import KEPT_RUNS, Run

SETTLED_PCT = 5.0
SYSCTL, SETSOCKOPT = "sysctl", "setsockopt"
NO_RATE, NOT_SETTLED = "no_rate", "not_settled"


@dataclass(frozen=True, kw_only=True)
class Results(LazyResults):
    """The figures of one run; None where it has none, as for a run without a download."""

    goodput_mib_s: float | None = column(
        "mean over the whole file; none if nothing limits it in virtual time",
        unit="MiB/s",
        predicted_by="predicted_mean_mib_s",
        headline=True,
    )
    steady_mib_s: float | None = column(
        "mean over the last third of the time; none if the timeline is too coarse",
        unit="MiB/s",
        predicted_by="predicted_mib_s",
        steady=True,
    )
    predicted_mean_mib_s: float | None = column("predicted mean, with slow start", unit="MiB/s")
    predicted_mib_s: float | None = column("predicted steady goodput", unit="MiB/s")
    predicted_low_mib_s: float | None = column(
        "lowest prediction of the steady goodput, where single packets or chance decide; of random "
        "losses, that of 95 % of the draws",
        unit="MiB/s",
    )
    predicted_high_mib_s: float | None = column(
        "highest prediction of the steady goodput, likewise", unit="MiB/s"
    )
    predicted_mean_low_mib_s: float | None = column(
        "lowest prediction of the mean, likewise", unit="MiB/s"
    )
    predicted_mean_high_mib_s: float | None = column(
        "highest prediction of the mean, likewise", unit="MiB/s"
    )
    bound: str | None = column("what limits the steady goodput in theory")
    cannot_say: str | None = column("why there is no prediction", hidden=True)
    article_mib_s: float | None = column("the article's mean, on its own link", unit="MiB/s")
    article_steady_mib_s: float | None = column(
        "the article's figure near the end", unit="MiB/s", hidden=True
    )
    article_claim: str | None = column("the claim with the article's figures", hidden=True)
    wget_mib_s: float | None = column("the rate that wget printed", unit="MiB/s", hidden=True)
    settled: bool | None = column("the last third is within 5 % of the one before")
    agreement_pct: float | None = column(
        "largest deviation of counters and capture from the client", unit="%", hidden=True
    )
    duration_s: float | None = column("from the request to the last byte", unit="s", hidden=True)
    bytes: int | None = column("the body of the file", unit="bytes", hidden=True)
    goodput_bytes_s: float | None = column("as goodput_mib_s", unit="bytes/s", hidden=True)
    steady_bytes_s: float | None = column("as steady_mib_s", unit="bytes/s", hidden=True)
    buffer_bytes: int | None = column(
        "the receiver's buffer if its size is fixed", unit="bytes", hidden=True
    )
    receive_most_bytes: int | None = column(
        "the largest size of the receive buffer", unit="bytes", hidden=True
    )
    send_most_bytes: int | None = column(
        "the largest size of the send buffer", unit="bytes", hidden=True
    )
    series: str | None = column("what fixed the receiver's buffer", hidden=True)
    adv_win_scale: int | None = column("tcp_adv_win_scale of the client", hidden=True)
    congestion_control: str | None = column("the server's congestion control", hidden=True)
    loss_pct: float | None = column("the loss that was requested", unit="%", hidden=True)
    lost_pct: float | None = column("the loss that netem counted", unit="%")
    draw: int | None = column("number of the draw: only the seed differs", hidden=True)
    httping_ms: float | None = column("httping's own mean", unit="ms", headline=True)
    ended: str | None = column("complete, or ended by the limit", hidden=True)
    notes: tuple[Note, ...] = field(default=())


@lru_cache(maxsize=KEPT_RUNS)
def results(run: Run) -> Results:
    """The figures of one run. Those of the last runs are cached."""
    timed, settings = run.httping(), settings_of(run)
    receives, sends = receive_buffer(run), send_buffer(run)
    found = _of_the_download(run) if settings.is_download else {}
    return Results(
        **found,
        buffer_bytes=receives.fixed_bytes,
        receive_most_bytes=receives.most_bytes,
        send_most_bytes=sends.most_bytes,
        series=None if receives.fixed_bytes is None else series_of(settings),
        adv_win_scale=adv_win_scale(run),
        congestion_control=congestion_control(run),
        loss_pct=run.link.asked.loss_pct,
        lost_pct=run.link.measured.loss_pct,
        draw=settings.draw,
        httping_ms=timed.mean_ms if timed else None,
        ended=run.ended,
        notes=tuple(notes(run, found.get("settled"), found.get("agreement_pct"))),
    )


def series_of(settings: Settings) -> str:
    """What fixes the receiver's buffer: SYSCTL or SETSOCKOPT."""
    return SYSCTL if settings.client_rcvbuf_bytes is None else SETSOCKOPT


@cache
def article() -> Article:
    """The claims of article 1."""
    return read(Path(__file__).with_name("article1.toml"))


def _of_the_download(run: Run) -> dict[str, Any]:
    seen = download(run)
    steady, before = seen.third_bytes_s(2), seen.third_bytes_s(1)
    claim, articles_own = figures_by_column(article(), run, parameter) or (None, {})
    speeds = {
        "goodput_mib_s": _in_mib(seen.goodput_bytes_s),
        "steady_mib_s": _in_mib(steady),
        "wget_mib_s": seen.own_mib_s,
        "goodput_bytes_s": seen.goodput_bytes_s,
        "steady_bytes_s": steady,
    }
    return {
        **(dict.fromkeys(speeds) if no_rate(run) else speeds),
        **_of_the_theory(run, seen.bytes),
        "article_mib_s": articles_own.get("goodput_mib_s"),
        "article_steady_mib_s": articles_own.get("steady_mib_s"),
        "article_claim": claim,
        "settled": None
        if steady is None or not before
        else (abs(steady / before - 1) <= SETTLED_PCT / 100),
        "agreement_pct": apart_pct(goodputs(run, seen)),
        "duration_s": seen.duration_s,
        "bytes": seen.bytes,
    }


def _of_the_theory(run: Run, received: int) -> dict[str, Any]:
    def end(figure: str, place: int) -> Any:
        return later(
            lambda: (wide := expected_interval(run)) and _in_mib(getattr(wide, figure)[place])
        )

    return {
        "predicted_mean_mib_s": later(lambda: _in_mib(expected_mean_bytes_s(run, received))),
        "predicted_mib_s": later(lambda: (theory := expected(run)) and theory.goodput_mib_s),
        "predicted_low_mib_s": end("steady_bytes_s", 0),
        "predicted_high_mib_s": end("steady_bytes_s", 1),
        "predicted_mean_low_mib_s": end("goodput_bytes_s", 0),
        "predicted_mean_high_mib_s": end("goodput_bytes_s", 1),
        "bound": later(lambda: (theory := expected(run)) and theory.bound),
        "cannot_say": later(lambda: cannot_say(run)),
    }


def notes(run: Run, settled: bool | None, apart: float | None) -> Iterator[Note]:
    """What a reader of the figures must know; nothing for a regular run."""
    if not run.link.ok:
        yield Note("link", "link not as asked")
    if no_rate(run):
        yield Note(
            NO_RATE,
            "no meaningful rate: an unshaped link is unlimited in virtual time",
            excludes=True,
        )
    if settled is False:
        yield Note(NOT_SETTLED, "no steady state was reached")
    if run.ended == "limit":
        yield Note("limit", "ended by the time limit")
    if apart is not None and apart > ALLOWED_PCT:
        yield Note("instruments", f"instruments disagree by {apart:.1f} %")
    drops = 0 if run.link.asked.loss_pct else shaper_drops(run)
    if drops:
        packets = "1 packet" if drops == 1 else f"{drops} packets"
        yield Note("shaper_drops", f"the shaper's queue overflowed and dropped {packets}")
    lost = capture_losses(run)
    if lost:
        yield Note("capture_lost", f"the capture lost {lost} packets")
    if under_memory_pressure(run):
        yield Note("memory_pressure", "TCP came under memory pressure")


def no_rate(run: Run) -> bool:
    """Whether a download's speed is not meaningful: in virtual time computation takes almost no
    time, so only the link can limit it."""
    return (
        run.testbed == "virtual"
        and run.link.asked.rate_mbit is None
        and settings_of(run).is_download
    )


def _in_mib(bytes_s: float | None) -> float | None:
    return None if bytes_s is None else bytes_s / MIB
