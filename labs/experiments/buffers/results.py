"""What a run of the lab `buffers` shows: goodput, how far it can be trusted, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from labs.drive.result_columns import Note, PartColumn, column, part
from labs.experiments.buffers.settings import BLOCKS, DISCARD, WGET, Settings
from labs.guest.units import GIB, MIB
from labs.read.claims.judge import NOT_SETTLED
from labs.read.claims.ledger import article_beside, figures_by_column
from labs.read.parse.http_clients import Httping
from labs.read.readings.bulk_transfer import (
    ADV_WIN_SCALE,
    AUTOMATIC,
    RECEIVER,
    RMEM,
    RMEM_MAX,
    SENDER,
    SYSCTL,
    WMEM,
    WMEM_MAX,
    Buffer,
    BulkTransfer,
    Grants,
    after_receiving,
    bdp_bytes,
    buffer_of,
    ends_of,
    flow_of,
    grants_of,
    lost_s,
    predicted_rate,
    recorded,
    usable_bytes,
)
from labs.read.readings.goodput import Download, download
from labs.read.readings.instruments import apart_pct, goodputs, shaper_drops, under_memory_pressure
from labs.read.readings.latency import latency
from labs.read.readings.run_results import hidden, hidden_column, settings_as, size
from labs.read.runs.run import Run
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.windows import receive_window_bytes

NO_RATE = "no_rate"
article = partial(article_beside, __file__)
costly = partial(part, hidden=True, costly=True)
sampled = partial(costly, unit="bytes")

TCP_MEM, CONTROL = "net.ipv4.tcp_mem", "net.ipv4.tcp_congestion_control"
WGET_READ_BYTES = 8192
"""What wget 1.21 requests per read (retr.c fd_read_body())."""
NETEM_PACKETS = 1000
"""The queue of netem by default, as tc sets it."""


def sysctl(host: str, name: str, meaning: str) -> PartColumn:
    """A column with a sysctl of a host."""
    return hidden(partial(recorded, host=host, name=name), meaning, kind=str)


class Results(BulkTransfer):
    """The figures of one run; None where it has none, as for a run without a download."""

    settings = settings_as(Settings)

    @cached_property
    def download(self) -> Download | None:
        return download(self.run) if self.settings.is_download else None

    @property
    def received(self) -> Download | None:
        return None if self.no_rate else self.download

    @property
    def no_rate(self) -> bool:
        """Whether a download's speed is not meaningful: in virtual time computation takes almost no
        time, so only the link can limit it."""
        virtual = self.run.where.virtual_time and self.settings.is_download
        return virtual and self.run.link.asked.rate_mbit is None

    @cached_property
    def receives(self) -> Buffer:
        return buffer_of(self.run, RECEIVER, self.settings.client_rcvbuf_bytes)

    @cached_property
    def sends(self) -> Buffer:
        return buffer_of(self.run, SENDER, self.settings.server_sndbuf_bytes)

    @cached_property
    def not_modelled(self) -> str | None:
        link, control = self.run.link.asked, self.congestion_control or CUBIC
        if self.download is None:
            return None
        reasons = {
            "no rate: the machine is the limit": link.rate_mbit is None,
            "jitter reorders packets": link.jitter_ms,
            "the sender's own queue loses packets of several segments": link.loss_pct
            and link.shaped_at != "router",
            "little memory for TCP": TCP_MEM in self.run.condition_asked.sysctls.get(SENDER, {}),
            "nothing arrived": self.download.bytes <= 0,
            f"the model does not simulate {control}": control not in CONGESTION_CONTROLS,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    @cached_property
    def flow(self) -> Flow:
        link, settings = self.run.link.asked, self.settings
        # Draws that differ in the seed alone are one flow, and when it ends depends on chance.
        by_chance = {
            "rate_mbit": link.rate_mbit,
            "rtt_ms": link.delay_ms,
            "limit_s": settings.limit_s,
        }
        return flow_of(
            self.run,
            self.sends,
            self.receives,
            core_max_bytes=int(recorded(self.run, RECEIVER, RMEM_MAX) or 0) or None,
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
    def modelled_bytes(self) -> int:
        """How much arrives until a limit depends on chance."""
        if self.download is None or self.flow.loss_pct:
            return self.settings.transfer_bytes
        return self.download.bytes

    @property
    def usable(self) -> Mapping[str, int]:
        """What each host's buffer lets be in flight in theory; 0 if no buffer limits the flow."""
        sizes = usable_bytes(self.flow) if self.prediction else ()
        return dict(zip((RECEIVER, SENDER), sizes, strict=False))

    @cached_property
    def sizes(self) -> Mapping[str, Mapping[str, int]]:
        """The sampled sizes of the two buffers, rcv_ssthresh, and the memory in use."""
        sent, received = self.samples[SENDER], self.samples[RECEIVER]
        return {
            "send": ends_of(sent, "sndbuf_bytes"),
            "receive": ends_of(received, "rcvbuf_bytes"),
            "window": ends_of(received, "rcv_ssthresh_bytes"),
            "written": ends_of(sent, "wmem_queued_bytes"),
            "unread": ends_of(received, "rmem_alloc_bytes"),
        }

    @cached_property
    def seen(self) -> Mapping[str, tuple[float | None, ...]]:
        """rcv_space and rcv_ssthresh at the article's samples."""
        rows, moments = self.samples[RECEIVER], article().claim("A1.12").arguments["received_bytes"]
        return {
            name: tuple(after_receiving(rows, f"rcv_{name}_bytes", moment) for moment in moments)
            for name in ("space", "ssthresh")
        }

    @cached_property
    def disagreement_pct(self) -> float | None:
        return apart_pct(goodputs(self.run, self.download)) if self.download else None

    @cached_property
    def httping(self) -> Httping | None:
        return self.run.httping()

    @cached_property
    def published(self) -> tuple[str, Mapping[str, float]] | None:
        """The claim that has figures for this run, and these figures."""
        return figures_by_column(article(), self.run, parameter) if self.download else None

    @cached_property
    def grants(self) -> Grants:
        return grants_of(self.run)

    @cached_property
    def lost(self) -> Mapping[str, float]:
        return lost_s(self.samples[SENDER], self.run.link.measured.rate_mbit)

    def predicted_window(self, adv_win_scale: int = 1) -> float | None:
        """The window in bytes that the last receive buffer makes."""
        buffer = self.receive_last_bytes
        kernel = self.run.kernel.release
        return buffer and float(receive_window_bytes(buffer, kernel, adv_win_scale=adv_win_scale))

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
    settled = part("download.settled", "the last third is within 5 % of the one before")

    agreement_pct = hidden(
        "disagreement_pct", "largest deviation of counters and capture from the client", unit="%"
    )
    duration_s = hidden("download.duration_s", "from the request to the last byte", unit="s")
    bytes = size("download.bytes", "the body of the file")
    buffer_bytes = size("receives.fixed_bytes", "the receiver's buffer if its size is fixed")
    receive_most_bytes = size("receives.most_bytes", "the largest size of the receive buffer")
    send_most_bytes = size("sends.most_bytes", "the largest size of the send buffer")

    @hidden_column("what fixed the receiver's buffer")
    def series(self) -> str | None:
        return None if self.receives.fixed_by == AUTOMATIC else self.receives.fixed_by

    @column("the same, fixed by sysctl, of a download in steady state", unit="bytes", hidden=True)
    def swept_bytes(self) -> int | None:
        steady = self.steady_mib_s is not None and self.settled is not False
        return self.receives.fixed_bytes if steady and self.series == SYSCTL else None

    @column("tcp_adv_win_scale of the client", hidden=True)
    def adv_win_scale(self) -> int | None:
        """Kernels from 6.6 on keep it and ignore it."""
        scale = recorded(self.run, RECEIVER, ADV_WIN_SCALE)
        return None if scale is None else int(scale)

    congestion_control = sysctl(SENDER, CONTROL, "the server's congestion control")
    loss_pct = hidden("run.link.asked.loss_pct", "the loss that was requested", unit="%")
    lost_pct = part("run.link.measured.loss_pct", "the loss that netem counted", unit="%")
    draw = hidden("settings.draw", "number of the draw: only the seed differs")
    httping_ms = part("httping.mean_ms", "httping's own mean", unit="ms", headline=True)
    ended = hidden("run.ended", "complete, or ended by the limit")
    bdp_bytes = size(bdp_bytes, "the bandwidth-delay product of the link")
    asked_delay_ms = hidden("run.link.asked.delay_ms", "the delay that was requested", unit="ms")
    httping_min_ms = hidden("httping.min_ms", "httping's shortest time", unit="ms")
    httping_max_ms = hidden("httping.max_ms", "httping's longest time", unit="ms")

    @hidden_column("median time from one request to the next", unit="ms")
    def cycle_ms(self) -> float | None:
        return latency(self.run).p50_ms if self.settings.steps == BLOCKS else None

    offered_bytes = sampled("window.offered_bytes", "largest window that the receiver offered")
    unread_bytes = sampled("sizes.unread.largest", "largest memory of the receive buffer in use")
    tcp_rmem = sysctl(RECEIVER, RMEM, "tcp_rmem of the client")
    tcp_wmem = sysctl(RECEIVER, WMEM, "tcp_wmem of the client")
    rmem_default = sysctl(RECEIVER, "net.core.rmem_default", "net.core.rmem_default of it")
    rmem_max = sysctl(RECEIVER, RMEM_MAX, "net.core.rmem_max of the client")
    wmem_default = sysctl(RECEIVER, "net.core.wmem_default", "net.core.wmem_default of it")
    wmem_max = sysctl(RECEIVER, WMEM_MAX, "net.core.wmem_max of the client")
    shaper_drops = hidden(shaper_drops, "packets that the shaper's queue dropped")
    under_pressure = hidden(under_memory_pressure, "TCP came under memory pressure")
    tcp_mem = sysctl(SENDER, TCP_MEM, "net.ipv4.tcp_mem of the server, in pages")
    receive_first_bytes = sampled("sizes.receive.first", "receive buffer at the first sample")
    receive_last_bytes = sampled("sizes.receive.last", "receive buffer at the last sample")
    receive_smallest_bytes = sampled("sizes.receive.smallest", "smallest receive buffer sampled")
    receive_largest_bytes = sampled("sizes.receive.largest", "largest receive buffer sampled")
    send_first_bytes = sampled("sizes.send.first", "send buffer at the first sample")
    send_last_bytes = sampled("sizes.send.last", "send buffer at the last sample")
    send_smallest_bytes = sampled("sizes.send.smallest", "smallest send buffer sampled")
    send_largest_bytes = sampled("sizes.send.largest", "largest send buffer sampled")
    window_last_bytes = sampled("sizes.window.last", "rcv_ssthresh at the last sample")
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
    space_1_bytes = sampled("seen.space.0", "rcv_space at the article's first sample")
    ssthresh_1_bytes = sampled("seen.ssthresh.0", "rcv_ssthresh at the article's first sample")
    space_2_bytes = sampled("seen.space.1", "rcv_space at the article's second sample")
    ssthresh_2_bytes = sampled("seen.ssthresh.1", "rcv_ssthresh at the article's second sample")
    space_3_bytes = sampled("seen.space.2", "rcv_space at the article's third sample")
    ssthresh_3_bytes = sampled("seen.ssthresh.2", "rcv_ssthresh at the article's third sample")
    lost_s = costly("lost.in all", "time lost against a full link", unit="s")
    lost_slow_start_s = costly("lost.slow start", "the same, in slow start", unit="s")
    lost_recovery_s = costly("lost.fast recovery", "the same, in fast recovery", unit="s")
    lost_avoidance_s = costly(
        "lost.congestion avoidance", "the same, in congestion avoidance", unit="s"
    )
    ssthresh_most_bytes = sampled("sizes.window.largest", "largest rcv_ssthresh")

    @hidden_column("predicted share of the receive buffer", costly=True)
    def predicted_window_share(self) -> float | None:
        window = self.predicted_window(1 if self.adv_win_scale is None else self.adv_win_scale)
        return window and window / self.receive_last_bytes

    @column(
        "predicted rcv_ssthresh of the last receive buffer", unit="bytes", hidden=True, costly=True
    )
    def predicted_ssthresh_bytes(self) -> float | None:
        return self.predicted_window()

    def lab_notes(self) -> Iterator[Note]:
        if self.no_rate:
            text = "no meaningful rate: an unshaped link is unlimited in virtual time"
            yield Note(NO_RATE, text, excludes=True)
        if self.settled is False:
            yield Note(NOT_SETTLED, "no steady state was reached")


def parameter(run: Run, name: str) -> float | None:
    """The size of the file or of the raised buffer, in MiB; None for what the run does not say."""
    raised = run.condition_asked.sysctls.get(SENDER, {}).get(WMEM)
    values = {
        "transfer_mib": run.settings_as(Settings).transfer_bytes / MIB,
        "buffer_mib": int(raised.split()[-1]) / MIB if raised else None,
    }
    return values.get(name)


def response_header_bytes(file_bytes: int, *, keep_alive: bool) -> int:
    """The length of the header of nginx's response: `serve_file` sets the date of the file."""
    return len(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {file_bytes}\r\n"
        "Last-Modified: Mon, 13 Apr 2020 14:01:33 GMT\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n"
        f'ETag: "5e94706d-{file_bytes:x}"\r\nAccept-Ranges: bytes\r\n\r\n'
    )


def of_client(
    client: str = DISCARD, file_bytes: int = GIB, read_bytes: int = Settings.read_bytes
) -> dict[str, Any]:
    """How a download from nginx by this client differs from a transfer by iperf3."""
    gets = client == WGET
    return {
        "header_bytes": response_header_bytes(file_bytes, keep_alive=gets),
        "keep_alive": gets,
        "read_bytes": WGET_READ_BYTES if gets else read_bytes,
        "reads_whole": not gets,
    }
