"""Check a kernel before it is stored: it boots, it shapes a link, and a receive buffer fills as
published.

The figures of article 4 depend on the memory size of one packet, which a missing option or a
changed structure alters without any error. Every build must therefore reproduce them.

The first half of this module judges, on this machine. The second half measures, inside the kernel,
where sleeping costs nothing because the clock is virtual.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from labs.drive.kernel.boot import EPOCH_NS, boot
from labs.drive.kernel.versions import series_like, series_of
from labs.drive.record.disk import owned_folder
from labs.errors import RunFailed
from labs.guest.programs.init import INSIDE_CODE, PYTHON

DELAY_MS = 200
# linux/sched.h, linux/time.h, asm-generic/socket.h
CLOCK_REALTIME_COARSE = 5
CLONE_NEWNET = 0x40000000
SO_MEMINFO = 55
RMEM_ALLOC, RCVBUF, WMEM_QUEUED = 0, 1, 5
MSS = 1024
RCVBUF_BYTES = 32 * 1024


RTT_TOLERANCE = 0.01
MEMORY_MIB = 1024
# The folder that contains the package; the guest loads this module from it.
CODE = Path(__file__).parents[3]
# -c, not -m: isolated mode keeps the working folder off the path.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from labs.drive.kernel.check import main; raise SystemExit(main())"
)
MEASURED = "measured.json"


def check(program: Path, release: str = "") -> dict[str, Any]:
    """Boot a kernel program twice, run the self-test in it, and return the measurements.

    Keys: `release`, `hz`, `virtual_time`, `memory_kib`, `random` (the first random bytes),
    `differs` (the keys in which the boots differ; must be empty), `rtt_ms` (of a link of 200 ms),
    `packet_overhead` (bytes in memory in addition to a sent packet's data), and for
    tcp_adv_win_scale 0 and 1 `skmem_r`, `skmem_rb`, `recv_q` in bytes. Series without published
    figures are measured but not judged by them. Raises RunFailed, with the figures, if the kernel
    does not boot, if its shaping, repetition or receive buffer figures are wrong, or if it is not
    the expected `release`.
    """
    measured = measure(program)
    if faults := judge(measured, release):
        raise failure(faults)
    return measured


def failure(faults: tuple[str, ...]) -> RunFailed:
    """The error that lists what is wrong with a kernel."""
    return RunFailed(
        f"this kernel fails its check: {'; '.join(faults)}. An option or a patch of "
        "its build has changed something. See labs/drive/kernel/fragment.config"
    )


def measure(program: Path) -> dict[str, Any]:
    """What the self-test measures inside a kernel program, in two boots that should be equal."""
    first, second = _measure_once(program), _measure_once(program)
    return first | {"differs": sorted(key for key in first if first[key] != second.get(key))}


def _measure_once(program: Path) -> dict[str, Any]:
    with owned_folder("labs-check-", Path(tempfile.gettempdir())) as staging:
        try:
            boot(
                program,
                root=_root(),
                staging=staging,
                code=CODE,
                argv=(PYTHON, "-I", "-S", "-c", START, INSIDE_CODE),
                memory_mib=MEMORY_MIB,
            )
        except RunFailed as error:
            raise RunFailed(f"this kernel fails its check: {error}") from None
        return dict(json.loads((staging / MEASURED).read_text("utf-8")))


TOOLS = ("ip", "tc", "ethtool")


def _root() -> Path:
    """The root folder of the guest in which the self-test runs; Missing if the kit lacks a tool."""
    from labs.drive.kernel.kit_maker import ready  # noqa: PLC0415  too much inside a guest

    kit = ready()
    kit.programs(TOOLS)
    return kit.kept_root().folder


def judge(measured: dict[str, Any], release: str = "") -> tuple[str, ...]:
    """What is wrong with a measurement; empty if nothing is."""
    faults = []
    if release and measured["release"] != release:
        faults.append(f"it reports release {measured['release']}, not {release}")
    if not measured["virtual_time"]:
        faults.append("its clock is not virtual (UML_TIME_TRAVEL_SUPPORT)")
    if measured["differs"]:
        faults.append(f"two boots differ in {', '.join(measured['differs'])}")
    if abs(measured["rtt_ms"] - DELAY_MS) > RTT_TOLERANCE * DELAY_MS:
        faults.append(f"a link of {DELAY_MS} ms has an RTT of {measured['rtt_ms']} ms")
    figures = flat(measured)
    for name, wanted in _figures(measured["release"]).items():
        if figures[name] != wanted:
            faults.append(f"{name} is {figures[name]:,}, expected {wanted:,}")
    return tuple(faults)


def compared(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures as rows: measured and expected values (expected None: not judged)."""
    wanted = {"rtt_ms": DELAY_MS, **_figures(measured["release"])}
    return [
        {"figure": name, "measured": value, "expected": wanted.get(name)}
        for name, value in flat(measured).items()
    ]


def flat(measured: dict[str, Any]) -> dict[str, Any]:
    """The figures of a measurement by name; those of a row are named "row.figure"."""
    figures = {name: measured[name] for name in ("rtt_ms", "packet_overhead")}
    for row, values in measured.items():
        if isinstance(values, dict):
            figures |= {f"{row}.{name}": value for name, value in values.items()}
    return figures


def judged(release: str) -> bool:
    """True if figures are published for this release's series."""
    return bool(_figures(release))


def _figures(release: str) -> Mapping[str, int]:
    return series_like(series_of(release)).figures


# --- inside the kernel ---------------------------------------------------------------------------


def tool(argv: tuple[str, ...], lines: str = "") -> None:
    """Run ip or tc; exit with its error message if it fails."""
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {(done.stderr or done.stdout).strip()}")


@contextlib.contextmanager
def network_namespace(name: str) -> Iterator[None]:
    """Sockets created within this context belong to the given network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")
        yield
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


def shaped() -> dict[str, float]:
    """Measure a path through htb and netem on a veth: `rtt_ms`, the RTT of a TCP handshake, and
    `packet_overhead`, the bytes that a sent packet takes in memory in addition to its data."""
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
    with network_namespace("far"):
        listener = socket.create_server(("10.9.0.2", 5001))
    with network_namespace("near"):
        client = socket.socket()
    # The first connection also resolves the address; the second measures the path alone.
    client.connect(("10.9.0.2", 5001))
    client.close()
    with network_namespace("near"):
        client = socket.socket()
    begin = time.monotonic_ns()
    client.connect(("10.9.0.2", 5001))
    taken = time.monotonic_ns() - begin
    # Not acknowledged until the delay has passed, so still queued when it is read.
    client.send(bytes(MSS))
    overhead = meminfo(client)[WMEM_QUEUED] - MSS
    listener.close()
    return {"rtt_ms": round(taken / 1e6, 3), "packet_overhead": overhead}


def receive_buffer(scale: int) -> dict[str, int]:
    """How a 32 KiB SO_RCVBUF fills if no program reads from it, at one `tcp_adv_win_scale`.

    Loopback without offloads, 100 ms each way, segments of 1,024 bytes, a very large initial
    congestion window, no timestamps: the set-up of cloudflare-blog 2022-07-rmem-a.
    """
    import fcntl  # noqa: PLC0415  not on every system
    import termios  # noqa: PLC0415

    namespace = f"full{scale}"
    delayed_loopback(namespace)
    with network_namespace(namespace):
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
    """Create a network namespace whose loopback delays packets by 100 ms, without offloads."""
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
    # Set before listen, so that the window offered in the handshake follows from it, too.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RCVBUF_BYTES)
    listener.bind(("127.0.0.3", 1234))
    listener.listen(1)
    sender.bind(("127.0.0.2", 1235))
    sender.connect(("127.0.0.3", 1234))
    receiver, _ = listener.accept()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sender.setblocking(False)
    block = bytes(1 << 20)
    # Ten seconds: the queue is full after two round trips, and nothing changes after that.
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.send(block)
        time.sleep(0.1)
    return receiver


def meminfo(end: socket.socket) -> tuple[int, ...]:
    """The memory of a socket by use, in bytes: the numbers that ss prints as skmem."""
    return struct.unpack("9I", end.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))


def machine(start_s: int) -> dict[str, object]:
    """What the kernel reports about itself, and what must be the same at every boot."""
    with open("/proc/sys/kernel/osrelease") as file:
        release = file.read().strip()
    with open("/proc/meminfo") as file:
        memory_kib = int(file.readline().split()[1])
    return {
        "release": release,
        # The coarse clocks advance once per tick.
        "hz": round(1 / time.clock_getres(CLOCK_REALTIME_COARSE)),
        "virtual_time": abs(time.time() - start_s) < 3600,
        "memory_kib": memory_kib,
        "random": os.urandom(8).hex(),
    }


def main() -> int:
    """Measure, and write the figures to the working folder."""
    figures = machine(EPOCH_NS // 10**9)
    figures.update(shaped())
    for scale in (0, 1):
        figures[f"adv_win_scale_{scale}"] = receive_buffer(scale)
    Path(MEASURED).write_text(json.dumps(figures))
    return 0
