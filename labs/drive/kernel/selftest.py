"""What a built kernel must show, measured inside it: a delay, and how a receive buffer fills.

A program of its own (standard library, one file): `selftest.py RESULT START_S` writes one
JSON object. Sleeping is free in there, the clock is virtual.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

DELAY_MS = 200
# linux/sched.h, linux/time.h, asm-generic/socket.h
CLOCK_REALTIME_COARSE = 5
CLONE_NEWNET = 0x40000000
SO_MEMINFO = 55
RMEM_ALLOC, RCVBUF, WMEM_QUEUED = 0, 1, 5
MSS = 1024
RCVBUF_BYTES = 32 * 1024


def tool(argv: tuple[str, ...], lines: str = "") -> None:
    """Run ip or tc; stop with what it said if it failed."""
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets made in here belong to a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
        yield
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


def shaped() -> dict[str, float]:
    """A path through htb and netem on a veth: `rtt_ms`, the round trip of a TCP handshake, and
    `packet_overhead`, the bytes that a sent packet takes in memory beside its data."""
    tool(
        ("ip", "-batch", "-"),
        """\
netns add near
netns add far
link add near netns near type veth peer name far netns far
""",
    )
    for name, address in (("near", "10.9.0.1"), ("far", "10.9.0.2")):
        tool(
            ("ip", "-netns", name, "-batch", "-"),
            f"""\
address add {address}/24 dev {name}
link set {name} up
link set lo up
""",
        )
    tool(
        ("tc", "-netns", "near", "-batch", "-"),
        f"""\
qdisc add dev near root handle 1: htb default 10
class add dev near parent 1: classid 1:10 htb rate 100mbit quantum 1514
qdisc add dev near parent 1:10 handle 10: netem delay {DELAY_MS}ms limit 10000
""",
    )
    with inside("far"):
        listener = socket.create_server(("10.9.0.2", 5001))
    with inside("near"):
        client = socket.socket()
    # The first connection also resolves the address; the second is the path alone.
    client.connect(("10.9.0.2", 5001))
    client.close()
    with inside("near"):
        client = socket.socket()
    begin = time.monotonic_ns()
    client.connect(("10.9.0.2", 5001))
    taken = time.monotonic_ns() - begin
    # Not acknowledged before the delay is over, so still queued when it is looked at.
    client.send(bytes(MSS))
    overhead = meminfo(client)[WMEM_QUEUED] - MSS
    listener.close()
    return {"rtt_ms": round(taken / 1e6, 3), "packet_overhead": overhead}


def receive_buffer(scale: int) -> dict[str, int]:
    """How a 32 KiB SO_RCVBUF fills when nobody reads, at one `tcp_adv_win_scale`.

    Loopback without offloads, 100 ms each way, segments of 1,024 bytes, a very large initial
    congestion window, no timestamps: the rig of cloudflare-blog 2022-07-rmem-a.
    """
    namespace = f"full{scale}"
    delayed_loopback(namespace)
    with inside(namespace):
        for knob, value in (
            ("tcp_timestamps", 0),
            ("tcp_adv_win_scale", scale),
            ("tcp_no_metrics_save", 1),
        ):
            with open(f"/proc/sys/net/ipv4/{knob}", "w") as sysctl:
                sysctl.write(str(value))
        listener, sender = socket.socket(), socket.socket()
    receiver = filled(listener, sender)
    queued = array.array("i", [0])
    fcntl.ioctl(receiver, termios.FIONREAD, queued)
    memory = meminfo(receiver)
    return {"skmem_r": memory[RMEM_ALLOC], "skmem_rb": memory[RCVBUF], "recv_q": queued[0]}


def delayed_loopback(namespace: str) -> None:
    """Create a network namespace whose loopback delays by 100 ms, without offloads."""
    offloads = ("tso", "off", "gso", "off", "gro", "off")
    loopback_route = ("local", "127.0.0.0/8", "dev", "lo")
    delay = ("netem", "limit", "100000", "delay", "100ms")
    tool(("ip", "netns", "add", namespace))
    tool(("ip", "-netns", namespace, "link", "set", "lo", "up"))
    tool(("ip", "netns", "exec", namespace, "ethtool", "-K", "lo", *offloads))
    tool(("ip", "-netns", namespace, "route", "change", *loopback_route, "initcwnd", "10000"))
    tool(("tc", "-netns", namespace, "qdisc", "add", "dev", "lo", "root", *delay))


def filled(listener: socket.socket, sender: socket.socket) -> socket.socket:
    """Send until the receive buffer is full; return the socket that does not read."""
    for end in (listener, sender):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MSS)
    # Before listen, so that the window offered in the handshake follows from it, too.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RCVBUF_BYTES)
    listener.bind(("127.0.0.3", 1234))
    listener.listen(1)
    sender.bind(("127.0.0.2", 1235))
    sender.connect(("127.0.0.3", 1234))
    receiver, _ = listener.accept()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sender.setblocking(False)
    block = bytes(1 << 20)
    # Ten seconds: the queue is full after two round trips, and nothing moves from then on.
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.send(block)
        time.sleep(0.1)
    return receiver


def meminfo(end: socket.socket) -> tuple[int, ...]:
    """What a socket's memory is used for, in bytes: the numbers that ss prints as skmem."""
    return struct.unpack("9I", end.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))


def machine(start_s: int) -> dict[str, object]:
    """What the kernel says of itself, and what must be the same at every boot."""
    with open("/proc/sys/kernel/osrelease") as file:
        release = file.read().strip()
    with open("/proc/meminfo") as file:
        memory_kib = int(file.readline().split()[1])
    return {
        "release": release,
        # The coarse clocks move once a tick.
        "hz": round(1 / time.clock_getres(CLOCK_REALTIME_COARSE)),
        "virtual_time": abs(time.time() - start_s) < 3600,
        "memory_kib": memory_kib,
        "random": os.urandom(8).hex(),
    }


def main(argv: list[str]) -> int:
    found = machine(int(argv[1]))
    found.update(shaped())
    for scale in (0, 1):
        found[f"adv_win_scale_{scale}"] = receive_buffer(scale)
    with open(argv[0], "w") as result:
        json.dump(found, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
