"""A download from nginx as the model takes it, and what the model says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from labs.drive.units import MIB
from labs.read.theory.bdp import line_goodput_bytes_s
from labs.read.theory.bulk_flow import Flow
from labs.read.theory.bulk_interval import decided
from labs.read.theory.bulk_sender import SEND_BUFFER, WAKE_UP
from labs.read.theory.windows import receive_window_bytes, send_bound_bytes

WGET = "wget"
"""The client that keeps the connection and reads little at a time; others discard all they read."""
WGET_READ_BYTES = 8192
"""What wget 1.21 requests per read (retr.c fd_read_body())."""


class OfClient(TypedDict):
    """The fields of a `Flow` that the client of a download determines."""

    header_bytes: int
    keep_alive: bool
    read_bytes: int
    reads_whole: bool


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
