"""`ss` and the inet_diag decoder say the same of one connection, field by field.

A paused connection on loopback is read three times: by ss, over netlink, by ss again. When both
texts are equal but for clocks that run, the message in between must agree with them wherever both
carry a field; what the clocks show must lie between the two texts.
"""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from labs.guest.programs import sampler
from labs.read.parse import inet_diag, ss
from labs.read.parse.inet_diag import TcpInfo

FIXTURES = Path(__file__).parents[3] / "fixtures" / "parse"
live = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("ss") is None,
    reason="needs Linux and ss (package iproute2)",
)
CLOCKS = {
    "last_data_sent_ms": ("last_data_sent_ms", 1),
    "last_data_recv_ms": ("last_data_recv_ms", 1),
    "last_ack_recv_ms": ("last_ack_recv_ms", 1),
    "busy_time_ms": ("busy_time_us", 1000),
    "rwnd_limited_ms": ("rwnd_limited_us", 1000),
    "sndbuf_limited_ms": ("sndbuf_limited_us", 1000),
}
SHARES = ("rwnd_limited_pct", "sndbuf_limited_pct")
SAME_UNIT = (
    "backoff",
    "snd_mss_bytes",
    "pmtu_bytes",
    "rcv_mss_bytes",
    "advmss_bytes",
    "snd_cwnd_segments",
    "snd_ssthresh_segments",
    "bytes_sent",
    "bytes_retrans",
    "bytes_acked",
    "bytes_received",
    "segs_out",
    "segs_in",
    "data_segs_out",
    "data_segs_in",
    "delivered_segments",
    "delivered_ce_segments",
    "unacked_segments",
    "lost_segments",
    "sacked_segments",
    "dsack_dups",
    "fackets_segments",
    "reordering_segments",
    "reord_seen",
    "rcv_space_bytes",
    "rcv_ssthresh_bytes",
    "notsent_bytes",
    "rcv_ooopack",
    "snd_wnd_bytes",
    "rcv_wnd_bytes",
    "rehash",
    "snd_wscale",
    "rcv_wscale",
    "retrans_segments",
    "total_retrans_segments",
)
FROM_MICROSECONDS = ("rto", "rtt", "rttvar", "ato", "rcv_rtt", "min_rtt")
OPTIONS = {1: "ts", 2: "sack", 8: "ecn", 16: "ecnseen", 32: "fastopen"}


def left_out(name: str, value: int) -> bool:
    """Whether ss leaves a field with this value out (misc/ss.c tcp_show_info())."""
    if name == "reordering_segments":
        return value == 3
    if name == "snd_ssthresh_segments":
        return value >= 0xFFFF
    if name == "rto_us":
        return value in (0, 3_000_000)
    if name == "min_rtt_us":
        return value in (0, 0xFFFFFFFF)
    return value == 0


@contextmanager
def connection(algorithm: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.socket())
        if algorithm:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        client.connect(server.getsockname())
        yield client, stack.enter_context(server.accept()[0])


def half_read(client: socket.socket, server: socket.socket) -> None:
    client.sendall(b"x" * 100_000)
    server.recv(30_000)


def both_ways(client: socket.socket, server: socket.socket) -> None:
    for _ in range(20):
        client.sendall(b"question")
        server.recv(100)
        server.sendall(b"answer" * 500)
        client.recv(3000, socket.MSG_WAITALL)


def closed_window(client: socket.socket, server: socket.socket) -> None:
    client.setblocking(False)
    try:
        while True:
            client.send(b"x" * 65536)
    except BlockingIOError:
        pass


def half_closed(client: socket.socket, server: socket.socket) -> None:
    client.sendall(b"x" * 1000)
    client.shutdown(socket.SHUT_WR)


def nothing(client: socket.socket, server: socket.socket) -> None:
    pass


def ss_text(port: int) -> str:
    argv = ("ss", "-tinmoeH", f"( sport = :{port} or dport = :{port} )")
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def still(rows: tuple[ss.Socket, ...]) -> list[ss.Socket]:
    """The rows without what changes while nothing happens."""
    return [
        replace(
            row,
            timer=None,
            info={key: value for key, value in row.info.items() if key not in (*CLOCKS, *SHARES)},
        )
        for row in rows
    ]


def read(port: int) -> tuple[ss.Socket, ...]:
    return tuple(sorted(ss.rows(ss_text(port)), key=lambda row: row.local_port or 0))


def read_three_times(port: int) -> list[tuple[ss.Socket, inet_diag.Sample, ss.Socket]]:
    """For each socket ss, the dump, ss; the connection is given time to come to rest."""
    kind = socket.SOCK_RAW
    with socket.socket(socket.AF_NETLINK, kind, sampler.NETLINK_SOCK_DIAG) as netlink:
        for _ in range(40):
            time.sleep(0.1)
            before = read(port)
            dump = sampler.messages(netlink, port.to_bytes(2, "big"))
            after = read(port)
            if still(before) == still(after):
                samples = [inet_diag.sample(0, message) for message in dump]
                samples.sort(key=lambda sample: sample.local_port)
                return list(zip(before, samples, after, strict=True))
    raise AssertionError("the connection did not come to rest")


@live
@pytest.mark.parametrize("algorithm", ["", "cubic", "reno", "bbr"])
@pytest.mark.parametrize("traffic", [nothing, half_read, both_ways, closed_window, half_closed])
def test_ss_and_inet_diag_agree_on_a_live_connection(
    traffic: Callable[[socket.socket, socket.socket], None], algorithm: str
) -> None:
    try:
        with connection(algorithm) as (client, server):
            traffic(client, server)
            found = read_three_times(server.getsockname()[1])
    except (FileNotFoundError, PermissionError):
        pytest.skip(f"this kernel does not let us use {algorithm}")
    assert len(found) == 2
    for before, sample, after in found:
        agree(before, sample, after)


@pytest.mark.parametrize("name", ["6.1-dctcp-server", "6.1-loss-bbr", "6.12-loss-cubic"])
def test_ss_and_inet_diag_agree_at_one_instant_of_virtual_time(name: str) -> None:
    samples = inet_diag.samples((FIXTURES / f"samples-{name}.bin").read_bytes())
    compared = 0
    for block in ss.blocks((FIXTURES / f"ss-{name}.txt").read_text()):
        for row in block.sockets:
            # The dump was taken first, and took no time.
            at_once = [sample for sample in samples if 0 <= block.at_ns - sample.at_ns < 10_000]
            assert len(at_once) == 1
            agree(row, at_once[0], row)
            compared += 1
    assert compared >= 2


def agree(before: ss.Socket, sample: inet_diag.Sample, after: ss.Socket) -> None:
    assert sample.tcp is not None
    agree_on_the_socket(after, sample)
    agree_on_tcp_info(after, sample.tcp)
    agree_on_clocks(before, sample.tcp, after)
    agree_on_rates(after, sample)


def agree_on_the_socket(row: ss.Socket, sample: inet_diag.Sample) -> None:
    for name in (
        "state",
        "recv_q_bytes",
        "send_q_bytes",
        "local_address",
        "local_port",
        "peer_address",
        "peer_port",
        "memory",
        "congestion",
        "shutdown",
    ):
        assert getattr(row, name) == getattr(sample, name), name
    assert int(row.details["ino"]) == sample.inode
    assert int(row.details["sk"], 16) == sample.cookie
    assert int(row.details.get("uid", "0")) == sample.uid
    assert row.unknown == () and sample.unknown_attributes == ()


def agree_on_tcp_info(row: ss.Socket, info: TcpInfo) -> None:
    """Every field that both carry; a field that ss left out is zero, or one it never prints."""
    for name in SAME_UNIT:
        value = getattr(info, name)
        if name in row.info:
            assert row.info[name] == value, name
        elif name not in ("rcv_wnd_bytes", "rehash"):  # an ss before 6.6 does not know these
            assert left_out(name, value), name
    for name in FROM_MICROSECONDS:
        value = getattr(info, f"{name}_us")
        if f"{name}_ms" in row.info:
            assert row.info[f"{name}_ms"] == float(f"{value / 1000:g}"), name
        elif name != "rttvar":
            assert left_out(f"{name}_us", value), name
    options = {word for bit, word in OPTIONS.items() if info.options and info.options & bit}
    assert set(row.flags) - {"app_limited"} == options
    assert ("app_limited" in row.flags) == info.app_limited


def agree_on_clocks(before: ss.Socket, info: TcpInfo, after: ss.Socket) -> None:
    """ss writes whole milliseconds and leaves out a clock that shows nothing."""
    for shown, (name, per_ms) in CLOCKS.items():
        value = getattr(info, name) // per_ms
        assert before.info.get(shown, 0) <= value <= after.info.get(shown, 0), shown


def agree_on_rates(row: ss.Socket, sample: inet_diag.Sample) -> None:
    """ss prints bits a second, whole ones with -n."""
    info = sample.tcp
    assert info is not None
    assert info.snd_cwnd_segments and info.snd_mss_bytes
    assert info.pacing_rate_bytes_s is not None and info.delivery_rate_bytes_s is not None
    pairs = {
        "pacing_rate_bits_s": info.pacing_rate_bytes_s * 8.0,
        "delivery_rate_bits_s": info.delivery_rate_bytes_s * 8.0,
    }
    if info.rtt_us:
        pairs["send_bits_s"] = info.snd_cwnd_segments * info.snd_mss_bytes * 8e6 / info.rtt_us
    if isinstance(sample.algorithm, inet_diag.Bbr):
        pairs["bbr_bw_bits_s"] = sample.algorithm.bbr_bw_bytes_s * 8.0
        pairs["bbr_min_rtt_ms"] = sample.algorithm.bbr_min_rtt_us / 1000
        pairs["bbr_pacing_gain"] = sample.algorithm.bbr_pacing_gain
        pairs["bbr_cwnd_gain"] = sample.algorithm.bbr_cwnd_gain
    for name, value in pairs.items():
        shown = row.info.get(name, 0)
        if name == "pacing_rate_bits_s" and value == (2**64 - 1) * 8.0:
            assert shown == 0
        else:
            assert math.isclose(shown, value, rel_tol=1e-5, abs_tol=0.51), name
