"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from pandas import DataFrame

from labs.drive.result_columns import Note, column, part
from labs.drive.units import MIB
from labs.experiments.buffers.settings import BLOCKS, WGET, Settings
from labs.read.claims.ledger import article_beside, figures_by_column
from labs.read.claims.rules import NOT_SETTLED
from labs.read.parse.http_clients import Httping
from labs.read.readings import bulk_transfer
from labs.read.readings.bulk_transfer import (
    ADV_WIN_SCALE,
    AUTOMATIC,
    AVOIDANCE,
    OF_HOST,
    RECEIVER,
    RECOVERY,
    RMEM_MAX,
    SENDER,
    SETSOCKOPT,
    SLOW_START,
    WMEM,
    Buffer,
    BulkTransfer,
    Grants,
    Growth,
    Window,
    bdp_bytes,
    buffer_of,
    core_max_of,
    ends_of,
    grants_of,
    growth,
    in_mib,
    predicted,
    predicted_rate,
    usable_bytes,
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
from labs.read.readings.run_results import settings_as
from labs.read.runs.run import Run
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import LINK, Transfer
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.bulk_interval import Interval, decided, shown
from labs.read.theory.windows import receive_window_bytes

SETTLED_PCT = 5.0
DEEPEST = "A1.12"
"""The claim with the article's three samples of ss, each at so many bytes received."""
NO_RATE = "no_rate"
article = partial(article_beside, __file__)
hidden = partial(part, hidden=True)
costly = partial(part, hidden=True, costly=True)
size, sampled = partial(hidden, unit="bytes"), partial(costly, unit="bytes")

TCP_MEM = "net.ipv4.tcp_mem"
WGET_READ_BYTES = 8192
"""What wget 1.21 requests per read (retr.c fd_read_body())."""
SHORTEST_RTT_MS = 0.1
"""A shorter RTT is that of the machine, and says nothing about a buffer."""
NETEM_PACKETS = 1000
"""The queue of netem by default, as tc sets it."""


class Results(BulkTransfer):
    """The figures of one run; None where it has none, as for a run without a download."""

    settings = settings_as(Settings)

    @cached_property
    def download(self) -> Download | None:
        return download(self.run) if self.settings.is_download else None

    @property
    def received(self) -> Download | None:
        return None if no_rate(self.run) else self.download

    @cached_property
    def receives(self) -> Buffer:
        return buffer_of(self.run, RECEIVER, self.settings.client_rcvbuf_bytes)

    @cached_property
    def sends(self) -> Buffer:
        return buffer_of(self.run, SENDER, self.settings.server_sndbuf_bytes)

    @cached_property
    def not_modelled(self) -> str:
        """What the run has that the model does not; empty if the model knows all of it."""
        link, control = self.run.link.asked, self.congestion_control or CUBIC
        reasons = {
            "no rate: the machine is the limit": link.rate_mbit is None,
            "jitter reorders packets": link.jitter_ms,
            "the sender's own queue loses packets of several segments": link.loss_pct
            and link.shaped_at != "router",
            "no download": self.download is None,
            "little memory for TCP": TCP_MEM in self.run.condition_asked.sysctls.get(SENDER, {}),
            "nothing arrived": self.download is None or self.download.bytes <= 0,
            f"the model does not simulate {control}": control not in CONGESTION_CONTROLS,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    @cached_property
    def flow(self) -> Flow:
        """The download over a shaped link as the model takes it."""
        link, settings = self.run.link.asked, self.settings
        # Draws that differ in the seed alone are one flow, and when it ends depends on chance.
        by_chance = {
            "rate_mbit": link.rate_mbit or 0.0,
            "rtt_ms": link.delay_ms,
            "limit_s": settings.limit_s,
        }
        return bulk_transfer.flow_of(
            self.run,
            self.sends,
            self.receives,
            core_max_bytes=int(self.run.sysctls[RECEIVER]["after"].get(RMEM_MAX, "0")) or None,
            offloads=link.shaped_at != "router",
            congestion=self.congestion_control or CUBIC,
            # Without netem the queue is another one.
            queue_packets=(link.queue_packets or NETEM_PACKETS) if link.uses_netem else None,
            loss_pct=link.loss_pct,
            pause_ms=settings.pause_ms,
            **(by_chance if link.loss_pct > 0 else {}),
            **of_client(settings.client, settings.transfer_bytes, settings.read_bytes),
        )

    @property
    def fills_at_once(self) -> bool:
        """Whether less than a segment in flight fills the link, so that no buffer limits it."""
        return self.flow.rate_mbit * 1e3 / 8 * self.flow.rtt_ms < self.flow.mss_bytes

    @property
    def modelled_bytes(self) -> int:
        """What the model is asked about: how much arrives until a limit depends on chance."""
        if self.download is None or self.flow.loss_pct:
            return self.settings.transfer_bytes
        return self.download.bytes

    @cached_property
    def prediction(self) -> Transfer | None:
        """None where the theory has no value (`no_prediction`)."""
        if self.not_modelled:
            return None
        if self.fills_at_once:
            line = line_goodput_bytes_s(self.flow.rate_mbit)
            return Transfer(line, line, 0.0, LINK, (), {})
        transfer = predicted(self.flow, self.modelled_bytes)
        return transfer if transfer.steady_bytes_s else None

    @property
    def no_prediction(self) -> str | None:
        if self.download is None or self.prediction:
            return None
        return self.not_modelled or decided(self.flow, self.modelled_bytes).cannot_say

    @cached_property
    def interval(self) -> Interval | None:
        """None where single packets do not matter."""
        if self.prediction is None or self.fills_at_once:
            return None
        return shown(self.flow, self.modelled_bytes)

    @property
    def usable(self) -> Mapping[str, int]:
        """What each host's buffer lets be in flight in theory; 0 if no buffer limits the flow."""
        if self.prediction is None:
            return {}
        sizes = (0, 0) if self.fills_at_once else usable_bytes(self.flow)
        return dict(zip((RECEIVER, SENDER), sizes, strict=True))

    @property
    def samples(self) -> Mapping[str, DataFrame]:
        """The samples of each host's socket; empty tables without a download."""
        counters = {RECEIVER: "bytes_received", SENDER: "bytes_acked"}
        return {
            host: sampled_socket(self.run, host, counter) if self.download else DataFrame()
            for host, counter in counters.items()
        }

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

    predicted_mean_mib_s = predicted_rate(
        "prediction.goodput_bytes_s", "predicted mean, with slow start"
    )
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
        return None if self.receives.fixed_by == AUTOMATIC else self.receives.fixed_by

    @column("tcp_adv_win_scale of the client", hidden=True)
    def adv_win_scale(self) -> int | None:
        """Kernels from 6.6 on keep it and ignore it."""
        value = self.run.sysctls[RECEIVER]["after"].get(ADV_WIN_SCALE)
        return None if value is None else int(value)

    @column("the server's congestion control", hidden=True)
    def congestion_control(self) -> str | None:
        return self.run.sysctls[SENDER]["after"].get("net.ipv4.tcp_congestion_control")

    loss_pct = hidden("run.link.asked.loss_pct", "the loss that was requested", unit="%")
    lost_pct = part("run.link.measured.loss_pct", "the loss that netem counted", unit="%")
    draw = hidden("settings.draw", "number of the draw: only the seed differs")
    httping_ms = part("httping.mean_ms", "httping's own mean", unit="ms", headline=True)
    ended = hidden("run.ended", "complete, or ended by the limit")

    @cached_property
    def window(self) -> Window | None:
        return window(self.run) if self.download else None

    @cached_property
    def receive_sizes(self) -> Mapping[str, int]:
        return ends_of(self.samples[RECEIVER], "rcvbuf_bytes")

    @cached_property
    def send_sizes(self) -> Mapping[str, int]:
        return ends_of(self.samples[SENDER], "sndbuf_bytes")

    @cached_property
    def thresholds(self) -> Mapping[str, int]:
        return ends_of(self.samples[RECEIVER], "rcv_ssthresh_bytes")

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
        rows = self.samples[RECEIVER]
        return float(rows["rmem_alloc_bytes"].max()) if "rmem_alloc_bytes" in rows else None

    shaper_drops = hidden(shaper_drops, "packets that the shaper's queue dropped")
    under_pressure = hidden(under_memory_pressure, "TCP came under memory pressure")

    @column("net.ipv4.tcp_mem of the server, in pages", hidden=True)
    def tcp_mem(self) -> str | None:
        return self.run.sysctls["server"]["after"].get("net.ipv4.tcp_mem")

    receive_first_bytes = sampled("receive_sizes.first", "receive buffer at the first sample")
    receive_last_bytes = sampled("receive_sizes.last", "receive buffer at the last sample")
    receive_smallest_bytes = sampled("receive_sizes.smallest", "smallest receive buffer sampled")
    receive_largest_bytes = sampled("receive_sizes.largest", "largest receive buffer sampled")
    send_first_bytes = sampled("send_sizes.first", "send buffer at the first sample")
    send_last_bytes = sampled("send_sizes.last", "send buffer at the last sample")
    send_smallest_bytes = sampled("send_sizes.smallest", "smallest send buffer sampled")
    send_largest_bytes = sampled("send_sizes.largest", "largest send buffer sampled")
    window_last_bytes = sampled("thresholds.last", "rcv_ssthresh at the last sample")
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
    core_max_bytes = size("grants.core_max_bytes", "smallest core maximum of the requested buffers")
    largest_request_bytes = size("grants.largest.requested", "largest size requested")
    largest_grant_bytes = size("grants.largest.granted", "what is granted of it")

    @cached_property
    def growth(self) -> Growth:
        return growth(self.samples[RECEIVER])

    @cached_property
    def space(self) -> tuple[float | None, ...]:
        """rcv_space at the article's samples."""
        return tuple(self.growth.at("rcv_space_bytes", received) for received in sampled_at())

    @cached_property
    def ssthresh(self) -> tuple[float | None, ...]:
        """rcv_ssthresh at the article's samples."""
        return tuple(self.growth.at("rcv_ssthresh_bytes", received) for received in sampled_at())

    @cached_property
    def lost(self) -> Mapping[str, float]:
        return bulk_transfer.lost_s(self.samples[SENDER], self.run.link.measured.rate_mbit)

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

    def buffers(self) -> Iterator[dict[str, Any]]:
        """A row for each buffer: of programs that only ask, and of the two ends of a download."""
        for request in self.run.buffers:
            yield {
                "condition": self.run.condition,
                "whose": f"{request.socket.removesuffix('e')}er",
                "set by": SETSOCKOPT,
                "requested": request.requested_bytes,
                "granted": request.granted_bytes,
                "core maximum": core_max_of(self.run, request.socket),
            }
        if self.download is not None:
            yield self._end(self.sends, SENDER, "wmem_queued_bytes")
            offered = ends_of(self.samples[SENDER], "snd_wnd_bytes").get("largest")
            yield self._end(self.receives, RECEIVER, "rmem_alloc_bytes") | {"advertised": offered}

    def _end(self, buffer: Buffer, host: str, memory: str) -> dict[str, Any]:
        """The buffer of a host, and what it lets be in flight in theory."""
        (end, _, _), rtt_s = OF_HOST[host], self.run.link.measured.rtt_ms / 1e3
        usable = self.usable.get(host)
        steady_bytes_s = self.download.steady_bytes_s if self.download else None
        samples, sizes = self.samples[host], {SENDER: self.send_sizes, RECEIVER: self.receive_sizes}
        allows = usable is not None and 1e3 * rtt_s >= SHORTEST_RTT_MS
        return {
            "condition": self.run.condition,
            "whose": f"{end.removesuffix('e')}er",
            "set by": "the kernel" if buffer.fixed_by == AUTOMATIC else buffer.fixed_by,
            "requested": buffer.requested_bytes,
            "core maximum": core_max_of(self.run, end) if buffer.via_setsockopt else None,
            "granted": sizes[host].get("last"),
            "used": ends_of(samples, memory).get("largest"),
            "usable window": usable,
            "allows MiB/s": (usable or 0) / rtt_s / MIB if allows else None,
            "measured MiB/s": in_mib(steady_bytes_s),
        }

    def lab_notes(self) -> Iterator[Note]:
        if no_rate(self.run):
            text = "no meaningful rate: an unshaped link is unlimited in virtual time"
            yield Note(NO_RATE, text, excludes=True)
        if self.settled is False:
            yield Note(NOT_SETTLED, "no steady state was reached")
        if self.agreement_pct is not None and self.agreement_pct > ALLOWED_PCT:
            yield Note("instruments", f"instruments disagree by {self.agreement_pct:.1f} %")


def sampled_at() -> list[int]:
    """The bytes received until each of the article's samples of ss."""
    moments: list[int] = article().claim(DEEPEST).arguments["received_bytes"]
    return moments


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


def response_header_bytes(file_bytes: int, *, keep_alive: bool) -> int:
    """The length of the header of nginx's response: `serve_file` sets the date of the file."""
    return len(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {file_bytes}\r\n"
        "Last-Modified: Mon, 13 Apr 2020 14:01:33 GMT\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n"
        f'ETag: "5e94706d-{file_bytes:x}"\r\nAccept-Ranges: bytes\r\n\r\n'
    )


def of_client(client: str, file_bytes: int, read_bytes: int) -> dict[str, Any]:
    """How a download from nginx by this client differs from a transfer by iperf3."""
    gets = client == WGET
    return {
        "header_bytes": response_header_bytes(file_bytes, keep_alive=gets),
        "keep_alive": gets,
        "read_bytes": WGET_READ_BYTES if gets else read_bytes,
        "reads_whole": not gets,
    }
