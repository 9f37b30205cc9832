"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

from pandas import DataFrame

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
from labs.experiments.buffers.samples import (
    AVOIDANCE,
    RECOVERY,
    SLOW_START,
    Grants,
    Growth,
    Sizes,
    grants_of,
    growth,
    lost_s,
    sizes,
)
from labs.experiments.buffers.settings import BLOCKS, Settings
from labs.read.claims.ledger import article_beside, figures_by_column
from labs.read.readings.bulk_transfer import (
    ADV_WIN_SCALE,
    RECEIVER,
    SETSOCKOPT,
    SYSCTL,
    WMEM,
    Buffer,
    BulkTransfer,
    Window,
    bdp_bytes,
    in_mib,
    window,
)
from labs.read.readings.goodput import Download, download, sampled_socket
from labs.read.readings.instruments import (
    ALLOWED_PCT,
    apart_pct,
    goodputs,
    shaper_drops,
    under_memory_pressure,
)
from labs.read.readings.latency import latency
from labs.read.runs.run import Run
from labs.read.theory.bulk_interval import Interval
from labs.read.theory.windows import receive_window_bytes

SETTLED_PCT = 5.0
LOOKS = (448_880, 48_189_440, 104_552_840)
"""The bytes received until each of the article's three samples (A1.12)."""
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

    @cached_property
    def window(self) -> Window | None:
        return window(self.run) if self.download else None

    @cached_property
    def receive_sizes(self) -> Sizes | None:
        return sizes(self.run, "client") if self.download else None

    @cached_property
    def send_sizes(self) -> Sizes | None:
        return sizes(self.run, "server") if self.download else None

    @cached_property
    def grants(self) -> Grants:
        return grants_of(self.run)

    @column("the bandwidth-delay product of the link", unit="bytes", hidden=True)
    def bdp_bytes(self) -> float | None:
        return bdp_bytes(self.run)

    @column("the delay that was requested", unit="ms", hidden=True)
    def asked_delay_ms(self) -> float | None:
        return self.run.link.asked.delay_ms

    @column("httping's shortest time", unit="ms", hidden=True)
    def httping_min_ms(self) -> float | None:
        timed = self.run.httping()
        return timed.min_ms if timed else None

    @column("httping's longest time", unit="ms", hidden=True)
    def httping_max_ms(self) -> float | None:
        timed = self.run.httping()
        return timed.max_ms if timed else None

    @column("median time from one request to the next", unit="ms", hidden=True)
    def cycle_ms(self) -> float | None:
        return latency(self.run).p50_ms if self.settings.steps == BLOCKS else None

    @column("largest window that the receiver offered", unit="bytes", hidden=True, costly=True)
    def offered_bytes(self) -> int | None:
        return self.window.offered_bytes if self.window else None

    @column("largest memory of the receive buffer in use", unit="bytes", hidden=True, costly=True)
    def unread_bytes(self) -> float | None:
        if self.download is None:
            return None
        rows = sampled_socket(self.run, "client", "bytes_received")
        return float(rows["rmem_alloc_bytes"].max()) if "rmem_alloc_bytes" in rows else None

    @column("packets that the shaper's queue dropped", hidden=True)
    def shaper_drops(self) -> int | None:
        return shaper_drops(self.run)

    @column("TCP came under memory pressure", hidden=True)
    def under_pressure(self) -> bool | None:
        return under_memory_pressure(self.run)

    @column("net.ipv4.tcp_mem of the server, in pages", hidden=True)
    def tcp_mem(self) -> str | None:
        return self.run.sysctls["server"]["after"].get("net.ipv4.tcp_mem")

    @column("receive buffer at the first sample", unit="bytes", hidden=True, costly=True)
    def receive_first_bytes(self) -> int | None:
        return self.receive_sizes.first if self.receive_sizes else None

    @column("receive buffer at the last sample", unit="bytes", hidden=True, costly=True)
    def receive_last_bytes(self) -> int | None:
        return self.receive_sizes.last if self.receive_sizes else None

    @column("smallest receive buffer sampled", unit="bytes", hidden=True, costly=True)
    def receive_smallest_bytes(self) -> int | None:
        return self.receive_sizes.smallest if self.receive_sizes else None

    @column("largest receive buffer sampled", unit="bytes", hidden=True, costly=True)
    def receive_largest_bytes(self) -> int | None:
        return self.receive_sizes.largest if self.receive_sizes else None

    @column("send buffer at the first sample", unit="bytes", hidden=True, costly=True)
    def send_first_bytes(self) -> int | None:
        return self.send_sizes.first if self.send_sizes else None

    @column("send buffer at the last sample", unit="bytes", hidden=True, costly=True)
    def send_last_bytes(self) -> int | None:
        return self.send_sizes.last if self.send_sizes else None

    @column("smallest send buffer sampled", unit="bytes", hidden=True, costly=True)
    def send_smallest_bytes(self) -> int | None:
        return self.send_sizes.smallest if self.send_sizes else None

    @column("largest send buffer sampled", unit="bytes", hidden=True, costly=True)
    def send_largest_bytes(self) -> int | None:
        return self.send_sizes.largest if self.send_sizes else None

    @column("rcv_ssthresh at the last sample", unit="bytes", hidden=True, costly=True)
    def window_last_bytes(self) -> int | None:
        return self.receive_sizes.window if self.receive_sizes else None

    @column("what setsockopt grants of a size up to the maximum, farthest from 2", hidden=True)
    def granted_times(self) -> float | None:
        return self.grants.times

    @column("sizes up to the maximum and above the minimum that were requested", hidden=True)
    def granted_count(self) -> int | None:
        return self.grants.count

    @column("smallest receive buffer granted", unit="bytes", hidden=True)
    def smallest_receive_bytes(self) -> int | None:
        return self.grants.smallest.get("receive")

    @column("smallest send buffer granted", unit="bytes", hidden=True)
    def smallest_send_bytes(self) -> int | None:
        return self.grants.smallest.get("send")

    @column("what setsockopt grants above the maximum, in its units", hidden=True)
    def capped_times(self) -> float | None:
        return self.grants.capped_times

    @column("smallest core maximum of the requested buffers", unit="bytes", hidden=True)
    def core_max_bytes(self) -> int | None:
        return self.grants.cap_bytes

    @column("largest size requested", unit="bytes", hidden=True)
    def largest_request_bytes(self) -> int | None:
        return self.grants.largest_request_bytes

    @column("what is granted of it", unit="bytes", hidden=True)
    def largest_grant_bytes(self) -> int | None:
        return self.grants.largest_grant_bytes

    @cached_property
    def growth(self) -> Growth:
        return growth(self.run) if self.download else Growth(DataFrame())

    @cached_property
    def lost(self) -> Mapping[str, float]:
        return lost_s(self.run) if self.download else {}

    @column("rcv_space at the article's first sample", unit="bytes", hidden=True, costly=True)
    def space_1_bytes(self) -> float | None:
        return self.growth.at("rcv_space_bytes", LOOKS[0])

    @column("rcv_ssthresh at the article's first sample", unit="bytes", hidden=True, costly=True)
    def ssthresh_1_bytes(self) -> float | None:
        return self.growth.at("rcv_ssthresh_bytes", LOOKS[0])

    @column("rcv_space at the article's second sample", unit="bytes", hidden=True, costly=True)
    def space_2_bytes(self) -> float | None:
        return self.growth.at("rcv_space_bytes", LOOKS[1])

    @column("rcv_ssthresh at the article's second sample", unit="bytes", hidden=True, costly=True)
    def ssthresh_2_bytes(self) -> float | None:
        return self.growth.at("rcv_ssthresh_bytes", LOOKS[1])

    @column("rcv_space at the article's third sample", unit="bytes", hidden=True, costly=True)
    def space_3_bytes(self) -> float | None:
        return self.growth.at("rcv_space_bytes", LOOKS[2])

    @column("rcv_ssthresh at the article's third sample", unit="bytes", hidden=True, costly=True)
    def ssthresh_3_bytes(self) -> float | None:
        return self.growth.at("rcv_ssthresh_bytes", LOOKS[2])

    @column("time lost against a full link", unit="s", hidden=True, costly=True)
    def lost_s(self) -> float | None:
        return sum(self.lost.values()) if self.lost else None

    @column("the same, in slow start", unit="s", hidden=True, costly=True)
    def lost_slow_start_s(self) -> float | None:
        return self.lost.get(SLOW_START)

    @column("the same, in fast recovery", unit="s", hidden=True, costly=True)
    def lost_recovery_s(self) -> float | None:
        return self.lost.get(RECOVERY)

    @column(
        "time lost against a full link, in congestion avoidance", unit="s", hidden=True, costly=True
    )
    def lost_avoidance_s(self) -> float | None:
        return self.lost.get(AVOIDANCE)

    @column("last rcv_ssthresh, of the receive buffer", hidden=True, costly=True)
    def window_share(self) -> float | None:
        buffer, window = self.growth.buffer_bytes, self.growth.last_bytes
        return window / buffer if buffer and window is not None else None

    @column("predicted share of the receive buffer", hidden=True, costly=True)
    def predicted_window_share(self) -> float | None:
        buffer, kernel = self.growth.buffer_bytes, self.run.kernel.release
        scale = 1 if self.adv_win_scale is None else self.adv_win_scale
        if not buffer:
            return None
        return receive_window_bytes(buffer, kernel, adv_win_scale=scale) / buffer

    @column("largest rcv_ssthresh", unit="bytes", hidden=True, costly=True)
    def ssthresh_most_bytes(self) -> float | None:
        return self.growth.most_bytes

    @column(
        "predicted rcv_ssthresh of the last receive buffer", unit="bytes", hidden=True, costly=True
    )
    def predicted_ssthresh_bytes(self) -> float | None:
        buffer = self.growth.buffer_bytes
        return buffer and float(receive_window_bytes(buffer, self.run.kernel.release))

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
