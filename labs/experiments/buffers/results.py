"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partial

from pandas import DataFrame

from labs.drive.result_columns import Note, column, part
from labs.drive.testbed.link import Link
from labs.drive.units import MIB
from labs.experiments.buffers.settings import BLOCKS, Settings
from labs.read.claims.ledger import article_beside, figures_by_column
from labs.read.parse.http_clients import Httping
from labs.read.readings import bulk_transfer
from labs.read.readings.bulk_transfer import (
    ADV_WIN_SCALE,
    AUTOMATIC,
    RECEIVER,
    RMEM,
    RMEM_MAX,
    SENDER,
    SETSOCKOPT,
    SYSCTL,
    WMEM,
    WMEM_MAX,
    Buffer,
    BulkTransfer,
    Window,
    bdp_bytes,
    in_mib,
    predicted_rate,
    sysctl_sizes,
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
from labs.read.readings.sampled_buffers import (
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
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.bulk_interval import Interval, decided, shown
from labs.read.theory.download import Prediction, of_client, predicted
from labs.read.theory.windows import granted_bytes, receive_window_bytes

TCP_MEM = "net.ipv4.tcp_mem"
NETEM_PACKETS = 1000
"""The queue of netem by default, as tc sets it."""
SETTLED_PCT = 5.0
LOOKS = (448_880, 48_189_440, 104_552_840)
"""The bytes received until each of the article's three samples (A1.12)."""
NO_RATE, NOT_SETTLED = "no_rate", "not_settled"
article = partial(article_beside, __file__)
hidden = partial(part, hidden=True)
costly = partial(part, hidden=True, costly=True)
size, sampled = partial(hidden, unit="bytes"), partial(costly, unit="bytes")


def congestion_control(run: Run) -> str | None:
    """The server's congestion control."""
    return run.sysctls[SENDER]["after"].get("net.ipv4.tcp_congestion_control")


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
    def sends(self) -> Buffer:
        return send_buffer(self.run)

    @cached_property
    def httping(self) -> Httping | None:
        return self.run.httping()

    @cached_property
    def published(self) -> tuple[str | None, Mapping[str, float]]:
        """The claim that has figures for this run, and these figures."""
        figures = figures_by_column(article(), self.run, parameter) if self.download else None
        return figures or (None, {})

    goodput_mib_s = part(
        "goodput_bytes_s",
        "mean over the whole file; none if nothing limits it in virtual time",
        unit="MiB/s",
        predicted_by="predicted_mean_mib_s",
        headline=True,
        per=MIB,
    )

    @column("predicted mean, with slow start", unit="MiB/s", costly=True)
    def predicted_mean_mib_s(self) -> float | None:
        if self.download is None:
            return None
        return in_mib(expected_mean_bytes_s(self.run, self.download.bytes))

    predicted_mean_low_mib_s = predicted_rate(
        "interval.goodput_bytes_s.0", "lowest prediction of the mean, likewise"
    )
    predicted_mean_high_mib_s = predicted_rate(
        "interval.goodput_bytes_s.1", "highest prediction of the mean, likewise"
    )
    article_mib_s = part(
        "published.1.goodput_mib_s", "the article's mean, on its own link", unit="MiB/s"
    )
    article_steady_mib_s = hidden(
        "published.1.steady_mib_s", "the article's figure near the end", unit="MiB/s"
    )
    article_claim = hidden("published.0", "the claim with the article's figures")
    wget_mib_s = hidden("received.own_mib_s", "the rate that wget printed", unit="MiB/s")

    @column("the last third is within 5 % of the one before")
    def settled(self) -> bool | None:
        if self.download is None:
            return None
        before, last = self.download.third_bytes_s(1), self.download.third_bytes_s(2)
        return abs(last / before - 1) <= SETTLED_PCT / 100 if last is not None and before else None

    @column("largest deviation of counters and capture from the client", unit="%", hidden=True)
    def agreement_pct(self) -> float | None:
        return apart_pct(goodputs(self.run, self.download)) if self.download else None

    duration_s = hidden("download.duration_s", "from the request to the last byte", unit="s")
    bytes = size("download.bytes", "the body of the file")
    buffer_bytes = size("receives.fixed_bytes", "the receiver's buffer if its size is fixed")
    receive_most_bytes = size("receives.most_bytes", "the largest size of the receive buffer")
    send_most_bytes = size("sends.most_bytes", "the largest size of the send buffer")

    @column("what fixed the receiver's buffer", hidden=True)
    def series(self) -> str | None:
        return None if self.buffer_bytes is None else series_of(self.settings)

    @column("tcp_adv_win_scale of the client", hidden=True)
    def adv_win_scale(self) -> int | None:
        """Kernels from 6.6 on keep it and ignore it."""
        value = self.run.sysctls[RECEIVER]["after"].get(ADV_WIN_SCALE)
        return None if value is None else int(value)

    congestion_control = hidden(congestion_control, "the server's congestion control")
    loss_pct = hidden("run.link.asked.loss_pct", "the loss that was requested", unit="%")
    lost_pct = part("run.link.measured.loss_pct", "the loss that netem counted", unit="%")
    draw = hidden("settings.draw", "number of the draw: only the seed differs")
    httping_ms = part("httping.mean_ms", "httping's own mean", unit="ms", headline=True)
    ended = hidden("run.ended", "complete, or ended by the limit")

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

    bdp_bytes = size(bdp_bytes, "the bandwidth-delay product of the link")
    asked_delay_ms = hidden("run.link.asked.delay_ms", "the delay that was requested", unit="ms")
    httping_min_ms = hidden("httping.min_ms", "httping's shortest time", unit="ms")
    httping_max_ms = hidden("httping.max_ms", "httping's longest time", unit="ms")

    @column("median time from one request to the next", unit="ms", hidden=True)
    def cycle_ms(self) -> float | None:
        return latency(self.run).p50_ms if self.settings.steps == BLOCKS else None

    offered_bytes = sampled("window.offered_bytes", "largest window that the receiver offered")

    @column("largest memory of the receive buffer in use", unit="bytes", hidden=True, costly=True)
    def unread_bytes(self) -> float | None:
        if self.download is None:
            return None
        rows = sampled_socket(self.run, "client", "bytes_received")
        return float(rows["rmem_alloc_bytes"].max()) if "rmem_alloc_bytes" in rows else None

    shaper_drops = hidden(shaper_drops, "packets that the shaper's queue dropped")
    under_pressure = hidden(under_memory_pressure, "TCP came under memory pressure")

    @column("net.ipv4.tcp_mem of the server, in pages", hidden=True)
    def tcp_mem(self) -> str | None:
        return self.run.sysctls["server"]["after"].get(TCP_MEM)

    receive_first_bytes = sampled("receive_sizes.first", "receive buffer at the first sample")
    receive_last_bytes = sampled("receive_sizes.last", "receive buffer at the last sample")
    receive_smallest_bytes = sampled("receive_sizes.smallest", "smallest receive buffer sampled")
    receive_largest_bytes = sampled("receive_sizes.largest", "largest receive buffer sampled")
    send_first_bytes = sampled("send_sizes.first", "send buffer at the first sample")
    send_last_bytes = sampled("send_sizes.last", "send buffer at the last sample")
    send_smallest_bytes = sampled("send_sizes.smallest", "smallest send buffer sampled")
    send_largest_bytes = sampled("send_sizes.largest", "largest send buffer sampled")
    window_last_bytes = sampled("receive_sizes.window", "rcv_ssthresh at the last sample")
    granted_times = hidden(
        "grants.times", "what setsockopt grants of a size up to the maximum, farthest from 2"
    )
    granted_count = hidden(
        "grants.count", "sizes up to the maximum and above the minimum that were requested"
    )
    smallest_receive_bytes = size("grants.smallest.receive", "smallest receive buffer granted")
    smallest_send_bytes = size("grants.smallest.send", "smallest send buffer granted")
    capped_times = hidden(
        "grants.capped_times", "what setsockopt grants above the maximum, in its units"
    )
    core_max_bytes = size("grants.cap_bytes", "smallest core maximum of the requested buffers")
    largest_request_bytes = size("grants.largest_request_bytes", "largest size requested")
    largest_grant_bytes = size("grants.largest_grant_bytes", "what is granted of it")

    @cached_property
    def growth(self) -> Growth:
        return growth(self.run) if self.download else Growth(DataFrame())

    @cached_property
    def space(self) -> tuple[float | None, ...]:
        """rcv_space at the article's samples."""
        return tuple(self.growth.at("rcv_space_bytes", received) for received in LOOKS)

    @cached_property
    def ssthresh(self) -> tuple[float | None, ...]:
        """rcv_ssthresh at the article's samples."""
        return tuple(self.growth.at("rcv_ssthresh_bytes", received) for received in LOOKS)

    @cached_property
    def lost(self) -> Mapping[str, float]:
        return lost_s(self.run) if self.download else {}

    space_1_bytes = sampled("space.0", "rcv_space at the article's first sample")
    ssthresh_1_bytes = sampled("ssthresh.0", "rcv_ssthresh at the article's first sample")
    space_2_bytes = sampled("space.1", "rcv_space at the article's second sample")
    ssthresh_2_bytes = sampled("ssthresh.1", "rcv_ssthresh at the article's second sample")
    space_3_bytes = sampled("space.2", "rcv_space at the article's third sample")
    ssthresh_3_bytes = sampled("ssthresh.2", "rcv_ssthresh at the article's third sample")

    @column("time lost against a full link", unit="s", hidden=True, costly=True)
    def lost_s(self) -> float | None:
        return sum(self.lost.values()) if self.lost else None

    lost_slow_start_s = costly(f"lost.{SLOW_START}", "the same, in slow start", unit="s")
    lost_recovery_s = costly(f"lost.{RECOVERY}", "the same, in fast recovery", unit="s")
    lost_avoidance_s = costly(
        f"lost.{AVOIDANCE}", "time lost against a full link, in congestion avoidance", unit="s"
    )

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

    ssthresh_most_bytes = sampled("growth.most_bytes", "largest rcv_ssthresh")

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


def parameter(run: Run, name: str) -> float | None:
    """The size of the file or of the raised buffer, in MiB; None for what the run does not say."""
    if name == "transfer_mib":
        return run.settings_as(Settings).transfer_bytes / MIB
    if name == "buffer_mib":
        raised = run.inputs["condition"]["sysctls"].get("server", {}).get(WMEM)
        return None if raised is None else int(raised.split()[-1]) / MIB
    return None


def receive_buffer(run: Run) -> Buffer:
    """The client's buffer."""
    requested = run.settings_as(Settings).client_rcvbuf_bytes
    return _buffer(run, RECEIVER, requested, "receive", RMEM, RMEM_MAX)


def send_buffer(run: Run) -> Buffer:
    """The server's buffer."""
    requested = run.settings_as(Settings).server_sndbuf_bytes
    return _buffer(run, SENDER, requested, "send", WMEM, WMEM_MAX)


def _buffer(run: Run, host: str, requested: int | None, socket: str, name: str, cap: str) -> Buffer:
    if requested is not None:
        granted = granted_bytes(requested, int(run.sysctl(host, cap)), socket)
        return Buffer(SETSOCKOPT, requested, granted)
    _, first, largest = sysctl_sizes(run.sysctl(host, name))
    if first == largest:
        return Buffer(SYSCTL, largest, largest)
    return Buffer(AUTOMATIC, None, max(first, largest))


@lru_cache(maxsize=KEPT_RUNS)
def expected(run: Run) -> Prediction | None:
    """The prediction for a run; None where the theory has no value (`cannot_say`). Those of the
    last runs are cached."""
    if _not_modelled(run):
        return None
    flow = flow_of(run)
    # Less than a segment in flight fills the link, so no buffer limits a download.
    if _bdp_bytes(flow) < flow.mss_bytes:
        line = line_goodput_bytes_s(flow.rate_mbit)
        return Prediction(line, line, LINK, 0, 0, line)
    prediction = predicted(flow, _transfer_bytes(run, flow))
    return prediction if prediction.steady_bytes_s else None


def cannot_say(run: Run) -> str | None:
    """Why there is no prediction for a run; None if there is one."""
    if expected(run):
        return None
    return (
        _not_modelled(run) or decided(flow_of(run), _transfer_bytes(run, flow_of(run))).cannot_say
    )


def _not_modelled(run: Run) -> str:
    """What a run has that the model does not; empty if the model knows all of it."""
    link, settings = run.link.asked, run.settings_as(Settings)
    if link.rate_mbit is None:
        return "no rate: the machine is the limit"
    if link.jitter_ms:
        return "jitter reorders packets"
    if link.loss_pct and link.shaped_at != "router":
        return "the sender's own queue loses packets of several segments"
    if not settings.is_download:
        return "no download"
    if TCP_MEM in run.condition_asked.sysctls.get("server", {}):
        return "little memory for TCP"
    if download(run).bytes <= 0:
        return "nothing arrived"
    congestion = flow_of(run).congestion
    return "" if congestion in CONGESTION_CONTROLS else f"the model does not simulate {congestion}"


def expected_interval(run: Run) -> Interval | None:
    """How far the result may lie from that prediction; None where single packets do not matter."""
    flow = flow_of(run) if expected(run) else None
    if flow is None or _bdp_bytes(flow) < flow.mss_bytes:
        return None
    return shown(flow, _transfer_bytes(run, flow))


def _transfer_bytes(run: Run, flow: Flow) -> int:
    """What the model is asked about: how much arrives until a limit depends on chance."""
    return run.settings_as(Settings).transfer_bytes if flow.loss_pct else download(run).bytes


def _bdp_bytes(flow: Flow) -> float:
    return flow.rate_mbit * 1e3 / 8 * flow.rtt_ms


def flow_of(run: Run) -> Flow:
    """The download of a run over a shaped link as the model takes it."""
    link, settings = run.link.asked, run.settings_as(Settings)
    # Draws that differ in the seed alone are one flow, and when it ends depends on chance.
    by_chance = {
        "rate_mbit": link.rate_mbit or 0.0,
        "rtt_ms": link.delay_ms,
        "limit_s": settings.limit_s,
    }
    return bulk_transfer.flow_of(
        run,
        send_buffer(run),
        receive_buffer(run),
        core_max_bytes=int(run.sysctls["client"]["after"].get(RMEM_MAX, "0")) or None,
        offloads=link.shaped_at != "router",
        congestion=congestion_control(run) or CUBIC,
        queue_packets=_queue_packets(link),
        loss_pct=link.loss_pct,
        pause_ms=settings.pause_ms,
        **(by_chance if link.loss_pct > 0 else {}),
        **of_client(settings.client, settings.transfer_bytes, settings.read_bytes),
    )


def _queue_packets(link: Link) -> int | None:
    """The limit of netem's queue; without netem the queue is another one."""
    if not link.uses_netem:
        return None
    return link.queue_packets or NETEM_PACKETS


def expected_mean_bytes_s(run: Run, size: int) -> float | None:
    """The mean over the first `size` bytes of the body, from its first byte on."""
    steady = expected(run)
    if steady is None or size <= 0:
        return None
    flow = flow_of(run)
    if size == download(run).bytes or flow.loss_pct or _bdp_bytes(flow) < flow.mss_bytes:
        return steady.mean_bytes_s
    return predicted(flow, size).mean_bytes_s
