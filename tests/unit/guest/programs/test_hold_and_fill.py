"""The sender and the receiver of the lab `windows`, on the loopback device of this machine."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labs.guest.bench import PROGRAMS
from labs.guest.programs.hold import COLUMNS, SAMPLED
from labs.read.parse.socket_samples import SocketSample, samples, truesizes

HOLD, FILL = PROGRAMS / "hold.py", PROGRAMS / "fill.py"
MSS = 1024
OF_FILL = {"write_bytes": 1 << 20, "in_flight": 0, "quickack": 0}
"""Settings of the sender, and their defaults here."""


def started(program: Path, **given: object) -> subprocess.Popen[str]:
    flags = {f"--{name.replace('_', '-')}": str(value) for name, value in given.items()}
    words = [word for pair in flags.items() for word in pair]
    return subprocess.Popen(
        (sys.executable, "-I", "-S", str(program), *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def listening(port: int) -> bool:
    return f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


def filled(folder: Path, **given: object) -> tuple[SocketSample, ...]:
    """The samples of a receiver whose buffer was filled for a second."""
    out = folder / "samples.csv"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    receiver = started(
        HOLD,
        **{
            "listen": "127.0.0.1",
            "port": port,
            "mss": MSS,
            "rcvbuf": 32768,
            "set": "accept",
            "read_bytes": 0,
            "read_every_us": 1000,
            "read_after_ms": 0,
            "sampled": 1,
            "clamp": 0,
            "out": str(out),
            "truesizes": str(folder / "truesizes.csv"),
            **{name: value for name, value in given.items() if name not in OF_FILL},
        },
    )
    while not listening(port):
        assert receiver.poll() is None, receiver.communicate()[0]
    sender = started(
        FILL,
        **{"from": "127.0.0.1", "to": "127.0.0.1", "port": port, "mss": MSS},
        after_ms=400,  # the receiver takes its first sample before, even on a busy machine
        writes=0,
        every_us=0,
        **{name: given.get(name, default) for name, default in OF_FILL.items()},
    )
    time.sleep(1.5)
    receiver.send_signal(signal.SIGTERM)
    said, _ = receiver.communicate(timeout=10)
    sender.kill()
    sender.communicate()
    assert (receiver.returncode, said) == (0, "")
    return samples(out.read_text())


def test_hold_samples_a_buffer_until_it_is_full(tmp_path: Path) -> None:
    found = filled(tmp_path)
    first, last = found[0], found[-1]
    assert (first.data_segs_in, first.rcvq_bytes, first.rmem_alloc) == (0, 0, 0)
    # SO_RCVBUF is doubled: net/core/sock.c, __sock_set_rcvbuf.
    assert {one.rcvbuf for one in found} == {65536}
    assert last.rcvq_bytes == last.bytes_received > 16_384
    assert last.rmem_alloc > last.rcvq_bytes
    # Without the option for timestamps, if this machine sends them.
    assert last.advmss in (MSS, MSS - 12)
    assert set(first.counters.values()) <= {0, None}
    for name in ("time_ns", "data_segs_in", "bytes_received"):
        values = [getattr(one, name) for one in found]
        assert values == sorted(values)


def test_hold_measures_the_memory_of_packets(tmp_path: Path) -> None:
    """struct sk_buff and struct skb_shared_info, in cache lines: 256 and 320 bytes on x86-64."""
    filled(tmp_path)
    pairs = truesizes((tmp_path / "truesizes.csv").read_text())
    assert min(memory - payload for payload, memory in pairs) == 576
    assert [memory for _, memory in pairs] == sorted(memory for _, memory in pairs)


def test_hold_clamps_the_window(tmp_path: Path) -> None:
    """On the loopback device the first segment changes the ratio, and with it the clamp since
    6.11; rcv_ssthresh begins below it on every kernel."""
    assert filled(tmp_path, clamp=16_384, set="listen")[0].rcv_ssthresh <= 16_384
    assert filled(tmp_path, set="listen")[0].rcv_ssthresh > 16_384


def test_hold_without_samples_has_the_first_and_the_last(tmp_path: Path) -> None:
    found = filled(tmp_path, sampled=0)
    assert len(found) == 2
    assert found[0].rcvq_bytes == 0 < found[1].rcvq_bytes


@pytest.mark.parametrize(("how", "granted"), [("listen", 2304), ("accept", 2304)])
def test_hold_reports_the_granted_buffer(tmp_path: Path, how: str, granted: int) -> None:
    """SOCK_MIN_RCVBUF of include/net/sock.h, on x86-64, whatever less is requested."""
    assert filled(tmp_path, rcvbuf=1, set=how)[0].rcvbuf == granted


def test_fill_has_few_segments_in_flight_and_tells_of_each_write(tmp_path: Path) -> None:
    """Small writes until the window is closed: while it is open each of them is a segment."""
    found = filled(tmp_path, write_bytes=512, in_flight=10, quickack=1)
    assert found[-1].data_segs_in > 20
    assert found[-1].bytes_received > 16_384


def test_hold_reads_at_its_rate(tmp_path: Path) -> None:
    """100 bytes every 10 ms for at most 1.5 s, of which the first 0.3 s do not read."""
    found = filled(tmp_path, read_bytes=100, read_every_us=10_000, read_after_ms=300)
    last = found[-1]
    assert 0 < last.read_bytes <= 12_500 and last.read_bytes % 100 == 0
    assert last.bytes_received - last.read_bytes == last.rcvq_bytes


def test_columns_are_those_that_the_parser_reads() -> None:
    from labs.read.parse import socket_samples

    assert SAMPLED == socket_samples.SAMPLED
    assert COLUMNS[: len(SAMPLED)] == SAMPLED
