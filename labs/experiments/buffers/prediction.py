"""What the theory expects of a run: from its link as measured, its buffers as set, its kernel."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from labs.experiments.buffers.settings import WGET
from labs.experiments.buffers.socket_buffers import (
    RMEM,
    WMEM,
    receive_buffer,
    send_buffer,
    settings_of,
    three,
)
from labs.read.runs.run import KEPT_RUNS, Run
from labs.read.theory.bdp import mean_goodput_bytes_s
from labs.read.theory.bounds import LINE, Prediction, predict
from labs.read.theory.windows import series

TCP_MEM, MODERATE = "net.ipv4.tcp_mem", "net.ipv4.tcp_moderate_rcvbuf"
WGET_READ_BYTES = 8192
"""What wget 1.21 requests per read (retr.c fd_read_body())."""
SLOW_START_ROUNDS_SINCE = (5, 15)
"""Older kernels let HyStart begin rounds in the middle of a train of ACKs, so that it ends slow
start too early (net/ipv4/tcp_cubic.c hystart_update(); commit 25c1a9ca53db, Linux 6.14, is in the
stable kernels from 5.15 on)."""


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
    """What a download from nginx by this client differs in from a transfer by iperf3."""
    gets = client == WGET
    return {
        "header_bytes": response_header_bytes(file_bytes, keep_alive=gets),
        "keep_alive": gets,
        "read_bytes": WGET_READ_BYTES if gets else read_bytes,
        "reads_whole": not gets,
    }


@lru_cache(maxsize=KEPT_RUNS)
def expected(run: Run) -> Prediction | None:
    """The steady goodput and what bounds it; None where the theory has no value: no rate (then
    the machine is the limit), loss, jitter that reorders, little memory for TCP, a reader that
    pauses, or no download. Those of the last runs are cached."""
    link, found = run.link.asked, run.link.measured
    if link.rate_mbit is None or link.loss_pct or link.jitter_ms:
        return None
    if not settings_of(run).is_download or TCP_MEM in run.condition_asked.sysctls.get("server", {}):
        return None
    if settings_of(run).pause_ms is not None:
        return None
    receives, sends = receive_buffer(run), send_buffer(run)
    return predict(
        rate_mbit=link.rate_mbit if found.rate_mbit is None else found.rate_mbit,
        rtt_ms=found.rtt_ms,
        kernel=run.kernel.release,
        tcp_rmem=_sizes(run),
        tcp_wmem=three(run.sysctl("server", WMEM)),
        rcvbuf_bytes=receives.most_bytes if receives.via_setsockopt else None,
        sndbuf_bytes=sends.most_bytes if sends.via_setsockopt else None,
        adv_win_scale=int(run.sysctls["client"]["after"].get("net.ipv4.tcp_adv_win_scale", "1")),
        offloads=link.shaped_at != "router",
    )


def _sizes(run: Run) -> tuple[int, int, int]:
    """tcp_rmem of the client; without automatic sizing the first size is the largest."""
    smallest, first, largest = three(run.sysctl("client", RMEM))
    sized = run.sysctls["client"]["after"].get(MODERATE) != "0"
    return smallest, first, largest if sized else first


def expected_mean_bytes_s(run: Run, size: int) -> float | None:
    """The mean over a body of `size` bytes, from its first byte on: slow start, then steady.

    None for a full link on a kernel whose slow start ends early: the theory has no value for it.
    """
    steady = expected(run)
    if steady is None or size <= 0:
        return None
    if steady.bound == LINE and series(run.kernel.release) < SLOW_START_ROUNDS_SINCE:
        return None
    rtt_ms = run.link.measured.rtt_ms
    from_request_s = size / mean_goodput_bytes_s(
        steady.goodput_bytes_s, rtt_ms, transfer_bytes=size
    )
    took_s = from_request_s - rtt_ms / 1e3
    return size / took_s if took_s > 0 else None
