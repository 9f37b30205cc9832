"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

from labs.drive.result_columns import Note, column
from labs.drive.units import MIB
from labs.experiments.buffers.prediction import (
    Prediction,
    cannot_say,
    congestion_control,
    expected,
    expected_interval,
    expected_mean_bytes_s,
    receive_buffer,
    send_buffer,
)
from labs.experiments.buffers.settings import Settings
from labs.read.claims.ledger import article_beside, figures_by_column
from labs.read.readings.bulk_transfer import (
    ADV_WIN_SCALE,
    RECEIVER,
    SETSOCKOPT,
    SYSCTL,
    WMEM,
    Buffer,
    BulkTransfer,
    in_mib,
)
from labs.read.readings.goodput import Download, download
from labs.read.readings.instruments import ALLOWED_PCT, apart_pct, goodputs
from labs.read.runs.run import Run
from labs.read.theory.bulk_interval import Interval

SETTLED_PCT = 5.0
NO_RATE, NOT_SETTLED = "no_rate", "not_settled"
article = partial(article_beside, __file__)


class Results(BulkTransfer):
    """The figures of one run; None where it has none, as for a run without a download."""

    @cached_property
    def settings(self) -> Settings:
        return self.run.settings_as(Settings)

    @cached_property
    def download(self) -> Download | None:
        return download(self.run) if self.settings.is_download else None

    @property
    def received(self) -> Download | None:
        return None if no_rate(self.run) else self.download

    @property
    def prediction(self) -> Prediction | None:
        return expected(self.run) if self.download else None

    @property
    def no_prediction(self) -> str | None:
        return cannot_say(self.run) if self.download else None

    @cached_property
    def interval(self) -> Interval | None:
        return expected_interval(self.run) if self.download else None

    @cached_property
    def receives(self) -> Buffer:
        return receive_buffer(self.run)

    @cached_property
    def published(self) -> tuple[str | None, Mapping[str, float]]:
        """The claim that has figures for this run, and these figures."""
        figures = figures_by_column(article(), self.run, parameter) if self.download else None
        return figures or (None, {})

    @column(
        "mean over the whole file; none if nothing limits it in virtual time",
        unit="MiB/s",
        predicted_by="predicted_mean_mib_s",
        headline=True,
    )
    def goodput_mib_s(self) -> float | None:
        return in_mib(self.goodput_bytes_s)

    @column("predicted mean, with slow start", unit="MiB/s", costly=True)
    def predicted_mean_mib_s(self) -> float | None:
        if self.download is None:
            return None
        return in_mib(expected_mean_bytes_s(self.run, self.download.bytes))

    @column("lowest prediction of the mean, likewise", unit="MiB/s", costly=True)
    def predicted_mean_low_mib_s(self) -> float | None:
        return in_mib(self.interval.goodput_bytes_s[0]) if self.interval else None

    @column("highest prediction of the mean, likewise", unit="MiB/s", costly=True)
    def predicted_mean_high_mib_s(self) -> float | None:
        return in_mib(self.interval.goodput_bytes_s[1]) if self.interval else None

    @column("the article's mean, on its own link", unit="MiB/s")
    def article_mib_s(self) -> float | None:
        return self.published[1].get("goodput_mib_s")

    @column("the article's figure near the end", unit="MiB/s", hidden=True)
    def article_steady_mib_s(self) -> float | None:
        return self.published[1].get("steady_mib_s")

    @column("the claim with the article's figures", hidden=True)
    def article_claim(self) -> str | None:
        return self.published[0]

    @column("the rate that wget printed", unit="MiB/s", hidden=True)
    def wget_mib_s(self) -> float | None:
        return self.received.own_mib_s if self.received else None

    @column("the last third is within 5 % of the one before")
    def settled(self) -> bool | None:
        if self.download is None:
            return None
        before, last = self.download.third_bytes_s(1), self.download.third_bytes_s(2)
        return abs(last / before - 1) <= SETTLED_PCT / 100 if last is not None and before else None

    @column("largest deviation of counters and capture from the client", unit="%", hidden=True)
    def agreement_pct(self) -> float | None:
        return apart_pct(goodputs(self.run, self.download)) if self.download else None

    @column("from the request to the last byte", unit="s", hidden=True)
    def duration_s(self) -> float | None:
        return self.download.duration_s if self.download else None

    @column("the body of the file", unit="bytes", hidden=True)
    def bytes(self) -> int | None:
        return self.download.bytes if self.download else None

    @column("the receiver's buffer if its size is fixed", unit="bytes", hidden=True)
    def buffer_bytes(self) -> int | None:
        return self.receives.fixed_bytes

    @column("the largest size of the receive buffer", unit="bytes", hidden=True)
    def receive_most_bytes(self) -> int | None:
        return self.receives.most_bytes

    @column("the largest size of the send buffer", unit="bytes", hidden=True)
    def send_most_bytes(self) -> int | None:
        return send_buffer(self.run).most_bytes

    @column("what fixed the receiver's buffer", hidden=True)
    def series(self) -> str | None:
        return None if self.buffer_bytes is None else series_of(self.settings)

    @column("tcp_adv_win_scale of the client", hidden=True)
    def adv_win_scale(self) -> int | None:
        return adv_win_scale(self.run)

    @column("the server's congestion control", hidden=True)
    def congestion_control(self) -> str | None:
        return congestion_control(self.run)

    @column("the loss that was requested", unit="%", hidden=True)
    def loss_pct(self) -> float | None:
        return self.run.link.asked.loss_pct

    @column("the loss that netem counted", unit="%")
    def lost_pct(self) -> float | None:
        return self.run.link.measured.loss_pct

    @column("number of the draw: only the seed differs", hidden=True)
    def draw(self) -> int | None:
        return self.settings.draw

    @column("httping's own mean", unit="ms", headline=True)
    def httping_ms(self) -> float | None:
        timed = self.run.httping()
        return timed.mean_ms if timed else None

    @column("complete, or ended by the limit", hidden=True)
    def ended(self) -> str | None:
        return self.run.ended

    def lab_notes(self) -> Iterator[Note]:
        if no_rate(self.run):
            text = "no meaningful rate: an unshaped link is unlimited in virtual time"
            yield Note(NO_RATE, text, excludes=True)
        if self.settled is False:
            yield Note(NOT_SETTLED, "no steady state was reached")

    def instrument_notes(self) -> Iterator[Note]:
        if self.agreement_pct is not None and self.agreement_pct > ALLOWED_PCT:
            yield Note("instruments", f"instruments disagree by {self.agreement_pct:.1f} %")
        yield from super().instrument_notes()


def series_of(settings: Settings) -> str:
    """What fixes the receiver's buffer: SYSCTL or SETSOCKOPT."""
    return SYSCTL if settings.client_rcvbuf_bytes is None else SETSOCKOPT


def no_rate(run: Run) -> bool:
    """Whether a download's speed is not meaningful: in virtual time computation takes almost no
    time, so only the link can limit it."""
    return (
        run.testbed == "virtual"
        and run.link.asked.rate_mbit is None
        and run.settings_as(Settings).is_download
    )


def adv_win_scale(run: Run) -> int | None:
    """What tcp_adv_win_scale was on the client; kernels from 6.6 on keep it and ignore it."""
    value = run.sysctls[RECEIVER]["after"].get(ADV_WIN_SCALE)
    return None if value is None else int(value)


def parameter(run: Run, name: str) -> float | None:
    """The size of the file or of the raised buffer, in MiB; None for what the run does not say."""
    if name == "transfer_mib":
        return run.settings_as(Settings).transfer_bytes / MIB
    if name == "buffer_mib":
        raised = run.inputs["condition"]["sysctls"].get("server", {}).get(WMEM)
        return None if raised is None else int(raised.split()[-1]) / MIB
    return None
