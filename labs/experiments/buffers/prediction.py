"""What the theory expects of a run: from its link as measured, its buffers as set, its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypedDict

from labs.drive.testbed.link import Link
from labs.drive.units import MIB
from labs.experiments.buffers.settings import WGET, Settings
from labs.read.readings import bulk_transfer
from labs.read.readings.bulk_transfer import (
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
    sysctl_sizes,
)
from labs.read.readings.goodput import download
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk import LINK
from labs.read.theory.bulk_flow import CONGESTION_CONTROLS, CUBIC, Flow
from labs.read.theory.bulk_interval import Interval, decided, shown
from labs.read.theory.bulk_sender import SEND_BUFFER, WAKE_UP
from labs.read.theory.windows import granted_bytes, receive_window_bytes, send_bound_bytes

TCP_MEM = "net.ipv4.tcp_mem"
WGET_READ_BYTES = 8192
"""What wget 1.21 requests per read (retr.c fd_read_body())."""
NETEM_PACKETS = 1000
"""The queue of netem by default, as tc sets it."""
TOLERANCE_PCT = 2.0
"""How far a steady flow may lie from its prediction: the goal at the points of `make model`."""


class OfClient(TypedDict):
    """The fields of a `Flow` that the client of a download determines."""

    header_bytes: int
    keep_alive: bool
    read_bytes: int
    reads_whole: bool


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


def congestion_control(run: Run) -> str | None:
    """The server's congestion control."""
    return run.sysctls[SENDER]["after"].get("net.ipv4.tcp_congestion_control")


@dataclass(frozen=True)
class Prediction:
    """A download as the model predicts it (`labs.read.theory.bulk`): its goodput in steady state,
    its mean, and what limits it.

    `window_bytes` and `send_bytes` are what the receiver's and the sender's largest buffer admit by
    the formulas of `labs.read.theory.windows`, each on its own; `line_bytes_s` is the payload that
    the link carries.
    """

    steady_bytes_s: float
    mean_bytes_s: float
    bound: str
    window_bytes: int
    send_bytes: int
    line_bytes_s: float

    @property
    def goodput_mib_s(self) -> float:
        """In steady state, in wget's unit, which it writes MB/s."""
        return self.steady_bytes_s / MIB


def response_header_bytes(file_bytes: int, *, keep_alive: bool) -> int:
    """The length of the header of nginx's response: `serve_file` sets the date of the file."""
    return len(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Mon, 21 Sep 2026 14:13:20 GMT\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {file_bytes}\r\n"
        "Last-Modified: Mon, 13 Apr 2020 14:01:33 GMT\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n"
        f'ETag: "5e94706d-{file_bytes:x}"\r\nAccept-Ranges: bytes\r\n\r\n'
    )


def of_client(client: str, file_bytes: int, read_bytes: int) -> OfClient:
    """How a download from nginx by this client differs from a transfer by iperf3."""
    gets = client == WGET
    return {
        "header_bytes": response_header_bytes(file_bytes, keep_alive=gets),
        "keep_alive": gets,
        "read_bytes": WGET_READ_BYTES if gets else read_bytes,
        "reads_whole": not gets,
    }


def predicted(flow: Flow, transfer_bytes: int) -> Prediction:
    """What the model says of a download, and the formulas of its two buffers."""
    transfer = decided(flow, transfer_bytes)
    rcvbuf = flow.rcvbuf_bytes or max((flow.tcp_rmem or (0,))[1:])
    sndbuf = flow.sndbuf_bytes or max((flow.tcp_wmem or (0,))[1:])
    return Prediction(
        steady_bytes_s=transfer.steady_bytes_s,
        mean_bytes_s=transfer.goodput_bytes_s,
        bound=SEND_BUFFER if transfer.bound == WAKE_UP else transfer.bound,
        window_bytes=receive_window_bytes(
            rcvbuf,
            flow.kernel,
            adv_win_scale=flow.adv_win_scale,
            offloads=flow.offloads,
            locked=flow.rcvbuf_locked,
        ),
        send_bytes=send_bound_bytes(sndbuf, flow.kernel),
        line_bytes_s=line_goodput_bytes_s(flow.rate_mbit),
    )


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
